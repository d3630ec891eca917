import { type Db, rows, type Sql } from '../helpers/database.ts';

/** Something that holds for every database of ours. */
export type Check = {
  /** What holds. */
  readonly name: string;
  /** What is against it: empty where it holds. Runs in a transaction that is open, and leaves nothing behind. */
  readonly find: (db: Db) => Promise<string[]>;
};

/** The texts that a query of one column gives. */
export async function column(db: Sql, sql: string): Promise<string[]> {
  const found = await rows<Record<string, string>>(db, sql);
  return found.map((row) => String(Object.values(row)[0]));
}

/** What is there and should not be, and what is not there and should be. */
export function differences(found: readonly string[], expected: readonly string[]): string[] {
  return [
    ...found.filter((item) => !expected.includes(item)).map((item) => `unexpected: ${item}`),
    ...expected.filter((item) => !found.includes(item)).map((item) => `missing: ${item}`),
  ];
}
