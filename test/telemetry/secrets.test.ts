import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withBody } from '../helpers/function-body.ts';
import { type GatewayProcess, startProcess } from '../helpers/process.ts';
import {
  loginUrl,
  type PostgresServer,
  type PostgrestServer,
  runSql,
  startLoggingPostgres,
  startPostgrest,
} from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Searches for a key, after every kind of failure, in what the gateway and Postgres have written.

const AURORA = 'a0000000-0000-4000-8000-000000000000';
let postgresLog = '';
let server: PostgresServer;
let postgrest: PostgrestServer;

beforeAll(async () => {
  server = await startLoggingPostgres((text) => {
    postgresLog += text;
  });
  postgrest = await startPostgrest(server);
});

afterAll(async () => {
  await postgrest.stop();
  await server.stop();
});

const admin = (sql: string, values?: unknown[]) => runSql(server.adminUrl, sql, values);

const STORES = {
  postgres: () => ({ DATABASE_URL: loginUrl(server.adminUrl, 'gateway_test') }),
  supabase: () => postgrest.env,
};

describe.each(['postgres', 'supabase'] as const)('on the store %s', (kind) => {
  let gateway: GatewayProcess;
  let key: string;

  beforeAll(async () => {
    gateway = await startProcess({ DEADLINE_MS: '3000', STORE_CONNECTIONS: '2', ...STORES[kind]() });
    [{ key }] = (await admin(`select key from private.issue_key($1, 'Segredo')`, [AURORA])) as [{ key: string }];
  });

  afterAll(() => gateway.stop());

  const log = () => gateway.output() + gateway.errors();

  /** The part that nobody may see. People identify a key by what is before it. */
  const secret = () => key.slice('wms_live_'.length + 8, -6);

  async function send(target: string, options: { key?: string; body?: string } = {}): Promise<[number, string]> {
    const answer = await fetch(`${gateway.origin}/v1${target}`, {
      headers: { 'X-Api-Key': options.key ?? key },
      ...(options.body === undefined ? {} : { method: 'POST', body: options.body }),
    });
    return [answer.status, await answer.text()];
  }

  /** Expects this answer to a list whose function has another body. */
  const expectWith = (body: string, answer: [status: number, text: string]) =>
    withBody(server.adminUrl, 'listar_academias', body, async () => expect(await send('/academias')).toEqual(answer));

  test('no refusal and no success leaves the key anywhere', async () => {
    const wrong = key.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'));
    const student = JSON.stringify({ p_nome: 'Ana', p_email: 'ana@aurora.example', p_api_key: key });
    expect((await send('/academias'))[0]).toBe(200);
    expect((await send('/academias', { key: wrong }))[0]).toBe(401);
    expect((await send(`/academias?p_api_key=${key}`))[0]).toBe(422);
    expect((await send('/alunos', { body: student }))[0]).toBe(422);
    expect((await send('/alunos', { body: student.slice(0, -1) }))[0]).toBe(400);
    expect((await send('/alunos', { body: student.replace(/,"p_api_key.*/, '}') }))[0]).toBe(201);
    expect((await send(`/${key}`))[0]).toBe(404);
  });

  test('no fault of the store leaves the key anywhere', async () => {
    await expectWith(`raise division_by_zero`, [502, '{"error":"Data store error"}']);
    await expectWith(`raise exception 'recusada'`, [401, '{"error":"recusada"}']);
    await expectWith(`perform pg_sleep(30)`, [502, '{"error":"Data store timeout"}']);
    await expectWith(`perform pg_terminate_backend(pg_backend_pid())`, [502, expect.any(String)]);
    await admin('alter function public.listar_academias rename to outra');
    expect((await send('/academias'))[0]).toBe(502);
    await admin('alter function public.outra rename to listar_academias');
    await waitFor(async () => expect((await send('/academias'))[0]).toBe(200));
  });

  test('both logs record the event without the key', async () => {
    // A log is written in order: everything before these entries has been read by then.
    await fetch(`${gateway.origin}/v1/nada`, { headers: { 'X-Request-Id': 'last-request' } });
    await gateway.printed('last-request');
    await admin(`select 'last statement on ${kind}'`);
    await waitFor(() => expect(postgresLog).toContain(`last statement on ${kind}`));
    expect(log()).toContain('division_by_zero');
    expect(log()).toContain('Listening');
    expect(postgresLog).toContain('listar_academias');
    expect(postgresLog).toContain('API Key inválida');
    expect(postgresLog).toContain('duration: ');
    expect(log()).not.toContain(secret());
    expect(postgresLog).not.toContain(secret());
  });

  test('the log of the gateway omits a key that SQL repeats in an error', async () => {
    await expectWith(`raise exception using errcode = 'XX000', message = 'with ' || p_api_key`, [
      502,
      '{"error":"Data store error"}',
    ]);
    await waitFor(() => expect(log()).toContain('with [API key]'));
    expect(log()).not.toContain(secret());
    await waitFor(() => expect(postgresLog).toContain(secret()));
  });
});
