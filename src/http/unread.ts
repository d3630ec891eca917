// Bounds the memory of answers that clients do not read.

import type { ServerResponse } from 'node:http';

/** Limits the memory that answers take while their clients do not read them. */
export type Unread = {
  readonly bytes: number;
  /**
   * Counts an answer to a key until it is sent. Returns false if it does not fit: the limit is reached, or the key uses
   * a quarter of it. A single answer always fits.
   */
  admit(res: ServerResponse, key: string, bytes: number): boolean;
};

/** The share of the limit that one key may use, so that its slow clients do not block the others. */
const SHARE_OF_KEY = 1 / 4;
/**
 * Longer answers are counted from the start: they are compressed on another thread, or the system's buffer does not
 * take them at once.
 */
const SHORT_ANSWER = 32_768;

/** How long a client may take to read an answer, in milliseconds, in addition to the time for its length. */
const GRACE_MS = 30_000;
/** The minimum read rate: 32 kB a second, a third of a slow mobile network's. */
const MIN_BYTES_PER_MS = 32;

/** Creates the count; `limit` is the maximum total of unread bytes. */
export function createUnread(limit: number): Unread {
  const byKey = new Map<string, number>();
  let total = 0;

  function count(res: ServerResponse, key: string, bytes: number): void {
    total += bytes;
    byKey.set(key, (byKey.get(key) ?? 0) + bytes);
    res.once('close', () => {
      total -= bytes;
      const rest = (byKey.get(key) ?? 0) - bytes;
      if (rest > 0) byKey.set(key, rest);
      else byKey.delete(key);
    });
  }

  function fits(key: string, bytes: number): boolean {
    if (total === 0) return true;
    const ofKey = byKey.get(key) ?? 0;
    return total + bytes <= limit && (ofKey === 0 || ofKey + bytes <= limit * SHARE_OF_KEY);
  }

  return {
    get bytes() {
      return total;
    },
    admit: (res, key, bytes) => {
      // The client is gone: nothing will be written, and `close` will not fire again.
      if (res.closed) return true;
      if (!fits(key, bytes)) return false;
      if (bytes > SHORT_ANSWER) count(res, key, bytes);
      else {
        res.once('prefinish', () => {
          if (hasUnsent(res)) count(res, key, bytes);
        });
      }
      return true;
    },
  };
}

/** Destroys the socket of a client that reads an answer too slowly. Call it when the whole answer is written. */
export function limitReading(res: ServerResponse): void {
  const { socket } = res;
  if (!socket || !hasUnsent(res)) return;
  const timer = setTimeout(() => socket.destroy(), GRACE_MS + socket.writableLength / MIN_BYTES_PER_MS);
  res.once('close', () => clearTimeout(timer));
}

function hasUnsent({ socket }: ServerResponse): boolean {
  return socket !== null && socket.writableLength > 0;
}
