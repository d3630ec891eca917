// What a call costs on a distributed database: npm run bench:citus -- --help

import { distribute } from '../../src/store/migrations.ts';
import { addCitus, startCitus } from '../../test/helpers/citus.ts';
import { type BareDebianPostgres, startBareDebianPostgres } from '../../test/helpers/debian-postgres.ts';
import { type CaseId, findCase } from './cases.ts';
import { createCommand, type Output, readInteger, runCommand, saveResults } from './command.ts';
import { load, type Size, toKey } from './data.ts';
import { createApiPeer, type HttpPeer } from './peer.ts';
import { readCpu, readFamilyCpu } from './process-figures.ts';
import { type Cleanup, startGateway } from './processes.ts';
import { type Place, readPlace, toMarkdown, toNumber, toPlace } from './report.ts';
import { CONNECTIONS, withClient } from './servers.ts';
import { type Spread, toSpread } from './statistics.ts';
import { requireWrk } from './wrk.ts';

/** A gateway before a server, the keys that it is asked with, and the other servers of the cluster. */
type Setup = {
  readonly title: string;
  readonly peer: HttpPeer;
  readonly keys: readonly string[];
  readonly server: BareDebianPostgres;
  readonly others: readonly BareDebianPostgres[];
};

/** Requests per second, and the processor time of a request in µs. */
type Figures = {
  readonly rate: number;
  readonly gateway: number;
  readonly server: number;
  readonly others: number;
};

type Row = { readonly case: CaseId; readonly title: string; readonly figures: readonly Figures[] };

type Results = Place & { readonly rounds: number; readonly seconds: number; readonly rows: readonly Row[] };

type Options = Output & Size & { readonly rounds: number; readonly seconds: number };

const CASES: readonly CaseId[] = ['rows10', 'rows100', 'create'];
/** Concurrent requests. */
const LOAD = 32;
const LOGIN = 'bench_gateway';

/** Starts the servers of a cluster. */
async function startNodes(cleanup: Cleanup, count: number): Promise<readonly BareDebianPostgres[]> {
  const { nodes, stop } = await startCitus(count);
  cleanup.defer(stop);
  return nodes;
}

/** Loads the data into the first server, and distributes it over all of them if they have Citus. */
async function fill(servers: readonly BareDebianPostgres[], size: Size, hasCitus: boolean): Promise<void> {
  const urls = servers.map(({ adminUrl }) => adminUrl);
  await withClient(urls[0] ?? '', async (db) => {
    await load({ query: db.query.bind(db), exec: (sql) => db.query(sql) } as Parameters<typeof load>[0], size);
    // Citus's own functions have to be open to all.
    await db.query('alter default privileges grant execute on functions to public');
    if (hasCitus) {
      await addCitus(urls);
      await db.query(
        `select citus_set_node_property(nodename, nodeport, 'shouldhaveshards', true) from pg_dist_node where $1`,
        [servers.length === 1],
      );
      await distribute(db);
      await db.query('vacuum analyze private.alunos');
    }
    await db.query(`create role ${LOGIN} login noinherit`);
    await db.query(`grant gateway to ${LOGIN}`);
    await db.query(`grant connect on database postgres to ${LOGIN}`);
  });
}

/** The keys of the tenants on the server with this port. */
async function readKeys(url: string, port: string): Promise<string[]> {
  const sql = `
    select t.number
      from (select id, row_number() over (order by created_at) as number from private.tenants) t
     where get_shard_id_for_distribution_column('private.alunos', t.id) in (
       select shardid from citus_shards where nodeport = $1 and table_name = 'private.alunos'::regclass
     )`;
  const { rows } = await withClient(url, (db) => db.query<{ number: string }>(sql, [port]));
  return rows.map(({ number }) => toKey(Number(number)));
}

async function openSetups(cleanup: Cleanup, size: Size): Promise<Setup[]> {
  const plain = await startBareDebianPostgres('postgres', { auth: 'trust' });
  cleanup.defer(plain.stop);
  await fill([plain], size, false);
  const [one] = await startNodes(cleanup, 1);
  const [coordinator, worker, other] = await startNodes(cleanup, 3);
  if (!one || !coordinator || !worker || !other) throw new Error('a server is missing');
  await fill([one], size, true);
  await fill([coordinator, worker, other], size, true);
  const openPeer = async ({ adminUrl }: BareDebianPostgres) => {
    const env = { DATABASE_URL: adminUrl.replace(/\/\/[^@]+@/, `//${LOGIN}@`), STORE_CONNECTIONS: `${CONNECTIONS}` };
    return createApiPeer({
      id: 'gateway-postgres',
      ...(await startGateway(cleanup, { REFUSALS_PER_MINUTE: '0', ...env })),
    });
  };
  const all = Array.from({ length: size.tenants }, (_, n) => toKey(n + 1));
  const keysOf = (server: BareDebianPostgres) => readKeys(coordinator.adminUrl, new URL(server.adminUrl).port);
  const beforeWorker = await openPeer(worker);
  return [
    { title: 'plain Postgres', peer: await openPeer(plain), keys: all, server: plain, others: [] },
    { title: 'a cluster of one node', peer: await openPeer(one), keys: all, server: one, others: [] },
    {
      title: "three nodes, asked at the tenant's",
      peer: beforeWorker,
      keys: await keysOf(worker),
      server: worker,
      others: [coordinator, other],
    },
    {
      title: 'three nodes, asked at another',
      peer: beforeWorker,
      keys: await keysOf(other),
      server: worker,
      others: [coordinator, other],
    },
    {
      title: 'three nodes, asked at the coordinator',
      peer: await openPeer(coordinator),
      keys: all,
      server: coordinator,
      others: [worker, other],
    },
  ];
}

/** Measures once. Throws if a request fails. */
async function measureOnce(setup: Setup, id: CaseId, seconds: number, signal: AbortSignal): Promise<Figures> {
  const { title, peer, keys, server, others } = setup;
  const read = () => [
    readCpu(peer.pid) ?? 0,
    readFamilyCpu(server.pid) ?? 0,
    ...others.map(({ pid }) => readFamilyCpu(pid) ?? 0),
  ];
  const before = read();
  const {
    requests,
    seconds: taken,
    refused,
    failed,
  } = await peer.load(findCase(id), keys, { connections: LOAD, seconds, signal });
  if (requests === 0 || refused + failed > 0)
    throw new Error(`${title}: ${refused} of ${requests} requests were refused and ${failed} had no answer`);
  const [gateway = 0, own = 0, ...rest] = read().map((value, n) => (value - (before[n] ?? 0)) / requests);
  return { rate: requests / taken, gateway, server: own, others: rest.reduce((sum, value) => sum + value, 0) };
}

function toReport({ rounds, seconds, rows, ...place }: Results): string {
  const toCell = (values: readonly number[], toText: (value: number) => string = toNumber) => {
    const { median, min, max } = toSpread(values) as Spread;
    return `${toText(median)} (${toText(min)}–${toText(max)})`;
  };
  const toRatio = (value: number) => value.toFixed(2);
  return [
    '# A distributed database',
    `${toPlace(place)} Each measurement takes ${seconds} s with ${LOAD} connections; medians of ${rounds}, minimum and maximum in parentheses. All
servers, the gateway and the load generator share the processors, so the processor time for each request says more than
the requests per second. It is that of the gateway, of the server that it asks, and of the others together. The ratio is that
of all servers to plain Postgres in the same round.`,
    ...CASES.map((id) => {
      const measured = rows.filter((row) => row.case === id);
      const plain = measured[0]?.figures ?? [];
      const table = measured.map(({ title, figures }) => [
        title,
        toCell(figures.map(({ rate }) => rate)),
        toCell(figures.map(({ gateway }) => gateway)),
        toCell(figures.map(({ server }) => server)),
        toCell(figures.map(({ others }) => others)),
        toCell(
          figures.map(({ server, others }, round) => (server + others) / (plain[round]?.server ?? 0)),
          toRatio,
        ),
      ]);
      return `## ${findCase(id).title}\n\n${toMarkdown(['', 'requests/s', 'gateway µs', 'asked server µs', 'other servers µs', 'ratio'], table)}`;
    }),
  ].join('\n\n');
}

async function measure({ rounds, seconds, ...options }: Options, cleanup: Cleanup, signal: AbortSignal): Promise<void> {
  const wrk = requireWrk();
  console.error(`Loading ${options.tenants} tenants with ${options.students} students each`);
  const setups = await openSetups(cleanup, options);
  const rows: (Row & { figures: Figures[] })[] = [];
  for (const id of CASES) {
    const measured = setups.map((setup) => ({
      setup,
      row: { case: id, title: setup.title, figures: [] as Figures[] },
    }));
    for (let round = 0; round <= rounds; round += 1) {
      console.error(`${findCase(id).title}, ${round === 0 ? 'to warm up' : `round ${round} of ${rounds}`}`);
      for (const { setup, row } of measured) {
        const figures = await measureOnce(setup, id, seconds, signal);
        if (round > 0) row.figures.push(figures);
      }
    }
    rows.push(...measured.map(({ row }) => row));
  }
  const results = { ...readPlace('15 with Citus 13.2', options, wrk), rounds, seconds, rows };
  saveResults('citus', results, toReport(results), options);
}

const HELP = `
It starts Debian's Postgres 15 five times, with the same data: alone, as a cluster of one node
with Citus, and as a coordinator with two workers. It needs Citus in that Postgres, and wrk.

--output writes citus.json and citus.md.`;

await runCommand(
  createCommand('bench:citus', 'Measures what a call costs on a distributed database.', HELP, measure)
    .option('--rounds <N>', 'number of rounds', readInteger(1, 100), 5)
    .option('--seconds <N>', 'length of a measurement', readInteger(1, 600), 2)
    .option('--tenants <N>', 'number of tenants', readInteger(10, 5_000), 100)
    .option('--students <N>', 'students of each tenant', readInteger(1, 1_000_000), 1_000),
);
