// Clients that ask for much and take their time to read it; load generators read as fast as they can.

import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type HttpRequest, toWire } from './cases.ts';
import type { Load } from './generator.ts';

/** How long a client reads nothing after it has asked, and between two parts of what it reads, in milliseconds. */
const SILENT_MS = 3_000;
const PAUSE_MS = 500;

/**
 * Has so many clients ask for the same again and again, each on a connection for so many requests, which it sends at
 * once (RFC 9112, 9.3.2). Gives how many bytes they have read.
 */
export async function readSlowly(
  origin: string,
  request: HttpRequest,
  { connections, seconds, signal, depth }: Load & { readonly depth: number },
): Promise<number> {
  const end = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1_000)]);
  const { hostname, port, host } = new URL(origin);
  const last = toWire(host, { ...request, headers: { ...request.headers, Connection: 'close' } });
  const text = toWire(host, request).repeat(depth - 1) + last;
  const client = async (): Promise<number> => {
    let bytes = 0;
    while (!end.aborted) bytes += await ask(hostname, Number(port), text, end);
    return bytes;
  };
  const read = await Promise.all(Array.from({ length: connections }, client));
  return read.reduce((sum, bytes) => sum + bytes, 0);
}

async function ask(host: string, port: number, text: string, signal: AbortSignal): Promise<number> {
  const socket = connect({ host, port });
  try {
    await once(socket, 'connect', { signal });
    socket.write(text);
    await delay(SILENT_MS, undefined, { signal });
    for await (const _part of socket) await delay(PAUSE_MS, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    socket.destroy();
  }
  return socket.bytesRead;
}
