// Those that are compared, in the order in which they are measured: whom a goal compares stand close to each other.

import { join } from 'node:path';
import { type Environment, startScript } from './child.ts';
import type { Cleanup } from './cleanup.ts';
import type { Size } from './data.ts';
import { makeFolders } from './embedded.ts';
import { GATEWAY_ARGS } from './gateway.ts';
import type { Generator } from './generator.ts';
import { openApi, openRpc } from './http-peer.ts';
import { openLoop } from './loop-peer.ts';
import type { Peer, PeerId } from './peer.ts';
import {
  CONNECTIONS,
  findPort,
  findPostgrest,
  type Postgres,
  type Postgrest,
  startPostgres,
  startPostgrest,
  waitForAnswer,
} from './servers.ts';

/** What the tables call them. */
export const TITLES: Readonly<Record<PeerId, string>> = {
  'postgres-loop': 'Postgres alone, no HTTP',
  'node-http': 'bare node:http + pg',
  'gateway-postgres': 'gateway, postgres store',
  'gateway-silent': 'gateway, postgres, no log',
  'gateway-workers': 'gateway, postgres, 2 workers',
  fastify: 'Fastify + pg, by hand',
  postgrest: 'PostgREST',
  'gateway-supabase': 'gateway, supabase store',
  'gateway-fetch': 'gateway, default fetch',
  'gateway-embedded': 'gateway, embedded store',
  'pglite-loop': 'PGlite alone, no HTTP',
};

export const PEERS = Object.keys(TITLES) as readonly PeerId[];

const OVER_POSTGREST: readonly PeerId[] = ['postgrest', 'gateway-supabase', 'gateway-fetch'];
const EMBEDDED: readonly PeerId[] = ['gateway-embedded', 'pglite-loop'];

/** Peers that run, and the Postgres behind most of them. */
export type World = {
  readonly peers: readonly Peer[];
  readonly postgres: Postgres;
  /** Starts one more process of a peer that has no Postgres of its own. */
  openAgain(id: PeerId, env: Environment): Promise<Peer>;
};

type Backends = {
  readonly postgres: Postgres;
  readonly postgrest: Postgrest | undefined;
  /** The folder of each peer that has its own Postgres. */
  readonly folders: ReadonlyMap<PeerId, string>;
  /** The environment of the gateways beside their store. */
  readonly env: Environment;
};

/** Which peers are wanted, all unless told, and the environment of the gateways beside their store. */
type Wanted = { readonly only?: readonly PeerId[] | undefined; readonly env?: Environment };

/** Refused keys are a case of the benchmark, and by default only the first ones would be answered at once. */
const REFUSING_AT_ONCE: Environment = { REFUSALS_PER_MINUTE: '0' };

/** Starts servers with the data, and the peers that are asked for and that this platform has. */
export async function openWorld(
  cleanup: Cleanup,
  generator: Generator,
  { only = PEERS, env = REFUSING_AT_ONCE, ...size }: Size & Wanted,
): Promise<World> {
  const program = findPostgrest();
  const ids = PEERS.filter((id) => only.includes(id) && (program || !OVER_POSTGREST.includes(id)));
  const embedded = ids.filter((id) => EMBEDDED.includes(id));
  const [postgres, folders] = await Promise.all([
    startPostgres(cleanup, size),
    makeFolders(cleanup, size, embedded.length),
  ]);
  const isWanted = ids.some((id) => OVER_POSTGREST.includes(id));
  const postgrest = program && isWanted ? await startPostgrest(cleanup, program, postgres) : undefined;
  const backends = { postgres, postgrest, folders: new Map(embedded.map((id, n) => [id, folders[n] ?? ''])), env };
  const peers = await Promise.all(ids.map((id) => openPeer(id, cleanup, generator, backends)));
  return { peers, postgres, openAgain: async (id, env) => openPeer(id, cleanup, generator, { ...backends, env }) };
}

function openPeer(id: PeerId, cleanup: Cleanup, generator: Generator, backends: Backends): Peer | Promise<Peer> {
  const { postgres, postgrest, folders } = backends;
  const title = TITLES[id];
  const database = { DATABASE_URL: postgres.url('bench_gateway') };
  const supabase = {
    SUPABASE_URL: postgrest?.url ?? '',
    SUPABASE_KEY: postgrest?.token ?? '',
    SUPABASE_REST_PATH: '/',
  };
  const folder = { DATA_DIR: folders.get(id) ?? '' };

  const loop = (env: Environment) =>
    openLoop({ id, title }, startScript(cleanup, [toPath(id)], { env: toEnv(env), hasChannel: true }));
  const api = async (args: readonly string[], env: Environment, ready = '', validates = true) => {
    const port = await findPort();
    const child = startScript(cleanup, args, { env: { ...toEnv(env), PORT: `${port}` }, hasChannel: !ready });
    const origin = `http://127.0.0.1:${port}`;
    await waitForAnswer(origin + ready, child);
    return openApi({ id, title, pid: child.pid ?? 0, validates }, origin, generator);
  };
  const gateway = (env: Environment, args: readonly string[] = []) =>
    api([...args, ...GATEWAY_ARGS], { LOG_FORMAT: 'json', ...backends.env, ...env }, '/readyz');

  switch (id) {
    case 'postgres-loop':
      return loop(database);
    case 'pglite-loop':
      return loop(folder);
    case 'node-http':
      return api([toPath(id)], database, '', false);
    case 'fastify':
      return api([toPath(id)], database);
    case 'postgrest':
      return openRpc(
        { id, title, pid: postgrest?.pid ?? 0, validates: false },
        supabase.SUPABASE_URL,
        generator,
        supabase.SUPABASE_KEY,
      );
    case 'gateway-postgres':
      return gateway(database);
    case 'gateway-silent':
      return gateway({ ...database, LOG_LEVEL: 'silent' });
    case 'gateway-workers':
      return gateway({ ...database, WORKERS: '2' });
    case 'gateway-supabase':
      return gateway(supabase);
    case 'gateway-fetch':
      return gateway(supabase, ['--import', toPath('default-fetch')]);
    case 'gateway-embedded':
      return gateway(folder);
  }
}

function toEnv(env: Environment): Environment {
  return { NODE_ENV: 'production', STORE_CONNECTIONS: `${CONNECTIONS}`, ...env };
}

function toPath(name: string): string {
  return join(import.meta.dirname, `peers/${name}.ts`);
}
