import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { createAddressReader, toNetwork } from '../../src/http/client-address.ts';

const toRequest = (forwarded: string) =>
  ({ socket: { remoteAddress: '10.0.0.9' }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;

test.each([
  ['that of the connection, whatever a header says', 0, '203.0.113.1', '10.0.0.9'],
  ['what the proxy says, and not what a client wrote before it', 1, '198.51.100.7, 203.0.113.1', '203.0.113.1'],
  ['that before the second proxy where there are two', 2, '198.51.100.7, 203.0.113.1, 10.0.0.1', '203.0.113.1'],
])('the address is %s', (_what, hops, forwarded, address) => {
  expect(createAddressReader(hops)(toRequest(forwarded))).toBe(address);
});

test.each([
  ['a port', '203.0.113.1:4711', '203.0.113.1'],
  ['64 bits of IPv6', '2001:db8:1:2::1', '2001:db8:1:2:ffff::2'],
  ['a port of IPv6', '[2001:db8::1]:1', '[2001:db8::1]:2'],
  ['IPv4 in IPv6', '::ffff:203.0.113.1', '203.0.113.1'],
])('the network is the same with and without %s', (_what, one, other) => {
  expect(toNetwork(one)).toBe(toNetwork(other));
});

test('other networks differ', () => {
  expect(new Set(['203.0.113.1', '203.0.113.2', '2001:db8:1:2::1', '2001:db8:1:3::1'].map(toNetwork)).size).toBe(4);
});
