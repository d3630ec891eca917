/**
 * Decides who has a job that one thread sent to another: the thread that begins it, or the one that takes it back. Both know at
 * once, without a message. A slot is for one job at a time.
 */
export class Claims {
  /** The other thread makes its own Claims of it. */
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#words = new Int32Array(memory);
  }

  /** Creates free slots. */
  static ofSlots(count: number): Claims {
    return new Claims(new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT));
  }

  /** Takes the job of a slot, unless the other thread has. */
  claim(slot: number): boolean {
    return Atomics.compareExchange(this.#words, slot, 0, 1) === 0;
  }

  /** Frees a slot for another job. */
  free(slot: number): void {
    Atomics.store(this.#words, slot, 0);
  }
}
