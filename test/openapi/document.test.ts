import { afterAll, describe, expect, inject, test } from 'vitest';
import { storeFault } from '../../src/errors.ts';
import { type Example, readExamples } from '../../src/openapi/examples.ts';
import { call, document, KEYS, operations } from '../helpers/api.ts';
import { startOwnGateway } from '../helpers/gateway.ts';
import { sendRaw } from '../helpers/raw.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { failuresOf, outcomesOf, startChecks } from '../scripts/conformance/checks.ts';

// Checks the document on every store: the contract sends every example, and values that the schemas accept and refuse.

const examples = readExamples(document);
const { run, close } = await startChecks();

afterAll(close);

describe.each(operations)('$id', ({ id, method, path, operation }) => {
  const own = examples.filter((example) => example.operationId === id);

  test('has an example for every status that it declares, but for 304, which has no body', () => {
    const statuses = Object.keys(operation.responses).filter((status) => status !== '304');
    expect([...new Set(own.map(({ status }) => String(status)))].sort()).toEqual(statuses.sort());
  });

  test('names a response for every request that it shows', () => {
    const requests = (operation.parameters ?? []).flatMap((parameter) =>
      Object.keys(('examples' in parameter && parameter.examples) || {}),
    );
    for (const name of requests) expect(own.map((example) => example.name)).toContain(name);
  });

  test('declares 304 if it reads', () => {
    expect('304' in operation.responses).toBe(method === 'GET');
  });

  test('keeps the contract, and nothing is left out but what needs another state', async () => {
    const report = await run({ only: [id], demo: true, runs: 1, otherKey: KEYS.bosque, readKey: KEYS.readOnly });
    expect(failuresOf(report)).toEqual([]);
    expect(report.sections.map(({ title }) => title)).toEqual([`${method} ${path}`, 'Paths', 'Another tenant']);
    const unsent = own.filter(needsState);
    const names = unsent.map(({ name, status }) => `answers the example ${name} with ${status}`);
    // Nothing is compared if the other tenant has no records.
    names.push('leaves the records of the other key as they were');
    const leftOut = outcomesOf(report).filter(({ result, name }) => result === 'skipped' && !names.includes(name));
    expect(leftOut).toEqual([]);
    const untested = report.coverage.filter(({ kind, reason }) => kind !== 'keyword' && reason !== undefined);
    const statuses = new Set(unsent.map(({ status }) => String(status)));
    expect(untested.map(({ name }) => name).sort()).toEqual([...statuses].sort());
  });
});

/** Whether the answer depends on a state that no request leads to. */
function needsState({ store, rateLimit, connection }: Example): boolean {
  return store === 'unavailable' || rateLimit !== undefined || connection !== undefined;
}

// The gateway gives these answers by itself: one store is enough.
test.runIf(inject('kind') === 'postgres')('the examples of other states are answered as they say', async () => {
  const withoutStore = await startOwnGateway({
    store: createStubStore(() => storeFault('storeUnavailable', 'down')),
  });
  const limited = await startOwnGateway({
    store: withoutStore.store,
    rateLimits: { perAddress: 1, redisUrl: undefined },
  });
  // This takes the one token, which comes back after a minute.
  await fetch(`${limited.url}/nada`);
  const send = async ({ connection, rateLimit, request: { target, ...request } }: Example) => {
    if (connection === undefined) {
      return call(target, { ...request, url: rateLimit ? limited.url : withoutStore.url, key: null });
    }
    const answer = await sendRaw(withoutStore.url, `${request.method} /v1${target} HTTP/1.1\r\nHost: x\r\n`);
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    return { status: Number(head.split(' ')[1]), body: JSON.parse(body) };
  };
  // All at once, because each request that stalls takes the seconds that the gateway waits.
  await Promise.all(
    examples.filter(needsState).map(async (example) => {
      const { status, body } = await send(example);
      expect([status, body]).toEqual([example.status, example.value]);
    }),
  );
});
