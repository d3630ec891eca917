import pg from 'pg';
import { beforeAll } from 'vitest';
import { createDatabase, type Database } from './servers.ts';

/** A connection for single statements. */
export type Sql = { query<T>(sql: string, values?: unknown[]): Promise<{ rows: T[] }> };

/** A connection of an administrator, for statements and for scripts. */
export type Db = Sql & { exec(sql: string): Promise<unknown>; close(): Promise<void> };

const { getTypeParser, builtins } = pg.types;
const [NAMES, TEXTS] = [1003, 1009];

/** Connects to a database of the test's own, by default a copy of the one with the demo data. */
export async function openDatabase(database?: Pick<Database, 'adminUrl' | 'drop'>): Promise<Db> {
  const { adminUrl, drop } = database ?? (await createDatabase());
  const types = {
    getTypeParser: ((type: number, format) => {
      if (type === builtins.INT8) return Number;
      return getTypeParser(type === NAMES ? TEXTS : type, format);
    }) as typeof getTypeParser,
  };
  const client = new pg.Client({ connectionString: adminUrl, types });
  await client.connect();
  await client.query(`set timezone = 'UTC'`);
  return {
    query: <T>(sql: string, values?: unknown[]) => client.query<T & pg.QueryResultRow>(sql, values),
    exec: (sql) => client.query(sql),
    close: async () => {
      await client.end();
      await drop();
    },
  };
}

/** Opens an object that the tests of a suite share, and closes it after each `afterAll` of the suite. It is empty before the tests. */
export function useOpened<T extends object>(open: () => Promise<T>, close: (opened: T) => unknown): T {
  const opened = {} as T;
  beforeAll(async () => {
    Object.assign(opened, await open());
    return () => close(opened);
  });
  return opened;
}

type DatabaseOptions = { readonly sql?: string; readonly create?: () => Promise<Database> };

/** Gives the tests of a suite a database of their own with the demo data, and with what this SQL adds. */
export function useDatabase({ sql, create = createDatabase }: DatabaseOptions = {}): Database {
  const database = useOpened(create, ({ drop }) => drop());
  if (sql) beforeAll(() => database.query(sql));
  return database;
}

/** Gives the tests of a suite a connection to a database of their own. */
export function useConnection(): Db {
  return useOpened(openDatabase, ({ close }) => close());
}

/** The rows of a query. */
export async function rows<T = Record<string, unknown>>(db: Sql, sql: string, values: unknown[] = []): Promise<T[]> {
  return (await db.query<T>(sql, values)).rows;
}

/** Runs `work` as another role, in a transaction that is always rolled back. */
export async function as<T>(db: Sql, role: string, work: () => Promise<T>): Promise<T> {
  await db.query('begin');
  try {
    await db.query(`set local role ${role}`);
    return await work();
  } finally {
    await db.query('rollback');
  }
}

const ID = 'id uuid not null default gen_random_uuid()';

/** The SQL of a table of tenants with these columns, with row security unless it is to be open. */
export function createTable(name: string, columns = '', { id = ID, isOpen = false } = {}): string {
  const all = ['tenant_id uuid not null references private.tenants (id)', id, columns, 'primary key (tenant_id, id)'];
  const isolate = isOpen ? '' : `select private.isolate('private.${name}');`;
  return `create table private.${name} (${all.filter(Boolean).join(', ')});\n${isolate}\n`;
}
