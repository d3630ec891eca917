// Compares what docs/compatibility.md promises with the last release. released.txt has its names, one a line. A release writes them
// again with `npm run --silent test -- test/compatibility.test.ts --update`, after the version in package.json was set.

import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createRecord } from '../src/http/context.ts';
import { createLog } from '../src/telemetry/log.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { readCommands } from './helpers/commands.ts';
import { createDatabase } from './helpers/servers.ts';

const RELEASED = 'test/released.txt';
const MIGRATIONS = 'supabase/migrations';
/** The functions that the migrations of others and the scripts of administrators call. */
const HELPERS = `create_tenant current_tenant isolate issue_key list_keys list_tenants publish require_record revoke_key
  rotate_key set_key_permissions to_uuid verify_key`.split(/\s+/);

async function readSurface(): Promise<string[]> {
  const names = [...(await readCommands()), ...(await readMetrics()), ...(await readHelpers())];
  return [...readVariables(), ...names, ...readLogFields(), ...readMigrations()].toSorted();
}

/** Each has its hash, because a changed migration is refused where it was applied. */
function readMigrations(): string[] {
  const toHash = (file: string) => hash('sha256', readFileSync(join(MIGRATIONS, file)));
  return readdirSync(MIGRATIONS).map((file) => `migration ${file} ${toHash(file).slice(0, 16)}`);
}

/** Each has its default. */
function readVariables(): string[] {
  const names = [...readFileSync('.env.example', 'utf8').matchAll(/^#? ?([A-Z][A-Z_]+=.*)$/gm)];
  return names.map(([, name]) => `variable ${name}`);
}

/** The fields of a line that has all of them. */
function readLogFields(): string[] {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line), flush: async () => {} };
  const log = createLog({ level: 'info', keyHeaders: ['key'], isTerminal: false, worker: 1 }, destination);
  const arrived = createRecord('GET', '/', {
    key: 'x'.repeat(50),
    traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  });
  const ended = { endpoint: 'get', operation: { id: 'get' }, status: 502, durationMs: 1, storeMs: 1, responseBytes: 1 };
  log.request({ ...arrived, ...ended, fault: { kind: 'storeUnavailable', cause: new Error('cause') } });
  log.info('text');
  return [...new Set(lines.flatMap((line) => Object.keys(JSON.parse(line))))].map((name) => `log field ${name}`);
}

async function readMetrics(): Promise<string[]> {
  const metrics = createMetrics();
  metrics.observe({
    readLoad: () => ({ running: 0, waiting: 0, open: 0, idle: 0, stalled: {} }),
    readSockets: () => ({ open: 0, refused: 0, unread: 0 }),
    isReady: async () => true,
    isCountingShared: () => true,
    isExporting: () => true,
  });
  const types = [...(await metrics.read()).matchAll(/^# TYPE ((?:http_server|gateway)_\w+) \w+$/gm)];
  return types.map(([, name]) => `metric ${name}`);
}

async function readHelpers(): Promise<string[]> {
  const database = await createDatabase();
  const sql = `select oid::regprocedure::text as name from pg_proc
    where pronamespace = 'private'::regnamespace and proname = any ($1)`;
  const rows = await database.query(sql, [HELPERS]);
  await database.drop();
  return rows.map(({ name }) => `function ${name}`);
}

test('every name of the last release is there and its migrations are unchanged, unless the changelog says what has gone', async () => {
  const surface = await readSurface();
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  const [heading, ...released] = readFileSync(RELEASED, 'utf8').trim().split('\n');
  if (heading !== `release ${version}`) {
    await expect(`${[`release ${version}`, ...surface].join('\n')}\n`).toMatchFileSnapshot(
      RELEASED.replace('test/', ''),
    );
    return;
  }
  const [, unreleased = ''] = readFileSync('CHANGELOG.md', 'utf8').split(/^## /m, 2);
  expect(released.filter((name) => !surface.includes(name) && !unreleased.includes(`\`${name}\``))).toEqual([]);
});
