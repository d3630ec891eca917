// Clients that request long lists and read them slowly; load generators read as fast as they can.

import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type HttpRequest, toWire } from './cases.ts';
import type { Load } from './wrk.ts';

/** Pauses before the first read and between two reads, in ms. */
const SILENT_MS = 3_000;
const PAUSE_MS = 500;

/**
 * Repeats a request on new connections, `depth` times at once on each (RFC 9112, section 9.3.2), and reads the answers
 * slowly. Returns the number of bytes read.
 */
export async function readSlowly(origin: string, request: HttpRequest, load: Load): Promise<number> {
  const { connections, seconds, signal, depth = 1 } = load;
  const end = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1_000)]);
  const client = async (): Promise<number> => {
    let bytes = 0;
    while (!end.aborted) bytes += await readPausing(ask(origin, request, depth), end);
    return bytes;
  };
  const read = await Promise.all(Array.from({ length: connections }, client));
  return read.reduce((sum, bytes) => sum + bytes, 0);
}

async function readPausing(socket: Socket, signal: AbortSignal): Promise<number> {
  try {
    await delay(SILENT_MS, undefined, { signal });
    for await (const _part of socket) await delay(PAUSE_MS, undefined, { signal });
  } catch (error) {
    // A gateway may close a connection that does not read.
    if (!signal.aborted && (error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
  } finally {
    socket.destroy();
  }
  return socket.bytesRead;
}

function ask(origin: string, request: HttpRequest, depth: number): Socket {
  const { hostname, port, host } = new URL(origin);
  const last = toWire(host, { ...request, headers: { ...request.headers, Connection: 'close' } });
  const socket = connect({ host: hostname, port: Number(port) });
  // An error before the first read is thrown by that read.
  socket.on('error', () => {});
  socket.write(toWire(host, request).repeat(depth - 1) + last);
  return socket;
}
