// Every form of a parameter that the gateway serves, with a custom header for the key. The client writes it, and the gateway and the
// handlers for msw read it.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setupServer } from 'msw/node';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildMsw } from '../../client/build.ts';
import { createClient } from '../../client/src/client.ts';
import { readSeparators } from '../../scripts/client-types.ts';
import { readContract } from '../../scripts/conformance/contract.ts';
import { runContract } from '../../scripts/conformance/run.ts';
import { SEPARATORS } from '../../src/openapi/url.ts';
import { document as own } from '../helpers/api.ts';
import { compileOnce, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { failuresOf } from '../scripts/conformance/checks.ts';

type Place = 'query' | 'path' | 'header';
type Item = string | number | boolean;
type Row = readonly [
  place: Place,
  style: string | undefined,
  explode: boolean | undefined,
  value: Item | Item[],
  sent?: string,
];

const WORDS = ['a,b', "ç +&=#%/'", '', 'c'];
const NAMES = { query: 'q[v]', path: 'v', header: 'X-V' };

/** The value as the client sends it: the query, the rest of the path, or the bytes of the header. */
const ROWS: readonly Row[] = [
  ['query', undefined, undefined, 'a b', 'q%5Bv%5D=a%20b'],
  ['query', 'form', false, "a,b&c='+%", 'q%5Bv%5D=a%2Cb%26c%3D%27%2B%25'],
  ['query', undefined, undefined, ['a', 'a'], 'q%5Bv%5D=a&q%5Bv%5D=a'],
  ['query', undefined, undefined, ['a'], 'q%5Bv%5D=a'],
  ['query', 'form', true, WORDS, 'q%5Bv%5D=a%2Cb&q%5Bv%5D=%C3%A7%20%2B%26%3D%23%25%2F%27&q%5Bv%5D=&q%5Bv%5D=c'],
  ['query', 'form', false, WORDS, 'q%5Bv%5D=a%2Cb,%C3%A7%20%2B%26%3D%23%25%2F%27,,c'],
  ['query', undefined, false, [1, 2.5], 'q%5Bv%5D=1,2.5'],
  ['query', 'spaceDelimited', undefined, ['a,b', 'ç+|', '', 'c'], 'q%5Bv%5D=a%2Cb%20%C3%A7%2B%7C%20%20c'],
  ['query', 'spaceDelimited', true, ['a b', 'c'], 'q%5Bv%5D=a%20b&q%5Bv%5D=c'],
  ['query', 'pipeDelimited', undefined, ['a,b', ' ç+', '', 'c'], 'q%5Bv%5D=a%2Cb%7C%20%C3%A7%2B%7C%7Cc'],
  ['query', 'pipeDelimited', true, ['a|b', 'c'], 'q%5Bv%5D=a%7Cb&q%5Bv%5D=c'],
  ['path', undefined, undefined, 'a/b, ç', 'a%2Fb%2C%20%C3%A7'],
  ['path', undefined, undefined, WORDS, "a%2Cb,%C3%A7%20%2B%26%3D%23%25%2F',,c"],
  ['path', 'simple', true, [1, 2], '1,2'],
  ['path', 'simple', false, ['...', ' a '], '...,%20a%20'],
  ['header', undefined, undefined, 'a, b', 'a, b'],
  ['header', 'simple', true, 'ção Ã© 漢', 'Ã§Ã£o Ã\u0083Â© æ¼¢'],
  ['header', undefined, undefined, ['a', 'ç', '', 'd'], 'a,Ã§,,d'],
  ['header', 'simple', false, [true], 'true'],
];

/** Each type, for which the style makes no difference. */
const TYPES = [7, -1.5, true].map((value): Row => ['query', undefined, undefined, value]);

/** Each style and place, exploded or not, with one value and with arrays. */
const STYLES = Object.keys(SEPARATORS).flatMap((key) => {
  const [style, place] = key.split(' ') as [string, Place];
  return [true, false].flatMap((explode) =>
    ['ç', ['ç', 'ç'], [7, 7]].map((value): Row => [place, style, explode, value]),
  );
});

/** A value that none of their schemas allows. */
const FORBIDDEN = 'other';

const cases = [...ROWS, ...TYPES, ...STYLES].map(([place, style, explode, value, sent], index) => {
  const path = `/r${index}${place === 'path' ? `/{${NAMES.path}}` : ''}`;
  return { path, place, style, explode, value, sent, name: NAMES[place] };
});

const KEY_HEADER = 'X-Token';

/** An operation for each row, with the value as its second example. */
const document = {
  ...own,
  components: { securitySchemes: { apiKey: { ...own.components?.securitySchemes?.apiKey, name: KEY_HEADER } } },
  paths: Object.fromEntries(
    cases.map(({ path, place, name, style, explode, value }, index) => {
      const items = [value].flat();
      const type = items.every(Number.isInteger) ? 'integer' : typeof items[0];
      const scalar = { type, not: { enum: [FORBIDDEN] } };
      const schema = Array.isArray(value) ? { type: 'array', items: scalar } : scalar;
      const examples = { other: { value: toOther(value) }, own: { value } };
      const styled = { ...(style ? { style } : {}), ...(explode === undefined ? {} : { explode }) };
      const content = { 'application/json': { schema, examples } };
      const operation = {
        operationId: `r${index}`,
        'x-rpc': `r${index}`,
        parameters: [{ name, in: place, ...styled, required: true, schema, examples }],
        responses: { 200: { description: 'The value', content } },
      };
      return [path, { get: operation }];
    }),
  ),
} as unknown as OpenAPIV3.Document;

function toOther(value: Row[3]): Row[3] {
  if (Array.isArray(value)) return [...value, ...value];
  return typeof value === 'string' ? `${value}?` : typeof value === 'number' ? value + 1 : !value;
}

/** It is within node_modules, where the built handlers find msw. */
const folder = mkdtempSync(resolve('node_modules/.msw-'));
const MOCKED = 'https://gateway.example/v1';
let gateway: TestGateway;
let server: ReturnType<typeof setupServer>;
let call: (base: string, index: number, value?: Row[3]) => Promise<{ result: unknown; sent: string }>;

beforeAll(async () => {
  const file = join(folder, 'openapi.json');
  writeFileSync(file, JSON.stringify(document));
  await buildMsw(folder, file);
  const { createHandlers } = await import(join(folder, 'msw.js'));
  server = setupServer(...createHandlers({ baseUrl: `${MOCKED}/` }));
  server.listen({ onUnhandledFrame: 'bypass' });
  const store = createStubStore(({ args }) => {
    const { p_token: _key, ...given } = args;
    return { json: JSON.stringify(Object.values(given)[0]), count: 1 };
  });
  gateway = await startGateway({ store, document });
  const separators = readSeparators(await compileOnce(document));
  call = async (baseUrl, index, own) => {
    const { path, place, name, value } = cases[index] as (typeof cases)[number];
    let sent = '';
    const fetch = (request: Request) => {
      const { pathname, search } = new URL(request.url);
      const [, rest = ''] = /\/r\d+\/(.*)/.exec(pathname) ?? [];
      const header = place === 'header' ? request.headers.get(name) : '';
      sent = { query: search.slice(1), path: rest, header: header ?? '' }[place];
      return globalThis.fetch(request);
    };
    const options = { baseUrl, apiKey: 'key', keyHeader: KEY_HEADER, fetch, separators };
    const client = createClient<Record<string, { get: object }>>(options);
    const get = client.GET as (path: string, init: object) => Promise<unknown>;
    return { result: await get(path, { [place]: { [name]: own ?? value } }), sent };
  };
});

afterAll(async () => {
  server.close();
  await gateway.close();
  rmSync(folder, { recursive: true });
});

describe.each(cases.map((row, index) => ({ ...row, index })))(
  '$place $style, explode $explode: $value',
  ({ index, name, value, sent = expect.any(String) }) => {
    test('is written as the document says, and the gateway reads what was written', async () => {
      expect(await call(gateway.url, index)).toEqual({ result: { ok: true, data: value }, sent });
    });

    test('is refused with a value that the schema forbids', async () => {
      const [forbidden, field] = Array.isArray(value)
        ? [[...value, FORBIDDEN], `${name}.${value.length}`]
        : [FORBIDDEN, name];
      const { result } = await call(gateway.url, index, forbidden);
      expect(result).toMatchObject({ ok: false, kind: 'invalidInput', fields: { [field]: expect.any(Array) } });
    });

    test('matches its example in the handlers for msw', async () => {
      expect((await call(MOCKED, index)).result).toEqual({ ok: true, data: value });
    });
  },
);

test.each<[place: Place, value: Item[], sent: string]>([
  ['query', [1, 2.5], '1%2C2.5'],
  ['path', [1, 2], '1%2C2'],
])('a comma between numbers may be encoded in a %s, as browsers do', async (place, value, sent) => {
  const isRow = (row: (typeof cases)[number]) => row.place === place && String(row.value) === String(value);
  const { path = '', name = '' } = cases.find((row) => isRow(row) && row.explode !== (place === 'query')) ?? {};
  const target = place === 'query' ? `${path}?${name}=${sent}` : path.replace(/\{.*\}/, sent);
  const answer = await fetch(gateway.url + target, { headers: { [KEY_HEADER]: 'key' } });
  expect([answer.status, await answer.json()]).toEqual([200, value]);
});

test('conformance sends every style as it is served', async () => {
  const contract = await readContract(document, compileOnce(document));
  // Texts alone, since every style writes a number in the same way.
  const only = ROWS.flatMap(([, , , value], index) => (typeof [value].flat()[0] === 'string' ? [`r${index}`] : []));
  const options = { contract, only, url: gateway.url, key: 'key', seed: 1, runs: 1, demo: true, readOnly: true };
  const failed = failuresOf(await runContract({ ...options, timeoutMs: 20_000 }));
  expect(failed.filter(({ name }) => /^(takes|answers the example)/.test(name))).toEqual([]);
});

test.each([
  ['query', 'spaceDelimited', ['a b'], 'q cannot have " " in an item: it separates the items'],
  ['query', 'pipeDelimited', ['a|b'], 'q cannot have "|" in an item: it separates the items'],
  ['header', 'simple', ['a,b'], 'X-V cannot have spaces at its ends in a header, nor a comma in an item'],
  ['header', 'simple', ' a', 'X-V cannot have spaces at its ends in a header'],
  ['path', 'simple', '', 'v cannot be "" in a path'],
  ['path', 'simple', '..', 'v cannot be ".." in a path'],
])('a value that the style cannot carry is not sent: %s %s %j', async (place, style, value, message) => {
  const name = { query: 'q', header: 'X-V', path: 'v' }[place] as string;
  const separators = { 'GET /a/{v}': { q: style === 'spaceDelimited' ? ' ' : '|' } } as const;
  const fetch = () => Promise.reject(new Error('sent'));
  const { GET } = createClient({ baseUrl: MOCKED, apiKey: 'key', fetch, separators });
  const init = { path: { v: '1' }, [place]: { [name]: value } };
  const result = await (GET as unknown as (path: string, init: object) => Promise<unknown>)('/a/{v}', init);
  expect(result).toMatchObject({ ok: false, kind: 'unreachable', message });
});

test('a query leaves out null and empty lists', async () => {
  let sent: string | undefined;
  const fetch = async (request: Request) => {
    sent = new URL(request.url).search;
    return Response.json([]);
  };
  const query = { a: null, b: [], c: undefined } as object;
  await createClient({ baseUrl: MOCKED, apiKey: 'key', fetch }).GET('/alunos', { query });
  expect(sent).toBe('');
});

test('a list keeps its filters on each page, arrays too', async () => {
  const sent: string[] = [];
  const fetch = async (request: Request) => {
    sent.push(new URL(request.url).search);
    const next = `<?b=a%2Cb,c&a=1&a=2&limit=1&after=${sent.length}>; rel="next"`;
    return Response.json(sent.length < 3 ? [{}] : [], { headers: { Link: next } });
  };
  const separators = { 'GET /alunos': { b: ',' } } as const;
  const client = createClient({ baseUrl: MOCKED, apiKey: 'key', fetch, separators });
  const query = { a: [1, 2], b: ['a,b', 'c'], after: '0' };
  await Array.fromAsync(client.pages('/alunos', { query: query as object, pageSize: 1 }));
  expect(sent).toEqual([0, 1, 2].map((n) => `?a=1&a=2&b=a%2Cb,c&after=${n}&limit=1`));
});

test.each([200, 201, 204, 205])('a %i without content has no data', async (status) => {
  const fetch = async () => new Response(null, { status });
  const { GET } = createClient({ baseUrl: MOCKED, apiKey: 'key', fetch });
  expect(await GET('/alunos')).toEqual({ ok: true });
});
