// Measures the start and the memory of the embedded store: npm run bench:embedded -- --help

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { readInteger, toPath } from '../../src/admin/arguments.ts';
import { startProduction } from '../../test/helpers/process.ts';
import { LISTS } from './cases.ts';
import { type Cleanup, createFolder, withCleanup } from './cleanup.ts';
import { readFamilyMemory } from './proc.ts';
import { type Spread, toMarkdown, toNumber, toRange, toSpread } from './report.ts';

type Options = { readonly beside?: string; readonly rounds: number };

/** The figures of a round, and the maximum of their medians. */
const GOALS = [
  ['first answer in a new folder, ms', 2_500],
  ['first answer at a later start, ms', 800],
  ['first answer after SIGKILL, ms', undefined],
  ['memory after 20,000 requests, MB', 300],
] as const;
const REQUESTS = 20_000;
const CLIENTS = 32;

const headers = { 'X-Api-Key': 'wms_demo_aurora', 'Content-Type': 'application/json' };
const CREATE = { path: '/alunos', method: 'POST', body: '{"p_nome":"Ana","p_email":"ana@bench.example"}' };
const MIX: readonly { readonly path: string; readonly method?: string; readonly body?: string }[] = [...LISTS, CREATE];

async function ask(origin: string, { path, ...init } = MIX[0] ?? CREATE): Promise<void> {
  const answer = await fetch(`${origin}/v1${path}`, { headers, ...init });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path} is answered with ${answer.status}: ${text}`);
}

async function load(origin: string): Promise<void> {
  let count = 0;
  const work = async () => {
    while (count < REQUESTS) await ask(origin, MIX[count++ % MIX.length]);
  };
  await Promise.all(Array.from({ length: CLIENTS }, work));
}

/** Measures the gateway of a repository. Returns the figures in the order of GOALS. */
async function measure(cleanup: Cleanup, root: string | undefined): Promise<number[]> {
  const dataDir = createFolder(cleanup, 'embedded');
  const start = async () => {
    const begin = performance.now();
    const gateway = await startProduction({ DATA_DIR: join(dataDir, 'store') }, root);
    cleanup.defer(async () => void (await gateway.stop('SIGTERM')));
    await ask(gateway.origin);
    return { ...gateway, duration: performance.now() - begin };
  };
  const fresh = await start();
  await fresh.stop('SIGTERM');
  const later = await start();
  await later.stop('SIGKILL');
  const afterKill = await start();
  await load(afterKill.origin);
  const memory = readFamilyMemory(afterKill.pid) ?? Number.NaN;
  await afterKill.stop('SIGTERM');
  rmSync(dataDir, { recursive: true });
  return [fresh.duration, later.duration, afterKill.duration, memory / 1e6];
}

async function measureAll({ beside, rounds }: Options, cleanup: Cleanup, signal: AbortSignal): Promise<void> {
  const versions = [{ title: 'this version', root: undefined }, ...(beside ? [{ title: beside, root: beside }] : [])];
  const measured = versions.map((): number[][] => []);
  for (let round = 1; round <= rounds; round += 1) {
    for (const [n, { title, root }] of versions.entries()) {
      console.error(`round ${round} of ${rounds}: ${title}`);
      measured[n]?.push(await measure(cleanup, root));
      signal.throwIfAborted();
    }
  }
  const rows = GOALS.map(([name, goal], figure) => {
    const spreads = measured.map((figures) => toSpread(figures.flatMap((values) => values[figure] ?? [])));
    return [name, ...spreads.map((spread) => toRange(spread)), ...toVerdict(spreads[0], goal)];
  });
  console.log(`Medians of ${rounds} rounds, minimum and maximum in parentheses.\n`);
  console.log(toMarkdown(['', ...versions.map(({ title }) => title), 'goal', ''], rows));
}

function toVerdict(spread: Spread | undefined, goal: number | undefined): string[] {
  if (!spread || goal === undefined) return [];
  return [`≤ ${toNumber(goal)}`, spread.median <= goal ? 'met' : 'missed'];
}

const HELP = `
Each round starts the gateway three times and waits for its first answer: in a new folder with new demo data, once more,
and after SIGKILL. Then ${CLIENTS} clients send ${toNumber(REQUESTS)} requests. The memory is that of the gateway and of all
processes of its Postgres; shared memory counts once.

Example, with a checkout of another version and its node_modules:
  npm run bench:embedded -- --beside ../v1

A missed goal is reported and fails nothing.`;

await new Command('npm run bench:embedded --')
  .description('Measures the starts of the embedded store, and its memory.')
  .addHelpText('after', HELP)
  .option('--beside <FOLDER>', 'measure the gateway of this repository too, in turns', toPath)
  .option('--rounds <N>', 'number of rounds', readInteger(1, 100), 9)
  .action((options: Options) => withCleanup((cleanup, signal) => measureAll(options, cleanup, signal)))
  .parseAsync();
