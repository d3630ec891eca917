import { SingleBar } from 'cli-progress';
import type { Source } from './source.ts';

/** A source that shows, where standard error is a terminal, how much of it is dealt with. */
export function withProgress(source: Source): Source {
  return { ...source, bytes: source.size === undefined ? source.bytes : counted(source.bytes, source.size) };
}

async function* counted(bytes: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Uint8Array> {
  const bar = new SingleBar({
    format: '{bar} {percentage}%',
    stream: process.stderr,
    clearOnComplete: true,
    linewrap: true,
    // Its handler of SIGINT would keep the process from ending.
    gracefulExit: false,
  });
  bar.start(size, 0);
  try {
    for await (const chunk of bytes) {
      yield chunk;
      bar.increment(chunk.length);
    }
  } finally {
    bar.stop();
  }
}
