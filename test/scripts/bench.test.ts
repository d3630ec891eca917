import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { askAll } from '../../scripts/bench/agreement.ts';
import { CASES, findCase, toApiRequest } from '../../scripts/bench/cases.ts';
import { toKey } from '../../scripts/bench/data.ts';
import { FLOODS, measureFairness, toFairnessReport } from '../../scripts/bench/fairness.ts';
import { toOutcomes } from '../../scripts/bench/goals.ts';
import { type Measurement, measureAll } from '../../scripts/bench/measure.ts';
import { type MemoryResults, measureMemory, toMemoryReport } from '../../scripts/bench/memory.ts';
import { type HttpPeer, hasCase, type Peer } from '../../scripts/bench/peer.ts';
import { openWorld } from '../../scripts/bench/peers.ts';
import { parseCpu, parseMemory, readCpu, readPeakMemory } from '../../scripts/bench/process-figures.ts';
import { readPlace } from '../../scripts/bench/report.ts';
import { toPercentile, toSpread } from '../../scripts/bench/statistics.ts';
import { findWrk, parseWrk, toScript } from '../../scripts/bench/wrk.ts';
import { hasPostgrest } from '../helpers/servers.ts';

describe('figures', () => {
  it('are read from the output of wrk', () => {
    const output = `Running 1s test @ http://127.0.0.1:3000
  1 threads and 32 connections
Requests/sec:   6070.00
figures: {"requests":6070,"seconds":1.100000,"p50":4.812000,"p99":12.400000,"refused":0,"failed":2}
`;
    expect(parseWrk(output)).toEqual({ requests: 6070, seconds: 1.1, p50: 4.812, p99: 12.4, refused: 0, failed: 2 });
    expect(() => parseWrk('unable to connect')).toThrow('unable to connect');
  });

  it('are read from /proc, whatever the name of the program', () => {
    const stat = '812 (a ) 9 (b) S 1 812 812 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 11 0 5 6 7';
    expect(parseCpu(stat)).toBe(3_000_000);
    const status = 'VmPeak:\t  900 kB\nVmHWM:\t   2048 kB\nVmRSS:\t  512 kB\n';
    expect([parseMemory(status, 'VmHWM'), parseMemory(status, 'VmRSS')]).toEqual([2_097_152, 524_288]);
    expect(parseMemory('Name:\tkthreadd\n', 'VmRSS')).toBeUndefined();
  });

  it.skipIf(!existsSync('/proc/self/stat'))('are known of this process', () => {
    expect(readCpu(process.pid)).toBeGreaterThan(0);
    expect(readPeakMemory(process.pid)).toBeGreaterThan(1e6);
  });

  it('have a median, a minimum and a maximum', () => {
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

  it('is compared with the ratios of the rounds, not with that of the medians', () => {
    const outcomes = toOutcomes([
      ...[measure(1, 'gateway-postgres', 1_200, 130), measure(1, 'node-http', 1_000, 100)],
      ...[measure(2, 'node-http', 500, 200), measure(2, 'gateway-postgres', 600, 300)],
      ...[measure(3, 'gateway-postgres', 80, 150), measure(3, 'node-http', 100, 100)],
    ]);
    expect(outcomes).toMatchObject([
      { than: 'node-http', figure: 'rate', measured: { median: 1.2, min: 0.8, max: 1.2 }, isMet: true },
      { than: 'node-http', figure: 'cpu', measured: { median: 1.5, min: 1.3, max: 1.5 }, isMet: false },
    ]);
  });
});

it('fairness is reported with its goals: no failure, and three times the p99 alone plus one expensive list', () => {
  const alone = { requests: 2_000, failures: 0, p50: 1, p99: 4 };
  const rows = [
    { flood: 'met', alone, during: { requests: 900, failures: 0, p50: 5, p99: 22 }, rate: 210, refused: 0.205 },
    { flood: 'late', alone, during: { requests: 900, failures: 0, p50: 5, p99: 23 }, rate: 210, refused: 0 },
    { flood: 'failed', alone, during: { requests: 900, failures: 1, p50: 5, p99: 22 }, rate: 210, refused: 0 },
  ];
  const report = toFairnessReport({
    ...readPlace('18.1', { tenants: 2, students: 100_000 }, 'wrk 4.1.0'),
    ...{ seconds: 30, rows: [{ peer: 'gateway-postgres', expensiveMs: 10, floods: rows }] },
  });
  expect(report.match(/^\| (met|late|failed) .*[dt] \|$/gm)).toEqual([
    '| met    |       210 |      20.5 % |       1.00 | 4.00 |              900 |      0 | 5.00 | 22.0 | ≤ 22.0 |    met |',
    '| late   |       210 |       0.0 % |       1.00 | 4.00 |              900 |      0 | 5.00 | 23.0 | ≤ 22.0 | missed |',
    '| failed |       210 |       0.0 % |       1.00 | 4.00 |              900 |      1 | 5.00 | 22.0 | ≤ 22.0 | missed |',
  ]);
});

it('the script for wrk has each request as it goes over the wire', () => {
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
    'is read in ten pauses, and before, at and after four loads',
    async () => {
      const { port } = server.address() as AddressInfo;
      const peer = { id: 'gateway-postgres', title: 'gateway', pid: process.pid, origin: `http://127.0.0.1:${port}` };
      const run = async () => ({ requests: 100, seconds: 1, p50: 1, p99: 2, refused: 0, failed: 0 });
      const asked: string[] = [];
      const ask: Peer['ask'] = async (case_, key) => {
        asked.push(key);
        return { status: case_.status, body: [] };
      };
      const plan = { tenants: 2, requests: 1_000, seconds: 1, largeRows: 20, quietMs: 0 };
      const context = { signal: new AbortController().signal, log: () => {} };
      const row = await measureMemory({ ...peer, run, ask } as unknown as HttpPeer, plan, context);
      expect(asked).toEqual(Array(20).fill(toKey(3)));
      expect(row.samples.map(({ requests }) => requests)).toEqual(Array.from({ length: 10 }, (_, n) => 100 * (n + 1)));
      expect(row.bursts.map(({ load }) => load)).toEqual([
        'largest rows, read slowly',
        'read at once',
        'read slowly',
        '20 at once, read slowly',
      ]);
      const figures = [
        ...row.samples.map(({ memory }) => memory),
        ...row.bursts.flatMap((one) => [one.before, one.peak]),
      ];
      for (const figure of figures) expect(figure).toBeGreaterThan(1e6);
    },
  );

  it('is reported with its growth and its goals', () => {
    const samples = [100e6, ...Array(8).fill(103e6), 106e6].map((memory, n) => ({
      requests: 20_000 * (n + 1),
      memory,
    }));
    const burst = { before: 106e6, peak: 250e6, after: 120e6 };
    const largest = { ...burst, load: 'largest rows, read slowly' };
    const rows: MemoryResults['rows'] = [
      { peer: 'gateway-embedded', samples, bursts: [{ ...burst, load: 'read slowly' }] },
      { peer: 'gateway-postgres', samples, bursts: [largest, { ...largest, peak: 400e6 }] },
    ];
    const report = toMemoryReport({
      ...readPlace('18.1', { tenants: 10, students: 2_000 }, 'wrk 4.1.0'),
      ...{ requests: 200_000, seconds: 30, rows },
    });
    expect(report).toContain('| 200,000  |                     106 |');
    expect(report).toContain('| growth   |           6.0 %, missed |');
    expect(report).toMatch(/^\| gateway, embedded store, read slowly +\| +106 \| +250 \| +120 \| +\|$/m);
    expect(report).toContain('largest rows, read slowly |    106 |  250 |              120 |    met |');
    expect(report).toContain('largest rows, read slowly |    106 |  400 |              120 | missed |');
  });
});

describe.skipIf(!hasPostgrest || !inject('isLong'))('the peers', () => {
  const cleanup = new AsyncDisposableStack();
  const size = { tenants: 3, students: 1_200 };
  let peers: readonly Peer[] = [];

  beforeAll(async () => {
    ({ peers } = await openWorld(cleanup, size));
  }, 120_000);
  afterAll(() => cleanup.disposeAsync());

  it.each(CASES)('give the same answer: $title', async (case_) => {
    const answers = await askAll(peers, case_, size.tenants);
    const [first] = answers.values();
    expect(first?.status).toBe(case_.status);
    expect(Object.fromEntries(answers)).toEqual(Object.fromEntries([...answers.keys()].map((peer) => [peer, first])));
    const count = peers.filter((peer) => hasCase(peer, case_)).length;
    expect(answers.size).toBe(count);
    expect(count).toBeGreaterThanOrEqual(5);
  });

  it.each([
    ['rows10', 10],
    ['rows100', 100],
    ['rows1000', 1_000],
  ] as const)('%s has %i rows', async (id, count) => {
    const answers = await askAll(peers.slice(0, 1), findCase(id), size.tenants);
    expect([...answers.values()][0]?.body).toHaveLength(count);
  });

  it.skipIf(!findWrk())('answer one client while others flood the gateway', async () => {
    const floods = FLOODS.map(({ title, keys, depth }) => ({
      ...{ title, keys: keys.slice(0, 10), connections: 5, depth: Math.min(depth, 4) },
    }));
    const plan = { floods, students: size.students, requests: 20, seconds: 2, restMs: 0 };
    const gateway = peers.find(({ id }) => id === 'gateway-postgres') as Peer;
    const row = await measureFairness(gateway, plan, { signal: new AbortController().signal, log: () => {} });
    expect(row.expensiveMs).toBeGreaterThan(0);
    expect(row.floods.map(({ flood }) => flood)).toEqual(FLOODS.map(({ title }) => title));
    for (const { alone, during, rate } of row.floods) {
      expect(alone).toMatchObject({ requests: 20, failures: 0 });
      expect(during).toMatchObject({ failures: 0 });
      expect(during.p99).toBeGreaterThanOrEqual(during.p50);
      expect(rate).toBeGreaterThan(0);
    }
    expect(row.floods.map(({ refused }) => refused > 0.9)).toEqual([false, true, false]);
  });

  it.skipIf(!findWrk())('are measured one after the other, over HTTP and without', async () => {
    const wanted = peers.filter(({ id }) => id === 'pgbench' || id === 'node-http');
    const plan = { ...size, cases: [findCase('rows10')], connections: [2], rounds: 1, seconds: 1 };
    const measurements = await measureAll(wanted, plan, new AbortController().signal, () => {});
    expect(measurements.map(({ peer }) => peer)).toEqual(wanted.map(({ id }) => id));
    for (const { rate, p50, p99 } of measurements) {
      expect(rate).toBeGreaterThan(0);
      expect(p99).toBeGreaterThanOrEqual(p50);
    }
  });
});
