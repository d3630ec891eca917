// What the gateway remembers of API keys.

import { LRUCache } from 'lru-cache';
import { type Fault, isFault } from '../errors.ts';
import type { Key } from '../openapi/operations.ts';
import type { Call } from '../store/store.ts';
import type { CallStore } from './call.ts';

/** The keys that the store has accepted. A client cannot invent one, so each may have a share of its own. */
export type AcceptedKeys = {
  has(key: string): boolean;
  /** Remembers a key that was accepted, and forgets one that was refused. */
  record(key: string, isAccepted: boolean): void;
};

/** How many keys are remembered; a forgotten one counts as unknown until it is accepted again. */
const MAX_KEYS = 10_000;

/** Creates an empty set of accepted keys. */
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

/** How often a key's use is recorded in the store, in milliseconds. */
const RECORD_EVERY_MS = 60_000;

/**
 * Creates the function that records the use of keys in the store: once a minute for each key, after its call and
 * without delaying it. The functions that read cannot do this, because their transactions cannot write.
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
