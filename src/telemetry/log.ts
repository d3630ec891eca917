// The log: lines of JSON, or text for a person at a terminal.

import type { IncomingHttpHeaders } from 'node:http';
import { createRequire } from 'node:module';
import { isatty } from 'node:tty';
import { type DestinationStream, type Level, type Logger, pino, stdTimeFunctions } from 'pino';
import type { PinoPretty } from 'pino-pretty';
import type { Config, LogConfig } from '../config.ts';
import { type Fault, messageOf } from '../errors.ts';
import { type EndedRequest, PROBES, type RequestRecord, readPath } from './record.ts';

/** The log of the process. */
export type Log = {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
  /** Writes the line of a request. */
  request(request: EndedRequest): void;
  /** Writes a fault on a line of its own, with the id of its request. */
  fault(text: string, fault: Fault, record?: RequestRecord): void;
};

/** What is written and how. `keyHeaders` are the headers that carry a key, in lower case: a whole key is never written. */
export type LogOptions = LogConfig & {
  readonly keyHeaders: readonly string[];
  readonly isTerminal: boolean;
  readonly hasColors?: boolean;
  /** Whether other processes write to the same output. */
  readonly isShared?: boolean;
};

const STDOUT = 1;
/** The prefix of a key that logs and lists show; of a short key it would show too much. */
const PREFIX_LENGTH = 17;
const MIN_LENGTH_TO_SHOW = 40;
/**
 * Lines are written together, after 50 ms or 16 kB: one by one they would cost as much as validating a request. Lines that
 * nobody reads are kept up to 16 MB, and then dropped.
 */
const BUFFERED = { sync: false, minLength: 16_000, periodicFlush: 50, maxLength: 16_000_000 };
/** How much a pipe takes from one of several processes in one piece (PIPE_BUF), in bytes. */
const PIECE = 4_096;
/** Writes whole lines together, in pieces of at most that size. */
const IN_PIECES = { ...BUFFERED, minLength: PIECE - 1, maxWrite: PIECE };
/** How much is kept of each text in a line that is too long. */
const MAX_TEXT_LENGTH = 500;
/** A shorter text is not a key, and removing it would make the rest unreadable. */
const MIN_LENGTH_TO_HIDE = 8;

/** Opens the log of the process, on standard output. */
export function openLog({ log, workers }: Config, keyHeaders: readonly string[]): Log {
  // Not by process.stdout, which would make a pipe non-blocking.
  const isTerminal = isatty(STDOUT);
  const hasColors = isTerminal && process.stdout.hasColors();
  return createLog({ ...log, keyHeaders, isTerminal, hasColors, isShared: workers > 1 });
}

/** Creates a log, on standard output unless a stream is given. */
export function createLog(options: LogOptions, stream?: DestinationStream): Log {
  const logger = createLogger(options, stream);
  const { keyHeaders } = options;
  return {
    info: (text) => logger.info(text),
    warn: (text) => logger.warn(text),
    error: (text) => logger.error(text),
    request: (request) => {
      const level = toLevel(request);
      if (logger.isLevelEnabled(level)) logger[level](toLine(request, keyHeaders));
    },
    fault: (text, fault, record) => {
      const keys = record ? readKeys(record.headers, keyHeaders, MIN_LENGTH_TO_HIDE) : [];
      logger.error({ requestId: record?.id, fault: describe(fault, keys) }, text);
    },
  };
}

function createLogger(
  { level, format, isTerminal, hasColors = false, isShared = false }: LogOptions,
  stream: DestinationStream | undefined,
): Logger {
  const options = {
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    ...(isShared ? { hooks: { streamWrite: toPiece } } : {}),
  };
  const isPretty = format === 'pretty' || (format === 'auto' && isTerminal);
  if (!isPretty) return pino(options, stream ?? openOutput(isShared ? IN_PIECES : BUFFERED));
  // Loaded only where it is used.
  const pretty: typeof PinoPretty = createRequire(import.meta.url)('pino-pretty');
  const destination = stream ?? (isShared ? pino.destination(IN_PIECES) : undefined);
  return pino(
    options,
    pretty({
      colorize: hasColors,
      translateTime: 'SYS:HH:MM:ss.l',
      ignore: 'requestId,method,path,operation,status,durationMs,storeMs,responseBytes,keyPrefix,traceId',
      messageFormat: (line, messageKey) => toSentence(line, messageKey),
      customColors: 'message:reset',
      ...(destination ? { destination } : {}),
    }),
  );
}

function openOutput(options: typeof BUFFERED): DestinationStream {
  // As bytes: of texts it joins all that wait, each time that one is added.
  const output = pino.destination({ ...options, contentMode: 'buffer' });
  return { write: (line) => output.write(Buffer.from(line) as unknown as string) };
}

/** Shortens a line that the pipe would not take in one piece: another process's line could end up inside it. */
function toPiece(line: string): string {
  if (Buffer.byteLength(line) <= PIECE) return line;
  const shorten = (_name: string, value: unknown) =>
    typeof value === 'string' && value.length > MAX_TEXT_LENGTH ? `${value.slice(0, MAX_TEXT_LENGTH)}…` : value;
  return `${JSON.stringify(JSON.parse(line), shorten)}\n`;
}

function toLevel({ fault, status, route }: EndedRequest): Level {
  if (fault || (status >= 500 && !PROBES.includes(route))) return 'error';
  return PROBES.includes(route) ? 'debug' : 'info';
}

function toLine(record: EndedRequest, keyHeaders: readonly string[]): Record<string, unknown> {
  const { headers, fault } = record;
  return {
    requestId: record.id,
    method: record.method,
    path: readPath(record),
    operation: record.operation,
    status: record.status,
    durationMs: round(record.durationMs),
    storeMs: record.storeMs === undefined ? undefined : round(record.storeMs),
    responseBytes: record.responseBytes,
    keyPrefix: toPrefixes(readKeys(headers, keyHeaders, MIN_LENGTH_TO_SHOW))[0],
    traceId: (record.span?.traceparent ?? record.traceparent)?.slice(3, 35),
    fault: fault && describe(fault, readKeys(headers, keyHeaders, MIN_LENGTH_TO_HIDE)),
  };
}

function toSentence(line: Record<string, unknown>, messageKey: string): string {
  const { method, path, status, durationMs, storeMs, requestId, keyPrefix } = line;
  if (status === undefined) return `${line[messageKey]}${requestId ? `, request ${requestId}` : ''}`;
  const store = storeMs === undefined ? '' : ` (store ${storeMs} ms)`;
  const key = keyPrefix === undefined ? '' : ` key ${keyPrefix}…`;
  return `${method} ${path} ${status} in ${durationMs} ms${store}${key} request ${requestId}`;
}

function readKeys(headers: IncomingHttpHeaders, keyHeaders: readonly string[], minLength: number): string[] {
  return keyHeaders.map((name) => String(headers[name] ?? '')).filter((key) => key.length >= minLength);
}

/** The prefixes of keys; other characters could control the reader's terminal. */
function toPrefixes(keys: readonly string[]): string[] {
  return keys.map((key) => key.slice(0, PREFIX_LENGTH)).filter((prefix) => /^[!-~]+$/.test(prefix));
}

/** A fault without the keys: a database may repeat its input in an error. */
function describe({ kind, cause }: Fault, keys: readonly string[]): unknown {
  const withoutKeys = (_name: string, value: unknown) =>
    typeof value === 'string' ? keys.reduce((text, key) => text.replaceAll(key, '[API key]'), value) : value;
  return JSON.parse(JSON.stringify({ kind, ...describeCause(kind, cause) }, withoutKeys));
}

function describeCause(kind: Fault['kind'], cause: unknown): Record<string, unknown> {
  if (!(cause instanceof Error)) return { cause };
  // Postgres adds the function in which the error was raised.
  const { code, detail, hint, where } = cause as Error & Record<string, string | undefined>;
  return { cause: messageOf(cause), code, detail, hint, where, stack: kind === 'internal' ? cause.stack : undefined };
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
