/** The output of a command: a value for scripts, a text for people. */
export type Output = { readonly json: unknown; readonly text: string };

/** A table without lines: its columns are two blanks apart, and a cell may have several lines. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (head.length > 0 ? [head, ...rows] : rows).map((row) => row.map((cell) => cell.split('\n')));
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
