// Measures what one client notices of others who flood the gateway: npm run bench:fairness -- --help

import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Command, Option } from 'commander';
import { type Cleanup, withCleanup } from './bench/cleanup.ts';
import { FLOODS, measureFairness, REST_MS } from './bench/fairness.ts';
import { type FairnessResults, toFairnessReport } from './bench/fairness-report.ts';
import { createGenerator } from './bench/generator.ts';
import type { PeerId } from './bench/peer.ts';
import { openWorld } from './bench/peers.ts';
import { readInteger, runProgram, toOutput } from './bench/program.ts';
import { readPlace, writeResults } from './bench/results.ts';

/** What the command line says. */
type Options = {
  readonly seconds: number;
  readonly students: number;
  readonly stores: readonly (typeof STORES)[number][];
  readonly output?: string;
};

const STORES = ['postgres', 'supabase', 'embedded'] as const;
/** What a run is of whose results are kept. */
const WHOLE = { seconds: 30, students: 100_000, stores: ['postgres'] } as const;
/** Of the client and of the flood. */
const TENANTS = 2;
/** How many requests the client makes alone. */
const REQUESTS = 2_000;
const STORED = join(import.meta.dirname, 'bench/results');

const HELP = `
It starts a Postgres 18 from npm with two large tenants, and the gateway as a process of its own
with its default configuration. A client of one tenant asks for lists of 10 on one connection,
alone and during three floods of lists of 1,000, which come from wrk, so that has to be installed:

${FLOODS.map(({ title }) => `  ${title}`).join('\n')}

The results go to scripts/bench/results (fairness.json, fairness.md) where all is measured with
all of the data, or to the folder that --output names. A goal that is missed fails nothing.

Exit codes: 0 measured; 1 a server does not start, or a gateway does not answer; 2 wrong usage.`;

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<FairnessResults> {
  const { seconds, students, stores } = options;
  const size = { tenants: TENANTS, students };
  // autocannon takes more of the processors than the gateway, and makes every request anew for each connection.
  const generator = createGenerator(cleanup, 'wrk');
  const only = stores.map((store): PeerId => `gateway-${store}`);
  console.error(`Loading ${TENANTS} tenants with ${students} students each`);
  const { peers, postgres } = await openWorld(cleanup, generator, { ...size, only, env: {} });
  const plan = { floods: FLOODS, students, requests: REQUESTS, seconds, restMs: REST_MS };
  const rows = [];
  for (const peer of peers) rows.push(await measureFairness(peer, plan, { signal, tell: console.error }));
  return { ...readPlace(postgres.version, generator.name, size), seconds, rows };
}

function tell(results: FairnessResults, { output, ...options }: Options): void {
  const folder = output ?? (isDeepStrictEqual(options, WHOLE) ? STORED : undefined);
  const report = toFairnessReport(results);
  console.log(report);
  if (folder) writeResults(folder, 'fairness', results, report);
}

await runProgram(
  new Command('npm run bench:fairness --')
    .description('Measures what one client notices of others who flood the gateway.')
    .exitOverride()
    .option('--seconds <N>', 'how long each flood lasts', readInteger(2, 3_600), WHOLE.seconds)
    .option('--students <N>', 'how many students each tenant has', readInteger(1_000, 1_000_000), WHOLE.students)
    .addOption(new Option('--stores <STORE...>', 'on these stores').choices(STORES).default(WHOLE.stores, 'postgres'))
    .addOption(toOutput(process.env))
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      tell(await withCleanup((cleanup, signal) => measure(options, cleanup, signal)), options);
    }),
);
