// The files of supabase/migrations, and their application by the Supabase CLI's own bookkeeping, so that either tool
// can follow the other.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../errors.ts';

/** One file of SQL. */
export type Script = { readonly file: string; readonly sql: string };

/** One migration: its version is the timestamp that its file's name begins with. */
export type Migration = Script & { readonly version: string; readonly name: string };

/** One connection to a database. Statements come one at a time, without parameters or with texts. */
export interface Connection {
  query(sql: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** What Postgres reports while a statement runs. */
export type Notice = {
  readonly severity: string | undefined;
  readonly message: string | undefined;
  readonly hint: string | undefined;
};

/** A migration cannot be applied, or must not be; the message names the file, and the place where there is one. */
export class MigrationError extends OperatorError {}

type Statement = { readonly offset: number; readonly text: string; readonly withComments: string };
type Applied = { readonly version: string; readonly statements: string[] | null };

/** Any number that nothing else in the database locks: the letters "wellness". */
const BOOKKEEPING_LOCK = '8603401876125610867';

/** How long a statement of a migration waits for others; then the migration fails, and may be applied again. */
const LOCK_TIMEOUT = '5s';
const LOCK_NOT_AVAILABLE = '55P03';

const FILE_NAME = /^(\d+)_(.+)\.sql$/;

/** The migrations in a folder, oldest first. Throws MigrationError for a file whose name gives no order. */
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
 * The migrations that are not applied yet, in order; changes nothing in the database. Throws MigrationError for an
 * applied one that has changed or is gone, and for one that comes before an applied one: migrations go forward only.
 */
export async function findPendingMigrations(db: Connection, migrations: readonly Migration[]): Promise<Migration[]> {
  return findPending(await readApplied(db), migrations);
}

/**
 * Applies what is not applied yet, in order, each migration in a transaction of its own, and gives back what it
 * applied; those that another run applies at the same time are left to it. `onApplied` hears of each as soon as it
 * stays. Throws MigrationError for a migration that fails, and as findPendingMigrations does.
 */
export async function applyMigrations(
  db: Connection,
  migrations: readonly Migration[],
  onApplied: (migration: Migration) => void = () => {},
): Promise<Migration[]> {
  const pending = await findPendingMigrations(db, migrations);
  if (pending.length > 0) await createBookkeeping(db);
  const applied: Migration[] = [];
  for (const migration of pending) {
    const statements = await splitStatements(migration);
    const isNew = await inTransaction(db, async () => {
      if (!(await recordMigration(db, migration, statements))) return false;
      // A statement that waits for a lock holds up all that come after it, the gateway's calls too.
      await db.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
      for (const statement of statements) await run(db, migration, statement);
      return true;
    });
    if (!isNew) continue;
    applied.push(migration);
    onApplied(migration);
  }
  return applied;
}

/** The text of a notice that an operator has to read; undefined for any other notice. */
export function toWarning({ severity, message, hint }: Notice): string | undefined {
  return severity === 'WARNING' ? `${message}${hint ? `\n  hint: ${hint}` : ''}` : undefined;
}

/** Runs a file of SQL in one transaction. Throws MigrationError as a migration does. */
export async function runScript(db: Connection, script: Script): Promise<void> {
  const statements = await splitStatements(script);
  await inTransaction(db, async () => {
    for (const statement of statements) await run(db, script, statement);
  });
}

/** A script in pieces that make it up again, to the letter, when they are joined by semicolons. */
function toRecord(script: Script, statements: readonly Statement[]): string[] {
  return statements.length > 0 ? statements.map(({ withComments }) => withComments) : [script.sql];
}

async function readApplied(db: Connection): Promise<Applied[]> {
  const { rows: found } = await db.query(
    `select 1 where to_regclass('supabase_migrations.schema_migrations') is not null`,
  );
  if (found.length === 0) return [];
  const { rows } = await db.query(
    'select version, array_to_json(statements) as statements from supabase_migrations.schema_migrations order by version',
  );
  return rows as Applied[];
}

/** Behind a lock, because of two that create a thing "if not exists" at the same time one fails. */
function createBookkeeping(db: Connection): Promise<void> {
  return inTransaction(db, async () => {
    await db.query(`select pg_advisory_xact_lock(${BOOKKEEPING_LOCK})`);
    await db.query(`do $$ begin
      if to_regclass('supabase_migrations.schema_migrations') is null then
        create schema if not exists supabase_migrations;
        create table supabase_migrations.schema_migrations (version text not null primary key, statements text[], name text);
      end if;
    end $$`);
  });
}

/**
 * Records a migration before its statements run, so that the row is what keeps two runs apart: the second one waits
 * here for the end of the first one's transaction, and gets false if the migration stayed. A lock of the session would
 * be lost behind a pooler in transaction mode.
 */
async function recordMigration(db: Connection, migration: Migration, statements: readonly Statement[]) {
  const { rows } = await db.query(
    `insert into supabase_migrations.schema_migrations (version, name, statements)
     select $1, $2, array(select json_array_elements_text($3::json))
     on conflict (version) do nothing
     returning version`,
    [migration.version, migration.name, JSON.stringify(toRecord(migration, statements))],
  );
  return rows.length > 0;
}

async function findPending(applied: readonly Applied[], migrations: readonly Migration[]): Promise<Migration[]> {
  const byVersion = new Map(migrations.map((migration) => [migration.version, migration]));
  for (const { version, statements } of applied) {
    const migration = byVersion.get(version);
    if (!migration) throw new MigrationError(`The database has migration ${version}, and there is no file for it`);
    if (statements && !(await isSame(statements.join(';'), migration.sql))) {
      throw new MigrationError(
        `${migration.file}: has changed since it was applied; put it back as it was, and change the database by a new migration`,
      );
    }
  }
  const done = new Set(applied.map(({ version }) => version));
  const pending = migrations.filter(({ version }) => !done.has(version));
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
 * Whether two scripts say the same. What this program applied is recorded to the letter; other tools cut it elsewhere
 * and keep other white space, so then what counts is what Postgres's own scanner reads.
 */
async function isSame(one: string, other: string): Promise<boolean> {
  return one === other || (await toTokens(one)) === (await toTokens(other));
}

async function toTokens(sql: string): Promise<string> {
  const { scan } = await import('libpg-query');
  const { tokens } = await scan(sql);
  const words = tokens.filter(({ tokenName }) => !/COMMENT|ASCII_59/.test(tokenName)).map(({ text }) => text);
  return words.join('\0');
}

/** Does something in a transaction, which an error undoes. */
export async function inTransaction<T>(db: Connection, work: () => Promise<T>): Promise<T> {
  await db.query('begin');
  try {
    const result = await work();
    await db.query('commit');
    return result;
  } catch (error) {
    // Where the connection is lost, that is what the error says, and the rollback has happened by itself.
    await db.query('rollback').catch(() => {});
    throw error;
  }
}

async function run(db: Connection, script: Script, statement: Statement): Promise<void> {
  try {
    await db.query(statement.text);
  } catch (error) {
    throw toMigrationError(script, statement.offset, error);
  }
}

/** Cuts a script by Postgres's own parser. Loaded only when there is something to apply. */
async function splitStatements(script: Script): Promise<Statement[]> {
  if (script.sql.trim() === '') return [];
  const { parse } = await import('libpg-query');
  const bytes = Buffer.from(script.sql);
  const statements: Statement[] = [];
  let end = 0;
  for (const { stmt, stmt_location: start = 0, stmt_len: length } of await parsed(parse, script)) {
    const from = end;
    end = length === undefined ? bytes.length : start + length;
    const text = bytes.toString('utf8', start, end);
    const offset = bytes.toString('utf8', 0, start).length;
    if (stmt && 'TransactionStmt' in stmt) {
      throw toMigrationError(script, offset, new Error('a script runs in a transaction already and cannot end it'));
    }
    // The semicolon that ended the one before is left out, as the Supabase CLI does.
    statements.push({ offset, text, withComments: bytes.toString('utf8', from, end).replace(/^;/, '') });
  }
  const last = statements.at(-1);
  if (last)
    statements[statements.length - 1] = { ...last, withComments: last.withComments + bytes.toString('utf8', end) };
  return statements;
}

type Parse = typeof import('libpg-query')['parse'];

async function parsed(parse: Parse, script: Script): Promise<NonNullable<Awaited<ReturnType<Parse>>['stmts']>> {
  try {
    return (await parse(script.sql)).stmts ?? [];
  } catch (error) {
    const cursor = (error as { sqlDetails?: { cursorPosition?: number } }).sqlDetails?.cursorPosition;
    throw toMigrationError(script, cursor ?? 0, error);
  }
}

/** `file:line:column: message`, with what Postgres adds to it. The offset counts from the script's beginning. */
function toMigrationError(script: Script, offset: number, error: unknown): MigrationError {
  const { message, code, position, detail, where, ...rest } = error as Record<string, string | undefined>;
  const hint =
    code === LOCK_NOT_AVAILABLE ? 'other work holds the table: apply it again when that has ended' : rest.hint;
  const blank = /^\s*/.exec(script.sql.slice(offset))?.[0].length ?? 0;
  const at = offset + (position ? Number(position) - 1 : blank);
  const lines = script.sql.slice(0, at).split('\n');
  const notes = Object.entries({ detail, hint, where }).flatMap(([name, text]) =>
    text ? [`\n  ${name}: ${text}`] : [],
  );
  return new MigrationError(
    `${script.file}:${lines.length}:${(lines.at(-1) ?? '').length + 1}: ${message}${code ? ` (${code})` : ''}${notes.join('')}`,
    { cause: error },
  );
}
