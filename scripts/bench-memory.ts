// Watches the gateway's memory while it works long, and while clients want much: npm run bench:memory -- --help

import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Command, Option } from 'commander';
import { ATTACK, ATTACKED_TENANTS, measureAttacks, PATIENT } from './bench/attacks.ts';
import { type Cleanup, withCleanup } from './bench/cleanup.ts';
import { createGenerator } from './bench/generator.ts';
import { type MemoryPlan, measureMemory, QUIET_MS } from './bench/memory.ts';
import { type MemoryResults, toMemoryReport } from './bench/memory-report.ts';
import type { PeerId } from './bench/peer.ts';
import { openWorld } from './bench/peers.ts';
import { readInteger, runProgram, toOutput } from './bench/program.ts';
import { readPlace, writeResults } from './bench/results.ts';

/** What the command line says. */
type Options = Pick<MemoryPlan, 'requests' | 'seconds'> & {
  readonly only?: readonly Store[];
  readonly attacks: readonly (typeof ATTACKABLE)[number][];
  readonly output?: string;
};
type Store = (typeof STORES)[number];

const STORES = ['postgres', 'supabase', 'embedded'] as const;
const TENANTS = 10;
const SIZE = { tenants: TENANTS + ATTACKED_TENANTS, students: 2_000 };
const REQUESTS = 200_000;
const SECONDS = 30;
/** The embedded store's database is open to its gateway alone, and cannot be given rows beside it. */
const ATTACKABLE = ['postgres', 'supabase'] as const;
const ATTACKED: Options['attacks'] = ['postgres'];
const STORED = join(import.meta.dirname, 'bench/results');

const HELP = `
It starts the servers of npm run bench with less data, and the gateway on each store as a
process of its own. Each works off a mix of requests at 32 connections, and its resident
memory is read in ten pauses. Then 200 connections ask for lists of 1,000 rows. On the stores
of --attacks a client stores the largest rows it can in a gateway of its own, and does not read
the lists it asks for.

The results go to scripts/bench/results (memory.json, memory.md) where all is measured, or
to the folder that --output names. A goal that is missed fails nothing.

Exit codes: 0 measured; 1 a server does not start, or a gateway does not answer; 2 wrong usage.`;

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<MemoryResults> {
  const generator = createGenerator(cleanup);
  const only = (options.only ?? STORES).map((store): PeerId => `gateway-${store}`);
  const { peers, postgres, openAgain } = await openWorld(cleanup, generator, { ...SIZE, only });
  const rows = [];
  const { requests, seconds } = options;
  const plan = { tenants: TENANTS, requests, seconds, quietMs: QUIET_MS };
  const attackPlan = { ...ATTACK, size: SIZE, quietMs: QUIET_MS };
  const measuring = { signal, tell: console.error, database: postgres.url('postgres') };
  for (const peer of peers) {
    const row = await measureMemory(peer, plan, { generator, ...measuring });
    const isAttacked = options.attacks.some((store) => peer.id === `gateway-${store}`);
    // A new process: how much one takes at rest depends on what it has done before.
    const attacked = isAttacked ? await openAgain(peer.id, PATIENT) : undefined;
    rows.push({ ...row, attacks: attacked ? await measureAttacks(attacked, attackPlan, measuring) : [] });
  }
  return { ...readPlace(postgres.version, generator.name, SIZE), requests, seconds, rows };
}

function tell(results: MemoryResults, { output, only, attacks, requests, seconds }: Options): void {
  const isWhole = !only && isDeepStrictEqual(attacks, ATTACKED) && requests === REQUESTS && seconds === SECONDS;
  const folder = output ?? (isWhole ? STORED : undefined);
  const report = toMemoryReport(results);
  console.log(report);
  if (folder) writeResults(folder, 'memory', results, report);
}

await runProgram(
  new Command('npm run bench:memory --')
    .description("Watches the gateway's memory while it works long, and while clients want much at once.")
    .exitOverride()
    .option('--requests <N>', 'how many requests each gateway works off', readInteger(10, 100_000_000), REQUESTS)
    .option('--seconds <N>', 'how long each load of long lists lasts', readInteger(1, 3_600), SECONDS)
    .addOption(new Option('--only <STORE...>', 'only these stores').choices(STORES))
    .addOption(new Option('--attacks <STORE...>', 'on these stores').choices(ATTACKABLE).default(ATTACKED, 'postgres'))
    .addOption(toOutput(process.env))
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      tell(await withCleanup((cleanup, signal) => measure(options, cleanup, signal)), options);
    }),
);
