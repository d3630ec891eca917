import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { DeadlineError } from '../../src/deadline.ts';
import { type Fault, OperatorError, type StoreFaultKind, storeFault } from '../../src/errors.ts';
import { createReadiness, type Readiness } from '../../src/http/health.ts';
import { createBuckets } from '../../src/limits/buckets.ts';
import { type CompiledDocument, compileFile } from '../../src/openapi/compile.ts';
import { openService } from '../../src/service.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { DatabaseFunction, Store } from '../../src/store/store.ts';
import { limited } from '../../src/store/turns.ts';
import { compileOnce, createTestLog, openTestStore, startOwnGateway } from '../helpers/gateway.ts';
import { findPort } from '../helpers/servers.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const OK = 'ok';
const DRIFTED = 'document and database disagree';
const ADDED = 'the database has more than the document';
const UNKNOWN = 'unknown: the store does not answer';
const [UNAVAILABLE, TIMEOUT, ERROR] = ['Data store unavailable', 'Data store timeout', 'Data store error'];

const toReport = (status: string, store: string, contract: string) => ({ status, checks: { store, contract } });
const READY = toReport('ready', OK, OK);

describe('readiness', () => {
  /** The functions that agree with the document. */
  let functions: readonly DatabaseFunction[];
  const never = new Promise<never>(() => {});

  beforeAll(async () => {
    const store = await openTestStore();
    const description = await store.describe(AbortSignal.timeout(20_000));
    await store.close();
    if ('failure' in description) throw description.failure.cause;
    ({ functions } = description);
  });

  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  type Options = { isDriftFatal?: boolean; deadlineMs?: number; document?: Promise<CompiledDocument> };

  /** The readiness of a gateway whose store has these parts. */
  async function create(parts: Partial<Store>, { document = compileOnce(), ...options }: Options = {}) {
    const told: string[] = [];
    const tell = (text: string) => void told.push(text);
    const store: Store = { ...createStubStore(), describe: async () => ({ functions }), ...parts };
    const [checks, descriptions] = [vi.spyOn(store, 'check'), vi.spyOn(store, 'describe')];
    const asked = () => ({ check: checks.mock.calls.length, describe: descriptions.mock.calls.length });
    const compiled = await document;
    const readiness = createReadiness({
      store,
      readDocument: () => compiled,
      deadlineMs: 600_000,
      isDriftFatal: true,
      log: { info: tell, warn: tell, fault: tell },
      ...options,
    });
    return { readiness, asked, told };
  }

  /** The functions, one of which is changed. */
  const withOther = (change: (one: DatabaseFunction) => DatabaseFunction) =>
    functions.map((one) => (one.name === 'listar_secoes' ? change(one) : one));
  const renamed = () => withOther((one) => ({ ...one, name: 'listar_outras' }));
  const extended = () =>
    withOther(({ result, ...one }) => ({
      ...one,
      ...(result && {
        result: { ...result, columns: [...result.columns, { name: 'cor', type: 'text', isNullable: null }] },
      }),
    }));
  const failing = (kind: StoreFaultKind) => async () => storeFault(kind, 'down').failure;

  test.each<[what: string, parts: () => Partial<Store>, options: Options, report: object]>([
    ['all is well', () => ({}), {}, READY],
    ['away', () => ({ check: failing('storeUnavailable') }), {}, toReport('not ready', UNAVAILABLE, UNKNOWN)],
    ['late', () => ({ check: failing('storeTimeout') }), {}, toReport('not ready', TIMEOUT, UNKNOWN)],
    ['in error', () => ({ check: failing('storeError') }), {}, toReport('not ready', ERROR, UNKNOWN)],
    [
      'away when its functions are asked for',
      () => ({ describe: async () => storeFault('storeUnavailable', 'down') }),
      {},
      toReport('not ready', OK, UNKNOWN),
    ],
    ['with more', () => ({ describe: async () => ({ functions: extended() }) }), {}, toReport('ready', OK, ADDED)],
    ['with less', () => ({ describe: async () => ({ functions: renamed() }) }), {}, toReport('not ready', OK, DRIFTED)],
    [
      'with less, which is not fatal',
      () => ({ describe: async () => ({ functions: renamed() }) }),
      { isDriftFatal: false },
      toReport('ready', OK, DRIFTED),
    ],
    [
      'one of several servers',
      () => ({ connections: () => ({ open: 1, idle: 1, servers: [{ host: 'a:5432', role: 'primary', calls: 7 }] }) }),
      {},
      { ...READY, servers: [{ host: 'a:5432', role: 'primary' }] },
    ],
  ])('of a store that is %s', async (_what, parts, options, report) => {
    expect(await (await create(parts(), options)).readiness.read()).toEqual(report);
  });

  test('asks the store again after a second, and for its functions after ten, and logs what is new', async () => {
    let found = functions;
    const { readiness, asked, told } = await create({ describe: async () => ({ functions: found }) });
    const readAfter = async (ms: number) => {
      vi.advanceTimersByTime(ms);
      await readiness.read();
      return { ...asked(), told: told.length };
    };
    expect([await readAfter(0), await readAfter(0)]).toEqual(Array(2).fill({ check: 1, describe: 1, told: 0 }));
    found = extended();
    expect(await readAfter(1_001)).toEqual({ check: 2, describe: 1, told: 0 });
    expect(await readAfter(9_000)).toEqual({ check: 3, describe: 2, told: 1 });
    expect(await readAfter(10_001)).toEqual({ check: 4, describe: 3, told: 1 });
    found = renamed();
    expect(await readAfter(10_001)).toEqual({ check: 5, describe: 4, told: 2 });
    const place = /^openapi\.yaml:\d+: listarSecoes → listar_secoes: /;
    expect(told).toEqual([
      expect.stringMatching(/ the column cor \(other requests succeed\)$/),
      expect.stringMatching(/ in the database there is none of that name/),
    ]);
    for (const text of told) expect(text).toMatch(place);
  });

  test('needs a store that is set up right, also at a start, and tells once what is wrong', async () => {
    let fault: Fault | undefined = { kind: 'storeError', cause: new OperatorError('grant gateway to the login') };
    const check = async () => fault;
    const { readiness, told } = await create({ check }, { isDriftFatal: false });
    for (let n = 0; n < 3; n += 1) {
      expect(await readiness.read()).toEqual(toReport('not ready', ERROR, UNKNOWN));
      vi.advanceTimersByTime(1_001);
    }
    expect(told).toEqual(['grant gateway to the login']);
    await expect((await create({ check })).readiness.checkAtStart()).rejects.toThrow('grant gateway to the login');
    fault = undefined;
    expect(await readiness.read()).toEqual(READY);
    expect(told).toEqual(['grant gateway to the login', 'The store answers again']);
  });

  test.each<[Partial<Store>, object]>([
    [{ check: () => never }, toReport('not ready', TIMEOUT, UNKNOWN)],
    [{ describe: () => never }, toReport('not ready', OK, UNKNOWN)],
  ])('ends at the deadline if the store ignores its signal: %o', async (parts, report) => {
    vi.useRealTimers();
    expect(await (await create(parts, { deadlineMs: 100 })).readiness.read()).toEqual(report);
  });

  test('is soon the last known one while a check hangs', async () => {
    let hangs = false;
    const check = () => (hangs ? never : Promise.resolve(undefined));
    const readSoon = (one: Readiness) => {
      const report = one.readSoon();
      vi.advanceTimersByTime(400);
      return report;
    };
    const { readiness } = await create({ check });
    expect(await readiness.readSoon()).toEqual(READY);
    hangs = true;
    vi.advanceTimersByTime(1_001);
    expect(await readSoon(readiness)).toEqual(READY);
    expect(await readSoon((await create({ check })).readiness)).toEqual({ status: 'not ready' });
  });

  test('asks a store that hangs once, however many ask', async () => {
    vi.useRealTimers();
    const { readiness, asked } = await create({ check: () => never }, { deadlineMs: 100 });
    const reports = await Promise.all(Array.from({ length: 1_000 }, () => readiness.read()));
    expect(asked().check).toBe(1);
    expect(reports.filter(({ status }) => status === 'ready')).toEqual([]);
  });

  test('names the line of a difference in the document that is served, also when its file is gone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'document-'));
    const file = join(folder, 'openapi.yaml');
    copyFileSync('openapi.yaml', file);
    const document = compileFile(file);
    await document;
    rmSync(folder, { recursive: true });
    const other = { name: 'outra', arguments: [] };
    const { readiness, told } = await create({ describe: async () => ({ functions: [other] }) }, { document });
    expect(await readiness.read()).toEqual(toReport('not ready', OK, DRIFTED));
    const lines = told.map((text) => Number(/^openapi\.yaml:(\d+): /.exec(text)?.[1]));
    expect(lines.length).toBeGreaterThan(1);
    expect(lines).toEqual(lines.toSorted((one, another) => one - another));
  });

  test('asks again after a failure of its own', async () => {
    let fails = true;
    const { readiness } = await create({
      check: async () => {
        if (fails) throw new Error('a mistake of ours');
        return undefined;
      },
    });
    await expect(readiness.read()).rejects.toThrow('a mistake of ours');
    fails = false;
    expect(await readiness.read()).toEqual(READY);
  });
});

test('a gateway is not ready, and healthy, while its store refuses connections', async () => {
  const url = `postgres://gateway_test@127.0.0.1:${await findPort()}/none`;
  const store = openPostgres({ url, connections: 1, deadlineMs: 5_000 });
  onTestFinished(() => store.close());
  const gateway = await startOwnGateway({ store });
  const ask = async (path: string) => {
    const answer = await fetch(new URL(path, gateway.url));
    return [answer.status, await answer.json()];
  };
  expect(await ask('/readyz')).toEqual([503, toReport('not ready', UNAVAILABLE, UNKNOWN)]);
  expect(await ask('/healthz')).toEqual([200, { status: 'ok' }]);
});

test('/metrics of a worker whose primary process does not answer is a 503 without a fault', async () => {
  const readMetrics = () => Promise.reject(new DeadlineError('too late'));
  const group = { worker: 1, readMetrics, takeToken: createBuckets() };
  const { url, faults } = await startOwnGateway({ store: createStubStore(), group });
  const answer = await fetch(new URL('/metrics', url));
  expect([answer.status, await answer.text(), faults]).toEqual([503, '{"error":"No metrics in time"}', []]);
});

test('a gateway whose store did not answer looks for the demo data again, before it serves others for long', async () => {
  let isAway = true;
  const lost = storeFault('storeTimeout', new Error('it hangs'));
  const store = createStubStore(() => (isAway ? lost : { json: '[]', count: 0 }));
  const openStore = async () => ({ store: limited(store, { slots: 1, waiting: 1 }) });
  const config = readConfig({ PORT: '0', HOST: '0.0.0.0', DATABASE_URL: 'postgres://a/b', CONTRACT_CHECK: 'warn' });
  const service = await openService(config, { document: await compileOnce(), log: createTestLog().log, openStore });
  onTestFinished(() => service.close());
  const following = service.follow();
  isAway = false;
  await expect(following).rejects.toThrow('HOST=0.0.0.0 is reachable by others');
});
