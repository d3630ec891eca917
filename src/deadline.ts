// The one way to bound the time of an operation. Imports nothing.

/** An operation took longer than it may. */
export class DeadlineError extends Error {}

/**
 * Runs `work` for at most `ms` milliseconds, or until `parent` aborts. Then its signal aborts, and the promise rejects
 * with the signal's reason at once, whatever `work` does.
 */
export function within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>, parent?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const controller = new AbortController();
    const abort = (reason: unknown) => {
      controller.abort(reason);
      reject(reason);
    };
    // Answers that arrived while this process was busy are read before the deadline counts.
    const timer = setTimeout(() => setImmediate(abort, new DeadlineError(`no answer within ${ms} ms`)), ms);
    const onParent = () => abort(parent?.reason);
    const end = () => {
      clearTimeout(timer);
      parent?.removeEventListener('abort', onParent);
    };
    if (parent?.aborted) {
      end();
      abort(parent.reason);
      return;
    }
    parent?.addEventListener('abort', onParent);
    work(controller.signal).then(resolve, reject).finally(end);
  });
}
