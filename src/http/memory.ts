// Bounds the memory of answers that clients do not read, and of bodies while they arrive.

import type { ServerResponse } from 'node:http';

/** A bound on the memory of answers that clients have not read, or of bodies that have not arrived completely. */
export type MemoryBudget = {
  readonly bytes: number;
  /**
   * Counts bytes of a key, in addition to those that their answer or body `has` already. Returns false if they do not fit: the limit is
   * reached, or the key uses a quarter of it. A single answer or body always fits.
   */
  take(key: string, bytes: number, has?: number): boolean;
  /** Stops counting bytes of a key. */
  give(key: string, bytes: number): void;
  /** Takes the bytes of an answer, and gives them back when it is sent. */
  admit(res: ServerResponse, key: string, bytes: number): boolean;
};

/** The share of the limit that one key may use, so that its slow clients do not block the others. */
const SHARE_OF_KEY = 1 / 4;

/** How long a client may take to read an answer, in milliseconds, in addition to the time for its length. */
const GRACE_MS = 30_000;
/** The minimum read rate: 32 kB a second, a third of a slow mobile network's. */
const MIN_BYTES_PER_MS = 32;

/** Creates a budget; `limit` is the maximum total of its bytes. */
export function createMemoryBudget(limit: number): MemoryBudget {
  const byKey = new Map<string, number>();
  let total = 0;

  function add(key: string, bytes: number): void {
    total += bytes;
    const ofKey = (byKey.get(key) ?? 0) + bytes;
    if (ofKey > 0) byKey.set(key, ofKey);
    else byKey.delete(key);
  }

  function take(key: string, bytes: number, has = 0): boolean {
    const ofKey = byKey.get(key) ?? 0;
    const isInShare = ofKey === has || ofKey + bytes <= limit * SHARE_OF_KEY;
    const fits = total === has || (total + bytes <= limit && isInShare);
    if (fits) add(key, bytes);
    return fits;
  }

  return {
    get bytes() {
      return total;
    },
    take,
    give: (key, bytes) => add(key, -bytes),
    admit: (res, key, bytes) => {
      // The client is gone: nothing will be written, and `close` will not fire again.
      if (res.closed) return true;
      if (!take(key, bytes)) return false;
      res.once('close', () => add(key, -bytes));
      return true;
    },
  };
}

/** Destroys the socket of a client that reads an answer too slowly. Call it when the whole answer is written. */
export function limitReading(res: ServerResponse): void {
  const { socket } = res;
  if (!socket?.writableLength) return;
  const timer = setTimeout(() => socket.destroy(), GRACE_MS + socket.writableLength / MIN_BYTES_PER_MS);
  res.once('close', () => clearTimeout(timer));
}
