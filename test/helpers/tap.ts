// Runs the scripts of supabase/tests as pg_prove does, and reads what they tell, which is the Test Anything Protocol.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { applyMigrations, readMigrations, type Script } from '../../src/store/migrations.ts';
import { reachServer } from '../../src/store/open.ts';
import { DEBIAN_SHARE } from './debian-postgres.ts';
import { MIGRATIONS } from './gateway.ts';
import { startEmbeddedPostgres } from './servers.ts';
import { SUPABASE_GRANTS, SUPABASE_ROLES } from './supabase-project.ts';

const FOLDER = 'supabase/tests';

/** The names of the scripts. */
export const scripts = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.sql'))
  .sort();

/** The tests of a script by their outcome: the descriptions, the reasons for skipping, the failures' whole text. */
type TapReport = {
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

/** A database with pgTAP and the migrations. */
type TapDatabase = { readonly db: pg.Client; stop(): Promise<void> };

/** Starts a Postgres 18 with the roles of a Supabase project, and without data. Needs Debian's package of pgTAP. */
export async function startSupabase(): Promise<TapDatabase> {
  const server = await startEmbeddedPostgres();
  return open(server.adminUrl, server.stop, async (db) => {
    await db.query(`create role supabase_admin superuser login; ${SUPABASE_ROLES} ${SUPABASE_GRANTS}`);
    await applyMigrations(db, readMigrations(MIGRATIONS));
  });
}

/** Starts the server of an embedded store. Needs Debian's package of pgTAP. */
export async function startStore(dataDir: string): Promise<TapDatabase> {
  const { url, close } = await reachServer({
    kind: 'embedded',
    dataDir,
    programs: undefined,
    fsync: false,
    demoData: true,
  });
  return open(url, close, async () => {});
}

async function open(
  url: string,
  stop: () => Promise<void>,
  prepare: (db: pg.Client) => Promise<void>,
): Promise<TapDatabase> {
  const db = new pg.Client(url);
  const end = () => db.end().finally(stop);
  try {
    await db.connect();
    await prepare(db);
    // pgTAP is SQL alone, so that Debian's for Postgres 15 serves this one too, which has its own of every other extension.
    await db.query(`set extension_control_path = '$system:${DEBIAN_SHARE}'`);
    await db.query('create schema extensions; create extension pgtap with schema extensions');
    return { db, stop: end };
  } catch (error) {
    await end();
    throw error;
  }
}

/**
 * Runs a script, which begins and rolls back its own transaction. Throws if a statement fails, and if the script runs
 * more or fewer tests than it has planned.
 */
export async function runTap(db: pg.Client, { file, sql }: Script): Promise<TapReport> {
  const results = await db.query(sql).catch(async (error) => {
    await db.query('rollback');
    throw new Error(`${file}: ${error.message}`, { cause: error });
  });
  const rows = (results as unknown as pg.QueryResult[]).flatMap((result) => result.rows);
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
