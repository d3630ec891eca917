/** Shows on a terminal how far long work is. */
export type Progress = { add(amount: number): void; end(): void };

const EVERY_MS = 500;
const BAR_WIDTH = 20;

/** `describe` says how much is done. */
export function createProgress(describe: (amount: number) => string): Progress {
  let [total, shown] = [0, Date.now()];
  const { isTTY } = process.stderr;
  return {
    add: (amount) => {
      total += amount;
      if (!isTTY || Date.now() - shown < EVERY_MS) return;
      shown = Date.now();
      process.stderr.write(`\r${describe(total)} …`);
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
