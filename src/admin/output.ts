/** The output of a command: a value for scripts, a text for people. */
export type Output = { readonly json: unknown; readonly text: string };

/** Shows on a terminal how far long work is. */
export type Progress = { add(amount: number): void; end(): void };

const EVERY_MS = 500;
const BAR_WIDTH = 20;
/** Those that move the cursor, colour or rename a terminal, or reverse a text. A name from anyone may have them. */
const CONTROLS = /(?!\n|\t|\r\n)[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu;

/** A text for a terminal, in which control characters other than line breaks are `\u001b` and the like, as in JSON. */
export function showControls(text: string): string {
  return text.replace(CONTROLS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A table without lines: its columns are two blanks apart, and a cell may have several lines. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const shown = rows.map((row) => row.map(showControls));
  const cells = (head.length > 0 ? [head, ...shown] : shown).map((row) => row.map((cell) => cell.split('\n')));
  const widthOf = (column: number) =>
    Math.max(...cells.flatMap((row) => row[column]?.map(({ length }) => length) ?? []));
  const widths = cells[0]?.map((_cell, column) => widthOf(column) + 2) ?? [];
  const lines = cells.flatMap((row) =>
    Array.from({ length: Math.max(...row.map(({ length }) => length)) }, (_, n) =>
      row.map((cell, column) => (cell[n] ?? '').padEnd(widths[column] ?? 0)).join(''),
    ),
  );
  return lines.map((line) => line.trimEnd()).join('\n');
}

/** `3 lines`, `1 line`. */
export function toCount(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}

/** `describe` says how much is done. */
export function createProgress(describe: (amount: number) => string): Progress {
  let [total, shown] = [0, Date.now()];
  const { isTTY } = process.stderr;
  return {
    add: (amount) => {
      total += amount;
      if (!isTTY || Date.now() - shown < EVERY_MS) return;
      shown = Date.now();
      process.stderr.write(`\r${showControls(describe(total))} …`);
    },
    end: () => {
      if (isTTY) process.stderr.write('\r\x1b[K');
    },
  };
}

/** A bar for the share that is done, from 0 to 1. */
export function toBar(share: number): string {
  const done = Math.round(Math.min(1, share) * BAR_WIDTH);
  return `[${'#'.repeat(done).padEnd(BAR_WIDTH, '.')}] ${Math.floor(Math.min(1, share) * 100)} %`;
}
