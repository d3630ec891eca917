// The functions that read and write header fields, without HTTP.

import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { lastElement } from '../../src/api/answer.ts';
import { prefersPortuguese } from '../../src/api/messages.ts';
import { chooseEncoding } from '../../src/http/compression.ts';
import { createRecord, readAddress, toNetwork } from '../../src/http/context.ts';

const toRequest = (headers: Record<string, string>) =>
  ({ socket: { remoteAddress: '10.0.0.9' }, headers }) as unknown as IncomingMessage;

describe('Accept-Encoding', () => {
  test.each([
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip;q=0.5, br;q=0.1', 'gzip'],
    ['identity, gzip;q=0.5', undefined],
    ['zstd', undefined],
    ['*'.repeat(5_000), undefined],
  ])('chooses the encoding that the client prefers: %#', (accepted, encoding) => {
    expect(chooseEncoding(toRequest({ 'accept-encoding': accepted }))).toBe(encoding);
  });
});

describe('Accept-Language', () => {
  const prefers = (language: string) => prefersPortuguese({ 'accept-language': language });

  test.each([
    ...['', '*', 'EN-us', 'en-US,en;q=0.9,pt-BR;q=0.8', 'pt;q=0.5, en;q=0.7', 'pt-PT;q=0.1, *;q=0.2', 'pt-BR;q=0'],
    ...['en;q=0', 'de, fr;q=0.5', 'pto', 'pt_BR', '@,=', '"pt'],
  ])('%j is English', (language) => expect(prefers(language)).toBe(false));

  test.each([
    ...['PT-br', 'pt', 'pt-PT', 'pt-Latn-BR', '*, pt-BR', 'pt-BR, en', 'pt-BR,pt;q=0.9,en-US;q=0.8,en;q=0.7'],
    ...['en;q=0.5, pt;q=0.6', 'de, pt;q=0.2, en;q=0.1', 'en;q=0.1, *', 'en;q=0, *;q=0.1'],
  ])('%j is Portuguese', (language) => expect(prefers(language)).toBe(true));
});

describe('X-Request-Id', () => {
  const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  const idOf = (id?: string) => createRecord('GET', '/', id === undefined ? {} : { 'x-request-id': id }).id;

  test.each(['a', 'x'.repeat(128), 'azAZ09.:/+=@~_-', 'Root=1-67891233-abcdef012345678912345678'])(
    'is the id of the request: %#',
    (id) => expect(idOf(id)).toBe(id),
  );

  test.each([
    ...[undefined, '', 'x'.repeat(129), 'a b', 'a"b', 'a\\nb', 'a%0d%0ab', '<b>', 'a\xe9'],
    // Node joins two fields like this.
    'one, one',
    ...[`wms_live_${'a'.repeat(38)}`, `job-1/wms_demo_${'0'.repeat(9)}`],
  ])('is replaced by a new UUID: %#', (id) => {
    const ids = [idOf(id), idOf(id)];
    expect(ids).toEqual([expect.stringMatching(UUID), expect.stringMatching(UUID)]);
    expect(ids[0]).not.toBe(ids[1]);
  });
});

describe('the address of a client', () => {
  test.each([
    ['that of the connection, whatever a header says', 0, '203.0.113.1', '10.0.0.9'],
    ['what the proxy says, and not what a client wrote before it', 1, '198.51.100.7, 203.0.113.1', '203.0.113.1'],
    ['that before the second proxy where there are two', 2, '198.51.100.7, 203.0.113.1, 10.0.0.1', '203.0.113.1'],
  ])('is %s', (_what, hops, forwarded, address) => {
    expect(readAddress(toRequest({ 'x-forwarded-for': forwarded }), hops)).toBe(address);
  });

  test.each([
    ['a port', '203.0.113.1:4711', '203.0.113.1'],
    ['64 bits of IPv6', '2001:db8:1:2::1', '2001:db8:1:2:ffff::2'],
    ['a port of IPv6', '[2001:db8::1]:1', '[2001:db8::1]:2'],
    ['IPv4 in IPv6', '::ffff:203.0.113.1', '203.0.113.1'],
  ])('is of the same network with and without %s', (_what, one, other) => {
    expect(toNetwork(one)).toBe(toNetwork(other));
  });

  test('is of another network', () => {
    expect(new Set(['203.0.113.1', '203.0.113.2', '2001:db8:1:2::1', '2001:db8:1:3::1'].map(toNetwork)).size).toBe(4);
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
