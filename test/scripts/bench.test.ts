import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askAll } from '../../scripts/bench/agreement.ts';
import { ATTACKED_TENANTS, measureAttacks, PATIENT } from '../../scripts/bench/attacks.ts';
import { parseAutocannon } from '../../scripts/bench/autocannon.ts';
import { CASES, findCase, toApiRequest } from '../../scripts/bench/cases.ts';
import { createCleanup } from '../../scripts/bench/cleanup.ts';
import { toKey } from '../../scripts/bench/data.ts';
import { FLOODS, measureFairness } from '../../scripts/bench/fairness.ts';
import { toFairnessReport } from '../../scripts/bench/fairness-report.ts';
import { createGenerator } from '../../scripts/bench/generator.ts';
import { toOutcomes } from '../../scripts/bench/goals.ts';
import { measureMemory } from '../../scripts/bench/memory.ts';
import { type MemoryResults, toMemoryReport } from '../../scripts/bench/memory-report.ts';
import type { Peer } from '../../scripts/bench/peer.ts';
import { openWorld, type World } from '../../scripts/bench/peers.ts';
import {
  parseCpu,
  parseMemory,
  parsePeakMemory,
  readCpu,
  readFamily,
  readPeakMemory,
} from '../../scripts/bench/process-figures.ts';
import { readPlace } from '../../scripts/bench/results.ts';
import { type Measurement, measureAll } from '../../scripts/bench/run.ts';
import { toPercentile, toSpread } from '../../scripts/bench/statistics.ts';
import { parseWrk, toScript } from '../../scripts/bench/wrk.ts';
import { hasPostgrest } from '../helpers/servers.ts';

describe('figures', () => {
  it('are read from what wrk prints at its end', () => {
    const output = `Running 1s test @ http://127.0.0.1:3000
  1 threads and 32 connections
Requests/sec:   6070.00
figures: {"requests":6070,"seconds":1.100000,"p50":4.812000,"p99":12.400000,"refused":0,"failed":2}
`;
    expect(parseWrk(output)).toEqual({ requests: 6070, seconds: 1.1, p50: 4.812, p99: 12.4, refused: 0, failed: 2 });
    expect(() => parseWrk('unable to connect')).toThrow('unable to connect');
  });

  it('are read from the result of autocannon', () => {
    const result = {
      ...{ duration: 2.01, errors: 1, requests: { total: 900 }, latency: { p50: 3, p99: 9 } },
      statusCodeStats: { '200': { count: 880 }, '401': { count: 15 }, '502': { count: 5 } },
    } as unknown as Parameters<typeof parseAutocannon>[0];
    expect(parseAutocannon(result)).toEqual({ requests: 900, seconds: 2.01, p50: 3, p99: 9, refused: 20, failed: 1 });
  });

  it('are read from /proc, whatever the name of the program', () => {
    const stat = '812 (a ) 9 (b) S 1 812 812 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 11 0 5 6 7';
    expect(parseCpu(stat)).toBe(3_000_000);
    const status = 'VmPeak:\t  900 kB\nVmHWM:\t   2048 kB\nVmRSS:\t  512 kB\n';
    expect([parsePeakMemory(status), parseMemory(status)]).toEqual([2_097_152, 524_288]);
    expect(parsePeakMemory('Name:\tkthreadd\n')).toBeUndefined();
  });

  it.skipIf(!existsSync('/proc/self/stat'))('of this process are known', () => {
    expect(readCpu(process.pid)).toBeGreaterThan(0);
    expect(readPeakMemory(process.pid)).toBeGreaterThan(1e6);
  });

  it.skipIf(!existsSync('/proc/self/stat'))('are those of a process and of all that it has started', async () => {
    const script = `const child = require('child_process').spawn('sleep', ['60']);
      process.on('SIGTERM', () => process.exit(child.kill() ? 0 : 1)); console.log(child.pid);`;
    const parent = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = await once(parent.stdout, 'data');
    const pid = Number(parent.pid);
    const child = Number(line);
    expect(readFamily(pid)).toEqual([pid, child]);
    expect(readPeakMemory(pid)).toBeGreaterThan(readPeakMemory(child) ?? Number.NaN);
    expect(readCpu(pid)).toBeGreaterThan(0);
    parent.kill();
    expect(await once(parent, 'exit')).toEqual([0, null]);
    expect(readCpu(pid)).toBeUndefined();
  });

  it('have a median, a least and a most', () => {
    expect(toSpread([5, 1, 3])).toEqual({ median: 3, min: 1, max: 5 });
    expect(toSpread([4, 1, 2, 10])).toEqual({ median: 3, min: 1, max: 10 });
    expect(toSpread([])).toBeUndefined();
  });

  it('have percentiles by the nearest rank', () => {
    const hundred = Array.from({ length: 100 }, (_, n) => n + 1);
    expect([toPercentile(hundred, 0.5), toPercentile(hundred, 0.99), toPercentile([7], 0.5)]).toEqual([50, 99, 7]);
  });
});

describe('a goal', () => {
  const measure = (round: number, peer: Measurement['peer'], rate: number, cpu: number): Measurement => ({
    ...{ round, peer, case: 'rows10', connections: 32, rate, cpu, p50: 1, p99: 2 },
  });

  it('is held against the ratios of the rounds, and not against that of the medians', () => {
    const outcomes = toOutcomes([
      ...[measure(1, 'gateway-postgres', 900, 130), measure(1, 'node-http', 1_000, 100)],
      ...[measure(2, 'node-http', 500, 200), measure(2, 'gateway-postgres', 450, 300)],
      ...[measure(3, 'gateway-postgres', 80, 150), measure(3, 'node-http', 100, 100)],
    ]);
    expect(outcomes).toMatchObject([
      { than: 'node-http', figure: 'rate', measured: { median: 0.9, min: 0.8, max: 0.9 }, isMet: true },
      { than: 'node-http', figure: 'cpu', measured: { median: 1.5, min: 1.3, max: 1.5 }, isMet: false },
    ]);
  });
});

it('fairness is told with its goals: no failure, and three times the p99 alone plus one expensive list', () => {
  const alone = { requests: 2_000, failures: 0, p50: 1, p99: 4 };
  const rows = [
    { flood: 'met', alone, during: { requests: 900, failures: 0, p50: 5, p99: 22 }, rate: 210, refused: 0.205 },
    { flood: 'late', alone, during: { requests: 900, failures: 0, p50: 5, p99: 23 }, rate: 210, refused: 0 },
    { flood: 'failed', alone, during: { requests: 900, failures: 1, p50: 5, p99: 22 }, rate: 210, refused: 0 },
  ];
  const report = toFairnessReport({
    ...readPlace('18.1', 'wrk 4.1.0', { tenants: 2, students: 100_000 }),
    ...{ seconds: 30, rows: [{ peer: 'gateway-postgres', expensiveMs: 10, floods: rows }] },
  });
  expect(report.match(/^\| (met|late|failed) .*[dt] \|$/gm)).toEqual([
    '| met    |           2,000 | 1.00 | 4.00 |              900 |      0 | 5.00 | 22.0 | ≤ 22.0 |    met |',
    '| late   |           2,000 | 1.00 | 4.00 |              900 |      0 | 5.00 | 23.0 | ≤ 22.0 | missed |',
    '| failed |           2,000 | 1.00 | 4.00 |              900 |      1 | 5.00 | 22.0 | ≤ 22.0 | missed |',
  ]);
  expect(report).toContain('| met    |       210 |               20.5 % |');
});

it('the script of wrk has each request as it goes over the wire', () => {
  const [line = ''] = toScript('127.0.0.1:80', [toApiRequest(findCase('create'), 'k"1')])
    .split('\n')
    .slice(1);
  expect(line).toMatch(/^ {2}"POST \/v1\/alunos HTTP\/1\.1\\r\\nHost: 127\.0\.0\.1:80\\r\\nX-Api-Key: k\\"1\\r\\n/);
  expect(line).toMatch(/Content-Length: \d+\\r\\n\\r\\n\{\\"p_nome\\":\\"L\\\\u00edgia Prado\\",.*\}",$/);
});

describe('the memory of a gateway', () => {
  const server = createServer((_req, res) => res.end('[]'));
  beforeAll(() => once(server.listen(0, '127.0.0.1'), 'listening'));
  afterAll(() => server.close());

  it.skipIf(!existsSync('/proc/self/status'))(
    'is read in ten pauses, and before, at and after three loads',
    async () => {
      const { port } = server.address() as AddressInfo;
      const peer = { id: 'gateway-postgres', title: 'gateway', pid: process.pid, origin: `http://127.0.0.1:${port}` };
      const run = async () => ({ requests: 100, seconds: 1, p50: 1, p99: 2, refused: 0, failed: 0 });
      const plan = { tenants: 2, requests: 1_000, seconds: 1, quietMs: 0 };
      const row = await measureMemory(peer as Peer, plan, {
        ...{ generator: { name: 'none', run }, signal: new AbortController().signal, tell: () => {} },
      });
      expect(row.samples.map(({ requests }) => requests)).toEqual(Array.from({ length: 10 }, (_, n) => 100 * (n + 1)));
      expect(row.bursts.map(({ load }) => load)).toEqual(['read at once', 'read slowly', '20 at once, read slowly']);
      const figures = [
        ...row.samples.map(({ memory }) => memory),
        ...row.bursts.flatMap((one) => [one.before, one.peak]),
      ];
      for (const figure of figures) expect(figure).toBeGreaterThan(1e6);
    },
  );

  it('is told with its growth', () => {
    const samples = [100e6, ...Array(8).fill(103e6), 106e6].map((memory, n) => ({
      requests: 20_000 * (n + 1),
      memory,
    }));
    const bursts = [{ load: 'read slowly', before: 106e6, peak: 250e6, after: 120e6 }];
    const attacks = [399e6, 400e6].map((peak, n) => ({
      ...{ load: `list ${n}`, before: 106e6, peak, after: 120e6, statuses: { '200': 1_000, none: 2 } },
    }));
    const rows: MemoryResults['rows'] = [
      { peer: 'gateway-embedded', samples, bursts, attacks: [] },
      { peer: 'gateway-postgres', samples, bursts, attacks },
    ];
    const report = toMemoryReport({
      ...readPlace('18.1', 'wrk 4.1.0', { tenants: 10, students: 2_000 }),
      ...{ requests: 200_000, seconds: 30, rows },
    });
    expect(report).toContain('| 200,000  |                     106 |');
    expect(report).toContain('| growth   |           6.0 %, missed |');
    expect(report).toContain('| gateway, embedded store, read slowly |    106 |  250 |              120 |');
    expect(report).toContain('list 0 |    106 |  399 |              120 | 1,000 × 200, 2 × none |    met |');
    expect(report).toContain('list 1 |    106 |  400 |              120 | 1,000 × 200, 2 × none | missed |');
  });
});

describe.skipIf(!hasPostgrest)('the peers', () => {
  const cleanup = createCleanup();
  const size = { tenants: ATTACKED_TENANTS, students: 1_200 };
  let peers: readonly Peer[] = [];
  let world: World;

  beforeAll(async () => {
    world = await openWorld(cleanup, createGenerator(cleanup, 'autocannon'), size);
    ({ peers } = world);
  }, 120_000);
  afterAll(() => cleanup.close());

  it.each(CASES)('answer the same: $title', async (case_) => {
    const answers = await askAll(peers, case_, size.tenants);
    const [first] = answers.values();
    expect(first?.status).toBe(case_.status);
    expect(Object.fromEntries(answers)).toEqual(Object.fromEntries([...answers.keys()].map((peer) => [peer, first])));
    expect(answers.size).toBe(case_.isForValidating ? 7 : 11);
  });

  it.each([
    ['rows10', 10],
    ['rows100', 100],
    ['rows1000', 1_000],
    ['search', 4],
  ] as const)('%s has %i rows', async (id, count) => {
    const answers = await askAll(peers.slice(0, 1), findCase(id), size.tenants);
    expect([...answers.values()][0]?.body).toHaveLength(count);
  });

  it('answer one client while others flood the gateway', async () => {
    const floods = FLOODS.map(({ title, keys, depth }) => ({
      ...{ title, keys: keys.slice(0, 10), connections: 5, depth: Math.min(depth, 4) },
    }));
    const plan = { floods, students: size.students, requests: 20, seconds: 2, restMs: 0 };
    const gateway = peers.find(({ id }) => id === 'gateway-postgres') as Peer;
    const row = await measureFairness(gateway, plan, { signal: new AbortController().signal, tell: () => {} });
    expect(row.expensiveMs).toBeGreaterThan(0);
    expect(row.floods.map(({ flood }) => flood)).toEqual(FLOODS.map(({ title }) => title));
    for (const { alone, during, rate } of row.floods) {
      expect(alone).toMatchObject({ requests: 20, failures: 0 });
      expect(during).toMatchObject({ failures: 0 });
      expect(during.p99).toBeGreaterThanOrEqual(during.p50);
      expect(rate).toBeGreaterThan(0);
    }
    // autocannon may count an answer, and no longer its status, at the end.
    expect(row.floods.map(({ refused }) => refused > 0.9)).toEqual([false, true, false]);
  });

  it('are measured one after the other, over HTTP and without', async () => {
    const wanted = peers.filter(({ id }) => id === 'postgres-loop' || id === 'node-http');
    const plan = { ...size, cases: [findCase('refused')], connections: [2], rounds: 1, seconds: 1 };
    const measurements = await measureAll(wanted, plan, new AbortController().signal, () => {});
    expect(measurements.map(({ peer }) => peer)).toEqual(['postgres-loop', 'node-http']);
    for (const { rate, p50, p99 } of measurements) {
      expect(rate).toBeGreaterThan(0);
      expect(p99).toBeGreaterThanOrEqual(p50);
    }
  });

  it('answer long lists to clients that do not read them, while the memory is read', async () => {
    const plan = { size, rows: 20, letters: 2_000, silentMs: 100, quietMs: 0 };
    const gateway = await world.openAgain('gateway-postgres', PATIENT);
    const attacks = await measureAttacks(gateway, plan, {
      ...{ database: world.postgres.url('postgres'), signal: new AbortController().signal, tell: () => {} },
    });
    const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((all, one) => all + one, 0);
    expect(attacks.map(({ statuses }) => sum(statuses))).toEqual([20, 6, 32, 6, 32, 200]);
    expect(attacks.map(({ statuses }) => statuses.none)).toEqual(Array(6).fill(undefined));
    const list = { ...findCase('rows1000'), query: { limit: '1000', offset: `${size.students}` } };
    const [stored, largest] = await Promise.all([2, 3].map((tenant) => gateway.ask(list, toKey(tenant))));
    expect(stored?.body).toEqual(Array(20).fill(expect.objectContaining({ nome: 'Ana' })));
    expect(stored?.body).toHaveProperty('0.email.length', 2_000);
    const longest = { nome: expect.stringMatching(/^.{255}$/), email: expect.stringMatching(/^.{254}$/) };
    expect(largest?.body).toContainEqual(expect.objectContaining(longest));
  });
});
