import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { askAll } from '../../scripts/bench/agreement.ts';
import { CASES, findCase, toApiRequest } from '../../scripts/bench/cases.ts';
import { toGoalReport, toOutcomes } from '../../scripts/bench/goals.ts';
import { type Measurement, measureAll } from '../../scripts/bench/measure.ts';
import { hasCase, type Peer } from '../../scripts/bench/peer.ts';
import { openWorld } from '../../scripts/bench/peers.ts';
import {
  parseCpu,
  parseMemory,
  readCpu,
  readFamilyMemory,
  readPeakMemory,
} from '../../scripts/bench/process-figures.ts';
import { toPercentile, toSpread } from '../../scripts/bench/statistics.ts';
import { findWrk, parseWrk, toScript } from '../../scripts/bench/wrk.ts';
import { hasPostgrest } from '../helpers/servers.ts';

describe('figures', () => {
  it('are read from the output of wrk', () => {
    const output = `Running 1s test @ http://127.0.0.1:3000
  1 threads and 32 connections
Requests/sec:   6070.00
figures: {"requests":6070,"seconds":1.100000,"p50":4.812000,"p90":9.100000,"p99":12.400000,"refused":0,"failed":2}
`;
    expect(parseWrk(output)).toEqual({
      requests: 6070,
      seconds: 1.1,
      p50: 4.812,
      p90: 9.1,
      p99: 12.4,
      refused: 0,
      failed: 2,
    });
    expect(() => parseWrk('unable to connect')).toThrow('unable to connect');
  });

  it('are read from /proc, whatever the name of the program', () => {
    const stat = '812 (a ) 9 (b) S 1 812 812 0 -1 4194560 9 0 0 0 250 50 60 40 20 0 11 0 5 6 7';
    expect(parseCpu(stat)).toBe(3_000_000);
    const status = 'VmPeak:\t  900 kB\nVmHWM:\t   2048 kB\nVmRSS:\t  512 kB\n';
    expect(parseMemory(status, 'VmHWM')).toBe(2_097_152);
    expect(parseMemory('Name:\tkthreadd\n', 'VmHWM')).toBeUndefined();
  });

  it.skipIf(!existsSync('/proc/self/stat'))('are known of this process', () => {
    expect(readCpu(process.pid)).toBeGreaterThan(0);
    expect(readPeakMemory(process.pid)).toBeGreaterThan(1e6);
    expect(readFamilyMemory(process.pid)).toBeGreaterThan(1e6);
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
    ...{ round, peer, case: 'rows10', connections: 32, rate, cpu, p50: 1, p90: 2, p99: 2 },
  });

  it('is compared with the ratios of the rounds, not with that of the medians', () => {
    const outcomes = toOutcomes([
      ...[measure(1, 'gateway-postgres', 1_200, 130), measure(1, 'node-http', 1_000, 100)],
      ...[measure(2, 'node-http', 500, 200), measure(2, 'gateway-postgres', 600, 300)],
      ...[measure(3, 'gateway-postgres', 80, 150), measure(3, 'node-http', 100, 100)],
    ]);
    expect(outcomes).toMatchObject([
      { than: 'node-http', figure: 'p99', measured: { median: 1, min: 1, max: 1 }, isMet: true },
      { than: 'node-http', figure: 'rate', measured: { median: 1.2, min: 0.8, max: 1.2 }, isMet: true },
      { than: 'node-http', figure: 'cpu', measured: { median: 1.5, min: 1.3, max: 1.5 }, isMet: false },
    ]);
  });

  it('that is missed has its reason in the report, once for all figures that share it', () => {
    const rounds = [1, 2].flatMap((round) => [
      measure(round, 'gateway-postgres', 900, 150),
      measure(round, 'node-http', 1_000, 100),
    ]);
    const [, reasons] = toGoalReport(toOutcomes(rounds)).split('Why goals are missed:\n\n');
    expect(reasons).toMatch(/^- gateway, postgres store \/ bare node:http \+ pg: The bare server checks, .*$/);
    const met = rounds.map((one) => ({ ...one, rate: 1_000, cpu: 100 }));
    expect(toGoalReport(toOutcomes(met))).not.toContain('Why');
  });
});

it('the script for wrk has each request as it goes over the wire', () => {
  const [line = ''] = toScript('127.0.0.1:80', [toApiRequest(findCase('create'), 'k"1')])
    .split('\n')
    .slice(1);
  expect(line).toMatch(/^ {2}"POST \/v1\/alunos HTTP\/1\.1\\r\\nHost: 127\.0\.0\.1:80\\r\\nX-Api-Key: k\\"1\\r\\n/);
  expect(line).toMatch(/Content-Length: \d+\\r\\n\\r\\n\{\\"p_nome\\":\\"L\\\\u00edgia Prado\\",.*\}",$/);
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
    expect(count).toBeGreaterThanOrEqual(4);
    const [, rows] = /^rows(\d+)$/.exec(case_.id) ?? [];
    if (rows) expect(first?.body).toHaveLength(Number(rows));
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
