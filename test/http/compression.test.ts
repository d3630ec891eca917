import { once } from 'node:events';
import { brotliDecompressSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { call, KEYS } from '../helpers/api.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { openRaw } from '../helpers/raw.ts';
import { namesIn, type RawAnswer, type SendOptions, send } from '../helpers/send.ts';
import { createStudents } from '../helpers/stub-store.ts';

const DECODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  br: brotliDecompressSync,
  gzip: gunzipSync,
  deflate: inflateSync,
};

let gateway: TestGateway;
/** A list of 1,000 as it is when nothing is compressed. */
let plain: RawAnswer;

beforeAll(async () => {
  gateway = await startGateway({ store: createStudents(1_000) });
  plain = await ask('/alunos?limit=1000');
});

afterAll(() => gateway.close());

function ask(target: string, accepted?: string, options: SendOptions = {}): Promise<RawAnswer> {
  const { headers, ...rest } = options;
  const accept = accepted === undefined ? {} : { 'Accept-Encoding': accepted };
  return send(gateway.url + target, { ...rest, headers: { 'X-Api-Key': KEYS.aurora, ...accept, ...headers } });
}

/** The bytes of a request for a list that is long and compressed. */
function toRequest({ url }: TestGateway): string {
  const lines = [`Host: ${new URL(url).host}`, `X-Api-Key: ${KEYS.aurora}`, 'Accept-Encoding: gzip'];
  return ['GET /v1/alunos?limit=1000 HTTP/1.1', ...lines, '', ''].join('\r\n');
}

/** The bytes before they were compressed; throws where it says a length that is not its own. */
function decode({ headers, bytes }: RawAnswer): Buffer {
  const { 'content-encoding': encoding, 'content-length': length } = headers;
  expect(length).toBe(String(bytes.length));
  if (encoding === undefined) return bytes;
  expect(bytes.length).toBeLessThan(plain.bytes.length / 10);
  return (DECODERS[encoding] as (bytes: Buffer) => Buffer)(bytes);
}

test('a client that does not ask for it is sent the text', () => {
  expect(plain.headers).not.toHaveProperty('content-encoding');
  expect(plain.headers['content-length']).toBe(String(plain.bytes.length));
  expect(plain.bytes.length).toBeGreaterThan(100_000);
  expect(JSON.parse(plain.text)).toHaveLength(1_000);
});

describe('a long answer', () => {
  test.each([
    ['gzip', 'gzip'],
    ['br', 'br'],
    ['deflate', 'deflate'],
    ['gzip, deflate, br, zstd', 'br'],
    ['*', 'br'],
    ['identity;q=0, *', 'br'],
    ['gzip;q=0.5, br;q=0.1', 'gzip'],
    ['gzip;q=0, deflate', 'deflate'],
    ['identity, gzip;q=0.5', undefined],
    ['*;q=0', undefined],
    ['zstd', undefined],
    ['', undefined],
    [',,;;,q', undefined],
    ['*'.repeat(5_000), undefined],
  ])('for who accepts %j is the same text, encoded as %s', async (accepted, encoding) => {
    const answer = await ask('/alunos?limit=1000', accepted);
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, encoding]);
    expect(decode(answer).equals(plain.bytes)).toBe(true);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(answer.headers.etag).toBe(plain.headers.etag);
    expect(answer.headers.link).toBe(plain.headers.link);
    expect(namesIn(answer.headers.vary)).toEqual(['x-api-key', 'accept-encoding']);
  });

  test('is read by fetch as the document has it', async () => {
    const { headers, body } = await call('/alunos?limit=1000', { url: gateway.url });
    expect(headers.get('content-encoding')).toMatch(/^(br|gzip)$/);
    expect(body).toEqual(JSON.parse(plain.text));
  });

  test('has no body for HEAD', async () => {
    const answer = await ask('/alunos?limit=1000', 'gzip', { method: 'HEAD' });
    expect([answer.status, answer.text]).toEqual([200, '']);
    // Its length is not known without the body.
    expect(answer.headers).not.toHaveProperty('content-length');
    expect(answer.headers['content-encoding']).toBe('gzip');
    expect(answer.headers.etag).toBe(plain.headers.etag);
    expect(namesIn(answer.headers.vary)).toEqual(['x-api-key', 'accept-encoding']);
  });
});

test.each([5, 7])('an answer is compressed from a kilobyte on: %i students', async (limit) => {
  const { bytes } = await ask(`/alunos?limit=${limit}`);
  const isLong = bytes.length >= 1_024;
  expect(isLong).toBe(limit > 5);
  const answer = await ask(`/alunos?limit=${limit}`, 'gzip');
  expect(answer.headers['content-encoding']).toBe(isLong ? 'gzip' : undefined);
  expect(answer.headers['content-length']).toBe(String(answer.bytes.length));
  expect((isLong ? gunzipSync(answer.bytes) : answer.bytes).equals(bytes)).toBe(true);
  expect(namesIn(answer.headers.vary)).toEqual(['x-api-key', 'accept-encoding']);
});

test.each([
  ['/alunos?limit=0', KEYS.aurora, 422],
  ['/alunos', '', 400],
  ['/nada', KEYS.aurora, 404],
])('an error is short and JSON: %s', async (target, key, status) => {
  const { headers, text, ...answer } = await ask(target, 'gzip, br', { headers: { 'X-Api-Key': key } });
  expect(answer.status).toBe(status);
  expect(headers).not.toHaveProperty('content-encoding');
  expect(headers['content-length']).toBe(String(Buffer.byteLength(text)));
  expect(namesIn(headers.vary)).toContain('accept-encoding');
  expect(JSON.parse(text)).toHaveProperty('error');
});

describe.each(Object.keys(DECODERS))('in %s', (encoding) => {
  const read = DECODERS[encoding] as (bytes: Buffer) => Buffer;

  // From what is encoded at once to what is encoded aside.
  test.each([10, 100, 180, 185, 190, 195, 200, 500])('a list of %i is the same text', async (limit) => {
    const [answer, uncompressed] = [await ask(`/alunos?limit=${limit}`, encoding), await ask(`/alunos?limit=${limit}`)];
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, encoding]);
    expect(answer.headers['content-length']).toBe(String(answer.bytes.length));
    expect(read(answer.bytes).equals(uncompressed.bytes)).toBe(true);
  });

  test('lists that are asked for at once are each its own', async () => {
    const targets = Array.from({ length: 50 }, (_, n) => `/alunos?limit=${10 + (n % 5) * 150}&offset=${n}`);
    const [answers, uncompressed] = await Promise.all(
      [encoding, undefined].map((accepted) => Promise.all(targets.map((target) => ask(target, accepted)))),
    );
    // Of the long ones only a few are encoded at once.
    const texts = answers?.map(({ bytes, headers }) => (headers['content-encoding'] ? read(bytes) : bytes).toString());
    expect(texts).toEqual(uncompressed?.map(({ text }) => text));
    expect(new Set(texts).size).toBe(targets.length);
  });
});

test('an error that is long is compressed too', async () => {
  const names = Array.from({ length: 60 }, (_, n) => `filtro_${n}`);
  const target = `/alunos?${names.map((name) => `${name}=1`).join('&')}`;
  const [answer, uncompressed] = [await ask(target, 'gzip'), await ask(target)];
  expect([answer.status, answer.headers['content-encoding']]).toEqual([422, 'gzip']);
  expect(gunzipSync(answer.bytes).equals(uncompressed.bytes)).toBe(true);
  expect(Object.keys(JSON.parse(uncompressed.text).error)).toEqual(names);
  expect(namesIn(answer.headers.vary)).toEqual(['accept-language', 'accept-encoding']);
});

test('a body that is compressed is not decompressed', async () => {
  const bomb = gzipSync(Buffer.alloc(50_000_000, ' '));
  expect(bomb.length).toBeLessThan(100_000);
  const headers = { 'Content-Encoding': 'gzip', 'Content-Type': 'application/json' };
  const { status, text } = await ask('/alunos', undefined, { method: 'POST', headers, body: bomb });
  expect([status, text]).toEqual([400, '{"error":"Invalid JSON body"}']);
});

describe('while an answer is compressed', () => {
  /** A gateway that does something as soon as it has begun to. */
  async function startWith(act: () => void): Promise<TestGateway> {
    const students = createStudents(1_000);
    const call: Store['call'] = (asked, signal, origin) => {
      if (asked.readOnly) setImmediate(act);
      return students.call(asked, signal, origin);
    };
    return startGateway({ store: { ...students, call } });
  }

  test('a stop waits for it', async () => {
    let drained: Promise<void> | undefined;
    const stopped = await startWith(() => {
      drained = stopped.server.drain({ noticeMs: 0, finishMs: 5_000 });
    });
    const headers = { 'X-Api-Key': KEYS.aurora, 'Accept-Encoding': 'gzip' };
    const answer = await send(`${stopped.url}/alunos?limit=1000`, { headers });
    expect([answer.status, answer.headers.connection]).toEqual([200, 'close']);
    expect(decode(answer).equals(plain.bytes)).toBe(true);
    await drained;
  });

  test('an unreadable request behind it does not corrupt it', async () => {
    const broken = await startWith(() => client.socket.write('NO HTTP\r\n\r\n'));
    const client = await openRaw(broken.url);
    client.socket.write(toRequest(broken));
    await client.ended;
    expect(client.read().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200']);
    await broken.close();
  });

  test('its client may go away', async () => {
    const left = await startWith(() => client.socket.resetAndDestroy());
    const client = await openRaw(left.url);
    const closed = once(client.socket, 'close');
    client.socket.write(toRequest(left));
    await closed;
    const { status } = await send(`${left.url}/academias`, { headers: { 'X-Api-Key': '' } });
    expect([status, left.faults]).toEqual([400, []]);
    await left.close();
  });
});

test('clients that go away in the middle of an answer harm nobody', async () => {
  for (let n = 0; n < 20; n += 1) {
    const { socket, read } = await openRaw(gateway.url);
    // Several on one connection, so that most of them wait for their turn when it ends.
    socket.write(toRequest(gateway).repeat(5));
    await once(socket, 'data');
    expect(read()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    if (n % 2 === 0) socket.resetAndDestroy();
    else socket.destroy();
  }
  expect(decode(await ask('/alunos?limit=1000', 'gzip')).equals(plain.bytes)).toBe(true);
  expect(gateway.faults).toEqual([]);
});
