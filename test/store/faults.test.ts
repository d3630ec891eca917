import { randomUUID } from 'node:crypto';
import dns from 'node:dns';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { createCallStore } from '../../src/api/call.ts';
import type { StoreFaultKind } from '../../src/errors.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Call, Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { limited } from '../../src/store/turns.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { useDatabase } from '../helpers/database.ts';
import { type Address, type FaultProxy, type ProxyFault, startFaultProxy, toAddress } from '../helpers/fault-proxy.ts';
import { loginUrl, POSTGREST_KEY, type PostgrestServer, startPostgrest } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Everything that a store, or the network before it, can do wrong: how a read and a create end then, that they end in time, that a
// create is sent at most once, and that the store serves again by itself when the fault is over. "In the body" is after the first
// bytes of a row; a fault that begins with a status is an answer of a Data API.

const DEADLINE_MS = 200;
/** The deadline if something else has to come first, on a busy machine too. */
const LONG_DEADLINE_MS = 5_000;
/** The maximum duration of a call with this deadline, with headroom for a busy machine. */
const inTime = (deadlineMs: number) => deadlineMs * 1.1 + 2_000;
const STORE_TEXT = 'texto do banco';

/** Raises the error that its arguments describe. */
const SQL = `
create function public.falhar(p_api_key text, p_codigo text, p_campo text default null, p_nome text default null)
returns table (nada integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if p_campo is null then
    raise exception using errcode = p_codigo, message = '${STORE_TEXT}';
  end if;
  raise exception using errcode = p_codigo, message = '${STORE_TEXT}', detail = p_campo;
end;
$$;
select private.publish('public.falhar');
`;

type Kind = 'postgres' | 'supabase';
type Action = 'read' | 'create';

/** How a call ends: with the three gyms, no rows, a new student, no record, a refusal, or a fault. */
type End = 'gyms' | 'no rows' | 'a student' | 'no record' | 'refusedKey' | 'invalidInput' | StoreFaultKind;

type OpenOptions = { readonly host?: string; readonly secret?: string; readonly deadlineMs?: number };
type Case = {
  readonly fault: string;
  readonly stores: readonly Kind[];
  readonly read: End;
  readonly create: End;
  /** Matches the cause that is logged. */
  readonly cause?: RegExp;
  readonly deadlineMs?: number;
  /** Whether nothing was connected when the fault began; otherwise a read was answered before. */
  readonly cold?: boolean;
  readonly open?: OpenOptions;
  /** The call, if it is not for the gyms or a new student. */
  readonly call?: (action: Action, nome: string) => Call;
  /** Begins the fault. */
  readonly begin?: (kind: Kind) => unknown;
  /** What happens while the call is under way. */
  readonly meanwhile?: () => Promise<unknown>;
  /** Ends a fault that is not one of the proxy. */
  readonly end?: (kind: Kind) => unknown;
};

const BOTH = ['postgres', 'supabase'] as const;

/** A fault that the proxy makes. */
function network(fault: string, does: ProxyFault, rest: Pick<Case, 'read' | 'create'> & Partial<Case>): Case {
  return { fault, stores: BOTH, begin: (kind) => proxies[kind].fail(does), ...rest };
}

/** A password or key that the store refuses. */
function wrongSecret(fault: string, kind: Kind, cause: RegExp): Case {
  const refused = { read: 'storeError', create: 'storeError', cause } as const;
  return { fault, stores: [kind], ...refused, cold: true, open: { secret: 'wrong' }, end: () => open(kind) };
}

function raised(p_codigo: string, both: End, p_campo?: string): Case {
  return {
    fault: `SQL raises ${p_codigo}${p_campo ? ` with detail \`${p_campo.replace(STORE_TEXT, '…')}\`` : ''}`,
    stores: BOTH,
    read: both,
    create: both,
    cause: new RegExp(`^${p_codigo} ${STORE_TEXT}$`),
    call: (action, p_nome) => {
      const all = listCall({ p_codigo, ...(p_campo && { p_campo }), ...(action === 'create' && { p_nome }) });
      return { ...all, function: 'falhar', readOnly: action === 'read' };
    },
  };
}

type Reply = { readonly status: number; readonly body: string; readonly length?: number };

/** An answer in place of that of a Data API. */
function reply(fault: string, reply: Reply, read: End, create: End = read): Case {
  return {
    fault,
    stores: ['supabase'],
    read,
    create,
    begin: async () => {
      scripted = reply;
      proxies.supabase.cut({ host: '127.0.0.1', port: (script.address() as AddressInfo).port });
      await hasNoticed();
    },
    end: () => proxies.supabase.cut(targets.supabase),
  };
}

function postgrestError(status: number, code: string, expected: End): Case {
  const body = JSON.stringify({ code, details: null, hint: null, message: STORE_TEXT });
  return reply(`${status} with ${code}`, { status, body }, expected);
}

const PAGE = `<html><body>${STORE_TEXT}</body></html>`;
const TRUNCATED = `[{"id":"a1000000-0000-4000-8000-000000000001","nome":"${STORE_TEXT}`;
const GYMS = 'Aurora Centro,Aurora Praia,Aurora São João';
/** A text that every row contains, on the wire of either store. */
const ROW = 'Aurora';
const LOST = /ECONNRESET|closed|terminated/;

const TOO_LATE: Pick<Case, 'read' | 'create' | 'cause' | 'deadlineMs'> = {
  read: 'storeTimeout',
  create: 'storeTimeout',
  cause: new RegExp(`no answer within ${DEADLINE_MS} ms`),
  deadlineMs: DEADLINE_MS,
};

/** There is no connection, or it is lost: each time, or once, which a read survives. */
const BROKEN = { read: 'storeUnavailable', create: 'storeUnavailable', cause: LOST } as const;
const BROKEN_ONCE = { ...BROKEN, read: 'gyms' } as const;

const cases: Case[] = [
  network('connection refused', { on: 'connect', does: 'refuse' }, { ...BROKEN, cold: true, cause: /ECONNREFUSED/ }),
  {
    fault: 'name not found',
    stores: BOTH,
    ...BROKEN,
    cold: true,
    open: { host: 'nothing.invalid' },
    cause: /ENOTFOUND|EAI_AGAIN/,
    end: () => resolveTo('127.0.0.1'),
  },
  {
    fault: 'every address of a name refused',
    stores: BOTH,
    ...BROKEN,
    cold: true,
    open: { host: 'two.invalid' },
    cause: /ECONNREFUSED/,
    begin: (kind) => {
      resolveTo('127.0.0.1', '127.0.0.2');
      proxies[kind].fail({ on: 'connect', does: 'refuse' });
    },
  },
  network('new connection reset', { on: 'connect', does: 'reset' }, { ...BROKEN, cold: true }),
  network('new connection reset, once', { on: 'connect', does: 'reset', once: true }, { ...BROKEN_ONCE, cold: true }),
  network('new connection never answered', { on: 'response', does: 'stall' }, { ...TOO_LATE, cause: /./, cold: true }),
  network('reset before the request', { on: 'request', does: 'reset' }, BROKEN),
  network('reset before the request, once', { on: 'request', does: 'reset', once: true }, BROKEN_ONCE),
  network('reset after the request', { on: 'response', does: 'reset' }, BROKEN),
  network('reset after the request, once', { on: 'response', does: 'reset', once: true }, BROKEN_ONCE),
  network('reset in the body', { on: 'response', does: 'reset', after: ROW }, BROKEN),
  network('reset in the body, once', { on: 'response', does: 'reset', after: ROW, once: true }, BROKEN_ONCE),
  network('request not taken', { on: 'request', does: 'stall' }, TOO_LATE),
  network('stall before the response', { on: 'response', does: 'stall' }, TOO_LATE),
  network('stall in the body', { on: 'response', does: 'stall', after: ROW }, TOO_LATE),
  network('a byte a second in the body', { on: 'response', does: 'trickle', after: ROW }, TOO_LATE),
  { fault: 'server stopped', stores: BOTH, ...BROKEN, begin: stopServer, end: startServer },
  {
    fault: 'server stopped and started',
    stores: BOTH,
    read: 'gyms',
    create: 'a student',
    begin: async (kind) => {
      await stopServer(kind);
      await startServer(kind);
    },
  },
  {
    fault: 'backend terminated in mid-query',
    stores: ['supabase'],
    ...BROKEN,
    cause: /57P01|terminating connection|PGRST00/,
    begin: lockTables,
    meanwhile: () => endBlockedQueries('pg_terminate_backend'),
    end: unlockTables,
  },
  {
    fault: 'backend terminated in mid-query, once',
    stores: ['postgres'],
    ...BROKEN_ONCE,
    cause: /57P01/,
    begin: lockTables,
    meanwhile: async () => {
      await endBlockedQueries('pg_terminate_backend');
      await unlockTables();
    },
  },
  {
    fault: 'query cancelled',
    stores: BOTH,
    read: 'storeTimeout',
    create: 'storeTimeout',
    cause: /57014/,
    begin: lockTables,
    meanwhile: () => endBlockedQueries('pg_cancel_backend'),
    end: unlockTables,
  },
  { fault: 'tables locked', stores: BOTH, ...TOO_LATE, begin: lockTables, end: unlockTables },
  wrongSecret('wrong password', 'postgres', /28P01/),
  wrongSecret('wrong key', 'supabase', /PGRST301/),

  raised('42501', 'storeError'),
  raised('57014', 'storeTimeout'),
  raised('55P03', 'storeTimeout'),
  raised('25P04', 'storeTimeout'),
  raised('53300', 'storeUnavailable'),
  raised('XX000', 'storeError'),
  raised('PT422', 'storeError'),
  raised('PT422', 'invalidInput', 'p_nome'),
  raised('PT422', 'invalidInput', `{"p_nome": ["${STORE_TEXT}"]}`),
  raised('PT422', 'storeError', '{"p_nome": 1}'),
  raised('PT422', 'storeError', '{'),
  raised('PT401', 'refusedKey'),
  raised('P0001', 'refusedKey'),

  reply('truncated JSON', { status: 200, body: TRUNCATED }, 'storeError'),
  reply('JSON shorter than its length', { status: 200, body: TRUNCATED, length: 1_000 }, 'storeUnavailable'),
  reply('JSON longer than its length', { status: 200, body: TRUNCATED, length: 20 }, 'storeError'),
  reply('200 with HTML', { status: 200, body: PAGE }, 'storeError'),
  reply('200 with nothing', { status: 200, body: '' }, 'storeError'),
  reply('200 with `{}`', { status: 200, body: '{}' }, 'storeError', 'no record'),
  reply('200 with `[1]`', { status: 200, body: '[1]' }, 'storeError'),
  reply('200 with `null`', { status: 200, body: 'null' }, 'storeError', 'no record'),
  reply('200 with `[]`', { status: 200, body: '[]' }, 'no rows', 'no record'),
  reply('204 with nothing', { status: 204, body: '' }, 'storeError'),
  reply('302 with nothing', { status: 302, body: '' }, 'storeError'),
  reply('404 with `[]`', { status: 404, body: '[]' }, 'storeError'),
  reply('500 with nothing', { status: 500, body: '' }, 'storeError'),
  reply('500 with `null`', { status: 500, body: 'null' }, 'storeError'),
  reply('502 with HTML', { status: 502, body: PAGE }, 'storeError'),
  reply('401 with no code', { status: 401, body: JSON.stringify({ message: STORE_TEXT }) }, 'storeError'),
  postgrestError(404, 'PGRST202', 'storeError'),
  postgrestError(401, 'PGRST301', 'storeError'),
  postgrestError(503, 'PGRST000', 'storeUnavailable'),
  postgrestError(500, 'PT401', 'refusedKey'),
];

const database = useDatabase({ sql: SQL });
let postgrest: PostgrestServer;
let script: Server;
let scripted: Reply;
let locker: pg.Client;
let targets: Record<Kind, Address>;
let proxies: Record<Kind, FaultProxy>;
let stores: Store[] = [];

beforeAll(async () => {
  postgrest = await startPostgrest(database);
  targets = { postgres: toAddress(database.adminUrl), supabase: toAddress(postgrest.url) };
  proxies = { postgres: await startFaultProxy(targets.postgres), supabase: await startFaultProxy(targets.supabase) };
  locker = new pg.Client(database.adminUrl);
  await locker.connect();
  script = createServer((req, res) => {
    const { status, body, length = Buffer.byteLength(body) } = scripted;
    req.resume().on('end', () => {
      res.writeHead(status, {
        'content-type': 'application/json',
        'content-range': '0-0/*',
        ...(status === 204 ? {} : { 'content-length': length }),
      });
      if (length <= Buffer.byteLength(body)) res.end(body);
      else res.write(body, () => res.socket?.end());
    });
  }).listen(0, '127.0.0.1');
  await once(script, 'listening');
});

afterEach(async () => {
  for (const store of stores) await store.close();
  stores = [];
  vi.restoreAllMocks();
});

afterAll(async () => {
  for (const proxy of Object.values(proxies)) await proxy.close();
  script.close();
  await locker.end();
  await postgrest.stop();
});

function openStore(kind: Kind, { host = '127.0.0.1', secret, deadlineMs = LONG_DEADLINE_MS }: OpenOptions): Store {
  const options = { connections: 4, deadlineMs };
  const { port } = proxies[kind];
  if (kind === 'supabase') {
    return openSupabase({ url: `http://${host}:${port}`, key: secret ?? POSTGREST_KEY, restPath: '/', ...options });
  }
  const url = new URL(loginUrl(database.adminUrl, 'gateway_test'));
  url.host = `${host}:${port}`;
  if (secret) url.password = secret;
  return openPostgres({ url: url.href, ...options });
}

/** Opens the store that the next calls go to. */
function open(kind: Kind, options: OpenOptions = {}): void {
  stores.unshift(limited(openStore(kind, options), { slots: 4, waiting: 100 }));
}

const listGyms = () => ({ ...listCall(), function: 'listar_academias' });
const toCall = (action: Action, p_nome: string) => (action === 'read' ? listGyms() : createCall({ p_nome }));

/** The end of a call, and the cause of a fault. */
async function send(call: Call, deadlineMs = LONG_DEADLINE_MS): Promise<{ end: End | object; cause?: unknown }> {
  const result = await createCallStore({ store: stores[0] as Store, deadlineMs })(call);
  if ('failure' in result) {
    const { failure } = result;
    if (failure.kind === 'refusedKey') expect(failure.text).toBe(STORE_TEXT);
    if (failure.kind === 'invalidInput') expect(failure.fields).toEqual({ p_nome: [STORE_TEXT] });
    if (failure.kind === 'raised') return { end: 'no record' };
    return { end: failure.kind as End, ...('cause' in failure && { cause: failure.cause }) };
  }
  const rows = JSON.parse(result.json);
  if (!Array.isArray(rows)) return { end: rows.nome === call.args.p_nome ? 'a student' : rows };
  if (rows.length === 0) return { end: 'no rows' };
  return { end: `${rows.map(({ nome }) => nome)}` === GYMS ? 'gyms' : rows };
}

const serves = async () => expect(await send(listGyms())).toEqual({ end: 'gyms' });

/** Makes every name resolve to these addresses. */
function resolveTo(...addresses: string[]): void {
  const found = addresses.map((address) => ({ address, family: 4 }));
  vi.spyOn(dns, 'lookup').mockImplementation(((
    _name: string,
    { all }: dns.LookupOptions,
    done: (error: null, ...found: unknown[]) => void,
  ) => (all ? done(null, found) : done(null, addresses[0], 4))) as never);
}

/** Ends the server and its connections. Postgres itself goes on, but out of reach. */
async function stopServer(kind: Kind): Promise<void> {
  if (kind === 'supabase') {
    postgrest.process.kill('SIGKILL');
    await once(postgrest.process, 'exit');
  } else {
    proxies.postgres.fail({ on: 'connect', does: 'reset' });
    await database.query(`select pg_terminate_backend(pid) from pg_stat_activity
          where usename = 'gateway_test' and datname = current_database()`);
  }
  await hasNoticed();
}

/** Waits until the store has noticed the end of its connections. */
const hasNoticed = () => waitFor(() => expect(stores[0]?.connections?.().open).toBe(0));

async function startServer(kind: Kind): Promise<void> {
  if (kind === 'postgres') return proxies.postgres.pass();
  postgrest = await startPostgrest(database);
  targets.supabase = toAddress(postgrest.url);
  proxies.supabase.cut(targets.supabase);
}

async function lockTables(): Promise<void> {
  await locker.query('begin; lock table private.academias, private.alunos in access exclusive mode');
}

async function unlockTables(): Promise<void> {
  await locker.query('rollback');
}

/** Waits for the query that is blocked by a lock, and ends it. */
async function endBlockedQueries(how: 'pg_terminate_backend' | 'pg_cancel_backend'): Promise<void> {
  const sql = `select ${how}(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
  await waitFor(async () => expect(await database.query(sql)).toHaveLength(1));
}

/** The code and the message of a cause. */
function textOf(cause: unknown): string {
  // The store supabase has only the text of supabase-js.
  const { code = '', message = cause ?? '' } = Object(cause);
  return `${code} ${message}`;
}

/** The number of students of a name. */
const countStudents = async (nome: string) =>
  (await database.query('select from private.alunos where nome = $1', [nome])).length;

const runs = cases.flatMap((one) =>
  one.stores.flatMap((kind) =>
    (['read', 'create'] as const).map((action) => ({ ...one, kind, action, expected: one[action] })),
  ),
);

test.each(runs)('$kind: $fault: a $action ends with $expected', async (run) => {
  const { kind, action, expected, deadlineMs = LONG_DEADLINE_MS, call = toCall } = run;
  const nome = `Aurora ${randomUUID()}`;
  // The first connection need not come within the deadline, unless the fault is there before it.
  open(kind, { ...run.open, ...(run.cold && { deadlineMs }) });
  if (!run.cold) await serves();

  await run.begin?.(kind);
  const started = performance.now();
  const [{ end, cause }] = await Promise.all([send(call(action, nome), deadlineMs), run.meanwhile?.()]).finally(
    async () => {
      await proxies[kind].pass();
      await run.end?.(kind);
    },
  );
  expect(performance.now() - started).toBeLessThan(inTime(deadlineMs));
  expect(end, textOf(cause)).toBe(expected);
  if (expected.startsWith('store')) expect(textOf(cause)).toMatch(run.cause ?? /\S/);

  await waitFor(serves);
  const sent = proxies[kind].sent(nome);
  expect(sent).toBeLessThanOrEqual(action === 'create' ? 1 : 0);
  expect(await countStudents(nome)).toBeLessThanOrEqual(sent);
});

test('supabase: a server that never takes up TLS does not hold up the end of the store', async () => {
  const options = { key: POSTGREST_KEY, restPath: '/', connections: 1, deadlineMs: LONG_DEADLINE_MS };
  stores.unshift(openSupabase({ url: `https://127.0.0.1:${proxies.supabase.port}`, ...options }));
  proxies.supabase.fail({ on: 'response', does: 'stall' });
  const sent = await Promise.all([1, 2].map(() => send(listGyms(), DEADLINE_MS)));
  expect(sent.map(({ end }) => end)).toEqual(['storeTimeout', 'storeTimeout']);
  const started = performance.now();
  await stores.shift()?.close();
  expect(performance.now() - started).toBeLessThan(inTime(DEADLINE_MS));
  await proxies.supabase.pass();
});
