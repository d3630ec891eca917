import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { readExamples } from '../src/examples.ts';
import { call, document, operations } from './helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from './helpers/gateway.ts';

const examples = readExamples(document);
let withoutStore: TestGateway;
let writable: TestGateway;

beforeAll(async () => {
  writable = await startGateway({ store: await openTestStore() });
  const store = await openTestStore();
  await store.close();
  withoutStore = await startGateway({ store });
});

afterAll(async () => {
  await writable.close();
  await writable.store.close();
  await withoutStore.close();
});

describe.each(operations)('$id', ({ id, operation }) => {
  const own = examples.filter((example) => example.operationId === id);

  test('has an example for every status that it declares', () => {
    expect([...new Set(own.map(({ status }) => String(status)))].sort()).toEqual(
      Object.keys(operation.responses).sort(),
    );
  });

  test('names a response for every request that it shows', () => {
    const requests = (operation.parameters ?? []).flatMap((parameter) =>
      Object.keys(('examples' in parameter && parameter.examples) || {}),
    );
    for (const name of requests) expect(own.map((example) => example.name)).toContain(name);
  });

  test.each(own)('answers the example $name with $status', async ({ request, status, value, generated, store }) => {
    const [key = null] = Object.values(request.headers);
    const readOnly = request.method === 'GET';
    const url = store === 'unavailable' ? withoutStore.url : readOnly ? inject('url') : writable.url;
    const answer = await call(request.target, {
      url,
      method: request.method,
      key,
      ...(request.body === undefined ? {} : { body: request.body }),
    });

    expect(answer.status).toBe(status);
    // Of what the server makes the form is checked, by the document's schema in `call`.
    const made = Object.fromEntries(generated.map((name) => [name, expect.any(String)]));
    expect(answer.body).toEqual(generated.length > 0 ? { ...(value as object), ...made } : value);
  });
});
