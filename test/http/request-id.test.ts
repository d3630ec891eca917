import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRecord } from '../../src/telemetry/record.ts';
import { withBody } from '../helpers/function-body.ts';
import { type GatewayProcess, startProcess } from '../helpers/process.ts';
import { sendRaw } from '../helpers/raw.ts';
import {
  hasPostgrest,
  loginUrl,
  type PostgresServer,
  type PostgrestServer,
  runSql,
  startLoggingPostgres,
  startPostgrest,
} from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const KEY = 'wms_demo_aurora';
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** What this Postgres puts in front of each line of its log: the name of the application in brackets. */
const LOG_PREFIX = '[%a] ';

let postgresLog = '';
let server: PostgresServer;
let postgrest: PostgrestServer | undefined;
const gateways = new Map<string, GatewayProcess>();

const gatewayOf = (name: string) => gateways.get(name) as GatewayProcess;
const admin = (sql: string, values?: unknown[]) => runSql(server.adminUrl, sql, values);

beforeAll(async () => {
  const write = (text: string) => {
    postgresLog += text;
  };
  server = await startLoggingPostgres(write, { log_line_prefix: LOG_PREFIX });
  // A statement that is logged as it begins is not told again with its duration.
  await admin(`alter database ${new URL(server.adminUrl).pathname.slice(1)} set log_statement = 'none'`);
  postgrest = hasPostgrest ? await startPostgrest(server) : undefined;
  const common = { DEADLINE_MS: '1000', STORE_CONNECTIONS: '4' };
  const environments = {
    postgres: { DATABASE_URL: loginUrl(server.adminUrl, 'gateway_test') },
    'postgres without prepared statements': {
      DATABASE_URL: loginUrl(server.adminUrl, 'gateway_pooled'),
      PREPARE: 'off',
    },
    ...(postgrest ? { supabase: postgrest.env } : {}),
  };
  const start = async ([name, env]: [string, Record<string, string>]) =>
    void gateways.set(name, await startProcess({ ...common, ...env }));
  await Promise.all(Object.entries<Record<string, string>>(environments).map(start));
});

afterAll(async () => {
  for (const gateway of gateways.values()) await gateway.stop();
  await postgrest?.stop();
  await server.stop();
});

type Sent = { readonly status: number; readonly id: string | null; readonly text: string };

async function send(name: string, target: string, id?: string, init: RequestInit = {}): Promise<Sent> {
  const headers = { 'X-Api-Key': KEY, ...(id === undefined ? {} : { 'X-Request-Id': id }), ...init.headers };
  const answer = await fetch(gatewayOf(name).origin + target, { ...init, headers });
  return { status: answer.status, id: answer.headers.get('x-request-id'), text: await answer.text() };
}

/** What the database calls each of the gateway's connections. */
async function namesOf(login: string): Promise<string[]> {
  const sql = 'select distinct application_name as name from pg_stat_activity where usename = $1 order by 1';
  return (await admin(sql, [login])).map(({ name }) => name);
}

describe('the id of a request', () => {
  const idOf = (id?: string) => createRecord('GET', '/', id === undefined ? {} : { 'x-request-id': id }).id;

  test.each(['a', 'x'.repeat(128), 'azAZ09.:/+=@~_-', 'Root=1-67891233-abcdef012345678912345678'])(
    'is the one that the client gives: %s',
    (id) => expect(idOf(id)).toBe(id),
  );

  test.each([
    undefined,
    '',
    'x'.repeat(129),
    'a b',
    'a"b',
    'a\\nb',
    'a%0d%0ab',
    '<b>',
    // As Node joins two of them.
    'one, one',
    'a\xe9',
    `wms_live_${'a'.repeat(38)}`,
    `job-1/wms_demo_${'0'.repeat(9)}`,
  ])('is a new UUID where it is %s', (id) => {
    const ids = [idOf(id), idOf(id)];
    expect(ids).toEqual([expect.stringMatching(UUID), expect.stringMatching(UUID)]);
    expect(ids[0]).not.toBe(ids[1]);
  });

  test.each(['\x00', '\n a'])('is in no answer where it has %j', async (character) => {
    const request = `GET /v1/nada HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: odd${character}odd\r\n\r\n`;
    const answer = await sendRaw(gatewayOf('postgres').origin, request);
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] /);
    expect(answer).not.toContain('odd');
  });
});

describe.each([
  ['postgres', 'gateway_test'],
  ['postgres without prepared statements', 'gateway_pooled'],
])('on %s', (name, login) => {
  const idle = async () => expect(await namesOf(login)).toEqual(['wellness-gateway']);

  /** Waits until the database names a connection after the request, and then for the request. */
  async function watch(id: string): Promise<Sent> {
    const answer = send(name, '/v1/academias', id);
    await waitFor(async () => expect(await namesOf(login)).toContain(`wellness-gateway ${id}`));
    return answer;
  }

  test('the database shows it while the function runs, and in what it logs of it, and not longer', async () => {
    const id = `slow-${login}`;
    await withBody(server.adminUrl, 'listar_academias', 'perform pg_sleep(0.3)', async () => {
      expect(await watch(id)).toEqual({ status: 200, id, text: '[]' });
    });
    await idle();
    await waitFor(() => {
      const lines = postgresLog.split('\n').filter((line) => line.startsWith(`[wellness-gateway ${id}] `));
      expect(lines.some((line) => /LOG: .*duration: [\d.]+ ms .*listar_academias/.test(line))).toBe(true);
    });
  });

  test('the name is as before after an error, which the database logs with it', async () => {
    const id = `error-${login}`;
    await withBody(server.adminUrl, 'listar_academias', 'raise division_by_zero', async () => {
      expect((await send(name, '/v1/academias', id)).status).toBe(502);
    });
    await idle();
    await waitFor(() => expect(postgresLog).toContain(`[wellness-gateway ${id}] ERROR:`));
  });

  test('the name is as before after a cancellation by the deadline', async () => {
    const id = `late-${login}`;
    await withBody(server.adminUrl, 'listar_academias', 'perform pg_sleep(30)', async () => {
      expect(await watch(id)).toMatchObject({ status: 502, text: '{"error":"Data store timeout"}' });
    });
    await waitFor(idle);
    await waitFor(() => expect(postgresLog).toContain(`[wellness-gateway ${id}] ERROR:`));
  });

  test('a function that makes one row sees it too', async () => {
    const body = `raise exception '%', current_setting('application_name')`;
    await withBody(server.adminUrl, 'criar_aluno', body, async () => {
      const init = { method: 'POST', body: JSON.stringify({ p_nome: 'Ana', p_email: 'ana@aurora.example' }) };
      const answer = await send(name, '/v1/alunos', 'one-row', init);
      expect([answer.status, answer.text]).toEqual([401, '{"error":"wellness-gateway one-row"}']);
    });
  });

  test('the database shows the first characters of a long id', async () => {
    const body = `raise exception '%', current_setting('application_name')`;
    await withBody(server.adminUrl, 'listar_academias', body, async () => {
      const { text } = await send(name, '/v1/academias', 'x'.repeat(128));
      expect(text).toMatch(/^\{"error":"wellness-gateway x{46,128}"\}$/);
    });
    await idle();
  });

  test('no id stays for later requests on the same connections', async () => {
    const body = `raise exception '%', current_setting('application_name')`;
    await withBody(server.adminUrl, 'listar_academias', body, async () => {
      const texts: string[] = [];
      const ids = Array.from({ length: 100 }, (_, n) => `turn-${n}`);
      for (const id of ids) texts.push((await send(name, '/v1/academias', id)).text);
      expect(texts).toEqual(ids.map((id) => `{"error":"wellness-gateway ${id}"}`));
    });
    for (let n = 0; n < 20; n += 1) expect((await send(name, '/v1/academias', `good-${n}`)).status).toBe(200);
    await idle();
  });
});

/** What SQL can say of the request that it runs for, in the text of a refusal. */
const TELLING = {
  postgres: `current_setting('application_name')`,
  'postgres without prepared statements': `current_setting('application_name')`,
  supabase: `'wellness-gateway ' || (current_setting('request.headers', true)::json->>'x-request-id')`,
};
const stores = (Object.keys(TELLING) as (keyof typeof TELLING)[]).filter((name) => hasPostgrest || name !== 'supabase');

test.each(stores)('the ids of 50 requests at a time do not mix on %s', async (name) => {
  const body = `perform pg_sleep(random() / 50); raise exception '%', ${TELLING[name]}`;
  await withBody(server.adminUrl, 'listar_academias', body, async () => {
    const ids = Array.from({ length: 50 }, () => randomUUID());
    const answers = await Promise.all(ids.map((id) => send(name, '/v1/academias', id)));
    // The deadline of some may end first.
    const told = answers.filter(({ status }) => status === 401);
    expect(told.length).toBeGreaterThan(10);
    expect(told).toEqual(told.map(({ id }) => ({ status: 401, id, text: `{"error":"wellness-gateway ${id}"}` })));
    expect(answers.map(({ id }) => id)).toEqual(ids);
  });
});

test.runIf(hasPostgrest)('SQL behind a PostgREST sees the id, whether it is the client’s or a new one', () => {
  const body = `raise exception '%', current_setting('request.headers')::json->>'x-request-id'`;
  return withBody(server.adminUrl, 'listar_academias', body, async () => {
    expect((await send('supabase', '/v1/academias', 'mine')).text).toBe('{"error":"mine"}');
    const { id, text } = await send('supabase', '/v1/academias', 'not sane');
    expect(id).toMatch(UUID);
    expect(text).toBe(`{"error":"${id}"}`);
  });
});
