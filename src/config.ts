import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { readDatabaseUrl, UrlError } from './database-url.ts';
import { OperatorError } from './errors.ts';
import { isNear } from './near-miss.ts';

/** The configuration of the gateway. */
export type Config = {
  /** The number of processes that serve; 1 means this process alone. Workers share the limits below. */
  readonly workers: number;
  readonly port: number;
  readonly host: string;
  readonly store: StoreConfig;
  /** Whether a store with the demo data may be served: on HOST others reach it, and its keys are public. */
  readonly demoKeys: boolean;
  /** The maximum number of concurrent store calls, and of connections to the store. */
  readonly connections: number;
  /** The maximum number of calls in the store's queue. */
  readonly waiting: number;
  /** Store call timeout in milliseconds, including time in the queue. */
  readonly deadlineMs: number;
  /** How long the gateway serves on after SIGTERM, not ready, in milliseconds. */
  readonly drainMs: number;
  /** The largest request body, in bytes. */
  readonly bodyLimit: number;
  /** The largest answer of the store, in bytes. */
  readonly answerLimit: number;
  /** The maximum total size of answers that clients have not read yet, in bytes. */
  readonly unreadLimit: number;
  /** The maximum number of open client sockets. */
  readonly maxSockets: number;
  /** How many refused keys per network and minute are answered without delay; 0 delays none. */
  readonly refusalsPerMinute: number;
  /** Whether drift prevents the start (`error`) or is only logged (`warn`). */
  readonly contractCheck: 'error' | 'warn';
  /** The number of trusted proxies in front of the gateway that forward the client's address. */
  readonly proxyHops: number;
  readonly rateLimits: RateLimitConfig;
  /** The time zone of the days of usage, and how many of them are kept. */
  readonly usage: { readonly timeZone: string; readonly keepDays: number };
  /** The allowed CORS origins; `*` allows all. */
  readonly corsOrigins: readonly string[];
  /** Whether the documentation page and the document are served. */
  readonly docs: boolean;
  /** Whether the Model Context Protocol is served. */
  readonly mcp: boolean;
  /** A separate port for the metrics. */
  readonly metricsPort: number | undefined;
  readonly log: LogConfig;
  /** The URL of the OTLP collector, and the sampling ratio for root traces; undefined sends no traces. */
  readonly traces: { readonly url: string; readonly ratio: number } | undefined;
};

/** Rate limits in requests per minute; 0 is unlimited. */
export type RateLimitConfig = {
  readonly perKey: number;
  readonly perAddress: number;
  /** The URL of a Redis that shares the counts among gateways; without it each gateway counts by itself. */
  readonly redisUrl: string | undefined;
};

/** Log level and format; `auto` is `pretty` on a terminal and `json` otherwise. */
export type LogConfig = {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly format: 'auto' | 'json' | 'pretty';
};

/** Which store, and how to reach it. */
export type StoreConfig =
  | {
      readonly kind: 'embedded';
      /** The data folder; undefined is a temporary one, which goes with the gateway. */
      readonly dataDir: string | undefined;
      /** The folder of the programs of Postgres; undefined for npm's. */
      readonly programs: string | undefined;
      /** Whether an answer waits until its rows are on the disk. */
      readonly fsync: boolean;
      /** Whether a new store gets the demo data. */
      readonly demoData: boolean;
    }
  | {
      readonly kind: 'postgres';
      /** May have several hosts. */
      readonly url: string;
      readonly prepare: boolean;
    }
  | { readonly kind: 'supabase'; readonly url: string; readonly key: string; readonly restPath: string };

const MAX_WORKERS = 64;
const ROOT = join(import.meta.dirname, '..');

/** The product's own files. */
export const FILES = {
  document: join(ROOT, 'openapi.yaml'),
  migrations: join(ROOT, 'supabase/migrations'),
  seed: join(ROOT, 'supabase/seed.sql'),
  types: join(ROOT, 'client/src/openapi.ts'),
} as const;

/** Addresses that only this machine reaches. */
const LOOPBACK = /^(127(\.\d+){3}|::1|localhost)$/i;
/** A fragment, which no URL here has, or an @ that does not end the user and the password. */
const UNENCODED = /#|@.*@|:\/\/[^@]*[/?].*@/;

/** The environment is invalid; the message lists each mistake with its value and what was expected. */
export class ConfigError extends OperatorError {}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the configuration from the environment. An empty variable counts as not set. Throws ConfigError with all
 * mistakes.
 */
export function readConfig(env: Environment, processors = availableParallelism()): Config {
  const reader = new Reader(env);
  const workers = reader.integerOrAuto('WORKERS', 1, 1, MAX_WORKERS);
  const host = reader.matching('HOST', '127.0.0.1', /^[\w.:%-]+$/, 'a host name or address, without a port');
  const single = {
    port: reader.integer('PORT', 3000, 0, 65_535),
    host,
    store: readStore(reader),
    // Set to on, and not on by default.
    demoKeys: LOOPBACK.test(host) || env.DEMO_DATA === 'on',
    connections: reader.integer('STORE_CONNECTIONS', 10, 1, 1_000),
    waiting: reader.integer('STORE_WAITING', 1_000, 0, 100_000),
    deadlineMs: reader.integer('DEADLINE_MS', 5_000, 10, 60_000),
    drainMs: reader.integer('DRAIN_MS', 7_000, 0, 600_000),
    bodyLimit: reader.integer('BODY_LIMIT_BYTES', 100_000, 1, 10_000_000),
    answerLimit: reader.integer('ANSWER_LIMIT_BYTES', 4_000_000, 1_000, 100_000_000),
    unreadLimit: reader.integer('UNREAD_LIMIT_BYTES', 100_000_000, 0, 10_000_000_000),
    maxSockets: reader.integer('MAX_SOCKETS', 10_000, 1, 1_000_000),
    refusalsPerMinute: reader.integer('REFUSALS_PER_MINUTE', 600, 0, 1_000_000),
    contractCheck: reader.choice('CONTRACT_CHECK', ['error', 'warn']),
    proxyHops: reader.integer('PROXY_HOPS', 0, 0, 10),
    rateLimits: readRateLimits(reader),
    usage: {
      timeZone: reader.timeZone('TIME_ZONE', 'America/Sao_Paulo'),
      keepDays: reader.integer('USAGE_DAYS', 400, 31, 10_000),
    },
    corsOrigins: reader.list(
      'CORS_ORIGINS',
      isOrigin,
      'origins like https://painel.example, separated by commas, or *',
    ),
    docs: reader.flag('DOCS', true),
    mcp: reader.flag('MCP', false),
    metricsPort: reader.integer('METRICS_PORT', undefined, 0, 65_535),
    log: {
      level: reader.choice('LOG_LEVEL', ['info', 'debug', 'warn', 'error', 'silent']),
      format: reader.choice('LOG_FORMAT', ['auto', 'json', 'pretty']),
    },
    traces: readTraces(reader),
  };
  const config = { ...single, workers: readWorkers(reader, workers, single, processors) };
  if (config.port !== 0 && config.port === config.metricsPort) {
    reader.mistakes.push('PORT and METRICS_PORT are the same: expected two different ports, or no METRICS_PORT');
  }
  reader.mistakes.push(...reader.findNearMisses());
  if (reader.mistakes.length > 0) throw new ConfigError(reader.mistakes.join('\n'));
  return config;
}

/** `auto` starts one worker per processor. Each worker needs at least one connection and one refusal of its own. */
function readWorkers(
  reader: Reader,
  workers: number | 'auto',
  { connections, refusalsPerMinute }: Omit<Config, 'workers'>,
  processors: number,
): number {
  const refusals = refusalsPerMinute || MAX_WORKERS;
  if (workers === 'auto') return Math.min(processors, connections, refusals, MAX_WORKERS);
  if (workers > connections) {
    reader.mistakes.push(
      `WORKERS=${workers} and STORE_CONNECTIONS=${connections}: expected at least one connection per worker`,
    );
  }
  if (workers > refusals) {
    reader.mistakes.push(
      `WORKERS=${workers} and REFUSALS_PER_MINUTE=${refusals}: expected at least one refusal per worker, or 0 for no limit`,
    );
  }
  return workers;
}

function readRateLimits(reader: Reader): RateLimitConfig {
  const perKey = reader.integer('KEY_REQUESTS_PER_MINUTE', 0, 0, 10_000_000);
  const perAddress = reader.integer('ADDRESS_REQUESTS_PER_MINUTE', 0, 0, 10_000_000);
  const redisUrl = reader.secretUrl('REDIS_URL', ['redis:', 'rediss:'], 'redis://host:6379/0', /^\/?\d*$/);
  return { perKey, perAddress, redisUrl };
}

function readTraces(reader: Reader): Config['traces'] {
  const url = reader.secretUrl('OTEL_EXPORTER_OTLP_ENDPOINT', ['http:', 'https:'], 'http://collector:4318');
  const ratio = reader.ratio('OTEL_TRACES_SAMPLER_ARG', 1);
  return url === undefined ? undefined : { url, ratio };
}

function readStore(reader: Reader): StoreConfig {
  const database = reader.databaseUrl('DATABASE_URL');
  const supabase = reader.secretUrl('SUPABASE_URL', ['http:', 'https:'], 'https://project.supabase.co');
  const key = reader.secret('SUPABASE_KEY', /^[\x21-\x7e]+$/, 'a secret key without spaces');
  const restPath = reader.matching('SUPABASE_REST_PATH', '/rest/v1', /^\/[\w./-]*$/, 'a path, such as /rest/v1 or /');
  const prepare = reader.flag('PREPARE', true);
  const dataDir = reader.matching('DATA_DIR', '.data', /^[^\0]+$/, 'a folder, or :memory:');
  const programs = reader.matching(
    'POSTGRES_BIN',
    undefined,
    /^\//,
    'the absolute path of the folder of initdb and postgres',
  );
  const fsync = reader.flag('FSYNC', true);
  const demoData = reader.flag('DEMO_DATA', true);

  const { isSet } = reader;
  if (isSet('DATABASE_URL') && isSet('SUPABASE_URL')) {
    reader.mistakes.push('DATABASE_URL and SUPABASE_URL are both set: expected one of them, or none');
  }
  if (isSet('SUPABASE_URL') !== isSet('SUPABASE_KEY')) {
    reader.mistakes.push('SUPABASE_URL and SUPABASE_KEY: expected both of them, or none');
  }
  if (database) return { kind: 'postgres', url: database, prepare };
  if (supabase) return { kind: 'supabase', url: supabase, key: key ?? '', restPath };
  return { kind: 'embedded', dataDir: dataDir === ':memory:' ? undefined : dataDir, programs, fsync, demoData };
}

/** Whether a text is an origin as browsers send it (RFC 6454, section 6.2), or `*`. */
function isOrigin(text: string): boolean {
  return text === '*' || (URL.canParse(text) && new URL(text).origin === text);
}

/** Whether a text names a time zone (IANA). */
function isTimeZone(text: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }) !== undefined;
  } catch {
    return false;
  }
}

function toInteger(min: number, max: number) {
  return (text: string): number | undefined => {
    const value = Number(text);
    return /^\d+$/.test(text) && value >= min && value <= max ? value : undefined;
  };
}

class Reader {
  readonly mistakes: string[] = [];
  readonly #env: Environment;
  /** The names that were read. */
  readonly #names = new Set<string>();

  constructor(env: Environment) {
    this.#env = env;
  }

  readonly isSet = (name: string): boolean => (this.#env[name] ?? '') !== '';

  /** The variables that are probably meant to be one that is not set: a store with public keys must not start instead. */
  findNearMisses(): string[] {
    const missing = [...this.#names].filter((name) => !this.isSet(name));
    return Object.keys(this.#env).flatMap((found) => {
      if (!this.isSet(found) || this.#names.has(found)) return [];
      const folded = found.toUpperCase().replaceAll('-', '_');
      // Two edits of a short name, such as HOST, make many others.
      const meant = missing.find((name) => isNear(folded, name, name.length > 6 ? 2 : 1));
      return meant ? [`${found} is no variable of the gateway: expected ${meant}`] : [];
    });
  }

  integer<T extends number | undefined>(name: string, fallback: T, min: number, max: number): number | T {
    return this.#read<number | T>(name, fallback, `a whole number from ${min} to ${max}`, toInteger(min, max));
  }

  integerOrAuto(name: string, fallback: number, min: number, max: number): number | 'auto' {
    const parse = toInteger(min, max);
    return this.#read<number | 'auto'>(name, fallback, `a whole number from ${min} to ${max}, or auto`, (text) =>
      text === 'auto' ? text : parse(text),
    );
  }

  ratio(name: string, fallback: number): number {
    return this.#read(name, fallback, 'a number from 0 to 1', (text) =>
      /^(0(\.\d+)?|1(\.0+)?)$/.test(text) ? Number(text) : undefined,
    );
  }

  timeZone(name: string, fallback: string): string {
    return this.#read(name, fallback, 'a time zone such as America/Sao_Paulo', (text) =>
      isTimeZone(text) ? text : undefined,
    );
  }

  matching<T extends string | undefined>(name: string, fallback: T, pattern: RegExp, expected: string): string | T {
    return this.#read<string | T>(name, fallback, expected, (text) => (pattern.test(text) ? text : undefined));
  }

  /** One of several words; the first is the default. */
  choice<T extends string>(name: string, words: readonly [T, ...T[]]): T {
    return this.#read(name, words[0], words.join(' or '), (text) => words.find((word) => word === text));
  }

  /** Values separated by commas; an empty list if not set. */
  list(name: string, isValid: (text: string) => boolean, expected: string): readonly string[] {
    return this.#read<readonly string[]>(name, [], expected, (text) => {
      const values = text.split(',').map((value) => value.trim());
      return values.every(isValid) ? values : undefined;
    });
  }

  flag(name: string, fallback: boolean): boolean {
    return this.#read(name, fallback, 'on or off', (text) =>
      text === 'on' ? true : text === 'off' ? false : undefined,
    );
  }

  secret(name: string, pattern: RegExp, expected: string): string | undefined {
    return this.#read(name, undefined, expected, (text) => (pattern.test(text) ? text : undefined), true);
  }

  /** The URL of a Postgres, which may name several hosts. */
  databaseUrl(name: string): string | undefined {
    if (UNENCODED.test(this.#env[name] ?? '')) return this.#refuseUnencoded(name);
    const text = this.secret(name, /^postgres(ql)?:\/\//, 'a URL like postgres://user:password@host/name');
    try {
      if (text !== undefined) readDatabaseUrl(text);
    } catch (error) {
      if (!(error instanceof UrlError)) throw error;
      this.mistakes.push(`${name}=(not shown): ${error.message}`);
    }
    return text;
  }

  secretUrl(name: string, protocols: readonly string[], example: string, path = /^/): string | undefined {
    if (UNENCODED.test(this.#env[name] ?? '')) return this.#refuseUnencoded(name);
    const isUrl = (text: string) => {
      const url = URL.parse(text);
      return url !== null && protocols.includes(url.protocol) && path.test(url.pathname);
    };
    return this.#read(name, undefined, `a URL like ${example}`, (text) => (isUrl(text) ? text : undefined), true);
  }

  /** Otherwise a part of the password would be read as the host, and be logged. */
  #refuseUnencoded(name: string): undefined {
    const expected = '@ # / ? in the user and the password as %40 %23 %2F %3F';
    return this.#read(name, undefined, expected, () => undefined, true);
  }

  /** Error messages do not show secrets or URLs that may contain a password. */
  #read<T>(name: string, fallback: T, expected: string, parse: (text: string) => T | undefined, isSecret = false): T {
    this.#names.add(name);
    const text = this.#env[name];
    if (text === undefined || text === '') return fallback;
    const value = parse(text);
    if (value === undefined) {
      this.mistakes.push(`${name}=${isSecret ? '(not shown)' : JSON.stringify(text)}: expected ${expected}`);
    }
    return value ?? fallback;
  }
}
