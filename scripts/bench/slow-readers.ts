// Clients that ask for much and take their time to read it; load generators read as fast as they can.

import { connect, type Socket } from 'node:net';
import { addAbortSignal } from 'node:stream';
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
    if (!signal.aborted) throw error;
  } finally {
    socket.destroy();
  }
  return socket.bytesRead;
}

/**
 * Has so many clients ask for the same once, each `depth` times at once on one connection, read nothing for a while, and
 * then all that comes as fast as it does. Gives the status of each answer, `none` for a request without one.
 */
export async function readLate(
  origin: string,
  request: HttpRequest,
  { connections, depth, silentMs, signal }: LateReading,
): Promise<string[]> {
  const client = async () => {
    const socket = addAbortSignal(signal, ask(origin, request, depth));
    await delay(silentMs, undefined, { signal });
    const statuses = await readStatuses(socket);
    signal.throwIfAborted();
    return Array.from({ length: depth }, (_, n) => statuses[n] ?? 'none');
  };
  return (await Promise.all(Array.from({ length: connections }, client))).flat();
}

type LateReading = Omit<Load, 'seconds'> & { readonly depth: number; readonly silentMs: number };

const STATUS = /HTTP\/1\.1 (\d{3})/g;
const STATUS_LENGTH = 'HTTP/1.1 200'.length;

/** The statuses of answers as they come over the wire, until the connection ends, whichever way. */
async function readStatuses(socket: Socket): Promise<string[]> {
  const statuses: string[] = [];
  let end = '';
  try {
    for await (const part of socket) {
      const text: string = end + part.toString('latin1');
      statuses.push(...Array.from(text.matchAll(STATUS), ([, status = '']) => status));
      // One may have begun that is not whole yet.
      end = text.slice(1 - STATUS_LENGTH);
    }
  } catch {
    // A gateway may end a connection that does not read; what was answered before counts.
  }
  return statuses;
}

/** Asks so many times at once on a new connection, which ends with the last answer. */
function ask(origin: string, request: HttpRequest, depth: number): Socket {
  const { hostname, port, host } = new URL(origin);
  const last = toWire(host, { ...request, headers: { ...request.headers, Connection: 'close' } });
  const socket = connect({ host: hostname, port: Number(port) });
  // An error that comes while nothing is read is thrown to whoever reads then.
  socket.on('error', () => {});
  socket.write(toWire(host, request).repeat(depth - 1) + last);
  return socket;
}
