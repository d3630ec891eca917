// Remembers which API keys were accepted.

import { LRUCache } from 'lru-cache';

/** The keys that the store has accepted. A client cannot invent one, so each can have its own share of the store. */
export type AcceptedKeys = {
  has(key: string): boolean;
  /** Adds an accepted key, or removes a refused one. */
  record(key: string, isAccepted: boolean): void;
};

/** The maximum number of remembered keys; a dropped key counts as unknown until the store accepts it again. */
const MAX_KEYS = 10_000;

/** Creates an empty set of accepted keys. */
export function createAcceptedKeys(): AcceptedKeys {
  const keys = new LRUCache<string, true>({ max: MAX_KEYS });
  return {
    // keys.has would not mark the key as recently used.
    has: (key) => keys.get(key) !== undefined,
    record: (key, isAccepted) => {
      if (isAccepted) keys.set(key, true);
      else keys.delete(key);
    },
  };
}
