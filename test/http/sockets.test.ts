import { EventEmitter, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createUnread, limitReading } from '../../src/http/unread.ts';
import { startGateway, type TestGateway, type TestGatewayOptions } from '../helpers/gateway.ts';
import { openRaw } from '../helpers/raw.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

async function start(options: TestGatewayOptions): Promise<TestGateway> {
  const gateway = await startGateway(options);
  onTestFinished(gateway.close);
  return gateway;
}

const get = (path: string) => `GET /v1${path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\n\r\n`;
const ask = async ({ url }: TestGateway) => {
  const answer = await fetch(`${url}/academias`, { headers: { 'X-Api-Key': 'k' } });
  return { status: answer.status, retryAfter: answer.headers.get('Retry-After'), body: await answer.text() };
};

async function open({ url }: TestGateway): ReturnType<typeof openRaw> {
  const opened = await openRaw(url);
  onTestFinished(() => void opened.socket.destroy());
  return opened;
}

/** Asks on a socket that reads nothing. */
async function askSilently({ url }: TestGateway, text: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) }).pause();
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  socket.write(text);
  return socket;
}

test('refuses lists, but not creations, while too many bytes are unread', async () => {
  const json = JSON.stringify('x'.repeat(8_000_000));
  const store = createStubStore(({ returns }) => ({ json: returns === 'row' ? '{}' : json, count: 1 }));
  const gateway = await start({ store, unreadLimit: 12_000_000 });
  const silent = await askSilently(gateway, get('/academias'));
  await waitFor(async () =>
    expect(await ask(gateway)).toEqual({ status: 502, retryAfter: '1', body: '{"error":"Data store unavailable"}' }),
  );
  expect(gateway.faults.at(-1)).toMatchObject({
    kind: 'storeOverloaded',
    cause: expect.stringMatching(/^\d+ bytes wait for clients/),
  });
  const body = JSON.stringify({ p_nome: 'Ana', p_email: 'ana@aurora.example' });
  const created = await fetch(`${gateway.url}/alunos`, { method: 'POST', headers: { 'X-Api-Key': 'k' }, body });
  expect(created.status).toBe(201);
  silent.destroy();
  await waitFor(async () => expect(await ask(gateway)).toMatchObject({ status: 200 }));
});

test('an answer that would be too large is a 422 on the limit of its page, in the language of the client', async () => {
  const store = createStubStore(() => ({ failure: { kind: 'answerTooLarge', cause: 'too large' } }));
  const gateway = await start({ store, answerLimit: 1_234 });
  expect(await ask(gateway)).toMatchObject({
    status: 422,
    body: '{"error":{"limit":["must be smaller: these records take more than 1234 bytes"]}}',
  });
  const headers = { 'X-Api-Key': 'k', 'Accept-Language': 'pt-BR' };
  const answer = await fetch(`${gateway.url}/academias`, { headers });
  expect([answer.status, await answer.json(), answer.headers.get('content-language')]).toEqual([
    422,
    { error: { limit: ['Informe um número menor: estes registros ocupam mais de 1234 bytes'] } },
    'pt-BR',
  ]);
  expect(gateway.faults).toEqual([]);
});

test('sockets beyond the limit are closed, and counted, and those within it are served', async () => {
  const gateway = await start({ store: createStubStore(), maxSockets: 2 });
  const first = await open(gateway);
  const second = await open(gateway);
  const third = await open(gateway);
  await third.ended;
  // A worker would return it to the primary process otherwise, which would offer it again and again.
  expect(gateway.server).toMatchObject({ maxConnections: 2, dropMaxConnection: true });
  first.socket.write(get('/academias'));
  await waitFor(() => expect(first.read()).toMatch(/^HTTP\/1\.1 200 /));
  expect(gateway.server.sockets()).toEqual({ open: 2, refused: 1 });
  second.socket.destroy();
  await waitFor(() => expect(gateway.server.sockets().open).toBe(1));
  expect(await ask(gateway)).toMatchObject({ status: 200 });
});

describe('unread answers', () => {
  const toAnswer = (writableLength = 0) =>
    Object.assign(new EventEmitter(), {
      closed: false,
      socket: { writableLength, destroy: vi.fn() },
    }) as unknown as ServerResponse & { socket: { destroy: () => void } };

  test('of one key take a quarter of the limit at most, and those of others the rest', () => {
    const unread = createUnread(1_000_000);
    const first = toAnswer();
    expect(unread.admit(first, 'a', 900_000)).toBe(true);
    expect(unread.admit(toAnswer(), 'b', 100_000)).toBe(true);
    expect(unread.admit(toAnswer(), 'c', 100_000)).toBe(false);
    first.emit('close');
    expect(unread.bytes).toBe(100_000);
    expect(unread.admit(toAnswer(), 'b', 150_000)).toBe(true);
    expect(unread.admit(toAnswer(), 'b', 33_000)).toBe(false);
    expect(unread.admit(toAnswer(), 'c', 700_000)).toBe(true);
    expect(unread.bytes).toBe(950_000);
  });

  test('always have room for a single one', () => {
    expect(createUnread(0).admit(toAnswer(), 'a', 8_000_000)).toBe(true);
  });

  test('that are short count only where the system does not take them at once', () => {
    const unread = createUnread(1_000_000);
    const [taken, waiting] = [toAnswer(0), toAnswer(20_000)];
    for (const res of [taken, waiting]) {
      unread.admit(res, 'a', 20_000);
      res.emit('prefinish');
    }
    expect(unread.bytes).toBe(20_000);
    for (const res of [taken, waiting]) res.emit('close');
    expect(unread.bytes).toBe(0);
  });

  test('to a client that is gone do not count', () => {
    const unread = createUnread(1_000_000);
    unread.admit(Object.assign(toAnswer(), { closed: true }), 'a', 50_000);
    expect(unread.bytes).toBe(0);
  });

  test('have 30 s to be read, and a second more for each 32 kB', () => {
    vi.useFakeTimers();
    const [slow, quick, taken] = [toAnswer(320_000), toAnswer(320_000), toAnswer(0)];
    for (const res of [slow, quick, taken]) limitReading(res);
    quick.emit('close');
    vi.advanceTimersByTime(39_999);
    expect(slow.socket.destroy).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(slow.socket.destroy).toHaveBeenCalledTimes(1);
    for (const res of [quick, taken]) expect(res.socket.destroy).not.toHaveBeenCalled();
    vi.useRealTimers();
  });
});
