import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { lastElement } from '../../src/api/links.ts';
import type { Store } from '../../src/store/store.ts';
import { call, document, KEYS, lists } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { readLinks } from '../helpers/links.ts';
import { createStubStore, recordCalls, type StubStore } from '../helpers/stub-store.ts';

type Row = { readonly id: string };
type Page = { readonly target: string; readonly rows: readonly Row[] };

const shared = inject('url');

/** The rows of a page, and the pages beside it as targets of the same gateway. */
async function read(target: string, url = shared): Promise<Page & { next?: string; prev?: string }> {
  const { status, body, headers } = await call(target, { url });
  expect(status).toBe(200);
  const links = Object.entries(readLinks(headers.get('link'))).map(([relation, reference]) => {
    const { href } = new URL(reference, url + target);
    expect(href.startsWith(url)).toBe(true);
    return [relation, href.slice(url.length)];
  });
  return { target, rows: body as Row[], ...Object.fromEntries(links) };
}

/** The pages from one on, by one of the links. */
async function follow(relation: 'next' | 'prev', target: string, url = shared): Promise<Page[]> {
  const pages: Page[] = [];
  for (let at: string | undefined = target; at !== undefined; ) {
    if (pages.length > 50) throw new Error(`${relation} does not come to an end: ${at}`);
    const page = await read(at, url);
    pages.push(page);
    at = page[relation];
  }
  return pages;
}

const idsOf = (pages: readonly Page[]) => pages.flatMap(({ rows }) => rows.map(({ id }) => id));
const parametersOf = (target: string) => Object.fromEntries(new URL(target, shared).searchParams);
const linkOf = async (target: string) => (await call(target)).headers.get('link');

describe.each(lists)('$path', ({ path }) => {
  let whole: readonly Row[];

  beforeAll(async () => {
    whole = (await read(`${path}?limit=1000`)).rows;
    expect(whole.length).toBeGreaterThan(1);
  });

  test.each(['', '&offset=0'])('is visited once and in order by following next: %s', async (offset) => {
    const size = Math.ceil(whole.length / 4);
    const pages = await follow('next', `${path}?limit=${size}${offset}`);
    expect(idsOf(pages)).toEqual(whole.map(({ id }) => id));
    const place = offset ? `offset=${size * (pages.length - 1)}` : `after=${pages.at(-2)?.rows.at(-1)?.id}`;
    expect(pages.at(-1)?.target).toBe(`${path}?limit=${size}&${place}`);
  });

  test('leads from a last page that is full to an empty one, which is the end', async () => {
    const target = `${path}?limit=${whole.length}`;
    expect(await linkOf(target)).toBe(`<?limit=${whole.length}&after=${whole.at(-1)?.id}>; rel="next"`);
    const [, empty] = await follow('next', target);
    expect(empty?.rows).toEqual([]);
    expect(await linkOf(empty?.target ?? '')).toBeNull();
    const [, beyond] = await follow('next', `${target}&offset=0`);
    expect(beyond?.rows).toEqual([]);
    expect(await linkOf(beyond?.target ?? '')).toBe(`<?limit=${whole.length}&offset=0>; rel="prev"`);
  });

  test('is visited backwards by following prev', async () => {
    const size = Math.ceil(whole.length / 3);
    const forth = await follow('next', `${path}?limit=${size}&offset=0`);
    const back = await follow('prev', forth.at(-1)?.target ?? '');
    expect(back.map(({ target }) => target).reverse()).toEqual(forth.map(({ target }) => target));
  });

  test('has no link where one page is all', async () => {
    expect(await linkOf(`${path}?limit=1000`)).toBeNull();
  });

  test('has links that name the limit where the request does not', async () => {
    const prev = (await read(`${path}?offset=1`)).prev ?? '';
    expect(parametersOf(prev)).toEqual({ limit: '1', offset: '0' });
    const next = whole.length >= 100 ? `${path}?limit=100&after=${whole[99]?.id}` : undefined;
    expect((await read(path)).next).toBe(next);
  });

  test('has a prev that does not begin before the list, and repeats no record', async () => {
    expect(readLinks(await linkOf(`${path}?limit=10&offset=3`)).prev).toBe('?limit=3&offset=0');
  });

  test.each([
    ['of which a parameter is invalid', '?limit=0&offset=1', KEYS.aurora, 422],
    ['of which a parameter is repeated', '?limit=1&offset=1&limit=1', KEYS.aurora, 422],
    ['of which a parameter is unknown', '?limit=1&offset=1&sort=1&sort=2', KEYS.aurora, 422],
    ['without a key', '?limit=1&offset=1', null, 400],
    ['of which the key is refused', '?limit=1&offset=1', KEYS.expired, 401],
  ])('has no link for a request %s', async (_what, query, key, status) => {
    const answer = await call(path + query, { key });
    expect([answer.status, answer.headers.get('link')]).toEqual([status, null]);
  });
});

test.each([
  '[{"id":"a"}]',
  '[{"id":"b"}, {"id":"a"} ]',
  '[{"id":"b","x":{"id":"c"}},{"id":"a","x":[{"id":"c"}],"y":{"id":"d"}}]',
  String.raw`[{"id":"b"},{"x":"}],{\"id\":\"c\"","id":"a","y":"\\","z":"\\\"{[","":""}]`,
])('the last element of %s is read from the end', (json) => {
  const last = lastElement(json);
  expect(JSON.parse(last)).toEqual(JSON.parse(json).at(-1));
  expect(JSON.parse(last).id).toBe('a');
});

describe('a store of its own', () => {
  const NAMES = ['a', 'b', 'c', 'd', 'e'].map((letter) => `${letter} &%+é <b>;,"#?=/\\'😀 ~z`);
  let opened: Store;
  let store: StubStore;
  let gateway: TestGateway;

  beforeAll(async () => {
    opened = await openTestStore();
    store = recordCalls(opened);
    gateway = await startGateway({ store });
    for (const p_nome of [...NAMES, 'a &%-e']) {
      const json = { p_nome, p_email: 'ana@aurora.example' };
      const { status, headers } = await call('/alunos', { url: gateway.url, json });
      expect([status, headers.get('link')]).toEqual([201, null]);
    }
  });

  afterAll(async () => {
    await gateway.close();
    await opened.close();
  });

  test.each(lists)('is called once for a page of $path, its links included', async ({ path }) => {
    store.calls.length = 0;
    const { next, prev } = await read(`${path}?limit=1&offset=1`, gateway.url);
    expect([next, prev]).toEqual([`${path}?limit=1&offset=2`, `${path}?limit=1&offset=0`]);
    expect(store.calls).toHaveLength(1);
  });

  test.each([
    ['%26%25+%C3%A9', '&% é', 0],
    ['%26%25%2b%c3%a9', '&%+é', 5],
    ['%26%25%2B%C3%89+%3Cb%3E', '&%+É <b>', 5],
    [encodeURIComponent(' &%+é <b>;,"#?=/\\\'😀 ~z'), ' &%+é <b>;,"#?=/\\\'😀 ~z', 5],
    ["'😀+~Z", "'😀 ~Z", 5],
  ])('gives links that keep the filter, whatever its characters: nome=%s', async (encoded, nome, count) => {
    const pages = await follow('next', `/alunos?nome=${encoded}&ativo=true&limit=2`, gateway.url);
    const found = pages.flatMap(({ rows }) => rows as readonly (Row & { nome: string })[]);
    expect(found.map((row) => row.nome)).toEqual(NAMES.slice(0, count));
    expect(pages).toHaveLength(count === 0 ? 1 : 3);
    for (const [index, { target }] of pages.slice(1).entries()) {
      const after = pages[index]?.rows.at(-1)?.id;
      expect(parametersOf(target)).toEqual({ nome, ativo: 'true', limit: '2', after });
    }
  });
});

test('a page of no records, which a document may allow, has no links', async () => {
  const empty = structuredClone(document);
  const parameters = (empty.paths['/academias']?.get?.parameters ?? []) as OpenAPIV3.ParameterObject[];
  const limit = parameters.find(({ name }) => name === 'limit');
  if (limit) limit.schema = { type: 'integer', format: 'int32', default: 100, minimum: 0, maximum: 1_000 };
  const store = createStubStore();
  const gateway = await startGateway({ store, document: empty });
  for (const place of ['', '&offset=0', '&offset=5', '&after=00000000-0000-4000-8000-000000000001']) {
    const answer = await fetch(`${gateway.url}/academias?limit=0${place}`, { headers: { 'X-Api-Key': KEYS.aurora } });
    expect([answer.status, await answer.json(), answer.headers.get('link')]).toEqual([200, [], null]);
  }
  await gateway.close();
});

test('the links of a list that is filtered by arrays have the same arrays', async () => {
  const filtered = structuredClone(document);
  const schema = { type: 'array', items: { type: 'string' } } as const;
  const parameters = [
    { in: 'query', name: 'each', schema },
    { in: 'query', name: 'commas', explode: false, schema },
    { in: 'query', name: 'bars', style: 'pipeDelimited', schema },
  ] as const;
  filtered.paths['/academias']?.get?.parameters?.push(...parameters);
  const store = createStubStore(() => ({ json: '[{},{}]', count: 2 }));
  const gateway = await startGateway({ store, document: filtered });
  const ask = async (query: string) => {
    const { headers } = await fetch(`${gateway.url}/academias${query}`, { headers: { 'X-Api-Key': KEYS.aurora } });
    return readLinks(headers.get('link'));
  };
  const { next = '', prev = '' } = await ask('?each=a&each=b%2Cc&commas=d%2Ce,f&bars=g%7Ch&limit=2&offset=2');
  for (const query of [next, prev]) await ask(query);
  const arrays = store.calls.map(({ args: { p_each, p_commas, p_bars } }) => [p_each, p_commas, p_bars]);
  const expected = [
    ['a', 'b,c'],
    ['d,e', 'f'],
    ['g', 'h'],
  ];
  expect(arrays).toEqual([expected, expected, expected]);
  await gateway.close();
});
