import type { ServerResponse } from 'node:http';
import type { Call, Result, Store } from './store/store.ts';

/**
 * Calls the store, for at most `ms` milliseconds and for no longer than the client stays. When the time is up the
 * result is `storeTimeout`, whatever the store does about the signal that it gets then.
 */
export async function callWithin(ms: number, store: Store, call: Call, res: ServerResponse): Promise<Result> {
  const controller = new AbortController();
  const { promise: aborted, resolve } = Promise.withResolvers<Result>();
  const abort = (reason: string) => {
    controller.abort(new Error(reason));
    resolve({ failure: { kind: 'storeTimeout', cause: controller.signal.reason } });
  };
  const timer = setTimeout(abort, ms, `no answer within ${ms} ms`);
  const onClose = () => abort('the client is gone');
  res.once('close', onClose);
  try {
    return await Promise.race([store.call(call, controller.signal), aborted]);
  } finally {
    clearTimeout(timer);
    res.off('close', onClose);
  }
}
