import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { OperatorError } from '../src/errors.ts';
import { readExamples } from '../src/openapi/examples.ts';
import { document } from './helpers/api.ts';
import { useDatabase } from './helpers/database.ts';
import { whileFunctionHeld } from './helpers/function-body.ts';
import { copyDataDir, startConfigured } from './helpers/gateway.ts';
import { GatewayProcess, killAll, startProcess } from './helpers/process.ts';
import { openRaw } from './helpers/raw.ts';
import { childrenOf, loginUrl } from './helpers/servers.ts';
import { waitFor, waitForBlocked } from './helpers/wait-for.ts';

const root = mkdtempSync(join(tmpdir(), 'main-'));
const database = useDatabase();
let DATABASE_URL: string;

const start = (env: Record<string, string>) => startProcess(env, { isText: true });

/** Starts a gateway in this process, and stops it; gives what it logs. */
async function startHere(env: Record<string, string>, use = async (_url: string) => {}): Promise<string[]> {
  const { url, told, close } = await startConfigured(env);
  await use(url);
  await close();
  return told;
}

/** The message of a start that has to fail. */
async function failHere(env: Record<string, string>): Promise<string> {
  const error = await startHere(env).catch((error) => error);
  expect(error).toBeInstanceOf(OperatorError);
  return error.message;
}

const newFolder = () => copyDataDir(inject('dataDir'));

const list = async (url: string, query = '', key = 'wms_demo_aurora') => {
  const answer = await fetch(`${url}/alunos?limit=1000${query}`, { headers: { 'X-Api-Key': key } });
  return (await answer.json()) as { id: string }[];
};

/** Runs a command as the first process of its namespace, like that of a container. */
const ISOLATE = ['unshare', '--pid', '--fork', '--kill-child'];

/** Whether this user may run it, which needs root and is forbidden in most containers. */
function canIsolate(): boolean {
  const [command = '', ...args] = ISOLATE;
  return spawnSync(command, [...args, 'true']).status === 0;
}

beforeAll(() => {
  DATABASE_URL = loginUrl(database.adminUrl, 'gateway_test');
});

afterAll(killAll);

test('an argument that does not exist starts nothing', async () => {
  const gateway = new GatewayProcess({}, { args: ['--chekc'] });
  expect(await gateway.ended).toBe(2);
  expect([gateway.output(), gateway.errors()]).toEqual([
    '',
    '--chekc is not an argument of the gateway: expected --check, or none\nThe configuration is in variables: see docs/configuration.md.\n',
  ]);
});

describe('start', () => {
  let gateway: GatewayProcess;

  test('prints the URL, the store and a curl command that works', async () => {
    const dataDir = newFolder();
    gateway = await start({ DATA_DIR: dataDir, METRICS_PORT: '0' });
    const output = await gateway.printed(/curl .*\n/);
    const url = `${gateway.origin}/v1`;
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    expect(output).toContain(
      `Store: embedded Postgres, data in ${dataDir}; psql -h ${dataDir}/socket -U postgres postgres\n`,
    );

    const line = /try (curl .*)$/m.exec(output)?.[1] ?? '';
    const curl = spawn('sh', ['-c', `${line} -s`]);
    const [chunk] = await once(curl.stdout, 'data');
    const first = readExamples(document).find(({ request, status }) => request.method === 'GET' && status === 200);
    expect(line).toContain(`'${url}${first?.request.target}'`);
    expect(JSON.parse(String(chunk))).toEqual(first?.value);
  });

  test('ends on SIGINT: finishes the requests in progress, ends busy keep-alive connections, and exits with 0', async () => {
    const url = `${gateway.origin}/v1`;
    let stopping = false;
    const clients = Array.from({ length: 4 }, async () => {
      for (;;) {
        const rows = await list(url, '&ativo=false').catch((error) => error);
        if (stopping && !Array.isArray(rows)) return rows;
        expect(rows).toHaveLength(25);
      }
    });
    const body = JSON.stringify({ p_nome: 'Até o fim', p_email: 'fim@aurora.example' });
    const begun = await openRaw(url);
    const head = `POST /v1/alunos HTTP/1.1\r\nHost: x\r\nX-Api-Key: wms_demo_aurora\r\nContent-Length: ${body.length + 1}\r\n\r\n`;
    begun.socket.write(head + body.slice(0, 10));
    const silent = await openRaw(url);
    await list(url);

    stopping = true;
    const ended = gateway.stop('SIGINT');
    // An idle connection does not hold it up.
    await silent.ended;
    await Promise.all(clients);
    await expect(list(url)).rejects.toThrow();
    expect((await fetch(`${gateway.managementOrigin}/healthz`)).status).toBe(200);
    begun.socket.write(Buffer.from(body).subarray(10));
    await begun.ended;
    expect(begun.read()).toMatch(/^HTTP\/1\.1 201 Created\r\n(.+\r\n)*Connection: close\r\n/);
    expect(await ended).toBe(0);
    expect(gateway.errors()).toBe('');
  });

  test('refuses to serve the demo data where others reach it, before it makes a store, unless told otherwise', async () => {
    const REFUSED =
      'HOST=0.0.0.0 is reachable by others, and everybody knows the keys of the demo data: set DEMO_DATA=off and DATA_DIR to a new folder, or DEMO_DATA=on to serve them all the same';
    const none = join(root, 'none');
    expect(await failHere({ HOST: '0.0.0.0', DATA_DIR: none })).toBe(REFUSED);
    expect(existsSync(none)).toBe(false);
    const dataDir = newFolder();
    expect(await failHere({ HOST: '0.0.0.0', DATA_DIR: dataDir, DEMO_DATA: 'off' })).toBe(REFUSED);
    expect(await startHere({ HOST: '0.0.0.0', DATA_DIR: dataDir, DEMO_DATA: 'on' })).toContain(
      'The demo data is in this store, and everybody knows its keys',
    );
  });

  test('fails on a port in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const dataDir = join(root, 'never');
    expect(await failHere({ DATA_DIR: dataDir, PORT: String(port) })).toBe(
      `port ${port} of 127.0.0.1 is in use: set PORT to another port`,
    );
    // It fails before anything is made.
    expect(existsSync(dataDir)).toBe(false);
    other.close();
  });
});

describe('stop', () => {
  test('on SIGTERM serves on for DRAIN_MS, not ready, and closes each socket after its answer', async () => {
    const gateway = await start({ DATABASE_URL, DRAIN_MS: '6000' });
    const url = `${gateway.origin}/v1`;
    // A client that keeps its socket.
    await list(url);
    const idle = await openRaw(url);
    const ended = gateway.stop();
    await waitFor(async () => expect((await fetch(`${gateway.origin}/readyz`)).status).toBe(503));
    expect(await (await fetch(`${gateway.origin}/readyz`)).json()).toEqual({ status: 'stopping' });
    const answer = await fetch(`${url}/alunos?limit=1`, { headers: { 'X-Api-Key': 'wms_demo_aurora' } });
    expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close']);
    idle.socket.write('GET /v1/academias HTTP/1.1\r\nHost: x\r\nX-Api-Key: wms_demo_aurora\r\n\r\n');
    await idle.ended;
    expect(idle.read()).toMatch(/^HTTP\/1\.1 200 OK\r\n(.+\r\n)*Connection: close\r\n/);
    expect(await ended).toBe(0);
    expect(gateway.output()).toContain(
      'Stopping in 6000 ms (DRAIN_MS), not ready until then, and after the requests in progress',
    );
  });

  test.runIf(canIsolate())('ends at once on a second signal, also as the first process of a container', async () => {
    const options = { launcher: ISOLATE, isText: true };
    const gateway = await startProcess({ DATABASE_URL, DEADLINE_MS: '60000' }, options);
    const [pid = 0] = childrenOf(gateway.child.pid);
    await whileFunctionHeld(database.adminUrl, 'listar_alunos', async () => {
      const answer = list(`${gateway.origin}/v1`).catch(() => 'none');
      await waitForBlocked(database.adminUrl, 1);
      process.kill(pid, 'SIGINT');
      await gateway.printed('Stopping');
      process.kill(pid, 'SIGINT');
      expect(await gateway.ended).toBe(130);
      expect(await answer).toBe('none');
    });
  });

  test('reaches the gateway through npm start, which reads .env, but the environment takes precedence', async () => {
    const folder = join(root, 'with-env');
    mkdirSync(folder);
    for (const name of ['src', 'scripts', 'node_modules', 'package.json', 'openapi.yaml', 'supabase']) {
      symlinkSync(resolve(name), join(folder, name));
    }
    writeFileSync(join(folder, '.env'), `PORT=http\nDATABASE_URL=${DATABASE_URL}\n`);
    const { DATABASE_URL: _none, ...env } = process.env;
    const npm = spawn('npm', ['start'], {
      cwd: folder,
      env: { ...env, PORT: '0', DRAIN_MS: '0' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let output = '';
    npm.stdout.on('data', (chunk) => {
      output += chunk;
    });
    await waitFor(() => expect(output).toContain('Listening'));
    npm.kill('SIGTERM');
    // The gateway holds the output open as long as it runs.
    await once(npm.stdout, 'end');
    expect(output).toContain(new URL(DATABASE_URL).pathname);
    expect(output).toContain('Stopping after the requests in progress');
  });
});

test('a start without the demo data prints no curl command', async () => {
  await database.query('truncate private.tenants cascade');
  const told = await startHere({ DATABASE_URL }, async (url) => {
    expect(await list(url)).toEqual({ error: 'API Key inválida' });
  });
  expect(told.join()).not.toContain('curl');
});
