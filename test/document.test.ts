import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type ExampleRequest, readExamples } from '../src/examples.ts';
import { type Answer, call, document, operations } from './helpers/api.ts';
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

  test.each(own)('answers the example $name with $status', async ({ request, status, value, generated, ...state }) => {
    const readOnly = request.method === 'GET';
    const url = state.store === 'unavailable' ? withoutStore.url : readOnly ? inject('url') : writable.url;
    const before = own.find(({ name }) => name === state.after);
    expect(before?.name).toBe(state.after);
    if (before) expect((await send(before.request, url)).status).toBe(before.status);
    const answer = await send(request, url);

    expect(answer.status).toBe(status);
    // Of what the server makes the form is checked, by the document's schema in `call`.
    const made = Object.fromEntries(generated.map((name) => [name, expect.any(String)]));
    expect(answer.body).toEqual(generated.length > 0 ? { ...(value as object), ...made } : value);
  });
});

function send({ target, method, headers, body }: ExampleRequest, url: string): Promise<Answer> {
  return call(target, { url, method, key: null, headers, ...(body === undefined ? {} : { body }) });
}
