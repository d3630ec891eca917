import { LRUCache } from 'lru-cache';

/** The keys that the store has accepted: nobody can invent one, so each may be given what is a key's own. */
export type AcceptedKeys = {
  has(key: string): boolean;
  /** Remembers a key that was accepted, and forgets one that was refused. */
  record(key: string, isAccepted: boolean): void;
};

/** How many keys are remembered; one that is forgotten counts as unknown until it is accepted again. */
const MAX_KEYS = 10_000;

/** Starts with no key: after a start each is unknown until its first request was answered. */
export function createAcceptedKeys(): AcceptedKeys {
  const keys = new LRUCache<string, true>({ max: MAX_KEYS });
  return {
    // Not keys.has, which does not count as a use of the key.
    has: (key) => keys.get(key) !== undefined,
    record: (key, isAccepted) => {
      if (isAccepted) keys.set(key, true);
      else keys.delete(key);
    },
  };
}
