// Starts the peers, and the servers that they need.

import { join } from 'node:path';
import { type Size, toKey } from './data.ts';
import { createApiPeer, createRpcPeer, flood, PEERS, type Peer, type PeerId } from './peer.ts';
import { createPgbenchPeer, hasPgbench } from './pgbench.ts';
import {
  type Cleanup,
  createFolder,
  type Environment,
  findPort,
  startGateway,
  startProcess,
  waitForAnswer,
} from './processes.ts';
import {
  CONNECTIONS,
  findPostgrest,
  makeStore,
  type Postgres,
  type Postgrest,
  startPostgres,
  startPostgrest,
  withClient,
} from './servers.ts';

const OVER_POSTGREST: readonly PeerId[] = ['postgrest', 'gateway-supabase'];

/** The key of one more client of a tenant. */
const FLOODER = toKey(1_000_000);
const CREATE_FLOODER = `
  insert into private.api_keys (tenant_id, name, key_hash, limits)
  select id, 'Flooder', sha256(convert_to('${FLOODER}', 'UTF8')), '{"per_minute": 1}' from private.tenants limit 1`;

/** Running peers, and the Postgres behind most of them. */
type World = { readonly peers: readonly Peer[]; readonly postgres: Postgres };

type Backends = {
  readonly postgres: Postgres;
  readonly postgrest: Postgrest | undefined;
  /** The data folder of the embedded store. */
  readonly dataDir: string;
};

/** All peers by default. */
type Wanted = { readonly only?: readonly PeerId[] | undefined };

/** Refused keys are a case: by default the gateway delays refusals after the first ones. */
const WITHOUT_DELAY: Environment = { REFUSALS_PER_MINUTE: '0' };

/** Starts servers with the data and the wanted peers, but for those that need a PostgREST or a pgbench that is not there. */
export async function openWorld(cleanup: Cleanup, { only = PEERS, ...size }: Size & Wanted): Promise<World> {
  const program = findPostgrest();
  const isThere = (id: PeerId) => (id === 'pgbench' ? hasPgbench() : Boolean(program) || !OVER_POSTGREST.includes(id));
  const ids = PEERS.filter((id) => only.includes(id) && isThere(id));
  const dataDir = createFolder(cleanup, 'embedded');
  const [postgres] = await Promise.all([
    startPostgres(cleanup, size),
    ids.includes('gateway-embedded') ? makeStore(dataDir, size) : undefined,
  ]);
  const isWanted = ids.some((id) => OVER_POSTGREST.includes(id));
  const postgrest = program && isWanted ? await startPostgrest(cleanup, program, postgres) : undefined;
  const backends = { postgres, postgrest, dataDir };
  const peers = await Promise.all(ids.map((id) => openPeer(id, cleanup, backends)));
  return { peers, postgres };
}

async function openPeer(id: PeerId, cleanup: Cleanup, backends: Backends): Promise<Peer> {
  const { postgres, postgrest, dataDir } = backends;
  const database = { DATABASE_URL: postgres.url('bench_gateway') };
  const { origin = '', token = '', pid = 0 } = postgrest ?? {};
  const supabase = { SUPABASE_URL: origin, SUPABASE_KEY: token, SUPABASE_REST_PATH: '/' };

  const api = async () => {
    const port = await findPort();
    const child = startProcess(cleanup, process.execPath, [join(import.meta.dirname, `peers/${id}.ts`)], {
      ...{ NODE_ENV: 'production', STORE_CONNECTIONS: `${CONNECTIONS}`, PORT: `${port}` },
      ...database,
    });
    const origin = `http://127.0.0.1:${port}`;
    await waitForAnswer(origin, child);
    return createApiPeer({ id, origin, pid: child.pid ?? 0 });
  };
  const gateway = async (env: Environment) => {
    const settings = { STORE_CONNECTIONS: `${CONNECTIONS}`, ...WITHOUT_DELAY, ...env };
    return createApiPeer({ id, ...(await startGateway(cleanup, settings)) });
  };

  switch (id) {
    case 'pgbench':
      return createPgbenchPeer(postgres);
    case 'node-http':
    case 'fastify':
      return api();
    case 'postgrest':
      return createRpcPeer({ id, origin, pid }, token);
    case 'gateway-postgres':
      return gateway(database);
    case 'gateway-flooded':
      await withClient(postgres.url('postgres'), (db) => db.query(CREATE_FLOODER));
      return flood(await gateway({ ...database, REFUSALS_PER_MINUTE: '600' }), FLOODER);
    case 'gateway-supabase':
      return gateway(supabase);
    case 'gateway-embedded':
      return gateway({ DATA_DIR: dataDir });
  }
}
