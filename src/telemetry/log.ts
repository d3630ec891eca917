// The log: JSON lines, or readable text on a terminal.

import type { IncomingHttpHeaders } from 'node:http';
import { isatty } from 'node:tty';
import { styleText } from 'node:util';
import type { Config, LogLevel } from '../config.ts';
import { type Fault, messageOf } from '../errors.ts';
import { Output, PIPE_BUF } from './output.ts';
import { type EndedRequest, PROBES, type RequestRecord, readPath } from './record.ts';

/** The log of the process. */
export type Log = {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
  /** Logs a request. */
  request(request: EndedRequest): void;
  /** Logs a fault on a separate line, with its request's id. */
  fault(text: string, fault: Fault, record?: RequestRecord): void;
  /** Resolves when every line is written, or after a second. */
  flush(): Promise<void>;
};

type Destination = Pick<Output, 'write' | 'flush'>;
/** The fields of a line. */
type Line = Readonly<Record<string, unknown>>;

const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

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
/** The length of the key prefix in logs and lists. It would give away too much of a key shorter than MIN_LENGTH_TO_SHOW. */
const PREFIX_LENGTH = 17;
const MIN_LENGTH_TO_SHOW = 40;
/** The maximum length of each text in a shortened line. */
const MAX_TEXT_LENGTH = 500;
/** A shorter text is not a key, and hiding it everywhere would make the log unreadable. */
const MIN_LENGTH_TO_HIDE = 8;

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
  return (level: LogLevel, fields: Line | (() => Line)): void => {
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

function toLine(record: EndedRequest, keyHeaders: readonly string[]): Line {
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
    keyPrefix: toPrefixes(readKeys(headers, keyHeaders, MIN_LENGTH_TO_SHOW))[0],
    traceId: (record.span?.traceparent ?? record.traceparent)?.slice(3, 35),
    fault: fault && describe(fault, readKeys(headers, keyHeaders, MIN_LENGTH_TO_HIDE)),
  };
}

const COLORS: Readonly<Record<string, 'green' | 'yellow' | 'red' | 'blue'>> = {
  debug: 'blue',
  info: 'green',
  warn: 'yellow',
  error: 'red',
};

/** A line for people: the local time, the level and a sentence, with a fault below it. */
function toText(line: Line, hasColors: boolean): string {
  const { time, level, worker, fault } = line;
  const label = String(level).toUpperCase();
  const color = hasColors && COLORS[String(level)];
  const shown = color ? styleText(color, label, { validateStream: false }) : label;
  const at = new Date(String(time));
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

/** Returns the prefixes of keys. Skips a prefix with other characters, which could control the reader's terminal. */
function toPrefixes(keys: readonly string[]): string[] {
  return keys.map((key) => key.slice(0, PREFIX_LENGTH)).filter((prefix) => /^[!-~]+$/.test(prefix));
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
