import type { Db } from '../helpers/database.ts';

/** Something that holds for every database of ours. */
export type Check = {
  /** What holds. */
  readonly name: string;
  /** What is against it: empty where it holds. Runs in a transaction that is open, and leaves nothing behind. */
  readonly find: (db: Db) => Promise<string[]>;
};

/** What is there and should not be, and what is not there and should be. */
export function differences(found: readonly string[], expected: readonly string[]): string[] {
  return [
    ...found.filter((item) => !expected.includes(item)).map((item) => `unexpected: ${item}`),
    ...expected.filter((item) => !found.includes(item)).map((item) => `missing: ${item}`),
  ];
}
