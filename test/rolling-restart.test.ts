// Rolling restarts behind a real haproxy, which neither drains nor retries: the gateways alone lose no request.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Pool } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type GatewayProcess, startProcess } from './helpers/process.ts';
import { createDatabase, type Database, findPort, loginUrl } from './helpers/servers.ts';
import { waitFor } from './helpers/wait-for.ts';

const HAPROXY = '/usr/sbin/haproxy';
const RESTARTS = 20;
const REQUESTS = 50_000;
const CLIENTS = 16;
/** haproxy notices an unready gateway after two checks, 200 ms apart. */
const DRAIN_MS = '1000';
const headers = { 'X-Api-Key': 'wms_demo_aurora' };

const canTest = existsSync(HAPROXY);
if (!canTest) {
  const message = 'The package haproxy is not installed: the rolling restarts cannot run';
  if (process.env.CI) throw new Error(message);
  console.warn(`\n${message}, and are SKIPPED\n`);
}

const folder = mkdtempSync(join(tmpdir(), 'haproxy-'));
let database: Database;
let haproxy: ChildProcess | undefined;

beforeAll(async () => {
  database = await createDatabase();
});

afterAll(async () => {
  if (haproxy?.kill()) await once(haproxy, 'exit');
  await database.drop();
  rmSync(folder, { recursive: true });
});

/** Starts haproxy in front of the gateways' ports, and gives its origin. */
async function startHaproxy(ports: readonly number[]): Promise<string> {
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
  haproxy = spawn(HAPROXY, ['-db', '-f', file], { stdio: 'ignore' });
  return `http://127.0.0.1:${port}`;
}

test.skipIf(!canTest)(
  `${RESTARTS} rolling restarts fail none of ${REQUESTS} requests`,
  async () => {
    const ports = [await findPort(), await findPort()];
    const origin = await startHaproxy(ports);
    const url = loginUrl(database.adminUrl, 'gateway_test');
    const start = (port: number | undefined) => startProcess({ DATABASE_URL: url, PORT: `${port}`, DRAIN_MS });
    const gateways: GatewayProcess[] = await Promise.all(ports.map(start));
    const areUp = () =>
      waitFor(async () => {
        const csv = await (await fetch(`${origin}/stats;csv`)).text();
        expect(csv.match(/^gateways,gateway-.*,UP,/gm)).toHaveLength(ports.length);
      });
    await areUp();

    const pool = new Pool(origin, { connections: CLIENTS });
    const failures: unknown[] = [];
    let sent = 0;
    let restarts = 0;
    const send = async () => {
      sent += 1;
      const isCreation = sent % 20 === 0;
      const body = isCreation ? JSON.stringify({ p_nome: `Aluno ${sent}`, p_email: 'a@x.example' }) : null;
      const path = isCreation ? '/v1/alunos' : '/v1/academias?limit=1';
      const answer = await pool.request({ path, method: isCreation ? 'POST' : 'GET', headers, body });
      const text = await answer.body.text();
      if (answer.statusCode >= 300) failures.push({ path, status: answer.statusCode, text });
    };
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (sent < REQUESTS || restarts < RESTARTS) await send().catch((error) => failures.push(String(error)));
    });
    for (; restarts < RESTARTS; restarts += 1) {
      const index = restarts % ports.length;
      expect(await gateways[index]?.stop()).toBe(0);
      gateways[index] = await start(ports[index]);
      await areUp();
    }
    await Promise.all(clients);
    await pool.close();

    expect(failures).toEqual([]);
    console.log(`${sent} requests, ${restarts} restarts`);
    for (const gateway of gateways) await gateway.stop('SIGINT');
  },
  600_000,
);
