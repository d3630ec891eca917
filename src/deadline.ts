// The one way to bound the time of an operation. Imports nothing.

/** An operation took longer than it may. */
export class DeadlineError extends Error {}

/**
 * Runs `work` for at most `ms` milliseconds, or until the controller is aborted by someone else. Then its signal is
 * aborted, and the promise rejects with the signal's reason at once, whatever `work` does.
 */
export function within<T>(
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
  controller = new AbortController(),
): Promise<T> {
  const { signal } = controller;
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    let last: NodeJS.Immediate | undefined;
    const timer = setTimeout(() => {
      // Answers that arrived while this process was busy are read before the deadline counts.
      last = setImmediate(() => controller.abort(new DeadlineError(`no answer within ${ms} ms`)));
    }, ms);
    const end = () => {
      clearTimeout(timer);
      clearImmediate(last);
      signal.removeEventListener('abort', onAbort);
    };
    signal.addEventListener('abort', onAbort);
    const fail = (error: unknown) => {
      end();
      reject(error);
    };
    try {
      work(signal).then((value) => {
        end();
        resolve(value);
      }, fail);
    } catch (error) {
      fail(error);
    }
  });
}
