import pg from 'pg';
import { type JsonColumns, JsonRows } from './json/rows.ts';

/** A query that reads rows itself, each of which stands between two indexes of the bytes that came. */
export type RowReader = { readRow(bytes: Buffer, begin: number, end: number): void };

type Listener = (chunk: Buffer) => void;
type Stream = { on(event: string, listener: Listener): unknown };
/** What pg's connections have, and their types leave out. */
type Connection = { attachListeners(stream: Stream): void };

/** What each message of Postgres' protocol begins with, a code and a length, takes so many bytes. */
const HEADER = 5;
/** The code of a message that is a row. */
const DATA_ROW = 0x44;

/**
 * A client whose queries may read their rows themselves. pg's parser makes a text of each value and an event of each
 * row, which takes longer than all else that becomes of them.
 */
export class RowClient extends pg.Client {
  /** The query whose rows come now, if it reads them itself; otherwise they are pg's. */
  reader: RowReader | undefined;
  /** Where readers write what they read. */
  readonly rows = new JsonRows();
  /** The columns of statements that are prepared on this connection, by the statements' names. */
  readonly columns = new Map<string, JsonColumns>();

  constructor(config?: pg.ClientConfig) {
    super(config);
    const connection = this.connection as unknown as Connection;
    const attachListeners = connection.attachListeners.bind(connection);
    connection.attachListeners = (stream) => {
      const on: Stream['on'] = (event, listener) =>
        stream.on(event, event === 'data' ? joinMessages((bytes) => this.#read(bytes, listener)) : listener);
      attachListeners({ on });
    };
  }

  /** Gives the messages at the beginning of some bytes to the reader and to pg; gives how many bytes these are. */
  #read(bytes: Buffer, parse: Listener): number {
    let parsed = 0;
    let at = 0;
    for (let end = toEnd(bytes, at); end <= bytes.length; end = toEnd(bytes, at)) {
      if (this.reader && bytes[at] === DATA_ROW) {
        if (parsed < at) parse(bytes.subarray(parsed, at));
        parsed = at;
        // What came in front of the row may have been the end of its query: then it is pg's, which knows no such row.
        if (this.reader) {
          this.reader.readRow(bytes, at + HEADER, end);
          parsed = end;
        }
      }
      at = end;
    }
    if (parsed < at) parse(bytes.subarray(parsed, at));
    return at;
  }
}

/** Keeps what `read` leaves of the bytes that come, until the message that it is the beginning of is whole. */
function joinMessages(read: (bytes: Buffer) => number): Listener {
  let parts: Buffer[] = [];
  let length = 0;
  let needed = 0;
  return (chunk) => {
    parts.push(chunk);
    length += chunk.length;
    if (length < needed) return;
    const bytes = parts.length === 1 ? chunk : Buffer.concat(parts, length);
    // Should it throw, nothing is read again.
    parts = [];
    length = 0;
    needed = 0;
    const rest = bytes.subarray(read(bytes));
    parts = rest.length > 0 ? [rest] : [];
    length = rest.length;
    needed = toEnd(rest, 0);
  };
}

/** Where the message ends that begins at an index; beyond the bytes where it is not whole. */
function toEnd(bytes: Buffer, begin: number): number {
  if (begin + HEADER > bytes.length) return begin + HEADER;
  return begin + 1 + bytes.readUInt32BE(begin + 1);
}
