import type { ServerResponse } from 'node:http';

/** The bytes of answers that the system has not taken yet, because their clients do not read them. */
export type Unread = {
  readonly bytes: number;
  /**
   * Counts an answer of so many bytes to a key until it is out. False where it does not fit: the limit is reached, or
   * the key has a quarter of it already. A single answer always fits.
   */
  admit(res: ServerResponse, key: string, bytes: number): boolean;
};

/** A part of the limit that one key may use, so that its slow clients do not stop the answers to others. */
const PART_OF_KEY = 1 / 4;
/** Longer answers are compressed aside, or are not taken by the system at once: they are counted from the beginning. */
const SHORT_ANSWER = 32_768;

/** How long a client may take to read an answer, in milliseconds, besides the time that its length allows. */
const GRACE_MS = 30_000;
/** The slowest rate at which an answer may be read: 32 kB a second, a third of what a slow mobile network gives. */
const MIN_BYTES_PER_MS = 32;

/** Creates the count; `limit` is the total number of unread bytes allowed. */
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
    return total + bytes <= limit && (ofKey === 0 || ofKey + bytes <= limit * PART_OF_KEY);
  }

  return {
    get bytes() {
      return total;
    },
    admit: (res, key, bytes) => {
      // Nothing is written to a client that is gone, and its answer is not closed again.
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

/** Ends the socket of a client that reads an answer too slowly; to be called when all of it is written. */
export function limitReading(res: ServerResponse): void {
  const { socket } = res;
  if (!socket || !hasUnsent(res)) return;
  const timer = setTimeout(() => socket.destroy(), GRACE_MS + socket.writableLength / MIN_BYTES_PER_MS);
  res.once('close', () => clearTimeout(timer));
}

function hasUnsent({ socket }: ServerResponse): boolean {
  return socket !== null && socket.writableLength > 0;
}
