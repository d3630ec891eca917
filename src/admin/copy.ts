// Copies all rows of an embedded store to the configured one, in one transaction.

import pg from 'pg';
import type { StoreConfig } from '../config.ts';
import { hasStore, isVersion1 } from '../store/embedded/folder.ts';
import { toUrl } from '../store/embedded/store.ts';
import { type Database, inTransaction } from '../store/migrations.ts';
import { toPath } from './arguments.ts';
import { openDatabase, openEmbedded, queryRows, queryTexts } from './database.ts';
import { t } from './language.ts';
import { withoutSchema } from './tables.ts';
import { CommandError, createProgress, listCounts, type Output } from './terminal.ts';

/** A table to copy, with its columns except generated ones. */
type CopiedTable = {
  readonly name: string;
  readonly columns: readonly string[];
  readonly refers_to: readonly string[];
  readonly refers_to_itself: boolean;
};

const TABLES = `
  select c.oid::regclass::text as name,
         (select json_agg(quote_ident(a.attname) order by a.attnum) from pg_attribute a
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
         (select coalesce(json_agg(distinct f.confrelid::regclass::text), '[]') from pg_constraint f
           where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid
              and not f.condeferred) as refers_to,
         exists (select from pg_constraint f where f.conrelid = c.oid and f.confrelid = c.oid) as refers_to_itself
    from pg_class c
   where c.relnamespace = 'private'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
   order by 1`;
const SEQUENCES = `
  select format('%I.%I', schemaname, sequencename) as name, last_value::text from pg_sequences
   where schemaname = 'private' and last_value is not null`;

/** Copies the embedded store of a folder to the configured store, which must be empty. */
export async function copyStore(target: StoreConfig, name: string, options: CopyOptions): Promise<Output> {
  const source = await openSource(toPath(name), options);
  try {
    const empty = target.kind === 'embedded' ? { ...target, demoData: false } : target;
    const database = await openDatabase(empty, options.note);
    try {
      const copy = () => copyTables(source, database, isVersion1(toPath(name)));
      const copied = await inTransaction(database, () => inTransaction(source, copy));
      for (const [table] of copied) await database.query(`analyze ${table}`);
      const counts = listCounts(copied.map(([table, count]) => [withoutSchema(table), count]));
      return { json: { copied: Object.fromEntries(copied) }, text: t`Copied ${name}: ${counts}.` };
    } finally {
      await database.close();
    }
  } finally {
    await source.close();
  }
}

type CopyOptions = {
  /** The folder of the Postgres programs. */
  readonly programs: string | undefined;
  note(text: string): void;
};
type Source = Database & { close(): Promise<void> };

async function openSource(dataDir: string, { programs, note }: CopyOptions): Promise<Source> {
  if (isVersion1(dataDir)) return openVersion1(dataDir);
  if (!hasStore(dataDir)) throw new CommandError(t`There is no store in ${dataDir}`);
  // Not migrated: its own version could no longer serve it.
  const source = await openEmbedded({ kind: 'embedded', dataDir, programs, demoData: false }, note);
  if (!source.isServed) return source;
  await source.close();
  throw new CommandError('A gateway serves the store: stop it first, because what it writes meanwhile would be lost');
}

/** Only version 1 can open its stores. While its gateway runs, it accepts administrators on a Unix socket. */
async function openVersion1(dataDir: string): Promise<Source> {
  const client = new pg.Client(toUrl(dataDir, 'postgres'));
  client.on('error', () => {});
  await client.connect().catch((error) => {
    throw new CommandError(
      t`${dataDir} has a store of version 1, and no gateway of version 1 serves it: ${error.message}`,
      'Start one on a port that no client uses, such as PORT=3999 npm start, and copy again.',
    );
  });
  return { query: (sql, values) => client.query(sql, values), close: () => client.end() };
}

async function copyTables(source: Database, target: Database, isOld: boolean): Promise<[string, number][]> {
  const [ours, theirs] = [await readVersions(source), await readVersions(target)];
  if (!ours.isSubsetOf(theirs)) {
    throw new CommandError('The database lacks migrations of the store', 'Run `npm run migrate` of this version.');
  }
  // The missing migrations may change rows, which a copy would not do.
  if (!theirs.isSubsetOf(ours) && !isOld) {
    throw new CommandError(
      'The store lacks migrations of the database',
      'Start the gateway of this version with the store once, which applies them.',
    );
  }
  const tables = inOrder(await queryRows<CopiedTable>(source, TABLES));
  // All tables are checked first, because copying adds rows to private.changes.
  for (const { name } of tables) {
    const { rows } = await target.query(`select from ${name} limit 1`);
    if (rows.length > 0) throw new CommandError(t`${name} has rows already: nothing was copied`);
  }
  const progress = createProgress((rows) => t`Copied ${rows} rows`);
  const copied: [string, number][] = [];
  try {
    for (const table of tables) copied.push([table.name, await copyRows(source, target, table, progress.add)]);
  } finally {
    progress.end();
  }
  for (const { name, last_value } of await queryRows<{ name: string; last_value: string }>(source, SEQUENCES)) {
    await target.query('select setval($1::regclass, $2)', [name, last_value]);
  }
  return copied;
}

/** The versions of the applied migrations. */
async function readVersions(db: Database): Promise<Set<string>> {
  const sql = 'select version from supabase_migrations.schema_migrations';
  return new Set((await queryRows<{ version: string }>(db, sql)).map(({ version }) => version));
}

/** Sorts the tables so that each one follows those that it refers to. */
function inOrder(tables: readonly CopiedTable[]): CopiedTable[] {
  if (tables.length === 0) return [];
  const waiting = tables.filter(({ refers_to }) => tables.some(({ name }) => refers_to.includes(name)));
  if (waiting.length === tables.length) {
    throw new CommandError(t`These tables refer to each other: ${tables.map(({ name }) => name).join(', ')}`);
  }
  return [...tables.filter((table) => !waiting.includes(table)), ...inOrder(waiting)];
}

/** Copies the rows of a table as JSON, which preserves every type. */
async function copyRows(
  source: Database,
  target: Database,
  { name, columns, refers_to_itself }: CopiedTable,
  onCopied: (rows: number) => void,
): Promise<number> {
  const list = columns.join(', ');
  const insert = `insert into ${name} (${list}) overriding system value
    select ${list} from json_populate_recordset(null::${name}, $1::json)`;
  const query = `select row_to_json(t.*)::text as texts from ${name} t`;
  let count = 0;
  // Rows that refer to each other need one statement: Postgres checks foreign keys at its end.
  for await (const rows of queryTexts(source, query, refers_to_itself ? 'all' : undefined)) {
    await target.query(insert, [`[${rows.join(',')}]`]);
    count += rows.length;
    onCopied(rows.length);
  }
  return count;
}
