// The files of supabase/migrations, and their application by the Supabase CLI's own bookkeeping, so that either tool
// can follow the other.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One file of SQL. */
export type Script = { readonly file: string; readonly sql: string };

/** One migration: its version is the timestamp that its file's name begins with. */
export type Migration = Script & { readonly version: string; readonly name: string };

/** One connection to a database. Statements come one at a time, without parameters or with texts. */
export interface Connection {
  query(sql: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** A migration cannot be applied, or must not be; the message names the file, and the place where there is one. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError';
}

type Statement = { readonly offset: number; readonly text: string; readonly withComments: string };
type Applied = { readonly version: string; readonly statements: string[] | null };

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
 * Applies what is not applied yet, in order, each migration in a transaction of its own, and gives back what it
 * applied. Throws MigrationError for a migration that fails, for an applied one that has changed or is gone, and for
 * one that comes before an applied one: migrations go forward only.
 */
export async function applyMigrations(db: Connection, migrations: readonly Migration[]): Promise<Migration[]> {
  const pending = await findPending(await readApplied(db), migrations);
  for (const migration of pending) {
    const statements = await splitStatements(migration);
    await inTransaction(db, async () => {
      for (const statement of statements) await run(db, migration, statement);
      await db.query(
        'insert into supabase_migrations.schema_migrations (version, name, statements) select $1, $2, array(select json_array_elements_text($3::json))',
        [migration.version, migration.name, JSON.stringify(toRecord(migration, statements))],
      );
    });
  }
  return pending;
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
  await db.query('create schema if not exists supabase_migrations');
  await db.query(
    'create table if not exists supabase_migrations.schema_migrations (version text not null primary key, statements text[], name text)',
  );
  const { rows } = await db.query(
    'select version, array_to_json(statements) as statements from supabase_migrations.schema_migrations order by version',
  );
  return rows as Applied[];
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

async function inTransaction(db: Connection, work: () => Promise<void>): Promise<void> {
  await db.query('begin');
  try {
    await work();
    await db.query('commit');
  } catch (error) {
    await db.query('rollback');
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
  const { message, code, position, detail, hint, where } = error as Record<string, string | undefined>;
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
