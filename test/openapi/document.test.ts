import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { storeFault } from '../../src/errors.ts';
import { type Example, type ExampleRequest, readExamples } from '../../src/openapi/examples.ts';
import { type Answer, call, document, operations } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { sendRaw } from '../helpers/raw.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const examples = readExamples(document);
/** Of the answers that the gateway gives by itself one store is enough. */
const isOfStore = ({ status }: Example) => status < 300 || status === 401;
const isWhole = inject('kind') === 'postgres';
let withoutStore: TestGateway;
let writable: TestGateway;
let limited: TestGateway;

beforeAll(async () => {
  writable = await startGateway({ store: await openTestStore() });
  withoutStore = await startGateway({ store: createStubStore(() => storeFault('storeUnavailable', 'down')) });
  const rateLimits = { perAddress: 1, redisUrl: undefined };
  limited = await startGateway({ store: writable.store, rateLimits });
});

afterAll(async () => {
  await limited.close();
  await writable.close();
  await writable.store.close();
  await withoutStore.close();
});

/** The gateway that is in the state that an example is about. */
function findUrl({ request, store, rateLimit }: Example): string {
  if (store === 'unavailable') return withoutStore.url;
  if (rateLimit === 'reached') return limited.url;
  return request.method === 'GET' ? inject('url') : writable.url;
}

describe.each(operations)('$id', ({ id, method, operation }) => {
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

  const sent = own.filter((example) => example.connection === undefined && (isWhole || isOfStore(example)));
  test.each(sent)('answers the example $name with $status', async (example) => {
    const { request, status, value, generated, after } = example;
    const url = findUrl(example);
    // It takes the one token, which comes back after a minute.
    if (url === limited.url) await fetch(`${url}/nada`);
    const before = own.find(({ name }) => name === after);
    expect(before?.name).toBe(after);
    if (before) expect((await send(before.request, url)).status).toBe(before.status);
    const answer = await send(request, url);

    expect(answer.status).toBe(status);
    // Of what the server makes the form is checked, by the document's schema in `call`.
    const made = Object.fromEntries(generated.map((name) => [name, expect.anything()]));
    expect(answer.body).toEqual(generated.length > 0 ? { ...(value as object), ...made } : value);
  });

  test('declares 304 if it reads', () => {
    expect('304' in operation.responses).toBe(method === 'GET');
  });
});

test.runIf(isWhole)('the examples of a request that stalls are answered as they say', async () => {
  const stalled = examples.filter(({ connection }) => connection === 'stalled');
  expect(stalled.map(({ operationId }) => operationId).sort()).toEqual(operations.map(({ id }) => id).sort());
  // All at once, since each takes the seconds that the gateway waits.
  const answers = stalled.map(async ({ request: { method, target }, status, value }) => {
    const answer = await sendRaw(inject('url'), `${method} /v1${target} HTTP/1.1\r\nHost: x\r\n`);
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    expect([head.split(' ')[1], JSON.parse(body)]).toEqual([String(status), value]);
  });
  await Promise.all(answers);
});

function send({ target, method, headers, body }: ExampleRequest, url: string): Promise<Answer> {
  return call(target, { url, method, key: null, headers, ...(body === undefined ? {} : { body }) });
}
