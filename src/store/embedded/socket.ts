// The socket in the data folder, over which administrators reach the database while the gateway runs: PostgreSQL's protocol,
// version 3.0 (PostgreSQL's manual, chapter 54), as psql and `pg` speak it. It is served from the gateway's own thread: the
// other one neither accepts nor cancels nor notices anything while a statement runs in it.

import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join, resolve } from 'node:path';
import { serialize } from 'pg-protocol';
import { splitStatements } from '../migrations.ts';
import {
  ADMINISTRATOR,
  type Answer,
  MAX_BYTES,
  SessionError,
  type Settings,
  type TransactionStatus,
} from './sessions.ts';

/** What a client's session does in the database. Its promises reject with SessionError when the session is over. */
export type AdministratorSession = {
  /** Begins with settings, and gives those that the client is told. */
  begin(settings: Settings): Promise<Settings>;
  /** Runs messages, and keeps everybody else out until the transaction that they leave open has ended. */
  run(messages: Uint8Array, isSynced: boolean): Promise<Answer>;
  /** Ends the running statement, and with it the session. */
  cancel(): void;
  /** Ends the session and undoes its transaction. */
  end(): void;
};

/** The database's name, and the port in the socket's name, as clients expect them. */
export const DATABASE = 'postgres';
export const PORT = 5432;

const MAX_SESSIONS = 10;

/** How long a transaction may be idle, in milliseconds: the gateway's calls wait for its end. */
const IDLE_MS = 60_000;

/** How long a client that is told of the end may take to read it, in milliseconds. */
const FAREWELL_MS = 1_000;

/** Codes of the first message (54.7): what it is instead of a version. */
const CANCEL_REQUEST = 80877102;
const SSL_REQUEST = 80877103;
const GSS_REQUEST = 80877104;
const PROTOCOL_3_0 = 3 << 16;
/** How many bytes are read before anybody waits for them. */
const READ_AHEAD = 65_536;
const NOTHING = Buffer.alloc(0);
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
const SAVEPOINT = serialize.query('savepoint gateway_copy');
const RELEASE = serialize.query('release savepoint gateway_copy');
const UNDO = serialize.query('rollback to savepoint gateway_copy; release savepoint gateway_copy');
/** A statement that may be COPY FROM STDIN, behind white space and comments. */
const COPY_FROM_STDIN = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*copy\b.*\bstdin\b/is;

/** The folder of the socket in a data folder: psql's `--host`. */
export function toSocketFolder(dataDir: string): string {
  return join(resolve(dataDir), 'socket');
}

/**
 * Serves the socket of a data folder that this process has locked, and gives the function that ends it with its sessions. A
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
  const clients = new Clients(openSession, idleMs);
  const server = createServer((socket) => clients.add(socket));
  server.listen(join(folder, `.s.PGSQL.${PORT}`));
  await once(server, 'listening');
  // Such as too many open files: this client is lost, and the next one may be served.
  server.on('error', () => {});
  return () => {
    server.close();
    clients.close();
    rmSync(folder, { recursive: true, force: true });
  };
}

/** The clients that are connected. */
class Clients {
  readonly #openSession: () => AdministratorSession;
  readonly #idleMs: number;
  readonly #all = new Set<Client>();

  constructor(openSession: () => AdministratorSession, idleMs: number) {
    this.#openSession = openSession;
    this.#idleMs = idleMs;
  }

  add(socket: Socket): void {
    const client = new Client(socket, this.#idleMs);
    this.#all.add(client);
    void client.serve((start) => this.#admit(client, start)).finally(() => this.#all.delete(client));
  }

  close(): void {
    for (const client of this.#all) {
      client.fail(new SessionError('57P01', 'terminating connection due to administrator command'));
    }
  }

  #admit(client: Client, start: Start): AdministratorSession | undefined {
    if ('cancel' in start) {
      [...this.#all].find(({ key }) => key.equals(start.cancel))?.cancel();
      return undefined;
    }
    const others = [...this.#all].filter((one) => one !== client && one.isServed);
    if (others.length >= MAX_SESSIONS) throw new SessionError('53300', 'sorry, too many clients already');
    return this.#openSession();
  }
}

/** The first message: a request to cancel the statement of the client with a key, or the start of a session. */
type Start = { readonly cancel: Buffer } | SessionStart;

type SessionStart = {
  readonly settings: Settings;
  /** Options of the protocol that are not known; undefined if the client asks for nothing beyond version 3.0. */
  readonly unknown: readonly string[] | undefined;
};

type Message = { readonly type: string; readonly bytes: Buffer };

/** One connection, from its first message to its end. */
class Client {
  /** Names the session in a request to cancel. */
  readonly key = int32(randomInt(2 ** 31), randomInt(2 ** 31));
  readonly #socket: Socket;
  readonly #inbox: Inbox;
  readonly #idleMs: number;
  #session: AdministratorSession | undefined;
  #status: TransactionStatus | undefined = 'I';
  #hasEnded = false;

  constructor(socket: Socket, idleMs: number) {
    this.#socket = socket;
    this.#idleMs = idleMs;
    // While its statement runs, nobody waits for the inbox.
    this.#inbox = new Inbox(socket, () => this.#session?.end());
  }

  get isServed(): boolean {
    return this.#session !== undefined;
  }

  /** Serves until the client disconnects or fails. `admit` opens the session, if there is to be one. Never rejects. */
  async serve(admit: (start: Start) => AdministratorSession | undefined): Promise<void> {
    try {
      const start = await this.#readStart();
      this.#session = admit(start);
      if (this.#session && 'settings' in start) await this.#serveSession(this.#session, start);
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
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#session?.end();
    const code = error instanceof SessionError ? error.code : 'XX000';
    const fields = ['SFATAL', 'VFATAL', `C${code}`, `M${error.message}`, ''];
    this.#socket.end(toMessage('E', ...fields.map(toText)));
    this.#socket.setTimeout(FAREWELL_MS, () => this.#socket.destroy());
    // The end of the process does not wait for it.
    this.#socket.unref();
    this.#inbox.close(error);
  }

  cancel(): void {
    this.#session?.cancel();
  }

  async #readStart(): Promise<Start> {
    for (;;) {
      const length = (await this.#inbox.take(4)).readInt32BE();
      if (length < 8 || length > MAX_START_BYTES) throw new SessionError('08P01', 'invalid length of startup packet');
      const packet = await this.#inbox.take(length - 4);
      const code = packet.readInt32BE();
      if (code === CANCEL_REQUEST) return { cancel: packet.subarray(4) };
      if (code === SSL_REQUEST || code === GSS_REQUEST) this.#socket.write('N');
      else return readStart(code, packet.toString('utf8', 4));
    }
  }

  async #serveSession(session: AdministratorSession, { settings, unknown }: SessionStart): Promise<void> {
    const told = Object.entries(await session.begin(settings));
    const negotiation = unknown && toMessage('v', int32(PROTOCOL_3_0, unknown.length), ...unknown.map(toText));
    const beginning = [
      ...(negotiation ? [negotiation] : []),
      toMessage('R', int32(0)),
      ...told.map((setting) => toMessage('S', ...setting.map(toText))),
      toMessage('K', this.key),
      toMessage('Z', 'I'),
    ];
    await this.#send(Buffer.concat(beginning));

    let batch: Buffer[] = [];
    let size = 0;
    for (;;) {
      const { type, bytes } = await this.#read();
      if (type === 'X') return;
      if (COPY_MESSAGES.includes(type)) continue;
      size += bytes.length;
      if (size > MAX_BYTES) throw tooLarge();
      if (EXTENDED.includes(type)) {
        batch.push(bytes);
        continue;
      }
      if (type === 'Q') await this.#query(session, batch, bytes);
      else if (type === 'F') await this.#forward(session, [...batch, bytes]);
      else if (type === 'S') await this.#forward(session, [...batch, COPY_FAIL, bytes]);
      else if (type === 'H') await this.#forward(session, [...batch, COPY_FAIL, bytes], false);
      // Postgres would end, and here that is the gateway's.
      else throw new SessionError('08P01', `invalid frontend message type ${type.charCodeAt(0)}`);
      batch = [];
      size = 0;
    }
  }

  /** Runs a simple query. The data of a COPY are gathered first, and the statement runs once to see that it is one. */
  async #query(session: AdministratorSession, batch: readonly Buffer[], query: Buffer): Promise<void> {
    const text = query.toString('utf8', 5, query.length - 1);
    if (batch.length > 0 || !COPY_FROM_STDIN.test(text) || splitStatements(text).length > 1) {
      return this.#forward(session, [...batch, query, COPY_FAIL]);
    }
    const isInTransaction = this.#status === 'T';
    if (isInTransaction) await this.#run(session, [SAVEPOINT]);
    const trial = await this.#run(session, [query, COPY_FAIL]);
    const begun = findEnd(trial, 'G');
    if (begun === undefined) {
      if (isInTransaction && this.#status === 'T') await this.#run(session, [RELEASE]);
      return this.#send(trial);
    }
    if (isInTransaction) await this.#run(session, [UNDO]);
    await this.#send(trial.subarray(0, begun));
    const answer = await this.#run(session, [query, ...(await this.#readCopy()), COPY_FAIL]);
    return this.#send(answer.subarray(findEnd(answer, 'G') ?? 0));
  }

  /** Reads the data of a COPY, up to its end. */
  async #readCopy(): Promise<Buffer[]> {
    const messages: Buffer[] = [];
    let size = 0;
    for (;;) {
      const { type, bytes } = await this.#read();
      // Postgres ignores a Sync or a Flush here.
      if (type === 'S' || type === 'H') continue;
      if (!COPY_MESSAGES.includes(type)) throw new SessionError('08P01', 'unexpected message during COPY from stdin');
      size += bytes.length;
      if (size > MAX_BYTES) throw tooLarge();
      messages.push(bytes);
      if (type !== 'd') return messages;
    }
  }

  async #forward(session: AdministratorSession, messages: readonly Buffer[], isSynced = true): Promise<void> {
    await this.#send(await this.#run(session, messages, isSynced));
  }

  async #run(session: AdministratorSession, messages: readonly Buffer[], isSynced = true): Promise<Buffer> {
    const answer = await session.run(Buffer.concat(messages), isSynced);
    this.#status = answer.status;
    return Buffer.from(answer.messages.buffer, answer.messages.byteOffset, answer.messages.length);
  }

  /** Reads a message. */
  #read(): Promise<Message> {
    return this.#whileWaiting(async () => {
      const head = await this.#inbox.take(5);
      const length = head.readInt32BE(1);
      if (length < 4) throw new SessionError('08P01', 'invalid message length');
      if (length > MAX_BYTES) throw tooLarge();
      const body = await this.#inbox.take(length - 4);
      return { type: head.toString('latin1', 0, 1), bytes: Buffer.concat([head, body]) };
    });
  }

  /** Sends bytes, and waits until the client has read most of them. */
  async #send(bytes: Buffer): Promise<void> {
    if (!this.#socket.writable || this.#socket.write(bytes)) return;
    await this.#whileWaiting(() => this.#inbox.drained());
  }

  /** Waits for the client, and not for long if everybody else waits for it. */
  async #whileWaiting<T>(wait: () => Promise<T>): Promise<T> {
    if (this.#status === 'I') return wait();
    const error = new SessionError('25P03', 'terminating connection due to idle-in-transaction timeout');
    const timer = setTimeout(() => this.fail(error), this.#idleMs);
    try {
      return await wait();
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The client has closed the connection. */
class Disconnected extends Error {}

/** What a client has sent that is not read yet. One at a time may wait. */
class Inbox {
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  #size = 0;
  /** How many bytes are accepted before the socket is paused. */
  #wanted = 0;
  #end: Error | undefined;
  #wake = () => {};

  /** `onEnd` is called when the client has closed the connection. */
  constructor(socket: Socket, onEnd: () => void) {
    this.#socket = socket;
    socket.on('data', (chunk) => {
      if (this.#end) return;
      this.#chunks.push(chunk);
      this.#size += chunk.length;
      // Up to then the end of the connection is noticed while a statement runs.
      if (this.#size >= Math.max(this.#wanted, READ_AHEAD)) socket.pause();
      this.#wake();
    });
    socket.on('drain', () => this.#wake());
    // Followed by `close`.
    socket.on('error', () => {});
    for (const event of ['end', 'close']) {
      socket.on(event, () => {
        this.#end ??= new Disconnected();
        this.#wake();
        onEnd();
      });
    }
  }

  /** Reads bytes. Throws what ends the inbox. */
  async take(size: number): Promise<Buffer> {
    while (this.#size < size) {
      if (this.#end) throw this.#end;
      this.#wanted = size;
      this.#socket.resume();
      await this.#change();
    }
    this.#size -= size;
    const taken: Buffer[] = [];
    let missing = size;
    while (missing > 0) {
      const [chunk = NOTHING] = this.#chunks;
      taken.push(chunk.subarray(0, missing));
      if (chunk.length > missing) this.#chunks[0] = chunk.subarray(missing);
      else this.#chunks.shift();
      missing -= Math.min(chunk.length, missing);
    }
    return Buffer.concat(taken);
  }

  /** Waits until the client has read what was sent to it. */
  async drained(): Promise<void> {
    while (this.#socket.writableNeedDrain && !this.#end) await this.#change();
  }

  /** Drops everything that is not read; reading throws `error` from now on. */
  close(error: Error): void {
    this.#end = error;
    this.#chunks = [];
    this.#size = 0;
    this.#socket.resume();
    this.#wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

function readStart(version: number, text: string): SessionStart {
  const [major, minor] = [version >>> 16, version & 0xffff];
  if (major !== 3) throw new SessionError('0A000', `unsupported frontend protocol ${major}.${minor}: expected 3.0`);
  const words = text.split('\0');
  const pairs: [string, string][] = [];
  for (let index = 0; words[index]; index += 2) pairs.push([words[index] ?? '', words[index + 1] ?? '']);
  const isUnknown = ([name]: [string, string]) => name.startsWith('_pq_.');
  const unknown = pairs.filter(isUnknown).map(([name]) => name);
  const known = Object.fromEntries(pairs.filter((pair) => !isUnknown(pair)));
  return { settings: readSettings(known), unknown: minor > 0 || unknown.length > 0 ? unknown : undefined };
}

/** The settings that a client starts with. */
function readSettings({ user, database = user, options = '', ...others }: Settings): Settings {
  if (!user) throw new SessionError('28000', 'no PostgreSQL user name specified in startup packet');
  if (database !== DATABASE) throw new SessionError('3D000', `database "${database}" does not exist`);
  // PGlite has no conversions, and fails for good when it needs one.
  if (!/^(utf-?8|unicode|sql_ascii)?$/i.test(others.client_encoding ?? '')) {
    throw new SessionError('22023', `client_encoding ${others.client_encoding}: expected UTF8`);
  }
  // In the form of PGOPTIONS: -c name=value, or --name=value.
  const flags = [...options.matchAll(/(?:-c\s*|--)([\w.-]+)=((?:\\.|\S)*)/g)].map(([, name = '', value = '']) => [
    name.replaceAll('-', '_'),
    value.replaceAll(/\\(.)/g, '$1'),
  ]);
  const login = user === ADMINISTRATOR ? {} : { session_authorization: user };
  return { ...others, ...Object.fromEntries(flags), ...login };
}

/** The index behind the first message of a type; undefined if there is none. */
function findEnd(messages: Buffer, type: string): number | undefined {
  let index = 0;
  while (index < messages.length) {
    const end = index + 1 + messages.readInt32BE(index + 1);
    if (messages.toString('latin1', index, index + 1) === type) return end;
    index = end;
  }
  return undefined;
}

function tooLarge(): SessionError {
  return new SessionError('54000', `more than ${MAX_BYTES} bytes at once`);
}

function toMessage(type: string, ...parts: (Buffer | string)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

function toText(text: string): string {
  return `${text}\0`;
}

function int32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => void bytes.writeInt32BE(value, index * 4));
  return bytes;
}
