import type { ServerResponse } from 'node:http';

/** The bytes of answers that wait in sockets until their clients read them. */
export type Unread = {
  readonly bytes: number;
  /** Whether an answer of so many bytes may wait beside those that do. */
  hasRoomFor(bytes: number): boolean;
  /** Counts what waits of an answer that was written, and ends the socket of a client that reads it too slowly. */
  watch(res: ServerResponse): void;
};

/** How long a client may take to read an answer, in milliseconds, besides the time that its length allows. */
const GRACE_MS = 30_000;
/** The slowest rate at which an answer may be read: 32 kB a second, a third of what a slow mobile network gives. */
const LEAST_BYTES_PER_MS = 32;

/** Starts to count; all of them together may have so many bytes. */
export function createUnread(limit: number): Unread {
  let unread = 0;
  return {
    get bytes() {
      return unread;
    },
    hasRoomFor: (bytes) => unread + bytes <= limit,
    watch: (res) => {
      const { socket } = res;
      // Most answers were taken by the system at once.
      if (!socket || socket.writableLength === 0) return;
      const bytes = socket.writableLength;
      unread += bytes;
      const timer = setTimeout(() => socket.destroy(), GRACE_MS + bytes / LEAST_BYTES_PER_MS);
      res.once('close', () => {
        clearTimeout(timer);
        unread -= bytes;
      });
    },
  };
}
