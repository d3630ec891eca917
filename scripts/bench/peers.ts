// The compared peers: servers with the same API, PostgREST, and Postgres alone.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Environment, findPort, startProduction, waitForAnswer } from '../../test/helpers/process.ts';
import {
  asAdmin,
  createLogins,
  hasPostgrest,
  loginUrl,
  type PostgrestServer,
  startEmbeddedPostgres,
  startPostgrest,
} from '../../test/helpers/servers.ts';
import { type Case, type HttpRequest, toApiRequest, toRpcRequest } from './cases.ts';
import { type Cleanup, createFolder } from './cleanup.ts';
import { load, makeStore, type Size, toKey, toKeys } from './data.ts';
import { type Generated, type Load, runWrk } from './wrk.ts';

/** Titles by peer, in the order of measuring: compared peers are measured shortly after each other. */
export const TITLES = {
  'node-http': 'bare node:http + pg',
  'node-store': 'bare node:http + store',
  'gateway-postgres': 'gateway, postgres store',
  'gateway-workers': 'gateway, 2 workers',
  'gateway-flooded': 'gateway, beside a flooder',
  fastify: 'Fastify + pg, by hand',
  postgrest: 'PostgREST',
  'gateway-supabase': 'gateway, supabase store',
  'gateway-embedded': 'gateway, embedded store',
} as const;

export type PeerId = keyof typeof TITLES;

export const PEERS = Object.keys(TITLES) as readonly PeerId[];

/** An answer in the API's form. */
type Answer = { readonly status: number; readonly body: unknown };

export type Peer = {
  readonly id: PeerId;
  /** The id of the measured process; 0 for several processes, of which only the answers are measured. */
  readonly pid: number;
  /** Sends one request with a key. */
  ask(case_: Case, key: string): Promise<Answer>;
  /** Sends requests with the keys in turn. */
  load(case_: Case, keys: readonly string[], load: Load): Promise<Generated>;
};

/** Running peers, and the version of Postgres. */
type World = { readonly peers: readonly Peer[]; readonly version: string };

type Backends = {
  /** The administrator's URL of the Postgres. */
  readonly adminUrl: string;
  readonly postgrest: PostgrestServer | undefined;
  /** The data folder of the embedded store. */
  readonly dataDir: string;
  /** Arguments of Node for the peers that run in it. */
  readonly nodeArgs: readonly string[];
};

const OVER_POSTGREST: readonly PeerId[] = ['postgrest', 'gateway-supabase'];

/** Database connections of every peer: the gateway's default. */
const CONNECTIONS = '10';

/** The key of an additional client of a tenant. */
const FLOODER = toKey(1_000_000);
const CREATE_FLOODER = `
  insert into private.api_keys (tenant_id, name, key_hash, limits)
  select id, 'Flooder', sha256(convert_to('${FLOODER}', 'UTF8')), '{"per_minute": 1}' from private.tenants limit 1`;

/** Stands for the generated fields of a student. */
const GENERATED = { id: 'generated', criado_em: 'generated' };

/** Starts the databases and the wanted peers, except those that need a missing PostgREST. */
export async function openWorld(
  cleanup: Cleanup,
  { only = PEERS, ...size }: Size & { readonly only?: readonly PeerId[] | undefined },
  nodeArgs: readonly string[] = [],
): Promise<World> {
  const ids = PEERS.filter((id) => only.includes(id) && (hasPostgrest || !OVER_POSTGREST.includes(id)));
  const dataDir = createFolder(cleanup, 'embedded');
  const { adminUrl, stop } = await startEmbeddedPostgres({ max_connections: 100, fsync: 'on' });
  cleanup.defer(stop);
  const version = await asAdmin(adminUrl, async (db) => {
    await load(db, size);
    await createLogins(db);
    return (await db.query('show server_version')).rows[0].server_version;
  });
  if (ids.includes('gateway-embedded')) await makeStore(dataDir, size);
  // PostgREST is configured for speed: it verifies the token once.
  const settings = { PGRST_DB_POOL: CONNECTIONS, PGRST_JWT_CACHE_MAX_LIFETIME: '3600' };
  const isWanted = ids.some((id) => OVER_POSTGREST.includes(id));
  const postgrest = isWanted ? await startPostgrest({ adminUrl }, undefined, settings) : undefined;
  if (postgrest) cleanup.defer(postgrest.stop);
  const peers = await Promise.all(ids.map((id) => openPeer(id, cleanup, { adminUrl, postgrest, dataDir, nodeArgs })));
  return { peers, version };
}

async function openPeer(id: PeerId, cleanup: Cleanup, backends: Backends): Promise<Peer> {
  const { adminUrl, postgrest, dataDir, nodeArgs } = backends;
  const database = { DATABASE_URL: loginUrl(adminUrl, 'gateway_test') };

  const api = async (file: string) => {
    const port = await findPort();
    const child = spawn(process.execPath, [...nodeArgs, join(import.meta.dirname, 'peers', file)], {
      env: {
        PATH: process.env.PATH,
        NODE_ENV: 'production',
        STORE_CONNECTIONS: CONNECTIONS,
        PORT: `${port}`,
        ...database,
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    cleanup.defer(() => void child.kill());
    const origin = `http://127.0.0.1:${port}`;
    await waitForAnswer(origin, child);
    return createPeer({ id, origin, pid: child.pid ?? 0 });
  };
  const gateway = async (env: Environment) => {
    const started = await startProduction({ STORE_CONNECTIONS: CONNECTIONS, ...env }, '.', nodeArgs);
    cleanup.defer(async () => void (await started.stop()));
    return createPeer({ id, ...started });
  };

  switch (id) {
    case 'node-http':
    case 'node-store':
    case 'fastify':
      return api(`${id}.ts`);
    case 'postgrest': {
      const { url: origin = '', process, env } = postgrest ?? {};
      return createPeer({ id, origin, pid: process?.pid ?? 0 }, (case_, key) =>
        toRpcRequest(case_, key, env?.SUPABASE_KEY ?? ''),
      );
    }
    case 'gateway-postgres':
      return gateway(database);
    case 'gateway-workers':
      return { ...(await gateway({ ...database, WORKERS: '2' })), pid: 0 };
    case 'gateway-flooded':
      await asAdmin(adminUrl, (db) => db.query(CREATE_FLOODER));
      return flood(await gateway({ ...database, REFUSALS_PER_MINUTE: '600' }), FLOODER);
    case 'gateway-supabase':
      return gateway(postgrest?.env ?? {});
    case 'gateway-embedded':
      return gateway({ DATA_DIR: dataDir });
  }
}

function createPeer(
  { id, pid, origin }: Pick<Peer, 'id' | 'pid'> & { readonly origin: string },
  toRequest: (case_: Case, key: string) => HttpRequest = toApiRequest,
): Peer {
  return {
    ...{ id, pid },
    ask: async (case_, key) => {
      const { path, ...init } = toRequest(case_, key);
      const res = await fetch(origin + path, init);
      const answer = { status: res.status, body: await res.json() };
      return id === 'postgrest' ? toApiAnswer(case_, answer) : answer;
    },
    load: (case_, keys, load) =>
      runWrk(
        origin,
        keys.map((key) => toRequest(case_, key)),
        load,
      ),
  };
}

/** PostgREST always answers with an array and status 200, or with a Postgres error. */
function toApiAnswer(case_: Case, { status, body }: Answer): Answer {
  if (status !== 200) return { status, body: { error: (body as { message: string }).message } };
  return case_.body ? { status: 201, body: (body as unknown[])[0] } : { status, body };
}

/** Adds the same load from another client, which is not measured. */
function flood(peer: Peer, key: string): Peer {
  return {
    ...peer,
    load: async (case_, keys, load) => {
      const [generated] = await Promise.all([peer.load(case_, keys, load), peer.load(case_, [key], load)]);
      return generated;
    },
  };
}

/** Whether a peer has a case: not all validate, and the flooded gateway delays refusals. */
export function hasCase({ id }: Pick<Peer, 'id'>, { isForValidating = false, isRefused = false }: Case): boolean {
  if (id === 'gateway-flooded') return !isForValidating && !isRefused;
  return !isForValidating || id === 'fastify' || id.startsWith('gateway-');
}

/** Throws unless all peers give the same answer with the expected status, ignoring generated fields. */
export async function checkAgreement(peers: readonly Peer[], case_: Case, tenants: number): Promise<void> {
  const key = toKeys(case_.isRefused, tenants).at(-1) ?? '';
  let first: { readonly id: PeerId; readonly answer: Answer } | undefined;
  for (const peer of peers.filter((peer) => hasCase(peer, case_))) {
    const { status, body } = await peer.ask(case_, key);
    const answer = { status, body: case_.body ? { ...(body as object), ...GENERATED } : body };
    first ??= { id: peer.id, answer };
    if (answer.status === case_.status && isDeepStrictEqual(answer, first.answer)) continue;
    const [expected, found] = [first.answer, answer].map((one) => JSON.stringify(one).slice(0, 300));
    throw new Error(
      `${peer.id}, ${case_.title}: expected ${case_.status}, like ${first.id}: ${expected}; got ${found}`,
    );
  }
}
