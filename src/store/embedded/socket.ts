// The socket in the data folder, over which administrators reach the database while the gateway runs: PostgreSQL's protocol
// (PostgreSQL's manual, chapter 54), as psql and `pg` speak it. Postgres itself answers; this passes messages on. It runs in the
// gateway's own thread: the other one neither accepts nor cancels nor notices anything while a statement runs in it.
//
// @electric-sql/pglite-socket 0.2.17 would not do: clients share their settings with each other and with the gateway, whose role
// one of them can change; a request to cancel is ignored; a transaction holds up the gateway for as long as it likes; a COPY FROM
// STDIN never ends; any user is the administrator; and it runs in Postgres's thread.

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join, resolve } from 'node:path';
import { serialize } from 'pg-protocol';
import { splitStatements } from '../migrations.ts';
import { ADMINISTRATOR, type Answer, MAX_BYTES, SessionError, type Settings } from './sessions.ts';

/** What a client's session does in the database. Its promises reject with SessionError when the session is over. */
export type AdministratorSession = {
  /**
   * Runs messages, and keeps everybody else out until the transaction that they leave open has ended. The first ones, the
   * start, come with settings.
   */
  run(messages: Uint8Array, isSynced: boolean, settings?: Settings): Promise<Answer>;
  /** Ends the running statement, and with it the session. */
  cancel(): void;
  /** Ends the session and undoes its transaction. */
  end(): void;
};

/** The database's name, and the port in the socket's name, as clients expect them. */
export const DATABASE = 'postgres';
export const PORT = 5432;

/** How long a transaction may be idle, in milliseconds: the gateway's calls wait for its end. */
const IDLE_MS = 60_000;

/** How long a client that is told of the end may take to read it, in milliseconds. */
const FAREWELL_MS = 1_000;

/** Codes of the first message (54.7): what it is instead of a version. */
const CANCEL_REQUEST = 80877102;
const SSL_REQUEST = 80877103;
const GSS_REQUEST = 80877104;
/** More than any start has. */
const MAX_START_BYTES = 10_000;

/** Messages that belong together up to the next Sync or Flush. */
const EXTENDED = 'PBDEC';
const COPY_MESSAGES = 'dcf';

/**
 * PGlite cannot wait for the client in the middle of a statement: it needs the data of a COPY together with the statement. This
 * ends a COPY without data, and is ignored outside of one.
 */
const COPY_FAIL = serialize.copyFail('send it as a single statement, in the simple query protocol');
/** A statement that may be COPY FROM STDIN, behind white space and comments. */
const COPY_FROM_STDIN = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*copy\b.*\bstdin\b/is;

/** The folder of the socket of a store; short, because the system limits the length of its path. */
export function toSocketFolder(dataDir: string): string {
  return resolve(dataDir, 'socket');
}

/**
 * Serves administrators over a socket in the data folder, and gives the function that ends it with its sessions. A
 * transaction that is idle for `idleMs` milliseconds is undone. Throws if the system allows no socket there, for example
 * because its path is longer than some 100 bytes.
 */
export async function serveSocket(
  dataDir: string,
  openSession: () => AdministratorSession,
  idleMs: number = IDLE_MS,
): Promise<() => void> {
  const folder = toSocketFolder(dataDir);
  // A killed process leaves its socket behind.
  rmSync(folder, { recursive: true, force: true });
  // Only its owner can reach a socket in it.
  mkdirSync(folder, { mode: 0o700 });
  const clients = new Set<Client>();
  const server = createServer((socket) => {
    const client = new Client(socket, idleMs);
    clients.add(client);
    socket.on('close', () => clients.delete(client));
    void client.serve(openSession, (key) => [...clients].find((one) => one.key.equals(key))?.cancel());
  });
  server.listen(join(folder, `.s.PGSQL.${PORT}`));
  await once(server, 'listening');
  // Such as too many open files: this client is lost, and the next one may be served.
  server.on('error', () => {});
  return () => {
    server.close();
    const error = new SessionError('57P01', 'terminating connection due to administrator command');
    for (const client of clients) client.fail(error);
    rmSync(folder, { recursive: true, force: true });
  };
}

type Message = { readonly type: string; readonly bytes: Buffer };

/** The client has closed the connection. */
class Disconnected extends Error {}

/** One connection, from its first message to its end. */
class Client {
  /** Names the session in a request to cancel. */
  readonly key = randomBytes(8);
  readonly #socket: Socket;
  readonly #idleMs: number;
  #session: AdministratorSession | undefined;
  #isIdle = true;
  /** Why nothing more is read. */
  #end: Error | undefined;
  #wake = () => {};

  constructor(socket: Socket, idleMs: number) {
    this.#socket = socket;
    this.#idleMs = idleMs;
    socket.on('readable', () => {
      // While a statement runs, nobody reads, and nothing but a read notices the end.
      if (socket.readableLength === 0) socket.read(0);
      this.#wake();
    });
    socket.on('drain', () => this.#wake());
    // Followed by `close`.
    socket.on('error', () => {});
    for (const event of ['end', 'close']) {
      socket.on(event, () => {
        this.#end ??= new Disconnected();
        this.#session?.end();
        this.#wake();
      });
    }
  }

  /** Serves until the client disconnects or fails, or cancels the statement of another one. Never rejects. */
  async serve(openSession: () => AdministratorSession, cancel: (key: Buffer) => void): Promise<void> {
    try {
      const start = await this.#readStart();
      if (start.readInt32BE(4) === CANCEL_REQUEST) cancel(start.subarray(-this.key.length));
      else {
        const settings = readSettings(start);
        this.#session = openSession();
        const answer = await this.#run(this.#session, [start], true, settings);
        const { end } = findMessage(answer, 'K') ?? { end: answer.length };
        // Postgres has the same key for all. This is its end, because its length depends on the version of the protocol.
        answer.set(this.key, end - this.key.length);
        await this.#send(answer);
        await this.#serveSession(this.#session);
      }
      this.#socket.end();
    } catch (error) {
      if (error instanceof Disconnected) this.#socket.destroy();
      else this.fail(error as Error);
    } finally {
      this.#session?.end();
    }
  }

  /** Ends the session with a fatal error. */
  fail(error: Error): void {
    if (this.#end) return;
    this.#end = error;
    this.#session?.end();
    const code = error instanceof SessionError ? error.code : 'XX000';
    const body = Buffer.from(['SFATAL', 'VFATAL', `C${code}`, `M${error.message}`, '', ''].join('\0'));
    this.#socket.end(Buffer.concat([Buffer.from('E'), int32(body.length + 4), body]));
    this.#socket.setTimeout(FAREWELL_MS, () => this.#socket.destroy());
    // The end of the process does not wait for it.
    this.#socket.unref();
    this.#wake();
  }

  cancel(): void {
    this.#session?.cancel();
  }

  /** Reads the request to cancel, or the start of a session. */
  async #readStart(): Promise<Buffer> {
    for (;;) {
      const head = await this.#take(4);
      const length = head.readInt32BE();
      if (length < 8 || length > MAX_START_BYTES) throw new SessionError('08P01', 'invalid length of startup packet');
      const start = Buffer.concat([head, await this.#take(length - 4)]);
      if (![SSL_REQUEST, GSS_REQUEST].includes(start.readInt32BE(4))) return start;
      this.#socket.write('N');
    }
  }

  async #serveSession(session: AdministratorSession): Promise<void> {
    let batch: Buffer[] = [];
    let size = 0;
    for (;;) {
      const { type, bytes } = await this.#read();
      if (type === 'X') return;
      if (COPY_MESSAGES.includes(type)) continue;
      batch.push(bytes);
      size += bytes.length;
      if (size > MAX_BYTES) throw tooLarge();
      if (EXTENDED.includes(type)) continue;
      if (type === 'Q' && batch.length === 1 && isCopyFromStdin(bytes)) await this.#copy(session, bytes);
      else if (type === 'Q' || type === 'F') await this.#send(await this.#run(session, [...batch, COPY_FAIL]));
      else if (type === 'S' || type === 'H') {
        await this.#send(await this.#run(session, [...batch.slice(0, -1), COPY_FAIL, bytes], type === 'S'));
      }
      // Postgres would end, and here that is the gateway's.
      else throw new SessionError('08P01', `invalid frontend message type ${type.charCodeAt(0)}`);
      batch = [];
      size = 0;
    }
  }

  /** Asks for the data of a COPY before Postgres does, and runs it with them. */
  async #copy(session: AdministratorSession, query: Buffer): Promise<void> {
    const isBinary = /\bbinary\b/i.test(query.toString());
    await this.#send(Buffer.from([...Buffer.from('G'), ...int32(7), isBinary ? 1 : 0, 0, 0]));
    const messages = [query];
    let size = query.length;
    for (let type = 'd'; type === 'd' || type === 'S' || type === 'H'; ) {
      const message = await this.#read();
      type = message.type;
      // As in Postgres.
      if (type === 'S' || type === 'H') continue;
      if (!COPY_MESSAGES.includes(type)) throw new SessionError('08P01', 'unexpected message during COPY from stdin');
      messages.push(message.bytes);
      size += message.bytes.length;
      if (size > MAX_BYTES) throw tooLarge();
    }
    const answer = await this.#run(session, [...messages, COPY_FAIL]);
    const asked = findMessage(answer, 'G') ?? { start: 0, end: 0 };
    await this.#send(Buffer.concat([answer.subarray(0, asked.start), answer.subarray(asked.end)]));
  }

  async #run(
    session: AdministratorSession,
    messages: readonly Buffer[],
    isSynced = true,
    settings?: Settings,
  ): Promise<Buffer> {
    const answer = await session.run(Buffer.concat(messages), isSynced, settings);
    this.#isIdle = answer.isIdle;
    return Buffer.from(answer.messages.buffer, answer.messages.byteOffset, answer.messages.length);
  }

  #read(): Promise<Message> {
    return this.#whileWaiting(async () => {
      const head = await this.#take(5);
      const length = head.readInt32BE(1);
      if (length < 4) throw new SessionError('08P01', 'invalid message length');
      if (length > MAX_BYTES) throw tooLarge();
      const body = await this.#take(length - 4);
      return { type: head.toString('latin1', 0, 1), bytes: Buffer.concat([head, body]) };
    });
  }

  /** Reads bytes. Throws what ends the connection. */
  async #take(size: number): Promise<Buffer> {
    if (size === 0) return Buffer.alloc(0);
    for (;;) {
      if (this.#end && !(this.#end instanceof Disconnected)) throw this.#end;
      const bytes: Buffer | null = this.#socket.read(size);
      if (bytes?.length === size) return bytes;
      if (this.#end || bytes) throw new Disconnected();
      await this.#change();
    }
  }

  /** Sends bytes, and waits until the client has read most of them. */
  async #send(bytes: Buffer): Promise<void> {
    if (!this.#socket.writable || this.#socket.write(bytes)) return;
    await this.#whileWaiting(async () => {
      while (this.#socket.writableNeedDrain && !this.#end) await this.#change();
    });
  }

  /** Waits for the client, and not for long if everybody else waits for it. */
  async #whileWaiting<T>(wait: () => Promise<T>): Promise<T> {
    if (this.#isIdle) return wait();
    const error = new SessionError('25P03', 'terminating connection due to idle-in-transaction timeout');
    const timer = setTimeout(() => this.fail(error), this.#idleMs);
    return wait().finally(() => clearTimeout(timer));
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

/** The settings that a client starts with. PGlite's own start ignores them. */
function readSettings(start: Buffer): Settings {
  const major = start.readInt16BE(4);
  if (major !== 3) throw new SessionError('0A000', `unsupported frontend protocol ${major}: expected 3`);
  const words = start.toString('utf8', 8).split('\0');
  const pairs: [string, string][] = [];
  for (let index = 0; words[index]; index += 2) pairs.push([words[index] ?? '', words[index + 1] ?? '']);
  const known = Object.fromEntries(pairs.filter(([name]) => !name.startsWith('_pq_.')));
  const { user, database = user, options, ...settings } = known;
  if (!user) throw new SessionError('28000', 'no PostgreSQL user name specified in startup packet');
  if (database !== DATABASE) throw new SessionError('3D000', `database "${database}" does not exist`);
  if (options) throw new SessionError('0A000', 'options are not supported at the start: use SET');
  // PGlite has no conversions, and fails for good when it needs one.
  if (!/^(utf-?8|unicode|sql_ascii)?$/i.test(settings.client_encoding ?? '')) {
    throw new SessionError('22023', `client_encoding ${settings.client_encoding}: expected UTF8`);
  }
  return user === ADMINISTRATOR ? settings : { ...settings, session_authorization: user };
}

function isCopyFromStdin(query: Buffer): boolean {
  const text = query.toString('utf8', 5, query.length - 1);
  return COPY_FROM_STDIN.test(text) && splitStatements(text).length === 1;
}

/** Where the first message of a type starts and ends. */
function findMessage(messages: Buffer, type: string): { start: number; end: number } | undefined {
  for (let start = 0; start < messages.length; ) {
    const end = start + 1 + messages.readInt32BE(start + 1);
    if (messages.toString('latin1', start, start + 1) === type) return { start, end };
    start = end;
  }
  return undefined;
}

function tooLarge(): SessionError {
  return new SessionError('54000', `more than ${MAX_BYTES} bytes at once`);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}
