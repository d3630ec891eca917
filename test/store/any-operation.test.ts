import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readDocument } from '../../src/openapi/document.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import { useGateway } from '../helpers/api.ts';
import { compileOnce } from '../helpers/gateway.ts';
import { replay } from '../helpers/http-file.ts';

// Operations that YAML and SQL alone add, on every store. Their functions return their arguments, which shows what of a request
// reaches SQL, and whether answers are what HTTP and OpenAPI expect.

const NOBODY = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
const CENTRO = 'a1000000-0000-4000-8000-000000000001';
const OF_BOSQUE = 'b1000000-0000-4000-8000-000000000001';

const document = readDocument('test/documents/everything.yaml');
const gateway = useGateway({ sql: readFileSync('test/documents/everything.sql', 'utf8'), document });

type Received = { readonly status: number; readonly text: string; readonly headers: Headers };

/** Sends a request; a body that is a text is sent as it is. */
async function send(method: string, path: string, body?: unknown, headers = {}): Promise<Received> {
  const answer = await fetch(gateway.url + path, {
    method,
    headers: { 'X-Api-Key': 'wms_demo_aurora', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
}

const refusal = (status: number, error: unknown) => ({ status, text: JSON.stringify({ error }) });

async function create(body: object): Promise<{ id: string }> {
  const { status, text } = await send('POST', '/cabides', body);
  expect(status, text).toBe(201);
  return JSON.parse(text);
}

test('a status that SQL raises is the answer where the document declares it', async () => {
  expect(await send('POST', '/cabides', { p_numero: 13 })).toMatchObject(refusal(403, 'Nobody may have the number 13'));
  expect(await send('DELETE', `/cabides/${NOBODY}`)).toMatchObject(refusal(404, 'There is no such peg'));
});

test('a call that Postgres has ended to resolve a deadlock is made again', async () => {
  await create({ p_numero: 16 });
});

test.each([
  {
    ...{ what: 'a status that SQL raises', method: 'POST', path: '/cabides', body: { p_numero: 14 } },
    logged: 'criarCabide declares no response 410, for which criar_cabide gives a reason: The number 14 is gone',
  },
  {
    ...{ what: 'a record that is not found', method: 'PUT', path: `/cabides/${NOBODY}`, body: undefined },
    logged: 'trocarCabide declares no response 404, for which obter_cabide gives a reason: it returned no record',
  },
])('$what is a fault unless the document declares it, and the log says so', async (row) => {
  const { method, path, body, logged } = row;
  const before = gateway.faults.length;
  expect(await send(method, path, body)).toMatchObject(refusal(502, 'Data store error'));
  expect(gateway.faults.slice(before).map(({ cause }) => (cause as Error).message)).toEqual([logged]);
});

describe('a violated constraint', () => {
  test('is the declared 409, with its own text', async () => {
    await create({ p_numero: 1 });
    expect(await send('POST', '/cabides', { p_numero: 1 })).toMatchObject(refusal(409, 'another peg has this number'));
  });

  test('is the declared 409 with a text that reveals nothing, the same for a record of another tenant and for none', async () => {
    for (const p_academia_id of [OF_BOSQUE, NOBODY]) {
      const answer = await send('POST', '/cabides', { p_numero: 2, p_academia_id });
      expect(answer).toMatchObject(refusal(409, 'Conflicts with another record'));
    }
    await create({ p_numero: 2, p_academia_id: CENTRO });
  });
});

describe('an answer', () => {
  test('without content has no body and no type', async () => {
    const { id } = await create({ p_numero: 3 });
    const describe = ({ status, text, headers }: Received) => [
      ...[status, text, headers.get('content-length'), headers.get('content-type')],
    ];
    expect(describe(await send('DELETE', `/cabides/${id}`))).toEqual([204, '', null, null]);
    expect(describe(await send('POST', '/cabides/numeros'))).toEqual([202, '', '0', null]);
  });

  test('may be one value', async () => {
    const { id } = await create({ p_numero: 900 });
    const { status, text } = await send('GET', '/cabides/numeros');
    expect([status, JSON.parse(text)]).toEqual([200, expect.arrayContaining([900])]);
    expect(text).not.toContain('{');
    await send('DELETE', `/cabides/${id}`);
  });

  test('to a method that may write has no ETag, even if it only reads', async () => {
    const { id } = await create({ p_numero: 4 });
    const { status, headers } = await send('PUT', `/cabides/${id}`);
    expect([status, headers.get('etag'), headers.get('cache-control')]).toEqual([200, null, 'no-store']);
    expect((await send('GET', `/cabides/${id}`)).headers.get('etag')).not.toBeNull();
  });
});

test('document and database agree except for a status in SQL, which not every store can read', async () => {
  const { operations } = await compileOnce(document);
  const description = await gateway.store.describe(new AbortController().signal);
  if ('failure' in description) throw description.failure.cause;
  const differences = findDrift(operations, description.functions).map(describeDifference);
  expect(differences.filter((text) => !text.includes('there is no response 410'))).toEqual([]);
});

test('each call gets its answer, with the inputs that reach SQL', async () => {
  await replay(gateway, document, 'test/documents/everything.http');
});
