// The memory limits of the deployment are enough.

import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, inject, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { HttpRequest } from '../../scripts/bench/cases.ts';
import { findWrk, runWrk } from '../../scripts/bench/wrk.ts';
import { copyDataDir } from '../helpers/gateway.ts';
import { GatewayProcess, readNodeArgs } from '../helpers/process.ts';
import { isPresent } from '../helpers/requirement.ts';
import { createDatabase, loginUrl } from '../helpers/servers.ts';

const SECONDS = 5;
const CONNECTIONS = 32;
const headers = { 'X-Api-Key': 'wms_demo_aurora', 'Accept-Encoding': 'gzip' };
const LISTS = [
  '/v1/alunos?limit=10',
  '/v1/alunos?limit=100',
  '/v1/alunos?limit=1000',
  '/v1/alunos?nome=an&limit=10',
  '/v1/treinos?limit=10',
  '/v1/academias',
  '/v1/anamnese/alunos?limit=100',
];
/** Sent in turn. One is refused, and one creates a student, so that the lists grow. */
const REQUESTS: readonly HttpRequest[] = [
  ...[...LISTS, '/v1/alunos?limit=10', '/v1/alunos?limit=0'].map((path) => ({ method: 'GET', path, headers }) as const),
  { method: 'POST', path: '/v1/alunos', headers, body: '{"p_nome":"Ana","p_email":"a@x.example"}' },
];

/** The kernel's memory limit, as containers have it: cgroup v1, or v2 if the root delegates its controller. */
const CGROUPS = [
  { folder: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', events: 'memory.oom_control' },
  { folder: '/sys/fs/cgroup', limit: 'memory.max', events: 'memory.events' },
];
const GROUP = `wellness-test-${process.pid}`;
const cgroup = CGROUPS.find(({ folder, limit }) => {
  const group = join(folder, GROUP);
  try {
    mkdirSync(group);
  } catch {
    return false;
  }
  const hasLimit = existsSync(join(group, limit));
  rmdirSync(group);
  return hasLimit;
});
// No error in CI, because no package brings a cgroup.
if (!cgroup) console.warn('\nNo memory cgroup is writable: the tests of small machines cannot run, and are SKIPPED\n');
const hasWrk = isPresent(
  findWrk() !== undefined,
  'The package wrk is not installed: the tests of small machines cannot run',
);

/** The memory of the container in kubernetes.yaml, in bytes. */
function readLimit(): number {
  const documents = parseAllDocuments(readFileSync('scripts/deploy/kubernetes.yaml', 'utf8')).map((one) => one.toJS());
  const { spec } = documents.find(({ kind }) => kind === 'Deployment');
  const [{ resources }] = spec.template.spec.containers;
  return Number(/^(\d+)Mi$/.exec(resources.limits.memory)?.[1]) * 2 ** 20;
}

/** Sends requests for a while to a gateway with a memory limit. It has to answer all of them, even if nobody reads its log. */
async function checkServes(limit: number, env: Record<string, string>): Promise<void> {
  if (!cgroup) throw new Error('No memory cgroup is writable');
  const group = join(cgroup.folder, GROUP);
  mkdirSync(group);
  writeFileSync(join(group, cgroup.limit), String(limit));
  // Node sizes its heap by the limit when it starts, so a move later is too late.
  const launcher = ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, 'sh'];
  const gateway = new GatewayProcess({ NODE_ENV: 'production', ...env }, { launcher, nodeArgs: readNodeArgs() });
  try {
    await gateway.printed(/Listening on .*\n/);
    gateway.child.stdout?.pause();
    // A busy machine may answer late.
    const load = { connections: CONNECTIONS, seconds: SECONDS, timeout: 60, signal: new AbortController().signal };
    const { requests, refused, failed } = await runWrk(gateway.origin, REQUESTS, load);
    gateway.child.stdout?.resume();
    expect(readFileSync(join(group, cgroup.events), 'utf8')).toMatch(/^oom_kill 0$/m);
    expect([failed, requests > 0]).toEqual([0, true]);
    expect(Math.abs(refused - requests / REQUESTS.length)).toBeLessThanOrEqual(CONNECTIONS);
    expect((await fetch(`${gateway.origin}/readyz`)).status).toBe(200);
  } finally {
    gateway.child.stdout?.resume();
    await gateway.stop('SIGINT');
    rmdirSync(group);
  }
}

describe.skipIf(!cgroup || !hasWrk)('in the memory that the documentation names', () => {
  test('a gateway on Postgres answers everything in the limit of kubernetes.yaml', async () => {
    const database = await createDatabase();
    try {
      await checkServes(readLimit(), { DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test') });
    } finally {
      await database.drop();
    }
  }, 300_000);

  test('the embedded store answers everything in 512 MiB, once it is created', async () => {
    await checkServes(512 * 2 ** 20, { DATA_DIR: copyDataDir(inject('dataDir')) });
  }, 300_000);
});
