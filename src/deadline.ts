import type { ServerResponse } from 'node:http';
import type { Failure } from './errors.ts';
import type { Call, Origin, Result, Store } from './store/store.ts';

/**
 * Calls the store, for at most `ms` milliseconds and for no longer than the client stays. When the time is up the
 * result is `storeTimeout`, whatever the store does about the signal that it gets then.
 */
export async function callWithin(
  ms: number,
  store: Store,
  call: Call,
  res: ServerResponse,
  origin?: Origin,
): Promise<Result | { readonly failure: Failure }> {
  if (res.closed) return { failure: { kind: 'clientGone' } };
  const controller = new AbortController();
  const { promise: ended, resolve } = Promise.withResolvers<{ readonly failure: Failure }>();
  const timer = setTimeout(() => {
    const cause = new Error(`no answer within ${ms} ms`);
    controller.abort(cause);
    resolve({ failure: { kind: 'storeTimeout', cause } });
  }, ms);
  const onClose = () => {
    controller.abort(new Error('the client is gone'));
    resolve({ failure: { kind: 'clientGone' } });
  };
  res.once('close', onClose);
  try {
    return await Promise.race([store.call(call, controller.signal, origin), ended]);
  } finally {
    clearTimeout(timer);
    res.off('close', onClose);
  }
}
