// Restarts and upgrades behind a real haproxy, which neither drains nor retries: the gateways alone lose no request.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findMistakes, underLoad } from './helpers/clients.ts';
import { MIGRATIONS } from './helpers/gateway.ts';
import { type GatewayProcess, startProcess } from './helpers/process.ts';
import { isPresent } from './helpers/requirement.ts';
import { runCommand } from './helpers/run.ts';
import { createDatabase, type Database, findPort, loginUrl } from './helpers/servers.ts';
import { waitFor } from './helpers/wait-for.ts';

const HAPROXY = '/usr/sbin/haproxy';
/** Four restarts of each gateway: every restart is the same. */
const RESTARTS = 8;
const CLIENTS = 16;
/** The minimum, also on a busy machine: without load a test would show nothing. */
const MIN_REQUESTS = 1_000;
/** The pause of a client between two requests, which leaves the processor for what starts. */
const PAUSE_MS = 10;
/** haproxy notices an unready gateway after two checks, 200 ms apart. */
const DRAIN_MS = '1000';
const headers = { 'X-Api-Key': 'wms_demo_aurora' };

const canTest = isPresent(
  existsSync(HAPROXY),
  'The package haproxy is not installed: restarts and upgrades behind it cannot be tested',
);

/** Adds a column to a table, and to the function that lists it. */
const COLUMN = `alter table private.academias add column sigla text not null default 'AC';
drop function public.listar_academias(text, boolean, integer, integer, uuid);
create function public.listar_academias(
  p_api_key text, p_ativo boolean default null, p_limit integer default 100, p_offset integer default 0,
  p_after uuid default null
)
returns table (id uuid, nome text, ativo boolean, criado_em timestamptz, sigla text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_academias');
begin
  return query
    select a.id, a.nome, a.ativo, a.criado_em, a.sigla
      from private.academias a
     where a.tenant_id = v_tenant and (p_ativo is null or a.ativo = p_ativo)
     order by a.criado_em, a.id
     limit p_limit
    offset p_offset;
end;
$$;
select private.publish('public.listar_academias');`;
const INDEX = 'create index academias_by_sigla on private.academias (tenant_id, sigla);';

let folder: string;
let database: Database;
let haproxy: ChildProcess;
/** The origin of haproxy. */
let origin: string;
let ports: readonly number[];
let gateways: GatewayProcess[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'haproxy-'));
  database = await createDatabase();
  ports = [await findPort(), await findPort()];
  haproxy = await startHaproxy();
  gateways = await Promise.all(ports.map((port) => start(port)));
  await areUp();
});

afterEach(async () => {
  for (const gateway of gateways) await gateway.stop('SIGINT');
  if (haproxy.kill()) await once(haproxy, 'exit');
  await database.drop();
});

const start = (port: number, cwd = '.') =>
  startProcess({ DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test'), PORT: `${port}`, DRAIN_MS }, { cwd });

async function startHaproxy(): Promise<ChildProcess> {
  const port = await findPort();
  const file = join(folder, 'haproxy.cfg');
  const servers = ports.map(
    (target) => `  server gateway-${target} 127.0.0.1:${target} check inter 200ms fall 2 rise 1`,
  );
  writeFileSync(
    file,
    `defaults
  mode http
  retries 0
  timeout connect 5s
  timeout check 5s
  timeout client 60s
  timeout server 60s
listen gateways
  bind 127.0.0.1:${port}
  stats enable
  stats uri /stats
  option httpchk GET /readyz
${servers.join('\n')}
`,
  );
  origin = `http://127.0.0.1:${port}`;
  return spawn(HAPROXY, ['-db', '-f', file], { stdio: 'ignore' });
}

/** Waits until haproxy sends requests to every gateway. */
const areUp = () =>
  waitFor(async () => {
    const csv = await (await fetch(`${origin}/stats;csv`)).text();
    expect(csv.match(/^gateways,gateway-.*,UP,/gm)).toHaveLength(ports.length);
  });

/** Restarts one gateway, from another folder if one is given. */
async function restart(index: number, cwd?: string): Promise<void> {
  expect(await gateways[index]?.stop()).toBe(0);
  gateways[index] = await start(ports[index] ?? 0, cwd);
  await areUp();
}

/** A copy of a version with more migrations. */
function newVersion(name: string, migrations: Record<string, string>, from = '.'): string {
  const at = join(folder, name);
  for (const path of ['src', 'scripts', 'supabase', 'openapi.yaml', 'package.json']) {
    cpSync(join(from, path), join(at, path), { recursive: true });
  }
  symlinkSync(resolve('node_modules'), join(at, 'node_modules'));
  for (const [file, sql] of Object.entries(migrations)) writeFileSync(join(at, MIGRATIONS, file), sql);
  return at;
}

/** Applies the migrations of a version while the gateways serve, as the page says. */
async function migrate(cwd: string): Promise<string> {
  const serving = ports.flatMap((port) => ['--serving', `http://127.0.0.1:${port}`]);
  const run = await runCommand('scripts/migrate.ts', serving, { env: { DATABASE_URL: database.adminUrl }, cwd });
  expect(run).toMatchObject({ code: 0, errors: '' });
  return run.output;
}

/** Sends requests during the work, none of which may fail. For each client that creates there are three that only list. */
async function withoutFailure(work: () => Promise<void>): Promise<void> {
  const lists = [{ path: '/academias?limit=1' }];
  const all = Array.from({ length: CLIENTS }, (_, n) => {
    const creates = n % 4 === 0 ? ('once' as const) : undefined;
    return { url: `${origin}/v1`, keys: [headers['X-Api-Key']], lists, creates, pauseMs: PAUSE_MS };
  });
  const clients = await underLoad(all, work);
  expect(clients.flatMap(({ failures }) => failures)).toEqual([]);
  expect(await findMistakes(clients)).toEqual([]);
  expect(clients.reduce((sum, { answers }) => sum + answers.length, 0)).toBeGreaterThan(MIN_REQUESTS);
}

describe.skipIf(!canTest)('no request fails', () => {
  test(`during ${RESTARTS} restarts`, async () => {
    await withoutFailure(async () => {
      for (let n = 0; n < RESTARTS; n += 1) await restart(n % ports.length);
    });
  }, 600_000);

  test('during an upgrade, whether the migrations or the gateways come first', async () => {
    const column = newVersion('column', { '20991231000000_column.sql': COLUMN });
    const document = join(column, 'openapi.yaml');
    const gym = / {4}Academia:\n(?: {6}.*\n)*? {6}properties:\n/;
    writeFileSync(
      document,
      readFileSync(document, 'utf8').replace(gym, (text) => `${text}        sigla: { type: string, maxLength: 2 }\n`),
    );
    const index = newVersion('index', { '20991231000001_index.sql': INDEX }, column);
    await withoutFailure(async () => {
      expect(await migrate(column)).toContain('applied 20991231000000_column.sql');
      for (const n of ports.keys()) await restart(n, column);
      for (const n of ports.keys()) await restart(n, index);
      expect(await migrate(index)).toContain('applied 20991231000001_index.sql');
    });
    const answer = await fetch(`${origin}/v1/academias?limit=1`, { headers });
    expect(await answer.json()).toMatchObject([{ nome: 'Aurora Centro', sigla: 'AC' }]);
  }, 600_000);
});
