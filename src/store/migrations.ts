// Reads the files of supabase/migrations and applies them. The bookkeeping is the Supabase CLI's own, so either tool can continue
// the work of the other.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../errors.ts';

/** One file of SQL. */
export type Script = { readonly file: string; readonly sql: string };

/** One migration: its version is the timestamp at the start of its file name. */
export type Migration = Script & { readonly version: string; readonly name: string };

/** A database, over one connection, such as pg's client. */
export interface Database {
  /** Runs one statement, or, without values, a script of several. */
  query(sql: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** A message of Postgres that is not an error. */
export type Notice = {
  readonly severity: string | undefined;
  readonly message: string | undefined;
  readonly hint: string | undefined;
};

/** A migration fails or is refused; the message names the file, and the line and column if Postgres gives a position. */
export class MigrationError extends OperatorError {}

type Applied = { readonly version: string; readonly statements: string[] | null };

/** An advisory lock that nothing else in the database takes: the letters "wellness" as a number. */
const BOOKKEEPING_LOCK = '8603401876125610867';

/** How long a statement of a migration waits for a lock; then the migration fails and can be applied again. */
const LOCK_TIMEOUT = '5s';
const LOCK_NOT_AVAILABLE = '55P03';

/** Checks the constraints that a script has deferred, and resets its settings, which must not reach the next script. */
const SETTLE = 'set constraints all immediate; reset all; reset role';

const FILE_NAME = /^(\d+)_(.+)\.sql$/;

/** The migrations in a folder, oldest first. Throws MigrationError for a file name without a version. */
export function readMigrations(folder: string): Migration[] {
  // Editors create hidden files.
  const files = readdirSync(folder).filter((file) => /^[^.].*\.sql$/i.test(file));
  const migrations = files.sort().map((file) => {
    const [, version, name] = FILE_NAME.exec(file) ?? [];
    if (!version || !name)
      throw new MigrationError(`${join(folder, file)}: expected a name like 20261231120000_topic.sql`);
    return { version, name, ...readScript(join(folder, file)) };
  });
  for (const [index, { version, file }] of migrations.entries()) {
    const before = migrations[index - 1];
    if (before?.version === version) throw new MigrationError(`${file}: has the version of ${before.file}`);
  }
  return migrations;
}

/** Reads a file of SQL. Throws MigrationError if it cannot be read or is not in UTF-8. */
export function readScript(file: string): Script {
  try {
    return { file, sql: readUtf8(file) };
  } catch (error) {
    throw new MigrationError(`${file}: ${(error as Error).message}`, { cause: error });
  }
}

/** Reads a file of text, without a byte order mark. Throws an error that says what is wrong with it. */
export function readUtf8(file: string): string {
  const bytes = readFileSync(file);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_ENCODING_INVALID_ENCODED_DATA') throw cause;
    throw new Error('is not in UTF-8: save it in that encoding', { cause });
  }
}

/**
 * Finds the migrations that are not applied yet, in order, and changes nothing in the database. Migrations only go forward: throws
 * MigrationError for an applied one that has changed or has no file, and for a new one that is older than an applied one.
 */
export async function findPendingMigrations(db: Database, migrations: readonly Migration[]): Promise<Migration[]> {
  const applied = await readApplied(db);
  for (const row of applied) checkApplied(row, migrations);
  const done = new Set(applied.map(({ version }) => version));
  // Somebody has just created an empty file, and will write it.
  const pending = migrations.filter(({ version, sql }) => !done.has(version) && sql.trim() !== '');
  const latest = applied.at(-1)?.version ?? '';
  const early = pending.find(({ version }) => version < latest);
  if (early) {
    throw new MigrationError(`${early.file}: comes before ${latest}, which is applied; give it a later timestamp`);
  }
  return pending;
}

/**
 * Applies the pending migrations in order, each in a transaction of its own, and returns those it applied. Concurrent runs share
 * the work. Runs `check` before each commit, and `onApplied` after it; if `check` throws, the migration is rolled back. Throws
 * MigrationError for a migration that fails, and as findPendingMigrations does.
 */
export async function applyMigrations(
  db: Database,
  migrations: readonly Migration[],
  onApplied: (migration: Migration) => void = () => {},
  check: (migration: Migration) => Promise<void> = async () => {},
): Promise<Migration[]> {
  const applied: Migration[] = [];
  for (;;) {
    const migration = await inTransaction(db, async () => {
      const next = await applyNext(db, migrations);
      if (next) await check(next);
      return next;
    });
    if (!migration) return applied;
    applied.push(migration);
    onApplied(migration);
  }
}

/** The statements that distribute the schema over the nodes of Citus; none on another Postgres. */
export async function readDistribution(db: Database): Promise<string[]> {
  const { rows } = await db.query(`select 1 where to_regprocedure('private.distribution_steps()') is not null`);
  if (rows.length === 0) return [];
  const steps = await db.query('select step from private.distribution_steps() step');
  return (steps.rows as { step: string }[]).map(({ step }) => step);
}

/** Distributes in one transaction what the migrations did not: everything, if Citus was added to an existing database. */
export function distribute(db: Database): Promise<string[]> {
  return inTransaction(db, async () => {
    await db.query(`select pg_advisory_xact_lock(${BOOKKEEPING_LOCK})`);
    const steps = await readDistribution(db);
    if (steps.length > 0) await db.query('select private.distribute()');
    return steps;
  });
}

/** The text of a notice if it is a warning, for the operator. */
export function toWarning({ severity, message, hint }: Notice): string | undefined {
  return severity === 'WARNING' ? `${message}${hint ? `\n  hint: ${hint}` : ''}` : undefined;
}

/** Runs a file of SQL in one transaction. Throws MigrationError as a migration does. */
export function runScript(db: Database, script: Script): Promise<void> {
  return inTransaction(db, () => run(db, script));
}

/** Runs `work` in a transaction and rolls it back on an error. */
export async function inTransaction<T>(db: Database, work: () => Promise<T>): Promise<T> {
  await db.query('begin');
  try {
    const result = await work();
    await db.query('commit');
    return result;
  } catch (error) {
    // If the connection is lost this fails too: `error` says so, and Postgres rolls back by itself.
    await db.query('rollback').catch(() => {});
    throw error;
  }
}

/** Applies the first pending migration inside the current transaction. */
async function applyNext(db: Database, migrations: readonly Migration[]): Promise<Migration | undefined> {
  // A lock of the transaction: a session lock does not work behind a pooler in transaction mode.
  await db.query(`select pg_advisory_xact_lock(${BOOKKEEPING_LOCK})`);
  // A statement that waits for a lock blocks all later ones, including the gateway's calls.
  await db.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
  const [migration] = await findPendingMigrations(db, migrations);
  if (!migration) return undefined;
  await db.query(`do $$ begin
    if to_regclass('supabase_migrations.schema_migrations') is null then
      create schema if not exists supabase_migrations;
      create table supabase_migrations.schema_migrations (version text not null primary key, statements text[], name text);
    end if;
  end $$`);
  // Otherwise Citus changes a table over several connections, after which the transaction cannot distribute a function. Other
  // servers accept the setting and ignore it.
  await db.query(`set local citus.multi_shard_modify_mode = 'sequential'`);
  await run(db, migration);
  await db.query(
    'insert into supabase_migrations.schema_migrations (version, name, statements) values ($1, $2, array[$3])',
    [migration.version, migration.name, migration.sql],
  );
  return migration;
}

async function readApplied(db: Database): Promise<Applied[]> {
  // to_regclass would not see the table if this transaction has waited for another run to create it.
  const { rows: found } = await db.query(
    `select from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'supabase_migrations' and c.relname = 'schema_migrations'`,
  );
  if (found.length === 0) return [];
  const { rows } = await db.query(
    'select version, array_to_json(statements) as statements from supabase_migrations.schema_migrations order by version',
  );
  return rows as Applied[];
}

function checkApplied({ version, statements }: Applied, migrations: readonly Migration[]): void {
  const migration = migrations.find((one) => one.version === version);
  if (migration) {
    if (!statements || toComparable(statements.join(';')) === toComparable(migration.sql)) return;
    throw new MigrationError(
      `${migration.file}: has changed since it was applied; restore it, and change the database by a new migration`,
    );
  }
  const [first] = migrations;
  const text =
    first && version < first.version
      ? `which is older than the first one, ${first.file}: a version before 1.0 made it. Upgrade it with version 1.0 first`
      : 'and there is no file for it; restore the file, run the version that has it, or try it out in a new store (DATA_DIR=:memory:)';
  throw new MigrationError(`The database has migration ${version}, ${text}`);
}

/** Other tools split a script into trimmed statements, so white space and semicolons do not count; nor does `if not exists`. */
function toComparable(sql: string): string {
  return sql.replaceAll(/create schema if not exists /g, 'create schema ').replaceAll(/[\s;]+/g, '');
}

/** Runs a script inside the current transaction. Throws MigrationError if it fails or ends the transaction. */
async function run(db: Database, script: Script): Promise<void> {
  const { rows } = await db.query('select pg_current_xact_id()::text as id');
  const [{ id }] = rows as [{ id: string }];
  /** Reads the status of the transaction in which the script began. */
  const readStatus = async () => {
    const status = await db.query('select pg_xact_status($1::text::xid8) as now', [id]);
    return (status.rows as [{ now: 'in progress' | 'committed' | 'aborted' }])[0].now;
  };
  const { rows: citus } = await db.query(`select 1 from pg_extension where extname = 'citus'`);
  // For some statements Citus sends its nodes the whole text that it has received: it gets one statement at a time.
  for (const { sql, begin } of citus.length > 0 ? splitStatements(script.sql) : [{ sql: script.sql, begin: 0 }]) {
    try {
      await db.query(sql);
    } catch (error) {
      const failure = toMigrationError(script, error, begin);
      // A failed transaction accepts no query, so it is replaced. Outside of a transaction this fails.
      await db.query('rollback and chain').catch(() => {});
      // If the connection is lost, the error of the script says so.
      if ((await readStatus().catch(() => undefined)) === 'committed') {
        failure.message +=
          '\n  It has also ended the transaction that it runs in: remove its commit, and undo what it has committed';
      }
      throw failure;
    }
  }
  if ((await readStatus()) !== 'in progress') {
    throw new MigrationError(
      `${script.file}: ends the transaction that it runs in; remove its commit or rollback, and undo what it has committed`,
    );
  }
  await db.query(SETTLE).catch((error) => {
    throw toMigrationError(script, error, 0);
  });
}

/** A comment or quoted text, in which a semicolon does not end a statement; or a semicolon that does. */
const TOKEN =
  /--[^\n]*|\/\*.*?\*\/|\be'(?:\\.|''|[^'\\])*'|'(?:''|[^'])*'|"(?:""|[^"])*"|(?<![\w$])(\$(?:[a-z_]\w*)?\$).*?\1|;/gis;
const BLANK = /--[^\n]*|\/\*.*?\*\/|[\s;]+/gs;

/** The statements of a script, each with the index at which it begins. A body without quotes (`begin atomic`) is not understood. */
export function splitStatements(script: string): { sql: string; begin: number }[] {
  const ends = [...script.matchAll(TOKEN)].flatMap(({ 0: text, index }) => (text === ';' ? [index + 1] : []));
  const statements = [...ends, script.length].map((end, index) => {
    const begin = ends[index - 1] ?? 0;
    return { sql: script.slice(begin, end), begin };
  });
  return statements.filter(({ sql }) => sql.replaceAll(BLANK, '') !== '');
}

/** `file:line:column: message` with the notes of Postgres; without line and column if the error has no position. */
function toMigrationError({ file, sql }: Script, error: unknown, begin: number): MigrationError {
  const { message, code, position, detail, where, ...rest } = error as Record<string, string | undefined>;
  const hint =
    code === LOCK_NOT_AVAILABLE ? 'other work holds the table: apply the migration again when it has ended' : rest.hint;
  const notes = Object.entries({ detail, hint, where }).flatMap(([name, text]) =>
    text ? [`\n  ${name}: ${text}`] : [],
  );
  const place = position ? toPlace(sql, begin, Number(position)) : '';
  return new MigrationError(`${file}${place}: ${message}${code ? ` (${code})` : ''}${notes.join('')}`, {
    cause: error,
  });
}

/** `:line:column` of a position after an index; positions and columns count characters (not UTF-16 units) from 1. */
function toPlace(sql: string, begin: number, position: number): string {
  const statement = Array.from(sql.slice(begin)).slice(0, position - 1);
  const lines = (sql.slice(0, begin) + statement.join('')).split('\n');
  return `:${lines.length}:${Array.from(lines.at(-1) ?? '').length + 1}`;
}
