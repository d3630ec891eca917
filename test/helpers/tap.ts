// Runs the scripts of supabase/tests as pg_prove does, and reads their output in the Test Anything Protocol.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import type { Script } from '../../src/store/migrations.ts';
import { DEBIAN_SHARE } from './debian-postgres.ts';

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

/** A connection to the database that the scripts test. */
type Tested = { query(sql: string): Promise<unknown> };

/** pgTAP is SQL alone, so that Debian's for Postgres 15 serves 18 too, which has its own of every other extension. */
export async function addPgtap(db: Tested): Promise<void> {
  await db.query(`set extension_control_path = '$system:${DEBIAN_SHARE}'`);
  await db.query('create schema extensions; create extension pgtap with schema extensions');
}

/** A script, with statements that come first in its transaction. */
export function readScript(name: string, first = ''): Script {
  const file = join(FOLDER, name);
  const sql = readFileSync(file, 'utf8')
    // psql includes a file; it is relative to the script.
    .replace(/^\\ir (.+)$/m, (_line, included) => readFileSync(join(FOLDER, included), 'utf8'))
    .replace(/^begin;$/m, () => `begin;${first && ` ${first};`}`);
  return { file, sql };
}

/**
 * Runs a script, which begins and rolls back its own transaction. Throws if a statement fails, and if the script runs
 * more or fewer tests than it has planned.
 */
export async function runTap(db: Tested, { file, sql }: Script): Promise<TapReport> {
  const results = await db.query(sql).catch(async (error) => {
    await db.query('rollback');
    throw new Error(`${file}: ${error.message}`, { cause: error });
  });
  const rows = (results as pg.QueryResult[]).flatMap((result) => result.rows);
  return readTap(
    file,
    rows.flatMap((row) => Object.values(row).join('').split('\n')),
  );
}

function readTap(file: string, lines: readonly string[]): TapReport {
  const planned = Number(lines.flatMap((line) => /^1\.\.(\d+)$/.exec(line)?.[1] ?? [])[0]);
  // A test is a line, with the comments that follow it.
  const tests = lines.join('\n').match(/^(not )?ok \d.*(\n#.*)*/gm) ?? [];
  if (planned !== tests.length) throw new Error(`${file}: ${planned} tests are planned, and ${tests.length} were run`);
  const find = (pattern: RegExp) => tests.flatMap((test) => pattern.exec(test)?.[1] ?? []);
  return {
    passed: find(/^ok \d+ - (.*)/),
    skipped: find(/^ok \d+ # SKIP (.*)/),
    failed: find(/^not ok \d+ - (.*)/s),
  };
}
