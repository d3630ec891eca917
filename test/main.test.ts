import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { readExamples } from '../src/openapi/examples.ts';
import { document } from './helpers/api.ts';
import { openRaw } from './helpers/raw.ts';

const root = mkdtempSync(join(tmpdir(), 'main-'));
const template = join(root, 'template');
const running = new Set<ChildProcess>();
let folders = 0;

/** The gateway as `npm start` runs it, in a process of its own, with a log for people. */
class Process {
  readonly child: ChildProcess;
  output = '';
  errors = '';

  constructor(env: Record<string, string>) {
    const common = { PATH: process.env.PATH, PORT: '0', LOG_FORMAT: 'pretty' };
    this.child = spawn(process.execPath, ['src/start.js'], { env: { ...common, ...env } });
    running.add(this.child);
    this.child.stdout?.on('data', (chunk) => {
      this.output += chunk;
    });
    this.child.stderr?.on('data', (chunk) => {
      this.errors += chunk;
    });
  }

  /** Waits for a text that it prints, and gives what it has printed by then. */
  async printed(text: string): Promise<string> {
    while (!this.output.includes(text)) {
      if (this.child.exitCode !== null) throw new Error(`ended with ${this.child.exitCode}: ${this.errors}`);
      await delay(20);
    }
    return this.output;
  }

  async url(): Promise<string> {
    return /Listening on (\S+)\n/.exec(await this.printed('Store: '))?.[1] ?? '';
  }

  async end(signal?: NodeJS.Signals): Promise<number | null> {
    if (signal) this.child.kill(signal);
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'exit');
    running.delete(this.child);
    return this.child.exitCode;
  }
}

function newFolder(): string {
  folders += 1;
  const folder = join(root, `data-${folders}`);
  cpSync(template, folder, { recursive: true });
  return folder;
}

const list = async (url: string, query = '', key = 'wms_demo_aurora') => {
  const answer = await fetch(`${url}/alunos?limit=1000${query}`, { headers: { 'X-Api-Key': key } });
  return (await answer.json()) as { id: string }[];
};

beforeAll(async () => {
  const gateway = new Process({ DATA_DIR: template });
  await gateway.url();
  await gateway.end('SIGTERM');
});

afterEach(async () => {
  for (const child of running) child.kill('SIGKILL');
  running.clear();
});

afterAll(() => rmSync(root, { recursive: true, maxRetries: 5 }));

describe('a database that the document disagrees with', () => {
  const LINE =
    /^openapi\.yaml:(\d+): listarSecoes → listar_secoes: in the document ordem is integer, int32, -2147483648 to 2147483647; in the database the column ordem is text\n$/;

  /** A store whose list of sections gives a text for a number. */
  function newDrifted(): string {
    const folder = newFolder();
    const sql = `drop function public.listar_secoes(text, integer, integer);
      create function public.listar_secoes(p_api_key text, p_limit integer default 100, p_offset integer default 0)
      returns table (id uuid, titulo text, ordem text, ativo boolean) language plpgsql stable
      security definer set search_path = pg_catalog, pg_temp as $$ begin end $$;
      select private.publish('public.listar_secoes')`;
    const { status, stderr } = spawnSync(process.execPath, ['scripts/sql.ts', '-'], {
      env: { PATH: process.env.PATH, DATA_DIR: folder },
      input: sql,
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    return folder;
  }

  test('stops the start, with the line of the document', async () => {
    const gateway = new Process({ DATA_DIR: newDrifted() });
    expect(await gateway.end()).toBe(1);
    const [, line] = LINE.exec(gateway.errors) ?? [gateway.errors];
    expect(readFileSync('openapi.yaml', 'utf8').split('\n')[Number(line) - 1]).toBe(
      '        ordem: { type: integer, format: int32, minimum: -2147483648, maximum: 2147483647 }',
    );
    expect(gateway.output).not.toContain('Listening');
  });

  test('is only told of, where that is configured', async () => {
    const gateway = new Process({ DATA_DIR: newDrifted(), CONTRACT_CHECK: 'warn' });
    await gateway.url();
    expect(/WARN: (.*\n)/.exec(gateway.output)?.[1]).toMatch(LINE);
    expect(await gateway.end('SIGTERM')).toBe(0);
  });
});

describe('start', () => {
  test('prints where it listens, its store, and a curl line that works when pasted', async () => {
    const dataDir = newFolder();
    const gateway = new Process({ DATA_DIR: dataDir });
    const output = await gateway.printed('curl ');
    const url = await gateway.url();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    expect(output).toContain(`Store: embedded Postgres, data in ${dataDir}\n`);

    const line = /try (curl .*)$/m.exec(await gateway.printed("'\n"))?.[1] ?? '';
    const curl = spawn('sh', ['-c', `${line} -s`]);
    const [chunk] = await once(curl.stdout, 'data');
    const first = readExamples(document).find(({ request, status }) => request.method === 'GET' && status === 200);
    expect(line).toContain(`'${url}${first?.request.target}'`);
    expect(JSON.parse(String(chunk))).toEqual(first?.value);
    expect(await gateway.end('SIGTERM')).toBe(0);
    expect(gateway.errors).toBe('');
  });

  test('prints no curl line where the demo data is not', async () => {
    const gateway = new Process({ DATA_DIR: ':memory:', DEMO_DATA: 'off' });
    const url = await gateway.url();
    const answer = await fetch(`${url}/alunos`, { headers: { 'X-Api-Key': 'wms_demo_aurora' } });
    expect([answer.status, await answer.json()]).toEqual([401, { error: 'API Key inválida' }]);
    expect(await gateway.end('SIGTERM')).toBe(0);
    expect(gateway.output).not.toContain('curl');
  });

  test('warns where the demo data is and is not wanted', async () => {
    const gateway = new Process({ DATA_DIR: newFolder(), DEMO_DATA: 'off' });
    await gateway.url();
    await gateway.printed('WARN: The demo data is in this store, and everybody knows its keys\n');
    expect(await gateway.end('SIGTERM')).toBe(0);
  });

  test('tells mistakes of whoever runs it in one line', async () => {
    const file = join(root, 'file');
    writeFileSync(file, '');
    const gateway = new Process({ DATA_DIR: file });
    expect(await gateway.end()).toBe(1);
    expect(gateway.errors).toBe(`${file} cannot be used: EEXIST: file already exists, mkdir '${file}'\n`);
  });

  test('reports every mistake of the configuration and ends with 1', async () => {
    const gateway = new Process({ PORT: 'http', DEMO_DATA: 'yes', DATA_DIR: newFolder() });
    expect(await gateway.end()).toBe(1);
    expect(gateway.output).toBe('');
    expect(gateway.errors).toBe(
      'PORT="http": expected a whole number from 0 to 65535\nDEMO_DATA="yes": expected on or off\n',
    );
  });

  test('ends with 1 and names the process that has the folder', async () => {
    const dataDir = newFolder();
    const first = new Process({ DATA_DIR: dataDir });
    await first.url();
    const second = new Process({ DATA_DIR: dataDir });
    expect(await second.end()).toBe(1);
    expect(second.errors).toContain(`${dataDir} is in use by process ${first.child.pid} on `);
    expect(second.errors.split('\n')).toHaveLength(2);
    await first.end('SIGTERM');
  });

  test('ends with 1 and says so where the port is taken', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const gateway = new Process({ DATA_DIR: newFolder(), PORT: String(port) });
    expect(await gateway.end()).toBe(1);
    expect(gateway.errors).toBe(`port ${port} of 127.0.0.1 is in use: set PORT to another port\n`);
    other.close();
  });
});

describe('stop', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('on %s finishes what is under way and ends with 0', async (signal) => {
    const gateway = new Process({ DATA_DIR: newFolder() });
    const url = await gateway.url();
    const body = JSON.stringify({ p_nome: 'Até o fim', p_email: 'fim@aurora.example' });
    const begun = await openRaw(url);
    const head = `POST /v1/alunos HTTP/1.1\r\nHost: x\r\nX-Api-Key: wms_demo_aurora\r\nContent-Length: ${body.length + 1}\r\n\r\n`;
    begun.socket.write(head + body.slice(0, 10));
    const silent = await openRaw(url);
    await list(url);

    const ended = gateway.end(signal);
    // A connection on which nothing is under way does not hold it up.
    await silent.ended;
    await expect(list(url)).rejects.toThrow();
    expect(gateway.child.exitCode).toBeNull();
    begun.socket.write(Buffer.from(body).subarray(10));
    await begun.ended;
    expect(begun.read()).toMatch(/^HTTP\/1\.1 201 Created\r\n(.+\r\n)*Connection: close\r\n/);
    expect(await ended).toBe(0);
  });

  test('ends keep-alive connections that are never idle', async () => {
    const gateway = new Process({ DATA_DIR: newFolder() });
    const url = await gateway.url();
    let stopping = false;
    const clients = Array.from({ length: 8 }, async () => {
      for (;;) {
        const rows = await list(url, '&ativo=false').catch((error) => error);
        if (stopping && !Array.isArray(rows)) return rows;
        expect(rows).toHaveLength(25);
      }
    });
    await list(url);
    stopping = true;
    expect(await gateway.end('SIGTERM')).toBe(0);
    await Promise.all(clients);
  });
});

test('SIGKILL while students are created loses none that was acknowledged, and no lock is left', async () => {
  const dataDir = newFolder();
  const acknowledged = new Set<string>();
  for (const round of [1, 2, 3]) {
    const gateway = new Process({ DATA_DIR: dataDir });
    const url = await gateway.url();
    let stopped = false;
    const clients = Array.from({ length: 8 }, async (_, client) => {
      while (!stopped) {
        const body = JSON.stringify({ p_nome: `Teste ${round} ${client}`, p_email: 'teste@aurora.example' });
        const headers = { 'X-Api-Key': 'wms_demo_aurora' };
        const answer = await fetch(`${url}/alunos`, { method: 'POST', headers, body }).catch(() => undefined);
        const created = (await answer?.json().catch(() => undefined)) as { id: string } | undefined;
        if (answer?.status === 201 && created) acknowledged.add(created.id);
      }
    });
    const before = acknowledged.size;
    while (acknowledged.size < before + 100) await delay(5);
    await gateway.end('SIGKILL');
    stopped = true;
    await Promise.all(clients);
  }

  const gateway = new Process({ DATA_DIR: dataDir });
  const url = await gateway.url();
  const found = new Set<string>();
  for (let offset = 0; ; offset += 1000) {
    const page = await list(url, `&nome=teste&offset=${offset}`);
    for (const { id } of page) found.add(id);
    if (page.length < 1000) break;
  }
  expect([...acknowledged].filter((id) => !found.has(id))).toEqual([]);
  expect(found.size).toBeGreaterThanOrEqual(300);
  await gateway.end('SIGTERM');
}, 90_000);
