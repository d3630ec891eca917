/** Ends one thing that was started. */
export type Stop = () => Promise<unknown> | unknown;

/**
 * What has to be ended at the end, the last that was started first. What is added after the end is ended at once, and
 * to add it throws: whoever starts things goes no further.
 */
export type Cleanup = { add(stop: Stop): void; close(): Promise<void> };

/** Makes a list of what has to be ended. */
export function createCleanup(): Cleanup {
  const stops: Stop[] = [];
  let isClosed = false;
  const close = async () => {
    isClosed = true;
    for (let stop = stops.pop(); stop; stop = stops.pop()) {
      try {
        await stop();
      } catch (error) {
        // The others have to be ended too.
        console.error(error);
      }
    }
  };
  return {
    add: (stop) => {
      stops.push(stop);
      if (!isClosed) return;
      void close();
      throw new Error('The run has ended');
    },
    close,
  };
}

/** Does work that starts things, and ends them at its end; at a signal at once, and the work has failed then. */
export async function withCleanup<T>(work: (cleanup: Cleanup, signal: AbortSignal) => Promise<T>): Promise<T> {
  const cleanup = createCleanup();
  const interrupted = new AbortController();
  const { promise, reject } = Promise.withResolvers<never>();
  const onSignal = () => {
    const reason = new Error('Interrupted');
    interrupted.abort(reason);
    reject(reason);
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  const working = work(cleanup, interrupted.signal);
  // What ends because its servers were ended is nobody's to hear of.
  working.catch(() => {});
  try {
    return await Promise.race([working, promise]);
  } finally {
    await cleanup.close();
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}
