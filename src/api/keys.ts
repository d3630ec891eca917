// Remembers API keys: which ones were accepted, and when a use was last recorded.

import { LRUCache } from 'lru-cache';
import { type Fault, isFault } from '../errors.ts';
import type { Key } from '../openapi/operations.ts';
import type { Call } from '../store/store.ts';
import type { CallStore } from './call.ts';

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

/** How often a key's use is recorded in the store, in milliseconds. */
const RECORD_EVERY_MS = 60_000;

/**
 * Creates the function that records the use of keys in the store: at most once a minute for each key, after its call
 * and without delaying the answer. Functions that read cannot do this, because their transactions are read-only.
 */
export function createKeyUseRecorder(callStore: CallStore) {
  const recorded = new LRUCache<string, true>({ max: MAX_KEYS, ttl: RECORD_EVERY_MS });
  return ({ argument, usedFunction }: Key, call: Call, onFault: (fault: Fault) => void): void => {
    const value = call.args[argument];
    if (usedFunction === undefined || typeof value !== 'string' || recorded.has(value)) return;
    recorded.set(value, true);
    const use: Call = { function: usedFunction, args: { [argument]: value }, returns: 'rows', readOnly: false };
    void callStore(use).then((result) => {
      if ('failure' in result && isFault(result.failure)) onFault(result.failure);
    });
  };
}
