import { randomUUID } from 'node:crypto';
import dns from 'node:dns';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { OpenAPIV3 } from 'openapi-types';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import type { Failure } from '../../src/errors.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { type LimitedStore, limited } from '../../src/store/turns.ts';
import { document, KEYS } from '../helpers/api.ts';
import { useDatabase } from '../helpers/database.ts';
import { type Address, type FaultProxy, type ProxyFault, startFaultProxy, toAddress } from '../helpers/fault-proxy.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { loginUrl, POSTGREST_KEY, type PostgrestServer, startPostgrest } from '../helpers/servers.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Everything that a store, or the network before it, can do wrong: what a read and a create are answered then, that
// it comes in time without a text of the store, that a create is sent at most once, and that the gateway serves again by itself when
// the fault is over. "In the body" is after the first bytes of a row; a fault that begins with a status is an answer of a Data API.

const DEADLINE_MS = 200;
/** The deadline where something else is to come first, on a busy machine too. */
const LONG_DEADLINE_MS = 5_000;
/** A deadline, with headroom for a busy machine. */
const inTime = (deadlineMs: number) => deadlineMs * 1.1 + 2_000;
/** What no client may read, and what one may where SQL refuses it. */
const STORE_TEXT = 'texto do banco';

/** Raises what it is told to. */
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
const PATHS = parse(`
/falhar:
  get:
    operationId: lerFalha
    x-rpc: falhar
    parameters:
      - { name: codigo, in: query, required: true, schema: { type: string } }
      - { name: campo, in: query, schema: { type: string } }
    responses:
      '200': { description: None, content: { application/json: { schema: { type: array, items: {} } } } }
  post:
    operationId: criarFalha
    x-rpc: falhar
    requestBody:
      required: true
      content:
        application/json:
          schema:
            type: object
            additionalProperties: false
            required: [p_codigo]
            properties: { p_codigo: { type: string }, p_campo: { type: string }, p_nome: { type: string } }
    responses:
      '201': { description: None, content: { application/json: { schema: { type: object } } } }
`) as OpenAPIV3.PathsObject;

type Kind = 'postgres' | 'supabase';
type Action = 'read' | 'create';

const gyms = document.paths['/academias']?.get?.responses['200'] as OpenAPIV3.ResponseObject;
const GYMS = (gyms.content?.['application/json']?.examples?.all as OpenAPIV3.ExampleObject | undefined)?.value;
const STUDENT = { email: 'ana@aurora.example', ativo: true, academia_id: null };

/** The whole body of each end of a request, for a student of this name, and the kind of a failure. */
const ENDS = {
  '200': { body: () => GYMS },
  '200 []': { body: () => [] },
  '201': { body: (nome: string) => ({ ...STUDENT, id: expect.any(String), nome, criado_em: expect.any(String) }) },
  '401 its text': { body: () => ({ error: STORE_TEXT }) },
  '422 on its field': { body: () => ({ error: { p_nome: [STORE_TEXT] } }) },
  '502 Data store unavailable': { body: () => ({ error: 'Data store unavailable' }), fault: 'storeUnavailable' },
  '502 Data store timeout': { body: () => ({ error: 'Data store timeout' }), fault: 'storeTimeout' },
  '502 Data store error': { body: () => ({ error: 'Data store error' }), fault: 'storeError' },
} satisfies Record<string, { body: (nome: string) => unknown; fault?: Failure['kind'] }>;
type Expected = keyof typeof ENDS;

const UNAVAILABLE = '502 Data store unavailable';
const TIMEOUT = '502 Data store timeout';
const ERROR = '502 Data store error';
const REFUSED = '401 its text';
const INVALID = '422 on its field';

type OpenOptions = { readonly host?: string; readonly secret?: string; readonly deadlineMs?: number };
type Request = { readonly path: string; readonly json?: object };

type Case = {
  readonly fault: string;
  readonly stores: readonly Kind[];
  readonly read: Expected;
  readonly create: Expected;
  /** Matches the cause that is logged. */
  readonly cause?: RegExp;
  readonly deadlineMs?: number;
  /** Whether nothing was connected when the fault began; otherwise a read was answered before. */
  readonly cold?: boolean;
  readonly open?: OpenOptions;
  /** What is asked for, where it is not the gyms or a new student. */
  readonly request?: (action: Action, nome: string) => Request;
  /** Lets the fault begin. */
  readonly begin?: (kind: Kind) => unknown;
  /** What happens while the request is under way. */
  readonly meanwhile?: () => Promise<unknown>;
  /** Ends what the proxy does not. */
  readonly end?: (kind: Kind) => unknown;
};

const BOTH = ['postgres', 'supabase'] as const;

/** A fault that the proxy makes. */
function network(fault: string, does: ProxyFault, rest: Pick<Case, 'read' | 'create'> & Partial<Case>): Case {
  return { fault, stores: BOTH, begin: (kind) => proxies[kind].fail(does), ...rest };
}

/** A password or key that the store refuses. */
function wrongSecret(fault: string, kind: Kind, cause: RegExp): Case {
  const refused = { read: ERROR, create: ERROR, cause } as const;
  return { fault, stores: [kind], ...refused, cold: true, open: { secret: 'wrong' }, end: () => open(kind) };
}

/** An error that SQL raises. */
function raised(codigo: string, both: Expected, campo?: string): Case {
  const query = new URLSearchParams({ codigo, ...(campo ? { campo } : {}) });
  return {
    fault: `SQL raises ${codigo}${campo ? ` with detail \`${campo.replace(STORE_TEXT, '…')}\`` : ''}`,
    stores: BOTH,
    read: both,
    create: both,
    cause: new RegExp(`^${codigo} ${STORE_TEXT}$`),
    request: (action, p_nome) =>
      action === 'read'
        ? { path: `/falhar?${query}` }
        : { path: '/falhar', json: { p_codigo: codigo, p_nome, ...(campo ? { p_campo: campo } : {}) } },
  };
}

type Reply = { readonly status: number; readonly body: string; readonly length?: number };

/** What comes in place of a Data API's answer. */
function reply(fault: string, reply: Reply, read: Expected, create: Expected = read): Case {
  return {
    fault,
    stores: ['supabase'],
    read,
    create,
    begin: () => {
      scripted = reply;
      proxies.supabase.cut({ host: '127.0.0.1', port: (script.address() as AddressInfo).port });
    },
    end: () => proxies.supabase.cut(targets.supabase),
  };
}

/** PostgREST's form of an error. */
function postgrestError(status: number, code: string, expected: Expected): Case {
  const body = JSON.stringify({ code, details: null, hint: null, message: STORE_TEXT });
  return reply(`${status} with ${code}`, { status, body }, expected);
}

const PAGE = `<html><body>${STORE_TEXT}</body></html>`;
const TRUNCATED = `[{"id":"a1000000-0000-4000-8000-000000000001","nome":"${STORE_TEXT}`;
/** What stands in every row, on either store's wire. */
const ROW = 'Aurora';
const LOST = /ECONNRESET|closed|terminated/;

const TOO_LATE: Pick<Case, 'read' | 'create' | 'cause' | 'deadlineMs'> = {
  read: TIMEOUT,
  create: TIMEOUT,
  cause: new RegExp(`no answer within ${DEADLINE_MS} ms`),
  deadlineMs: DEADLINE_MS,
};

/** There is no connection, or it is lost: each time, or once, which a read survives. */
const BROKEN = { read: UNAVAILABLE, create: UNAVAILABLE, cause: LOST } as const;
const BROKEN_ONCE = { ...BROKEN, read: '200' } as const;

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
    read: '200',
    create: '201',
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
    read: TIMEOUT,
    create: TIMEOUT,
    cause: /57014/,
    begin: lockTables,
    meanwhile: () => endBlockedQueries('pg_cancel_backend'),
    end: unlockTables,
  },
  { fault: 'tables locked', stores: BOTH, ...TOO_LATE, begin: lockTables, end: unlockTables },
  wrongSecret('wrong password', 'postgres', /28P01/),
  wrongSecret('wrong key', 'supabase', /PGRST301/),

  raised('42501', ERROR),
  raised('57014', TIMEOUT),
  raised('53300', UNAVAILABLE),
  raised('XX000', ERROR),
  raised('PT422', ERROR),
  raised('PT422', INVALID, 'p_nome'),
  raised('PT422', INVALID, `{"p_nome": ["${STORE_TEXT}"]}`),
  raised('PT422', ERROR, '{"p_nome": 1}'),
  raised('PT422', ERROR, '{'),
  raised('PT401', REFUSED),
  raised('P0001', REFUSED),

  reply('truncated JSON', { status: 200, body: TRUNCATED }, ERROR),
  reply('JSON shorter than its length', { status: 200, body: TRUNCATED, length: 1_000 }, UNAVAILABLE),
  reply('JSON longer than its length', { status: 200, body: TRUNCATED, length: 20 }, ERROR),
  reply('200 with HTML', { status: 200, body: PAGE }, ERROR),
  reply('200 with nothing', { status: 200, body: '' }, ERROR),
  reply('200 with `{}`', { status: 200, body: '{}' }, ERROR),
  reply('200 with `[1]`', { status: 200, body: '[1]' }, ERROR),
  reply('200 with `null`', { status: 200, body: 'null' }, ERROR),
  reply('200 with `[]`', { status: 200, body: '[]' }, '200 []', ERROR),
  reply('204 with nothing', { status: 204, body: '' }, ERROR),
  reply('302 with nothing', { status: 302, body: '' }, ERROR),
  reply('404 with `[]`', { status: 404, body: '[]' }, ERROR),
  reply('500 with nothing', { status: 500, body: '' }, ERROR),
  reply('500 with `null`', { status: 500, body: 'null' }, ERROR),
  reply('502 with HTML', { status: 502, body: PAGE }, ERROR),
  reply('401 with no code', { status: 401, body: JSON.stringify({ message: STORE_TEXT }) }, ERROR),
  postgrestError(404, 'PGRST202', ERROR),
  postgrestError(401, 'PGRST301', ERROR),
  postgrestError(503, 'PGRST000', UNAVAILABLE),
  postgrestError(500, 'PT401', REFUSED),
];

const database = useDatabase(SQL);
let postgrest: PostgrestServer;
let script: Server;
let scripted: Reply;
let locker: pg.Client;
let targets: Record<Kind, Address>;
let proxies: Record<Kind, FaultProxy>;
/** By the deadline of their calls. */
const gateways = new Map<number, TestGateway>();
let stores: Store[] = [];
/** How the requests that have called the store have ended, as it is recorded. */
let ended: (string | number)[] = [];

/** The store that was opened last, which has its own turns. */
const newest: LimitedStore = {
  ...limited(createStubStore(), { slots: 1, waiting: 0 }),
  call: (call, signal) => (stores[0] as Store).call(call, signal),
};

beforeAll(async () => {
  postgrest = await startPostgrest(database);
  targets = { postgres: toAddress(database.adminUrl), supabase: toAddress(postgrest.url) };
  proxies = { postgres: await startFaultProxy(targets.postgres), supabase: await startFaultProxy(targets.supabase) };
  for (const deadlineMs of [DEADLINE_MS, LONG_DEADLINE_MS]) {
    const gateway = await startGateway({
      store: newest,
      document: { ...document, paths: { ...document.paths, ...PATHS } },
      deadlineMs,
      onEnd: ({ fault, status, storeMs }) => storeMs !== undefined && ended.push(fault?.kind ?? status),
    });
    gateways.set(deadlineMs, gateway);
  }
  locker = new pg.Client(database.adminUrl);
  await locker.connect();
  script = createServer((req, res) => {
    const { status, body, length = Buffer.byteLength(body) } = scripted;
    req.resume().on('end', () => {
      res.writeHead(status, {
        'content-type': 'application/json',
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
  for (const { faults } of gateways.values()) faults.length = 0;
  vi.restoreAllMocks();
});

afterAll(async () => {
  for (const gateway of gateways.values()) await gateway.close();
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
  return openPostgres({ url: url.href, prepare: true, ...options });
}

/** Opens the store that the next requests go to. */
function open(kind: Kind, options: OpenOptions = {}): void {
  stores.unshift(limited(openStore(kind, options), { slots: 4, waiting: 100 }));
}

function toRequest(action: Action, p_nome: string): Request {
  if (action === 'read') return { path: '/academias' };
  return { path: '/alunos', json: { p_nome, p_email: 'ana@aurora.example' } };
}

async function send(
  { path, json }: Request,
  deadlineMs = LONG_DEADLINE_MS,
): Promise<{ status: number; body: unknown; ms: number }> {
  const { url = '' } = gateways.get(deadlineMs) ?? {};
  const headers = { 'X-Api-Key': KEYS.aurora };
  const started = performance.now();
  const answer = await fetch(url + path, json ? { headers, method: 'POST', body: JSON.stringify(json) } : { headers });
  return { status: answer.status, body: await answer.json(), ms: performance.now() - started };
}

const serves = async () => expect((await send({ path: '/academias' })).body).toEqual(GYMS);

/** Lets every name be that of these addresses. */
function resolveTo(...addresses: string[]): void {
  const found = addresses.map((address) => ({ address, family: 4 }));
  vi.spyOn(dns, 'lookup').mockImplementation(((
    _name: string,
    { all }: dns.LookupOptions,
    done: (error: null, ...found: unknown[]) => void,
  ) => (all ? done(null, found) : done(null, addresses[0], 4))) as never);
}

/** The end of the server and of its connections: Postgres itself goes on, but out of reach. */
async function stopServer(kind: Kind): Promise<void> {
  if (kind === 'supabase') {
    postgrest.process.kill('SIGKILL');
    await once(postgrest.process, 'exit');
  } else {
    proxies.postgres.fail({ on: 'connect', does: 'reset' });
    await database.query(`select pg_terminate_backend(pid) from pg_stat_activity
          where usename = 'gateway_test' and datname = current_database()`);
  }
  await waitFor(() => expect(proxies[kind].connections()).toBe(0));
}

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

/** Waits for the query that waits for a lock, and ends it. */
async function endBlockedQueries(how: 'pg_terminate_backend' | 'pg_cancel_backend'): Promise<void> {
  const sql = `select ${how}(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
  await waitFor(async () => expect(await database.query(sql)).toHaveLength(1));
}

/** What a person reads of a cause in the log, wherever it was caught. */
function textOf(cause: unknown): string {
  if (typeof cause === 'string') return cause.replace(/^\w*Error: /, '');
  const { code = '', message = '' } = cause as { code?: string; message?: string };
  return `${code} ${message}`;
}

/** How many students of a name there are. */
const countStudents = async (nome: string) =>
  (await database.query('select from private.alunos where nome = $1', [nome])).length;

const runs = cases.flatMap((one) =>
  one.stores.flatMap((kind) =>
    (['read', 'create'] as const).map((action) => ({ ...one, kind, action, expected: one[action] })),
  ),
);

test.each(runs)('$kind: $fault: a $action is answered with $expected', async (run) => {
  const { kind, action, expected, deadlineMs = LONG_DEADLINE_MS } = run;
  const nome = `Aurora ${randomUUID()}`;
  const { request = toRequest } = run;
  // The first connection is not what has to come within the deadline, unless the fault is there before it.
  open(kind, { ...run.open, ...(run.cold && { deadlineMs }) });
  ended = [];
  if (!run.cold) await serves();
  await waitFor(() => expect(ended.length > 0).toBe(!run.cold));

  await run.begin?.(kind);
  ended = [];
  const [answer] = await Promise.all([send(request(action, nome), deadlineMs), run.meanwhile?.()]).finally(async () => {
    await proxies[kind].pass();
    await run.end?.(kind);
  });

  const { body, fault } = { fault: undefined, ...ENDS[expected] };
  expect(answer.body).toEqual(body(nome));
  expect(answer.status).toBe(Number(expected.slice(0, 3)));
  expect(answer.ms).toBeLessThan(inTime(deadlineMs));
  // A request is recorded after its answer.
  await waitFor(() => expect(ended).toEqual([fault ?? answer.status]));
  const faults = gateways.get(deadlineMs)?.faults ?? [];
  expect(faults).toMatchObject(fault ? [{ kind: fault }] : []);
  for (const { cause } of faults) expect(textOf(cause)).toMatch(run.cause ?? /\S/);

  await waitFor(serves);
  const sent = proxies[kind].sent(nome);
  expect(sent).toBeLessThanOrEqual(action === 'create' ? 1 : 0);
  expect(await countStudents(nome)).toBeLessThanOrEqual(sent);
});
