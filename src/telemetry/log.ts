// The log: JSON lines, or readable text on a terminal.

import fs from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { styleText } from 'node:util';
import type { Config } from '../config.ts';
import { type Fault, messageOf } from '../errors.ts';
import { type EndedRequest, PROBES, type RequestRecord, readPath } from './record.ts';

/** The log of the process. */
export type Log = {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
  request(request: EndedRequest): void;
  /** Logs a fault on a separate line, with its request's id. */
  fault(text: string, fault: Fault, record?: RequestRecord): void;
  /** Resolves when every line is written, or after a second. */
  flush(): Promise<void>;
};

type LogLevel = Config['logLevel'];
type Destination = Pick<Output, 'write' | 'flush'>;
type Fields = Readonly<Record<string, unknown>>;
type Line = Fields & { readonly level: LogLevel; readonly time: string };

/** The levels in ascending order. */
const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];
const COLORS = { debug: 'blue', info: 'green', warn: 'yellow', error: 'red', silent: 'reset' } as const;

/** Log options. `keyHeaders` are the lower-case names of headers that carry a key: a whole key is never logged. */
export type LogOptions = {
  readonly level: LogLevel;
  readonly keyHeaders: readonly string[];
  /** Whether people read the log: sentences for them, JSON otherwise. */
  readonly isTerminal: boolean;
  readonly hasColors?: boolean;
  /** Whether other processes write to the same output. */
  readonly isShared?: boolean;
  /** The number of this process among several. */
  readonly worker?: number | undefined;
};

const STDOUT = 1;
/**
 * The prefix of a key in logs and lists: `wms_live_` and 8 characters, without any that control the reader's terminal. It would reveal
 * too much of a key shorter than MIN_LENGTH_TO_SHOW.
 */
const PREFIX = /^[!-~]{17}/;
const MIN_LENGTH_TO_SHOW = 40;
/** The maximum length of each text in a shortened line. */
const MAX_TEXT_LENGTH = 500;
/** A shorter text is not a key, and hiding it everywhere would make the log unreadable. */
const MIN_LENGTH_TO_HIDE = 8;
/** The maximum size of an atomic write to a pipe (PIPE_BUF), in bytes: several processes may share the pipe. */
const PIPE_BUF = 4_096;
const BATCH = 16_000;
/** How long a line waits for others, and a batch for room in a full non-blocking pipe, in milliseconds. */
const WAIT_MS = 50;
/** The maximum size of waiting lines in bytes. Beyond it lines are dropped. */
const MAX_WAITING = 16_000_000;
/** How long flush() waits for the reader, in milliseconds. */
const END_MS = 1_000;

/** Opens the log of the process, on standard output. */
export function openLog({ logLevel: level, workers }: Config, keyHeaders: readonly string[], worker?: number): Log {
  // Reading process.stdout.isTTY opens the stream, which makes a pipe non-blocking.
  const isTerminal = isatty(STDOUT);
  const hasColors = isTerminal && process.stdout.hasColors();
  const isShared = workers > 1;
  return createLog({ level, keyHeaders, isTerminal, hasColors, isShared, worker }, new Output({ isShared }));
}

/** Creates a log. */
export function createLog(options: LogOptions, destination: Destination): Log {
  const { keyHeaders } = options;
  const write = createWriter(options, destination);
  return {
    info: (msg) => write('info', { msg }),
    warn: (msg) => write('warn', { msg }),
    error: (msg) => write('error', { msg }),
    request: (request) => write(toLevel(request), () => toLine(request, keyHeaders)),
    fault: (msg, fault, record) => {
      const keys = record ? readKeys(record.headers, keyHeaders, MIN_LENGTH_TO_HIDE) : [];
      write('error', { requestId: record?.id, fault: describe(fault, keys), msg });
    },
    flush: () => destination.flush(),
  };
}

/** Creates the function that writes a line, if its level is logged. */
function createWriter({ level, isTerminal, hasColors = false, isShared = false, worker }: LogOptions, to: Destination) {
  const lowest = LEVELS.indexOf(level);
  const readTime = createClock();
  return (level: LogLevel, fields: Fields | (() => Fields)): void => {
    if (LEVELS.indexOf(level) < lowest) return;
    const line = { level, time: readTime(), worker, ...(typeof fields === 'function' ? fields() : fields) };
    if (isTerminal) to.write(toText(line, hasColors));
    else to.write(isShared ? toShortJson(line) : `${JSON.stringify(line)}\n`);
  };
}

/** The time as ISO 8601, formatted once a millisecond: a busy process logs many lines in one. */
function createClock(): () => string {
  let writtenAt = 0;
  let text = '';
  return () => {
    const now = Date.now();
    if (now !== writtenAt) text = new Date(now).toISOString();
    writtenAt = now;
    return text;
  };
}

/** Shortens a line that is too long for one atomic write: another process's line could end up inside it. */
function toShortJson(line: Line): string {
  const json = `${JSON.stringify(line)}\n`;
  if (Buffer.byteLength(json) <= PIPE_BUF) return json;
  const shorten = (_name: string, value: unknown) =>
    typeof value === 'string' && value.length > MAX_TEXT_LENGTH ? `${value.slice(0, MAX_TEXT_LENGTH)}…` : value;
  return `${JSON.stringify(line, shorten)}\n`;
}

function toLevel({ fault, status, endpoint }: EndedRequest): LogLevel {
  if (fault || (status >= 500 && !PROBES.includes(endpoint))) return 'error';
  return PROBES.includes(endpoint) ? 'debug' : 'info';
}

function toLine(record: EndedRequest, keyHeaders: readonly string[]): Fields {
  const { headers, fault } = record;
  return {
    requestId: record.id,
    method: record.method,
    path: readPath(record),
    operation: record.operation?.id,
    status: record.status,
    durationMs: round(record.durationMs),
    storeMs: record.storeMs === undefined ? undefined : round(record.storeMs),
    responseBytes: record.responseBytes,
    keyPrefix: readKeys(headers, keyHeaders, MIN_LENGTH_TO_SHOW).flatMap((key) => PREFIX.exec(key) ?? [])[0],
    traceId: (record.span?.traceparent ?? record.traceparent)?.slice(3, 35),
    fault: fault && describe(fault, readKeys(headers, keyHeaders, MIN_LENGTH_TO_HIDE)),
  };
}

/** A line for people: the local time, the level and a sentence, with a fault below it. */
function toText(line: Line, hasColors: boolean): string {
  const { time, level, worker, fault } = line;
  const label = level.toUpperCase();
  const shown = hasColors ? styleText(COLORS[level], label, { validateStream: false }) : label;
  const at = new Date(time);
  const clock = `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
  // A stack is shown with its line breaks.
  const below = fault
    ? `\nfault: ${JSON.stringify(fault, null, 2).replaceAll('\\n', '\n')}`.replaceAll('\n', '\n    ')
    : '';
  const from = worker === undefined ? '' : ` worker ${worker}`;
  return `[${clock}]${from} ${shown}: ${toSentence(line)}${below}\n`;
}

function toSentence(line: Line): string {
  const { method, path, status, durationMs, storeMs, requestId, keyPrefix } = line;
  if (status === undefined) return `${line.msg}${requestId ? `, request ${requestId}` : ''}`;
  const store = storeMs === undefined ? '' : ` (store ${storeMs} ms)`;
  const key = keyPrefix === undefined ? '' : ` key ${keyPrefix}…`;
  const what = method === '' ? 'Unreadable request' : `${method} ${path}`;
  return `${what} ${status} in ${durationMs} ms${store}${key} request ${requestId}`;
}

function readKeys(headers: IncomingHttpHeaders, keyHeaders: readonly string[], minLength: number): string[] {
  return keyHeaders.map((name) => String(headers[name] ?? '')).filter((key) => key.length >= minLength);
}

/** Describes a fault without the keys: a database may repeat its input in an error. */
function describe({ kind, cause }: Fault, keys: readonly string[]): unknown {
  const withoutKeys = (_name: string, value: unknown) =>
    typeof value === 'string' ? keys.reduce((text, key) => text.replaceAll(key, '[API key]'), value) : value;
  return JSON.parse(JSON.stringify({ kind, ...describeCause(kind, cause) }, withoutKeys));
}

/** Postgres's errors are logged in the same form, whether a store gives an Error or a plain object. */
function describeCause(kind: Fault['kind'], cause: unknown): Record<string, unknown> {
  if (typeof cause !== 'object' || cause === null || !('message' in cause)) return { cause };
  // `where` names the function that raised the error.
  const { message, code, detail, hint, where } = cause as Record<string, unknown>;
  if (!(cause instanceof Error)) return { cause: message, code, detail, hint, where };
  return { cause: messageOf(cause), code, detail, hint, where, stack: kind === 'internal' ? cause.stack : undefined };
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/**
 * Standard output, which receives whole lines. It writes them in batches and asynchronously: writing each line alone costs as much
 * as validating a request, and a reader that stops must not stop the gateway. A line that cannot be written is lost.
 *
 * sonic-boom 5.0.2 takes 5 to 6 µs for each line instead of 3 to 4: it measures the whole batch again whenever it adds a line. Until
 * 4.2.1 its flushSync() never returns if the reader is gone or the disk is full.
 */
class Output {
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
    fs.write(STDOUT, bytes, (error, written) => {
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
      while (rest.length > 0) rest = rest.subarray(fs.writeSync(STDOUT, rest));
    } catch {
      // The reader is gone, or the disk is full.
    }
  }
}

/** Does not use Buffer.from, which may take a slice of Node's shared pool: a waiting batch would keep the whole pool in memory. */
function toBytes(text: string, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  bytes.write(text);
  return bytes;
}
