/**
 * Who has a job that one thread has sent to another: the thread that begins it, or the one that takes it back. Both
 * know at once, with no message between them; a slot is for one job at a time.
 */
export class Claims {
  /** To be handed to the other thread, which builds its own Claims of it. */
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#words = new Int32Array(memory);
  }

  /** For so many jobs at a time, all of them free. */
  static ofSlots(count: number): Claims {
    return new Claims(new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT));
  }

  /** Takes the job of a slot, if nobody has. */
  claim(slot: number): boolean {
    return Atomics.compareExchange(this.#words, slot, 0, 1) === 0;
  }

  /** Makes a slot ready for another job. */
  free(slot: number): void {
    Atomics.store(this.#words, slot, 0);
  }
}
