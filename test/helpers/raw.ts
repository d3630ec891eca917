import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { toAddress } from './fault-proxy.ts';

/** Sends bytes on a connection of their own. Returns the answer when the server has closed the connection. */
export function sendRaw(url: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(toAddress(url));
    const chunks: Buffer[] = [];
    socket.on('connect', () => socket.write(Buffer.from(text, 'latin1')));
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(chunks).toString()));
  });
}

/** Sends bytes, waits until the server has had time to read them, and resets the connection. */
export async function sendAndReset(url: string, text: string): Promise<void> {
  const socket = connect(toAddress(url));
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(text);
  await setImmediate();
  socket.resetAndDestroy();
  await once(socket, 'close');
}

/** A connection that a test reads and writes step by step; it is not closed when the server closes its side. */
export async function openRaw(url: string): Promise<{ socket: Socket; read: () => string; ended: Promise<void> }> {
  const socket = connect({ ...toAddress(url), allowHalfOpen: true });
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  const ended = new Promise<void>((resolve) => {
    socket.once('end', resolve).once('error', () => resolve());
  });
  await once(socket, 'connect');
  return { socket, read: () => text, ended };
}
