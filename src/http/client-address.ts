import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';
import proxyAddr from 'proxy-addr';

/**
 * Creates the reader of a request's client address, as the outermost of `proxyHops` trusted proxies reports it. A header
 * that the client could have written itself is ignored.
 */
export function createAddressReader(proxyHops: number): (req: IncomingMessage) => string {
  if (proxyHops === 0) return (req) => req.socket.remoteAddress ?? '';
  return (req) => proxyAddr(req, (_address, hop) => hop < proxyHops) ?? '';
}

/**
 * The network of one client: an IPv4 address, or 64 bits of an IPv6 address (RFC 6177). A proxy may add the port, which is
 * ignored.
 */
export function toNetwork(address: string): string {
  const text = address.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  if (!ipaddr.isValid(text)) return text.slice(0, 100);
  const parsed = ipaddr.process(text);
  return 'parts' in parsed ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}
