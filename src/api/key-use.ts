import { LRUCache } from 'lru-cache';
import { type Fault, isFault } from '../errors.ts';
import type { Key } from '../openapi/operations.ts';
import type { Call, Store } from '../store/store.ts';

/** Is told of a call whose key was accepted. */
export type RecordKeyUse = (key: Key, call: Call, onFault: (fault: Fault) => void) => void;

/** How often the store is told that a key is in use, in milliseconds. */
const EVERY_MS = 60_000;
/** How many keys are remembered; one that is forgotten is only told of too often. */
const MAX_KEYS = 10_000;

/**
 * Tells the store of the keys that are used: of each once a minute, after its call and never in the way of it. It is
 * no part of the functions that read, because their transactions cannot write.
 */
export function createKeyUseRecorder(store: Store, deadlineMs: number): RecordKeyUse {
  const told = new LRUCache<string, true>({ max: MAX_KEYS, ttl: EVERY_MS });
  return ({ argument, usedFunction }, call, onFault) => {
    const value = call.args[argument];
    if (usedFunction === undefined || typeof value !== 'string' || told.has(value)) return;
    told.set(value, true);
    const use: Call = { function: usedFunction, args: { [argument]: value }, returns: 'rows', readOnly: false };
    store.call(use, AbortSignal.timeout(deadlineMs)).then((result) => {
      if ('failure' in result && isFault(result.failure)) onFault(result.failure);
    });
  };
}
