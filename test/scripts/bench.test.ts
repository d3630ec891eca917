import { existsSync, readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { findCase, toApiRequest } from '../../scripts/bench/cases.ts';
import { toRounds } from '../../scripts/bench/comparison.ts';
import type { Measurement } from '../../scripts/bench/measure.ts';
import { parseCpu, parseMemory, readCpu, readFamilyMemory } from '../../scripts/bench/proc.ts';
import { toSpread } from '../../scripts/bench/report.ts';
import { LAYERS, toShares } from '../../scripts/bench/shares.ts';
import { parseWrk, toScript } from '../../scripts/bench/wrk.ts';

it('reads the figures of wrk', () => {
  const figures = { requests: 6070, seconds: 1.1, p50: 4.812, p90: 9.1, p99: 12.4, refused: 0, failed: 2 };
  const output = `Running 1s test @ http://127.0.0.1:3000\nRequests/sec:   6070.00\nfigures: ${JSON.stringify(figures)}\n`;
  expect(parseWrk(output)).toEqual(figures);
  expect(() => parseWrk('unable to connect')).toThrow('unable to connect');
});

it('reads /proc, whatever the name of the program', () => {
  const stat = '812 (a ) 9 (b) S 1 812 812 0 -1 4194560 9 0 0 0 250 50 60 40 20 0 11 0 5 6 7';
  expect(parseCpu(stat)).toEqual({ user: 2_500_000, system: 500_000 });
  expect(parseMemory('Rss:   900 kB\nPss:   2048 kB\nPss_Anon:   512 kB\n', 'Pss')).toBe(2_097_152);
  expect(parseMemory('', 'Pss')).toBeUndefined();
  if (!existsSync('/proc/self/stat')) return;
  expect(readCpu(process.pid)?.user).toBeGreaterThan(0);
  expect(readFamilyMemory(process.pid)).toBeGreaterThan(1e6);
});

it('takes the median, the minimum and the maximum', () => {
  expect(toSpread([5, 1, 3])).toEqual({ median: 3, min: 1, max: 5 });
  expect(toSpread([4, 1, 2, 10])).toEqual({ median: 3, min: 1, max: 10 });
  expect(toSpread([])).toBeUndefined();
});

it('compares the figures of one round', () => {
  const measure = (round: number, peer: Measurement['peer'], rate: number, system: number): Measurement => ({
    ...{ round, peer, case: 'rows10', connections: 32, rate, p50: 1, p90: 2, p99: 2, cpu: { user: 100, system } },
  });
  const measurements = [
    ...[measure(1, 'gateway-postgres', 1_200, 50), measure(1, 'node-store', 1_000, 20)],
    ...[measure(2, 'node-store', 500, 30), measure(2, 'gateway-postgres', 600, 70)],
    measure(3, 'gateway-postgres', 80, 50),
  ];
  expect(toRounds(['node-store', 'rows10', 32, 'rate', 1], measurements)).toEqual([1.2, 1.2]);
  expect(toRounds(['node-store', 'rows10', 32, 'cost', 1], measurements)).toEqual([30, 40]);
});

it('divides a profile into layers: a function of a library counts for the file that called it', () => {
  const node = (id: number, functionName: string, file: string, children: number[] = []) => {
    const url = file && new URL(`../../${file}`, import.meta.url).href;
    return { id, callFrame: { functionName, url, scriptId: '', lineNumber: 0, columnNumber: 0 }, children };
  };
  const nodes = [
    node(1, '(root)', '', [2, 3, 6]),
    node(2, '(idle)', ''),
    node(3, 'log', 'src/telemetry/log.ts', [4, 5]),
    ...[node(4, 'write', 'node_modules/x/x.js'), node(5, 'other', 'src/other.ts'), node(6, 'native', '')],
  ];
  const profile = { nodes, startTime: 0, endTime: 1, samples: [2, 3, 4, 5, 6], timeDeltas: [900, 20, 40, 20, 20] };
  expect(Object.fromEntries(toShares(profile))).toEqual({
    log: 0.6,
    'src/other.ts': 0.2,
    "Node's sockets and HTTP": 0.2,
  });
});

it('knows the files of every layer', () => {
  const files = ['src', 'node_modules'].flatMap((folder) => [
    ...readdirSync(folder, { recursive: folder === 'src', encoding: 'utf8' }).map((file) => `${folder}/${file}/`),
  ]);
  const named = LAYERS.filter(([, pattern]) => !files.some((file) => pattern.test(file)));
  expect(named).toEqual([]);
});

it('writes each request for wrk', () => {
  expect(toScript([toApiRequest(findCase('create'), 'k"1')])).toContain(
    String.raw`
  wrk.format("POST", "/v1/alunos", {["X-Api-Key"]="k\"1",["Content-Type"]="application/json"}, "{\"p_nome\":\"Lígia Prado\",`,
  );
});
