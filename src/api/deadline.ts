import type { ServerResponse } from 'node:http';
import type { Failure } from '../errors.ts';
import type { Call, Origin, Result, Store } from '../store/store.ts';

/**
 * Calls the store, for at most `ms` milliseconds and for no longer than the client stays. When the time is up the
 * result is `storeTimeout`, whatever the store does about the signal that it gets then.
 */
export function callWithin(
  ms: number,
  store: Store,
  call: Call,
  res: ServerResponse,
  origin?: Origin,
): Promise<Result | { readonly failure: Failure }> {
  return new Promise((resolve, reject) => {
    if (res.closed) return resolve({ failure: { kind: 'clientGone' } });
    const controller = new AbortController();
    const end = (result: Result | { readonly failure: Failure }) => {
      clearTimeout(timer);
      res.off('close', onClose);
      resolve(result);
    };
    const timer = setTimeout(() => {
      const cause = new Error(`no answer within ${ms} ms`);
      controller.abort(cause);
      end({ failure: { kind: 'storeTimeout', cause } });
    }, ms);
    const onClose = () => {
      controller.abort(new Error('the client is gone'));
      end({ failure: { kind: 'clientGone' } });
    };
    res.on('close', onClose);
    store.call(call, controller.signal, origin).then(end, reject);
  });
}
