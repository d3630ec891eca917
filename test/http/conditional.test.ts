import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { call, KEYS, lists, STUDENT } from '../helpers/api.ts';
import { openTestStore, startGateway } from '../helpers/gateway.ts';
import { sendRaw } from '../helpers/raw.ts';
import { namesIn, type RawAnswer, send } from '../helpers/send.ts';
import { recordCalls } from '../helpers/stub-store.ts';

const shared = inject('url');

type Options = { readonly url?: string; readonly key?: string; readonly method?: string };

/** Sends a request without fetch, which with a tag of its caller's adds `Cache-Control: no-cache`. */
const ask = (target: string, headers: Record<string, string> = {}, options: Options = {}): Promise<RawAnswer> => {
  const { url = shared, key = KEYS.aurora, method = 'GET' } = options;
  return send(url + target, { method, headers: { 'X-Api-Key': key, ...headers } });
};

async function tagOf(target: string, options?: Options): Promise<string> {
  const { headers } = await ask(target, {}, options);
  return headers.etag ?? '';
}

/** That an answer says nothing but that the copy holds (RFC 9110, 15.4.5). */
function expectNotModified({ status, headers, text }: RawAnswer, tag: string): void {
  expect([status, text]).toEqual([304, '']);
  expect(headers).toMatchObject({ etag: tag, 'cache-control': 'private, no-cache' });
  expect(headers).not.toHaveProperty('content-length');
  expect(headers).not.toHaveProperty('transfer-encoding');
  expect(headers).not.toHaveProperty('content-encoding');
  expect(headers).not.toHaveProperty('content-type');
}

describe.each(lists)('$path', ({ path }) => {
  test('has a weak tag, the same for the same answer', async () => {
    const tag = await tagOf(path);
    expect(tag).toMatch(/^W\/"[\w-]{27}"$/);
    expect(await tagOf(path)).toBe(tag);
    expect(await tagOf(`${path}?limit=100&offset=0`)).toBe(tag);
  });

  test('has another tag for another answer', async () => {
    const tags = await Promise.all([path, `${path}?limit=1`, `${path}?limit=1&offset=1`].map((each) => tagOf(each)));
    expect(new Set(tags).size).toBe(3);
    expect(await tagOf(path, { key: KEYS.bosque })).not.toBe(tags[0]);
  });

  test('may be cached only by the client, which revalidates each time', async () => {
    const { headers } = await ask(path);
    expect(headers['cache-control']).toBe('private, no-cache');
    expect(namesIn(headers.vary)).toEqual(['x-api-key', 'accept-encoding']);
  });

  test("is a 304 with the answer's headers for a client that has it", async () => {
    const target = `${path}?limit=1&offset=1`;
    const whole = await ask(target, { 'Accept-Encoding': 'gzip' });
    const tag = whole.headers.etag ?? '';
    const answer = await ask(target, { 'Accept-Encoding': 'gzip', 'If-None-Match': tag });
    expectNotModified(answer, tag);
    for (const name of ['link', 'vary', 'content-security-policy', 'x-content-type-options']) {
      expect(answer.headers[name], name).toBe(whole.headers[name]);
    }
    expect(answer.headers.link).toContain('rel="next"');
  });

  test('is a 304 for HEAD too', async () => {
    const tag = await tagOf(path);
    expect(await tagOf(path, { method: 'HEAD' })).toBe(tag);
    expectNotModified(await ask(path, { 'If-None-Match': tag }, { method: 'HEAD' }), tag);
  });
});

describe('If-None-Match', () => {
  const target = '/alunos?limit=3';

  test.each([
    ['the tag', (tag: string) => tag],
    ['its strong form, since the comparison is weak', (tag: string) => tag.slice(2)],
    ['any', () => '*'],
    ['it among others', (tag: string) => `"a", ${tag}, W/"b"`],
    ['it among others without blanks', (tag: string) => `"a",${tag},W/"b"`],
    ['it among others with many blanks', (tag: string) => ` "a"  ,   ${tag}  ,W/"b" `],
    ['it and empty elements', (tag: string) => `, ,${tag}, ,`],
    ['it twice', (tag: string) => `${tag}, ${tag}`],
    ['it behind one with a comma', (tag: string) => `"a,b", ${tag}`],
    ['it among a hundred', (tag: string) => [...Array.from({ length: 100 }, (_, n) => `W/"${n}"`), tag].join(', ')],
  ])('holds with %s', async (_what, toField) => {
    const tag = await tagOf(target);
    expectNotModified(await ask(target, { 'If-None-Match': toField(tag) }), tag);
  });

  test.each([
    ['another tag', () => 'W/"0000000000000000000000000000"'],
    ['nothing', () => ''],
    ['a part of it', (tag: string) => `${tag.slice(0, -2)}"`],
    ['it without quotes', (tag: string) => tag.slice(3, -1)],
    ['it in lower case', (tag: string) => tag.toLowerCase().replace('w/', 'W/')],
    ['a weak mark in lower case', (tag: string) => tag.replace('W/', 'w/')],
    ['its quotes twice', (tag: string) => tag.replaceAll('"', '""')],
    ['it in a longer one', (tag: string) => `W/"x${tag.slice(3)}`],
    ['any in quotes', () => '"*"'],
    ['garbage', () => ',;"\\ W/ """'],
    ['bytes that are no ASCII', () => '\xff\xfe'],
  ])('does not hold with %s', async (_what, toField) => {
    const whole = await ask(target);
    const answer = await ask(target, { 'If-None-Match': toField(whole.headers.etag ?? '') });
    expect([answer.status, answer.text]).toEqual([200, whole.text]);
    expect(answer.headers.etag).toBe(whole.headers.etag);
  });

  test('holds where the header comes twice', async () => {
    const lines = ['"a"', await tagOf(target)].map((tag) => `If-None-Match: ${tag}\r\n`).join('');
    const head = `Host: x\r\nX-Api-Key: ${KEYS.aurora}\r\nConnection: close\r\n`;
    const answer = await sendRaw(shared, `GET /v1${target} HTTP/1.1\r\n${head}${lines}\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 304 Not Modified\r\n(.+\r\n)+\r\n$/);
  });

  test('takes precedence over If-Modified-Since, which is ignored', async () => {
    const tomorrow = new Date(Date.now() + 86_400_000).toUTCString();
    expect((await ask(target, { 'If-Modified-Since': tomorrow })).status).toBe(200);
    expect((await ask(target, { 'If-Modified-Since': tomorrow, 'If-None-Match': '"a"' })).status).toBe(200);
  });

  test("ignores the request's Cache-Control", async () => {
    const tag = await tagOf(target);
    for (const wanted of ['no-cache', 'max-age=0, no-cache', 'max-age=0', 'no-store']) {
      expect((await ask(target, { 'If-None-Match': tag, 'Cache-Control': wanted })).status).toBe(304);
    }
  });

  test('is ignored if the request is refused', async () => {
    const tag = await tagOf(target);
    const refused = [
      await ask('/alunos?limit=0', { 'If-None-Match': tag }),
      await ask('/alunos', { 'If-None-Match': tag, 'X-Api-Key': '' }),
      await ask(target, { 'If-None-Match': tag }, { key: 'wms_demo_errada' }),
      await ask(target, { 'If-None-Match': '*' }, { key: KEYS.expired }),
      await ask('/nada', { 'If-None-Match': '*' }),
      await ask('/alunos', { 'If-None-Match': '*' }, { method: 'DELETE' }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([422, 400, 401, 401, 404, 405]);
    for (const { headers, text } of refused) {
      expect(headers['cache-control']).toBe('no-store');
      expect(headers).not.toHaveProperty('etag');
      expect(JSON.parse(text)).toHaveProperty('error');
    }
  });
});

test('what changes meanwhile is visible, because every request calls the store', async () => {
  const opened = await openTestStore();
  const store = recordCalls(opened);
  const { url, close } = await startGateway({ store });
  onTestFinished(async () => {
    await close();
    await opened.close();
  });
  const target = '/alunos?limit=1000';
  const tag = await tagOf(target, { url });
  store.calls.length = 0;
  expectNotModified(await ask(target, { 'If-None-Match': tag }, { url }), tag);
  expect(store.calls.map(({ function: name, args }) => [name, args.p_api_key])).toEqual([
    ['listar_alunos', KEYS.aurora],
  ]);

  const created = await call('/alunos', { url, json: STUDENT, headers: { 'If-None-Match': '*' } });
  expect(created.status).toBe(201);
  expect([created.headers.get('etag'), created.headers.get('cache-control')]).toEqual([null, 'no-store']);

  const changed = await ask(target, { 'If-None-Match': tag }, { url });
  expect(changed.status).toBe(200);
  expect(changed.text).toContain((created.body as { id: string }).id);
  expect(changed.headers.etag).not.toBe(tag);
  expect((await ask(target, { 'If-None-Match': changed.headers.etag ?? '' }, { url })).status).toBe(304);
});
