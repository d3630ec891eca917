// The files of supabase/migrations, and their application. The bookkeeping is the Supabase CLI's own, so either tool can
// continue the work of the other.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../errors.ts';

/** One file of SQL. */
export type Script = { readonly file: string; readonly sql: string };

/** One migration: its version is the timestamp at the start of its file name. */
export type Migration = Script & { readonly version: string; readonly name: string };

/** A database, over one connection, such as pg's client. */
export interface Database {
  /** Runs one statement, or without values a script of several. */
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

/** Any number that nothing else in the database locks: the letters "wellness". */
const BOOKKEEPING_LOCK = '8603401876125610867';

/** How long a statement of a migration waits for a lock; then the migration fails and can be applied again. */
const LOCK_TIMEOUT = '5s';
const LOCK_NOT_AVAILABLE = '55P03';

const FILE_NAME = /^(\d+)_(.+)\.sql$/;

/** The migrations in a folder, oldest first. Throws MigrationError for a file name without a version. */
export function readMigrations(folder: string): Migration[] {
  const files = readdirSync(folder).filter((file) => file.endsWith('.sql'));
  const migrations = files.sort().map((file) => {
    const [, version, name] = FILE_NAME.exec(file) ?? [];
    if (!version || !name)
      throw new MigrationError(`${join(folder, file)}: expected a name like 20261231120000_topic.sql`);
    return { version, name, file: join(folder, file), sql: readFileSync(join(folder, file), 'utf8') };
  });
  migrations.forEach((migration, index) => {
    const twin = migrations[index - 1];
    if (twin?.version === migration.version) {
      throw new MigrationError(`${migration.file}: has the version of ${twin.file}`);
    }
  });
  return migrations;
}

/**
 * The migrations that are not applied yet, in order; changes nothing in the database. Migrations only go forward: throws
 * MigrationError for an applied one that has changed or has no file, and for a new one that is older than an applied one.
 */
export async function findPendingMigrations(db: Database, migrations: readonly Migration[]): Promise<Migration[]> {
  const applied = await readApplied(db);
  checkApplied(applied, migrations);
  return pendingOf(applied, migrations);
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

/** The statements that are to distribute the schema over the nodes of Citus; none on another Postgres. */
export async function readDistribution(db: Database): Promise<string[]> {
  const { rows } = await db.query(`select 1 where to_regprocedure('private.distribution_steps()') is not null`);
  if (rows.length === 0) return [];
  const steps = await db.query('select step from private.distribution_steps() step');
  return (steps.rows as { step: string }[]).map(({ step }) => step);
}

/** Distributes what the migrations have not, such as all of a database that Citus was added to; all of it, or nothing. */
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
    // Fails when the connection is lost. Then `error` says so, and Postgres has rolled back.
    await db.query('rollback').catch(() => {});
    throw error;
  }
}

/** Applies the first pending migration inside the current transaction. */
async function applyNext(db: Database, migrations: readonly Migration[]): Promise<Migration | undefined> {
  // Held until the transaction ends. A session lock would not work behind a pooler in transaction mode.
  await db.query(`select pg_advisory_xact_lock(${BOOKKEEPING_LOCK})`);
  // A statement that waits for a lock blocks every later one, the gateway's calls too.
  await db.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
  const [migration] = await findPendingMigrations(db, migrations);
  if (!migration) return undefined;
  await db.query(`do $$ begin
    if to_regclass('supabase_migrations.schema_migrations') is null then
      create schema if not exists supabase_migrations;
      create table supabase_migrations.schema_migrations (version text not null primary key, statements text[], name text);
    end if;
  end $$`);
  // Citus changes a table over several connections, after which the transaction could not distribute a function. Other servers
  // take the setting for one that nobody reads.
  await db.query(`set local citus.multi_shard_modify_mode = 'sequential'`);
  await run(db, migration);
  await db.query(
    'insert into supabase_migrations.schema_migrations (version, name, statements) values ($1, $2, array[$3])',
    [migration.version, migration.name, migration.sql],
  );
  return migration;
}

async function readApplied(db: Database): Promise<Applied[]> {
  // to_regclass would go on saying that it is missing, in a transaction that then waited for another run to create it.
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

function checkApplied(applied: readonly Applied[], migrations: readonly Migration[]): void {
  const [first] = migrations;
  const byVersion = new Map(migrations.map((migration) => [migration.version, migration]));
  for (const { version, statements } of applied) {
    const migration = byVersion.get(version);
    if (!migration && first && version < first.version) {
      throw new MigrationError(
        `The database has migration ${version}, which is older than the first one, ${first.file}: a version before 1.0 ` +
          'made it. Upgrade it with version 1.0 first',
      );
    }
    if (!migration) {
      throw new MigrationError(
        `The database has migration ${version}, and there is no file for it; restore the file, run the version that has it, or try it out in a new store (DATA_DIR=:memory:)`,
      );
    }
    if (statements && toComparable(statements.join(';')) !== toComparable(migration.sql)) {
      throw new MigrationError(
        `${migration.file}: has changed since it was applied; restore it, and change the database by a new migration`,
      );
    }
  }
}

function pendingOf(applied: readonly Applied[], migrations: readonly Migration[]): Migration[] {
  const done = new Set(applied.map(({ version }) => version));
  // An empty file is one that somebody begins to write.
  const pending = migrations.filter(({ version, sql }) => !done.has(version) && sql.trim() !== '');
  const latest = applied.at(-1);
  const early = pending.find(({ version }) => latest && version < latest.version);
  if (early && latest) {
    throw new MigrationError(
      `${early.file}: comes before ${latest.version}, which is applied; give it a later timestamp`,
    );
  }
  return pending;
}

/**
 * Other tools split a script into statements and trim them, so white space and semicolons do not count. Nor does whether a schema
 * that was made might have been there.
 */
function toComparable(sql: string): string {
  return sql.replaceAll(/create schema if not exists /g, 'create schema ').replaceAll(/[\s;]+/g, '');
}

/** Runs a script inside the current transaction. Throws MigrationError if it fails or ends the transaction. */
async function run(db: Database, script: Script): Promise<void> {
  const before = await currentTransaction(db);
  const { rows: citus } = await db.query(`select 1 from pg_extension where extname = 'citus'`);
  // Citus sends some statements on to its other nodes in the text that it has received.
  for (const { sql, begin } of citus.length > 0 ? splitStatements(script.sql) : [{ sql: script.sql, begin: 0 }]) {
    try {
      await db.query(sql);
    } catch (error) {
      throw toMigrationError(script, error, begin);
    }
  }
  if ((await currentTransaction(db)) !== before) {
    throw new MigrationError(
      `${script.file}: ends the transaction that it runs in; remove its commit or rollback, and undo what it has committed`,
    );
  }
}

/** What a semicolon in it does not end: quoted text, names and bodies, and comments. */
const WITHOUT_END =
  /--[^\n]*|\/\*.*?\*\/|\be'(?:\\.|''|[^'\\])*'|'(?:''|[^'])*'|"(?:""|[^"])*"|(?<![\w$])(\$(?:[a-z_]\w*)?\$).*?\1|;/gis;
const NOTHING = /--[^\n]*|\/\*.*?\*\/|[\s;]+/gs;

/** The statements of a script, each with the index at which it begins. A body without quotes (`begin atomic`) is not understood. */
export function splitStatements(script: string): { sql: string; begin: number }[] {
  const ends = [...script.matchAll(WITHOUT_END)].flatMap(({ 0: text, index }) => (text === ';' ? [index + 1] : []));
  const statements = [...ends, script.length].map((end, index) => {
    const begin = ends[index - 1] ?? 0;
    return { sql: script.slice(begin, end), begin };
  });
  return statements.filter(({ sql }) => sql.replaceAll(NOTHING, '') !== '');
}

/** An id that differs between transactions; outside of one it is new for each call. */
async function currentTransaction(db: Database): Promise<string> {
  const { rows } = await db.query('select pg_current_xact_id()::text as id');
  return (rows as [{ id: string }])[0].id;
}

/** `file:line:column: message` with the notes of Postgres; without line and column if the error has no position. */
function toMigrationError({ file, sql }: Script, error: unknown, begin: number): MigrationError {
  const { message, code, position, detail, where, ...rest } = error as Record<string, string | undefined>;
  const hint =
    code === LOCK_NOT_AVAILABLE ? 'other work holds the table: apply the migration again when it has ended' : rest.hint;
  const notes = Object.entries({ detail, hint, where }).flatMap(([name, text]) =>
    text ? [`\n  ${name}: ${text}`] : [],
  );
  const place = position ? toPlace(sql, Array.from(sql.slice(0, begin)).length + Number(position)) : '';
  return new MigrationError(`${file}${place}: ${message}${code ? ` (${code})` : ''}${notes.join('')}`, {
    cause: error,
  });
}

/** `:line:column` of a position, which counts characters (not UTF-16 units) from 1. */
function toPlace(sql: string, position: number): string {
  const lines = Array.from(sql)
    .slice(0, position - 1)
    .join('')
    .split('\n');
  return `:${lines.length}:${Array.from(lines.at(-1) ?? '').length + 1}`;
}
