import type { IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import { type DestinationStream, type Level, type Logger, pino } from 'pino';
import type { PinoPretty } from 'pino-pretty';
import type { LogConfig } from '../config.ts';
import { type Fault, messageOf } from '../errors.ts';
import { type Observation, PROBES, type RequestRecord, readPath } from './record.ts';

/** The log of the process: lines of JSON, or of text for a person at a terminal. */
export type Log = {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
  /** Writes the line of a request. */
  request(record: RequestRecord): void;
  /** Writes of a fault that stands on no request's line; the request that it goes back to is named. */
  fault(text: string, fault: Fault, observation?: Observation): void;
};

/** What is written and how, and the headers that carry a key, in lower case: a whole key is never written. */
export type LogOptions = LogConfig & {
  readonly keyHeaders: readonly string[];
  readonly isTerminal: boolean;
  readonly hasColors?: boolean;
  /** Whether other processes write to the same output. */
  readonly isShared?: boolean;
};

/** As much of a key as it is listed by; of one that is not much longer that would be too much. */
const PREFIX_LENGTH = 17;
const MIN_LENGTH_TO_SHOW = 40;
/**
 * Lines are written together, 50 ms after the first of them or when they are 16 kB: one by one they would cost a
 * request as much as to validate it. What is not read by anybody is kept up to 16 MB, and then dropped.
 */
const UNHURRIED = { sync: false, minLength: 16_000, periodicFlush: 50, maxLength: 16_000_000 };
/** As much as a pipe takes from each of several processes in one piece (PIPE_BUF), in bytes. */
const PIECE = 4_096;
/** Whole lines are written together, and no more of them than that. */
const IN_PIECES = { ...UNHURRIED, minLength: PIECE - 1, maxWrite: PIECE };
/** As much of each text as is left in a line that is longer. */
const MAX_TEXT_LENGTH = 500;
/** A shorter text is no key, and to blot it out would make the rest unreadable. */
const MIN_LENGTH_TO_HIDE = 8;

/** Opens the log, on standard output unless it is given a stream. */
export function createLog(options: LogOptions, stream?: DestinationStream): Log {
  const logger = createLogger(options, stream);
  const { keyHeaders } = options;
  return {
    info: (text) => logger.info(text),
    warn: (text) => logger.warn(text),
    error: (text) => logger.error(text),
    request: (record) => {
      const level = toLevel(record);
      if (logger.isLevelEnabled(level)) logger[level](toLine(record, keyHeaders));
    },
    fault: (text, fault, observation) => {
      const keys = observation ? readKeys(observation.req, keyHeaders, MIN_LENGTH_TO_HIDE) : [];
      logger.error({ requestId: observation?.id, fault: describe(fault, keys) }, text);
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
    timestamp: createClock(),
    formatters: { level: (label: string) => ({ level: label }) },
    ...(isShared ? { hooks: { streamWrite: toPiece } } : {}),
  };
  const isPretty = format === 'pretty' || (format === 'auto' && isTerminal);
  if (!isPretty) return pino(options, stream ?? openOutput(isShared ? IN_PIECES : UNHURRIED));
  // Not loaded where nobody reads it.
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

function openOutput(options: typeof UNHURRIED): DestinationStream {
  // As bytes, for of texts it joins all that wait each time that one is added.
  const output = pino.destination({ ...options, contentMode: 'buffer' });
  return { write: (line) => output.write(Buffer.from(line) as unknown as string) };
}

/** Writes the time as pino does (ISO 8601), but all of it only once a second. */
function createClock(): () => string {
  let second = Number.NaN;
  let begin = '';
  return () => {
    const now = Date.now();
    const milliseconds = now % 1_000;
    if (now - milliseconds !== second) {
      second = now - milliseconds;
      begin = `,"time":"${new Date(second).toISOString().slice(0, -4)}`;
    }
    return `${begin}${String(milliseconds).padStart(3, '0')}Z"`;
  };
}

/** A line that is written in one piece: what is longer than the pipe takes could have another's in its midst. */
function toPiece(line: string): string {
  if (Buffer.byteLength(line) <= PIECE) return line;
  const shorten = (_name: string, value: unknown) =>
    typeof value === 'string' && value.length > MAX_TEXT_LENGTH ? `${value.slice(0, MAX_TEXT_LENGTH)}…` : value;
  return `${JSON.stringify(JSON.parse(line), shorten)}\n`;
}

function toLevel({ fault, status, route }: RequestRecord): Level {
  if (fault || (status >= 500 && !PROBES.includes(route))) return 'error';
  return PROBES.includes(route) ? 'debug' : 'info';
}

function toLine(record: RequestRecord, keyHeaders: readonly string[]): Record<string, unknown> {
  const { req, fault } = record;
  return {
    requestId: record.id,
    method: req.method,
    path: readPath(req),
    operation: record.operation,
    status: record.status,
    durationMs: round(record.durationMs),
    storeMs: record.storeMs === undefined ? undefined : round(record.storeMs),
    responseBytes: record.responseBytes,
    keyPrefix: toPrefixes(readKeys(req, keyHeaders, MIN_LENGTH_TO_SHOW))[0],
    traceId: (record.span?.traceparent ?? record.traceparent)?.slice(3, 35),
    fault: fault && describe(fault, readKeys(req, keyHeaders, MIN_LENGTH_TO_HIDE)),
  };
}

function toSentence(line: Record<string, unknown>, messageKey: string): string {
  const { method, path, status, durationMs, storeMs, requestId, keyPrefix } = line;
  if (status === undefined) return `${line[messageKey]}${requestId ? `, request ${requestId}` : ''}`;
  const store = storeMs === undefined ? '' : ` (store ${storeMs} ms)`;
  const key = keyPrefix === undefined ? '' : ` key ${keyPrefix}…`;
  return `${method} ${path} ${status} in ${durationMs} ms${store}${key} request ${requestId}`;
}

function readKeys(req: IncomingMessage, keyHeaders: readonly string[], minLength: number): string[] {
  return keyHeaders.map((name) => String(req.headers[name] ?? '')).filter((key) => key.length >= minLength);
}

/** The prefixes of keys; other characters could control the terminal that the log is read on. */
function toPrefixes(keys: readonly string[]): string[] {
  return keys.map((key) => key.slice(0, PREFIX_LENGTH)).filter((prefix) => /^[!-~]+$/.test(prefix));
}

/** A fault without the keys: a database may repeat in an error what it was given. */
function describe({ kind, cause }: Fault, keys: readonly string[]): unknown {
  const withoutKeys = (_name: string, value: unknown) =>
    typeof value === 'string' ? keys.reduce((text, key) => text.replaceAll(key, '[API key]'), value) : value;
  return JSON.parse(JSON.stringify({ kind, ...describeCause(kind, cause) }, withoutKeys));
}

function describeCause(kind: Fault['kind'], cause: unknown): Record<string, unknown> {
  if (!(cause instanceof Error)) return { cause };
  // What Postgres adds to an error says in which function it came up.
  const { code, detail, hint, where } = cause as Error & Record<string, string | undefined>;
  return { cause: messageOf(cause), code, detail, hint, where, stack: kind === 'internal' ? cause.stack : undefined };
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
