// Measures the processor time of each layer of the gateway: npm run bench:layers -- --help

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Command, Option } from 'commander';
import { readInteger } from '../../src/admin/arguments.ts';
import { CASES, type CaseId, findCase } from './cases.ts';
import { type Cleanup, createFolder, withCleanup } from './cleanup.ts';
import { toKeys } from './data.ts';
import { measure } from './measure.ts';
import { checkAgreement, openWorld, type Peer, TITLES } from './peers.ts';
import { toMarkdown, toPlace, toRange, toSpread } from './report.ts';
import { LAYERS, NATIVE, NODE, toShares } from './shares.ts';
import { requireWrk } from './wrk.ts';

type Options = { readonly case: CaseId; readonly rounds: number; readonly seconds: number };

const SIZE = { tenants: 20, students: 1_000 };
const CONNECTIONS = 32;
const WHOLE = 'user and system';
/** Requests before the first measurement, until the JavaScript is compiled. */
const WARM_UP = 10_000;

async function profile({ pid }: Peer, file: string, load: () => Promise<unknown>): Promise<Map<string, number>> {
  process.kill(pid, 'SIGUSR2');
  await load();
  process.kill(pid, 'SIGUSR2');
  while (!existsSync(file)) await delay(50);
  const shares = toShares(JSON.parse(readFileSync(file, 'utf8')));
  rmSync(file);
  return shares;
}

async function measureLayers({ rounds, seconds, ...options }: Options, cleanup: Cleanup, signal: AbortSignal) {
  const wrk = requireWrk();
  const case_ = findCase(options.case);
  const keys = toKeys(case_.isRefused, SIZE.tenants);
  const file = join(createFolder(cleanup, 'layers'), 'profile.json');
  const profiler = `${pathToFileURL(join(import.meta.dirname, 'profiler.ts'))}?to=${encodeURIComponent(file)}`;
  const bare = case_.isForValidating ? 'fastify' : 'node-store';
  const only = [bare, 'gateway-postgres'] as const;
  const { peers, version } = await openWorld(cleanup, { ...SIZE, only }, ['--import', profiler]);
  await checkAgreement(peers, case_, SIZE.tenants);
  const load = (peer: Peer) => peer.load(case_, keys, { connections: CONNECTIONS, seconds, signal });
  for (const peer of peers) {
    for (let sent = 0; sent < WARM_UP; ) sent += (await load(peer)).requests;
  }

  /** The processor time of each layer in all rounds, by peer. */
  const times = peers.map((): Map<string, number[]> => new Map());
  for (let round = 1; round <= rounds; round += 1) {
    for (const [n, peer] of peers.entries()) {
      console.error(`round ${round} of ${rounds}: ${TITLES[peer.id]}`);
      const step = { round, case: case_, connections: CONNECTIONS };
      const { cpu = { user: Number.NaN, system: Number.NaN } } = await measure(peer, step, () => load(peer));
      const whole = cpu.user + cpu.system;
      for (const [layer, share] of new Map([[WHOLE, 1], ...(await profile(peer, file, () => load(peer)))])) {
        times[n]?.set(layer, [...(times[n].get(layer) ?? []), share * whole]);
      }
      signal.throwIfAborted();
    }
  }

  const names = new Set(times.flatMap((values) => [...values.keys()]));
  const order = new Set([WHOLE, ...LAYERS.map(([layer]) => layer), NODE, ...Object.values(NATIVE)]);
  const rows = [...order.intersection(names), ...names.difference(order)].map((name) => [
    name,
    ...times.map((values) => toRange(toSpread(values.get(name) ?? []))),
  ]);
  console.log(`${toPlace([`Postgres ${version}`, wrk], SIZE)} A measurement takes ${seconds} s.
Processor time of a ${case_.title} in µs with ${CONNECTIONS} connections, user and system, medians of ${rounds} rounds, minimum and
maximum in parentheses. A profile shows the parts of the layers.\n`);
  console.log(toMarkdown(['', ...peers.map(({ id }) => TITLES[id])], rows));
}

const HELP = `
It measures the store behind a bare node:http server (for invalid requests, Fastify) and the whole gateway, one after the other. A
profile divides their time into layers. Processor time varies less than throughput on a busy machine. It needs Linux, and wrk
(Debian: apt-get install wrk).`;

await new Command('npm run bench:layers --')
  .description("Measures the processor time of each of the gateway's layers.")
  .addHelpText('after', HELP)
  .addOption(new Option('--case <CASE>', 'the requests').choices(CASES.map(({ id }) => id)).default('rows10'))
  .option('--rounds <N>', 'number of rounds', readInteger(1, 100), 5)
  .option('--seconds <N>', 'length of a measurement', readInteger(1, 600), 3)
  .action((options: Options) => withCleanup((cleanup, signal) => measureLayers(options, cleanup, signal)))
  .parseAsync();
