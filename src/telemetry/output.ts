// Standard output, written in batches and asynchronously: writing each line alone costs as much as validating a request, and a
// reader that stops must not stop the gateway. A line that cannot be written is lost.

import { write, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const STDOUT = 1;
/** The maximum size of an atomic write to a pipe (PIPE_BUF), in bytes: several processes may share the pipe. */
export const PIPE_BUF = 4_096;
const BATCH = 16_000;
/** How long a line waits for others, and a batch for room in a full non-blocking pipe, in milliseconds. */
const WAIT_MS = 50;
/** The maximum size of waiting lines in bytes. Beyond it lines are dropped. */
const MAX_WAITING = 16_000_000;
/** How long flush() waits for the reader, in milliseconds. */
const END_MS = 1_000;

/** Standard output, which receives whole lines. */
export class Output {
  readonly #maxBatch: number;
  /** The lines of the current batch. */
  #lines = '';
  #length = 0;
  /** The complete batches; the first may be the rest of one that was written in part. */
  #batches: Buffer[] = [];
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;
  #isWriting = false;

  /** `isShared`: whether other processes write to the same output. */
  constructor({ isShared = false } = {}) {
    this.#maxBatch = isShared ? PIPE_BUF : BATCH;
    process.on('exit', () => this.#end());
  }

  /** Adds a line to the current batch. */
  write(line: string): void {
    const length = Buffer.byteLength(line);
    if (this.#waiting + length > MAX_WAITING) return;
    if (this.#length + length > this.#maxBatch) this.#complete();
    this.#lines += line;
    this.#length += length;
    this.#waiting += length;
    this.#completeSoon();
  }

  /** Resolves when everything is written, or after a second. */
  async flush(): Promise<void> {
    const giveUpAt = Date.now() + END_MS;
    this.#complete();
    while (this.#waiting > 0 && Date.now() < giveUpAt) await delay(1);
  }

  #completeSoon(): void {
    this.#timer ??= setTimeout(() => this.#complete(), WAIT_MS).unref();
  }

  #complete(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#length > 0) this.#batches.push(toBytes(this.#lines, this.#length));
    this.#lines = '';
    this.#length = 0;
    this.#writeNext();
  }

  #writeNext(): void {
    const [bytes] = this.#batches;
    if (!bytes || this.#isWriting) return;
    this.#isWriting = true;
    write(STDOUT, bytes, (error, written) => {
      this.#isWriting = false;
      if (error?.code === 'EAGAIN') return this.#completeSoon();
      const length = error ? bytes.length : written;
      this.#waiting -= length;
      if (length < bytes.length) this.#batches[0] = bytes.subarray(length);
      else this.#batches.shift();
      this.#writeNext();
    });
  }

  /** Writes the rest synchronously, at the end of the process. */
  #end(): void {
    // Node finishes the write in progress.
    if (this.#isWriting) this.#batches.shift();
    let rest = Buffer.concat([...this.#batches, Buffer.from(this.#lines)]);
    try {
      while (rest.length > 0) rest = rest.subarray(writeSync(STDOUT, rest));
    } catch {
      // The reader is gone, or the disk is full.
    }
  }
}

/** Not Buffer.from: it may take a slice of Node's shared pool, all of which a waiting batch would keep in memory. */
function toBytes(text: string, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  bytes.write(text);
  return bytes;
}
