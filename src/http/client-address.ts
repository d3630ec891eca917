import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';
import proxyAddr from 'proxy-addr';

/**
 * Reads which address a request came from: what the last of so many proxies in front says. A header that a client
 * could write itself is not believed.
 */
export function createAddressReader(proxyHops: number): (req: IncomingMessage) => string {
  if (proxyHops === 0) return (req) => req.socket.remoteAddress ?? '';
  return (req) => proxyAddr(req, (_address, hop) => hop < proxyHops) ?? '';
}

/**
 * What one client has to itself: an address of IPv4, 64 bits of one of IPv6 (RFC 6177). A proxy may name the port
 * too, which is another with each connection.
 */
export function toNetwork(address: string): string {
  const text = address.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  if (!ipaddr.isValid(text)) return text.slice(0, 100);
  const parsed = ipaddr.process(text);
  return 'parts' in parsed ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}
