// Standard output, written in batches and without holding up the caller: writing each line alone costs as much as
// validating a request, and a reader that stops must stop nothing else. A line that cannot be written is lost.

import { write, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const STDOUT = 1;
/** The maximum size of an atomic write to a pipe (PIPE_BUF), in bytes: several processes may share the pipe. */
export const PIPE_BUF = 4_096;
const BATCH = 16_000;
/** How long a line waits for others, and a batch for room in a full pipe that does not block, in milliseconds. */
const WAIT_MS = 50;
/** How much waits for a reader before lines are dropped, in bytes. */
const MAX_WAITING = 16_000_000;
/** How long the end of the process waits for a reader, in milliseconds. */
const END_MS = 1_000;

/** Standard output as a destination of whole lines. */
export class Output {
  readonly #maxBatch: number;
  /** The lines of the batch that is being filled. */
  #lines = '';
  #length = 0;
  /** Complete batches, and what is left of one that was written in part. */
  #batches: Buffer[] = [];
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;
  #isWriting = false;

  /** `isShared`: whether other processes write to the same output. */
  constructor({ isShared = false } = {}) {
    this.#maxBatch = isShared ? PIPE_BUF : BATCH;
    process.on('exit', () => this.#end());
  }

  /** Writes a line, soon. */
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
      if (error?.code === 'EAGAIN') this.#completeSoon();
      else {
        this.#written(bytes, error ? bytes.length : written);
        this.#writeNext();
      }
    });
  }

  #written(bytes: Buffer, length: number): void {
    this.#waiting -= length;
    if (length < bytes.length) this.#batches[0] = bytes.subarray(length);
    else this.#batches.shift();
  }

  /** Writes the rest, at the end of the process. */
  #end(): void {
    // Node finishes the write in progress.
    if (this.#isWriting) this.#batches.shift();
    let rest = Buffer.concat([...this.#batches, Buffer.from(this.#lines)]);
    try {
      while (rest.length > 0) rest = rest.subarray(writeSync(STDOUT, rest));
    } catch {
      // Nobody reads it, or there is no space.
    }
  }
}

/** Not Buffer.from: it takes a piece of the 64 kB that Buffers share, and a waiting batch would keep all of them in memory. */
function toBytes(text: string, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  bytes.write(text);
  return bytes;
}
