import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { StoreFaultKind } from '../../src/errors.ts';
import { createRecord } from '../../src/http/context.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { isPresent } from '../helpers/requirement.ts';

type Sample = { readonly name: string; readonly labels: Readonly<Record<string, string>> };
type Selector = {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
};
type Rule = {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
};

/** Every fault of a call is a result, beside success (ok) and a refusal (refusedKey). */
const FAULTS: readonly StoreFaultKind[] = ['storeUnavailable', 'storeOverloaded', 'storeTimeout', 'storeError'];
const RESULTS = ['ok', 'refusedKey', ...FAULTS];
/** The labels that Prometheus adds to what it reads. */
const ADDED_LABELS = ['job', 'instance'];
const UP: Sample = { name: 'up', labels: {} };

const ALERTS = 'scripts/deploy/alerts.yaml';
const ALERTS_TEST = 'scripts/deploy/alerts.test.yaml';
const DASHBOARD = 'scripts/deploy/grafana-dashboard.json';

const { groups } = parse(readFileSync(ALERTS, 'utf8')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap(({ rules }) => rules);
const uses = [
  ...rules.map(({ alert, expr, annotations }) =>
    toUse(alert, expr, { operator: '=', value: 'gateway' }, JSON.stringify(annotations), /\$labels\.(\w+)/g),
  ),
  ...readDashboard().map(({ place, expression, legend }) =>
    toUse(place, expression, { operator: '=~', value: '$job' }, legend, /\{\{(\w+)\}\}/g),
  ),
];
let exposition: string;
let samples: readonly Sample[];

beforeAll(async () => {
  const servers = (['primary', 'standby', 'away', 'refused'] as const).map((role) => {
    return { host: `${role}:5432`, role, calls: 1 };
  });
  const metrics = createMetrics();
  metrics.observe({
    readLoad: () => ({ running: 1, waiting: 0, open: 2, idle: 1, stalled: { login: 1 }, servers, failovers: 1 }),
    readSockets: () => ({ open: 1, refused: 0, unread: 0 }),
    isReady: async () => true,
    isCountingShared: () => true,
    isExporting: () => true,
  });
  for (const result of RESULTS) metrics.call('listar_academias', result, 1);
  for (const status of [200, 201, 401, 422, 502]) {
    const request = createRecord('POST', '/v1/alunos', { 'content-length': '10' });
    metrics.request({ ...request, endpoint: 'criarAluno', status, durationMs: 1, responseBytes: 1_000 });
  }
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  do {
    await delay(10);
    exposition = await metrics.read();
  } while (!exposition.includes('nodejs_gc_duration_seconds_count'));
  samples = [UP, ...readSamples(exposition)];
});

function readSamples(text: string): Sample[] {
  return [...text.matchAll(/^([a-z]\w*)(?:\{(.*)\})? /gm)].map(([, name = '', labels = '']) => ({
    name,
    labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, value]) => [label, value])),
  }));
}

/** The expressions of the panels and variables. */
function readDashboard(): { place: string; expression: string; legend: string }[] {
  type Target = { expr: string; legendFormat: string };
  type Variable = { name: string; type: string; query: { query: string } };
  type Dashboard = { panels: { title: string; targets?: Target[] }[]; templating: { list: Variable[] } };
  const { panels, templating } = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as Dashboard;
  const variables = templating.list.filter(({ type }) => type === 'query');
  return [
    ...panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr, legendFormat }) => ({ place: title, expression: expr, legend: legendFormat })),
    ),
    ...variables.map(({ name, query }) => ({
      place: `$${name}`,
      expression: query.query.replace(/^label_values\((.+), (\w+)\)$/, 'count by ($2) ($1)'),
      legend: '',
    })),
  ];
}

/**
 * An expression of PromQL with its place, the series that it reads, its matcher of the job, the labels that it groups by, and those
 * that a text beside it shows. promtool checks the syntax.
 */
function toUse(place: string, expression: string, ofJob: object, text: string, label: RegExp) {
  const selectors = [...expression.matchAll(/\b((?:http|gateway|process|nodejs)_\w+|up\b)(?:\{([^}]*)\})?/g)].map(
    ([, metric = '', matchers = '']): Selector => ({
      metric,
      matchers: [...matchers.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)].map(
        ([, label = '', operator = '', value = '']) => ({ label, operator, value }),
      ),
    }),
  );
  const lists = [...expression.matchAll(/\b(?:by|on|group_left) ?\(([^)]*)\)/g)].map(([, list = '']) => list);
  const labels = lists.flatMap((list) => list.match(/\w+/g) ?? []);
  const shown = [...text.matchAll(label)].map(([, name = '']) => name);
  return { place, expression, selectors, job: { label: 'job', ...ofJob }, labels, shown };
}

function selects({ metric, matchers }: Selector, { name, labels }: Sample): boolean {
  return (
    name === metric &&
    matchers.every(({ label, operator, value }) => {
      if (ADDED_LABELS.includes(label)) return true;
      const isLike = operator.includes('~')
        ? new RegExp(`^(?:${value})$`).test(labels[label] ?? '')
        : labels[label] === value;
      return label in labels && isLike !== operator.startsWith('!');
    })
  );
}

describe.each(uses)('$place: $expression', ({ place, expression, selectors, job, labels, shown }) => {
  test('reads series that a gateway has', () => {
    expect(selectors).not.toEqual([]);
    expect(selectors.filter((selector) => !samples.some((sample) => selects(selector, sample)))).toEqual([]);
  });

  test('reads no series of another service', () => {
    // The variable itself reads a metric that no other service has.
    if (place === '$job') for (const { metric } of selectors) expect(metric).toMatch(/^gateway_/);
    else for (const { matchers } of selectors) expect(matchers).toContainEqual(job);
  });

  test('groups by and shows labels that its series have', () => {
    const names = selectors.map(({ metric }) => metric);
    const known = samples.filter(({ name }) => names.includes(name)).flatMap((sample) => Object.keys(sample.labels));
    for (const label of [...labels, ...shown]) expect([...ADDED_LABELS, ...known]).toContain(label);
    // With WORKERS a gateway has a series for each worker.
    if (!/\bup\b/.test(expression)) expect(expression).toMatch(/\b(sum|min|max|count)\b/);
    // A sum keeps only the labels that it is grouped by.
    if (/^(sum|count|histogram_quantile)\b(?! without)/.test(expression)) {
      for (const label of shown) expect(labels).toContain(label);
    }
  });
});

test('every metric of the gateway is used', () => {
  const used = uses.flatMap(({ selectors }) => selectors.map(({ metric }) => metric));
  const ours = [...exposition.matchAll(/^# TYPE ((?:http|gateway)_\w+) /gm)].map(([, name = '']) => name);
  expect(ours.length).toBeGreaterThan(5);
  const isUsed = (name: string) => used.some((metric) => metric.replace(/_(bucket|count|sum)$/, '') === name);
  expect(ours.filter((name) => !isUsed(name))).toEqual([]);
});

test.each(rules)('$alert fires in the unit tests of the rules', ({ alert }) => {
  expect(readFileSync(ALERTS_TEST, 'utf8')).toContain(`alertname="${alert}"`);
});

test('every fault of the store has a series that an alert reads', () => {
  const [selector] = uses.find(({ place }) => place === 'GatewayStoreFailing')?.selectors ?? [];
  for (const result of FAULTS) {
    const sample = { name: 'gateway_store_call_duration_seconds_count', labels: { function: 'f', result } };
    expect(selector && selects(selector, sample), result).toBe(true);
  }
});

test('every alert refers to its section of a page, in the same order', () => {
  const pages = Map.groupBy(rules, ({ annotations: { runbook = '' } }) => runbook.replace(/^See |#.*$/g, ''));
  for (const [page, alerts] of pages) {
    const sections = [...readFileSync(page, 'utf8').matchAll(/^## (Gateway\w+)$/gm)].map(([, name]) => name);
    expect(sections).toEqual(alerts.map(({ alert }) => alert));
    for (const { alert, annotations } of alerts) {
      expect(annotations.runbook).toBe(`See ${page}#${alert.toLowerCase()}.`);
    }
  }
});

const hasPromtool = isPresent(
  spawnSync('promtool', ['--version']).error === undefined,
  'promtool is not installed: the unit tests of the alerts cannot run',
);

test.skipIf(!hasPromtool)('the unit tests of the alerts pass', () => {
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', ALERTS_TEST], { encoding: 'utf8' });
  expect(stdout + stderr).toMatch(/SUCCESS/);
  expect(status).toBe(0);
});
