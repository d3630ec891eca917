// The one way to bound the time of an operation. Imports nothing.

/** An operation took longer than it may. */
export class DeadlineError extends Error {}

/**
 * Runs `work` for at most `ms` milliseconds, or until the controller is aborted by someone else. Then its signal is
 * aborted, and the promise rejects with the signal's reason at once, whatever `work` does.
 */
export async function within<T>(
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
  controller = new AbortController(),
): Promise<T> {
  const { signal } = controller;
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  let last: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => {
    // Answers that arrived while this process was busy are read before the deadline counts.
    last = setImmediate(() => controller.abort(new DeadlineError(`no answer within ${ms} ms`)));
  }, ms);
  try {
    work(signal).then(resolve, reject);
    return await promise;
  } finally {
    clearTimeout(timer);
    clearImmediate(last);
    signal.removeEventListener('abort', onAbort);
  }
}
