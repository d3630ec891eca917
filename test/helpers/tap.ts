// Runs the scripts of supabase/tests as pg_prove does, and reads what they tell, which is the Test Anything Protocol.

import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';
import { pgtap } from '@electric-sql/pglite-pgtap';
import pg from 'pg';
import { extract } from 'tar';
import { applyMigrations, type Database, readMigrations, type Script } from '../../src/store/migrations.ts';
import { MIGRATIONS } from './gateway.ts';
import { startEmbeddedPostgres } from './servers.ts';
import { SUPABASE_GRANTS, SUPABASE_ROLES } from './supabase-project.ts';

const FOLDER = 'supabase/tests';

/** The names of the scripts. */
export const scripts = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.sql'))
  .sort();

/** The tests of a script by their outcome: the descriptions, the reasons for skipping, the failures' whole text. */
export type TapReport = {
  readonly passed: readonly string[];
  readonly skipped: readonly string[];
  readonly failed: readonly string[];
};

type Tap = { readonly planned: number | undefined; readonly tests: readonly string[] };

/** A script, with statements that come first in its transaction. */
export function readScript(name: string, first = ''): Script {
  const file = join(FOLDER, name);
  const sql = readFileSync(file, 'utf8')
    // psql includes a file; it is relative to the script.
    .replace(/^\\ir (.+)$/m, (_line, included) => readFileSync(join(FOLDER, included), 'utf8'))
    .replace(/^begin;$/m, () => `begin;${first && ` ${first};`}`);
  return { file, sql };
}

/** A PGlite in memory with pgTAP and the migrations, and without data. */
export async function openPglite(): Promise<PGlite> {
  const db = await PGlite.create({ extensions: { pgtap } });
  await prepare(db);
  return db;
}

/** A Postgres 18 with the roles of a Supabase project, pgTAP and the migrations, and without data. */
export async function startSupabase(): Promise<{ readonly db: pg.Client; stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'pgtap-'));
  // Whoever Postgres runs as has to get there.
  chmodSync(folder, 0o755);
  // It is SQL alone, so that PGlite's package serves every Postgres.
  await extract({
    file: fileURLToPath(new URL('pgtap.tar.gz', import.meta.resolve('@electric-sql/pglite-pgtap'))),
    cwd: folder,
  });
  const server = await startEmbeddedPostgres([`extension_control_path=${join(folder, 'share/postgresql')}:$system`]);
  const db = new pg.Client(server.adminUrl);
  await db.connect();
  await db.query(`create role supabase_admin superuser login; ${SUPABASE_ROLES} ${SUPABASE_GRANTS}`);
  await prepare(db);
  return {
    db,
    stop: async () => {
      await db.end();
      await server.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

async function prepare(db: Database): Promise<void> {
  await applyMigrations(db, readMigrations(MIGRATIONS));
  await db.query('create schema extensions');
  await db.query('create extension pgtap with schema extensions');
}

/**
 * Runs a script, which begins and rolls back its own transaction. Throws if a statement fails, and if the script runs
 * more or fewer tests than it has planned.
 */
export async function runTap(db: Database, { file, sql }: Script): Promise<TapReport> {
  const results = await (db.exec ? db.exec(sql) : db.query(sql)).catch(async (error) => {
    await db.query('rollback');
    throw new Error(`${file}: ${error.message}`, { cause: error });
  });
  const rows = (results as { rows: object[] }[]).flatMap((result) => result.rows);
  return readTap(
    file,
    rows.flatMap((row) => Object.values(row).join('').split('\n')),
  );
}

function readTap(file: string, lines: readonly string[]): TapReport {
  const { planned, tests } = lines.reduce<Tap>(addLine, { planned: undefined, tests: [] });
  if (planned !== tests.length) throw new Error(`${file}: ${planned} tests are planned, and ${tests.length} were run`);
  const find = (pattern: RegExp) => tests.flatMap((test) => pattern.exec(test)?.[1] ?? []);
  return {
    passed: find(/^ok \d+ - (.*)/),
    skipped: find(/^ok \d+ # SKIP (.*)/),
    failed: find(/^not ok \d+ - (.*)/s),
  };
}

/** A test is a line, with the comments that follow it. */
function addLine({ planned, tests }: Tap, line: string): Tap {
  const plan = /^1\.\.(\d+)$/.exec(line);
  if (plan) return { planned: Number(plan[1]), tests };
  if (/^(not )?ok \d/.test(line)) return { planned, tests: [...tests, line] };
  if (line.startsWith('#')) return { planned, tests: [...tests.slice(0, -1), `${tests.at(-1) ?? ''}\n${line}`] };
  return { planned, tests };
}
