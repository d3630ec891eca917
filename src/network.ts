import ipaddr from 'ipaddr.js';

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
