// The environment as a typed configuration: one table of all variables.

import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { readDatabaseUrl, UrlError } from './database-url.ts';
import { OperatorError } from './errors.ts';
import { findNear } from './near-miss.ts';

/** The configuration of the gateway. VARIABLES describes the values. */
export type Config = Readonly<ReturnType<typeof readConfig>>;

/** Which store, and how to reach it. */
export type StoreConfig =
  | {
      readonly kind: 'embedded';
      /** The data folder; undefined for a temporary one, which is deleted at the end. */
      readonly dataDir: string | undefined;
      /** The folder of Postgres's programs; undefined for npm's. */
      readonly programs: string | undefined;
      /** For tests: false does not wait until the rows are on the disk. */
      readonly fsync?: boolean;
      /** Whether a new store gets the demo data. */
      readonly demoData: boolean;
    }
  | {
      readonly kind: 'postgres';
      /** May have several hosts. */
      readonly url: string;
    }
  | { readonly kind: 'supabase'; readonly url: string; readonly key: string; readonly restPath: string };

const MAX_WORKERS = 64;
/** Bounds of memory, which have no variable. Tests set them lower. */
const BOUNDS = {
  /** Calls in the store's queue. */
  waiting: 1_000,
  /** The largest answer of the store, and all answers that clients have not read yet, in bytes. */
  answerLimit: 4_000_000,
  unreadLimit: 100_000_000,
  /** Open sockets of clients. */
  maxSockets: 10_000,
};
const ROOT = join(import.meta.dirname, '..');

/** The product's own files. */
export const FILES = {
  document: join(ROOT, 'openapi.yaml'),
  migrations: join(ROOT, 'supabase/migrations'),
  seed: join(ROOT, 'supabase/seed.sql'),
  types: join(ROOT, 'client/src/openapi.ts'),
} as const;

/** The environment is invalid; the message lists each mistake with its value and what was expected. */
export class ConfigError extends OperatorError {}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A variable of the environment. */
export type Variable<T = unknown> = {
  /** The default, and how it is written. */
  readonly fallback: T;
  readonly written: string;
  /** The description in docs/configuration.md, in Markdown. */
  readonly text: string;
  /** The valid values, for messages. */
  readonly expected: string;
  /** Reads a value; undefined if it is invalid. Throws UrlError with a more specific message. */
  readonly parse: (text: string) => T | undefined;
  /** Whether messages must not show its value. */
  readonly isSecret?: boolean;
};

/** Addresses that only this machine reaches. */
export const LOOPBACK = /^(127(\.\d+){3}|::1|localhost)$/i;
/** An unencoded character in the user or the password: no URL here has a fragment or a second @. */
const UNENCODED = /#|@.*@|:\/\/[^@]*[/?].*@/;

function variable<T>(text: string, fallback: T, expected: string, parse: Variable<T>['parse']): Variable<T> {
  const written = typeof fallback === 'boolean' ? (fallback ? 'on' : 'off') : `${fallback ?? ''}`;
  return { fallback, written, text, expected, parse };
}

const integer = <T extends number | undefined>(text: string, fallback: T, min: number, max: number) =>
  variable<number | T>(text, fallback, `a whole number from ${min} to ${max}`, toInteger(min, max));

function toInteger(min: number, max: number) {
  return (text: string): number | undefined => {
    const value = Number(text);
    return /^\d+$/.test(text) && value >= min && value <= max ? value : undefined;
  };
}

const flag = (text: string, fallback: boolean) =>
  variable(text, fallback, 'on or off', (value) => value === 'on' || (value === 'off' ? false : undefined));

/** One of several words; the first is the default. */
const choice = <T extends string>(text: string, ...words: [T, ...T[]]): Variable<T> =>
  variable(text, words[0], words.join(' or '), (value) => words.find((word) => word === value));

const matching = <T extends string | undefined>(text: string, fallback: T, expected: string, pattern: RegExp) =>
  variable<string | T>(text, fallback, expected, (value) => (pattern.test(value) ? value : undefined));

const secret = (text: string, expected: string, parse: (text: string) => string | undefined) => ({
  ...variable<string | undefined>(text, undefined, expected, parse),
  isSecret: true,
});

/** A URL, which may have a password. Part of an unencoded password would be read as the host, and logged. */
const url = (text: string, example: string, isUrl: (text: string) => boolean) =>
  secret(text, `a URL like ${example}`, (value) => {
    if (value !== value.trim()) throw new UrlError('expected no blanks or line ends around the URL');
    if (UNENCODED.test(value)) {
      throw new UrlError('expected @ # / ? in the user and the password as %40 %23 %2F %3F');
    }
    return isUrl(value) ? value : undefined;
  });

const hasProtocol =
  (...protocols: string[]) =>
  (text: string) =>
    protocols.includes(URL.parse(text)?.protocol ?? '');

/** Whether a URL has nothing but an origin: calls have the path of SUPABASE_REST_PATH, and SUPABASE_KEY as their login. */
function isOriginOfSupabase(text: string): boolean {
  const { origin = '', href = '' } = URL.parse(text) ?? {};
  return hasProtocol('http:', 'https:')(text) && /^\/(rest\/v1\/?)?$/.test(href.replace(origin, ''));
}

function isDatabaseUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text) && readDatabaseUrl(text).servers.length > 0;
}

/** Reads origins as browsers send them (RFC 6454, section 6.2), or `*`, separated by commas; undefined if one is invalid. */
function readOrigins(text: string): readonly string[] | undefined {
  const values = text.split(',').map((value) => value.trim());
  // No browser has an origin like https://*.example.
  const isOrigin = (value: string) => !value.includes('*') && URL.parse(value)?.origin === value;
  return values.every((value) => value === '*' || isOrigin(value)) ? values : undefined;
}

/** Reads the name of a time zone (IANA). Postgres may read one without a slash, such as IST, as an abbreviation of another zone. */
function readTimeZone(text: string): string | undefined {
  if (!text.includes('/') && !/^(utc|gmt)$/i.test(text)) return undefined;
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return text;
  } catch {
    return undefined;
  }
}

/** Every variable, in the order of docs/configuration.md and .env.example, which `npm run generate` writes from it. */
export const VARIABLES = {
  PORT: integer('port to listen on; `0` takes any free port', 3000, 0, 65_535),
  HOST: matching(
    'address to listen on; `0.0.0.0` for all. If other machines can reach it, the gateway refuses a store with the demo data.',
    '127.0.0.1',
    'a host name or address, without a port',
    // A single colon would stand before a port; an IPv6 address has two or more.
    /^(?![^:]*:[^:]*$)[\w.:%-]+$/,
  ),
  WORKERS: variable<number | 'auto'>(
    `number of workers, 1 to ${MAX_WORKERS}, or \`auto\` for one per processor, at most one per two connections; see [Workers](deployment.md#workers)`,
    1,
    `a whole number from 1 to ${MAX_WORKERS}, or auto`,
    (text) => (text === 'auto' ? text : toInteger(1, MAX_WORKERS)(text)),
  ),
  DATA_DIR: matching(
    'embedded store: data folder; `:memory:` is a temporary folder, deleted at the end',
    '.data',
    'a folder, or :memory:',
    /^[^\0]+$/,
  ),
  POSTGRES_BIN: matching(
    'embedded store: absolute path of a folder with `initdb` and `postgres`, version 15 or later; by default, the ones that npm installed. See [Stores](stores.md#embedded)',
    undefined,
    'the absolute path of the folder of initdb and postgres',
    /^\//,
  ),
  DEMO_DATA: flag(
    'embedded store: `off` leaves a new store empty. Set it to `on` to let other machines use the public keys of the demo data, in any store.',
    true,
  ),
  DATABASE_URL: url(
    'Postgres to use, such as `postgres://gateway_login:password@host:5432/name`; see [Stores](stores.md#postgres), and [Failover](failover.md) for several hosts',
    'postgres://user:password@host/name',
    isDatabaseUrl,
  ),
  PREPARE: flag('deprecated, without effect: the gateway detects a pooler in front of Postgres', true),
  SUPABASE_URL: url(
    'Supabase project to use, such as `https://project.supabase.co`; see [Supabase](supabase.md)',
    'https://project.supabase.co without user and password, and its path in SUPABASE_REST_PATH',
    isOriginOfSupabase,
  ),
  SUPABASE_KEY: secret(
    'Supabase: secret key, or a JWT with the role `gateway` for your own PostgREST',
    'a secret key without spaces',
    (text) => (/^[\x21-\x7e]+$/.test(text) ? text : undefined),
  ),
  SUPABASE_REST_PATH: matching(
    'Supabase: path of PostgREST; `/` for your own PostgREST',
    '/rest/v1',
    'a path, such as /rest/v1 or /',
    /^\/[\w./-]*$/,
  ),
  CONTRACT_CHECK: choice('`warn` starts the gateway even if document and database disagree', 'error', 'warn'),
  STORE_CONNECTIONS: integer(
    'connections to the store, divided between the workers. Each has one call at a time or, on Postgres without a pooler, up to eight reads. One key gets at most half of those of a worker, rounded up.',
    10,
    1,
    1_000,
  ),
  DEADLINE_MS: integer(
    'store call timeout in ms, including time in the queue; then the answer is a 502',
    5_000,
    10,
    60_000,
  ),
  DRAIN_MS: integer(
    'how long the gateway keeps serving after SIGTERM, in ms; see [Restarts](deployment.md#restarts)',
    7_000,
    0,
    600_000,
  ),
  BODY_LIMIT_BYTES: integer('largest request body', 100_000, 1, 10_000_000),
  REFUSALS_PER_MINUTE: integer(
    'refusals per minute that are answered at once, counted for each address and for each key over its limits; `0` never delays. See [Refused keys](configuration.md#refused-keys).',
    600,
    0,
    1_000_000,
  ),
  ADDRESS_REQUESTS_PER_MINUTE: integer(
    'requests per address and minute, counted before the key is checked; `0` for no limit',
    0,
    0,
    10_000_000,
  ),
  REDIS_URL: url(
    'Redis, in which several gateways share their counts of requests per minute, such as `redis://host:6379/0`',
    'redis://host:6379/0, or rediss:// for TLS, without the parameter ssl',
    (text) => {
      const { pathname = '', searchParams } = URL.parse(text) ?? {};
      return hasProtocol('redis:', 'rediss:')(text) && /^\/?\d*$/.test(pathname) && !searchParams?.has('ssl');
    },
  ),
  TIME_ZONE: variable(
    'time zone in which the days of [usage](usage.md) begin, also used for imported times without a zone',
    'America/Sao_Paulo',
    'a time zone such as America/Sao_Paulo, or UTC',
    readTimeZone,
  ),
  PROXY_HOPS: integer(
    'number of proxies in front of the gateway that add to `X-Forwarded-For`; see [Proxies](configuration.md#proxies)',
    0,
    0,
    10,
  ),
  CORS_ORIGINS: variable<readonly string[]>(
    'origins of web pages that may call the gateway, separated by commas, such as `https://painel.example`; `*` for all',
    [],
    'origins like https://painel.example, separated by commas, or *',
    readOrigins,
  ),
  DOCS: flag('`off` removes `/docs`, `/openapi.json` and `/openapi.yaml`', true),
  MCP: flag('`on` serves the Model Context Protocol at `/mcp`; see [Assistants](assistants.md)', false),
  METRICS_PORT: integer('separate port for `/metrics`; by default it is on `PORT`', undefined, 0, 65_535),
  LOG_LEVEL: choice('`debug`, `info`, `warn`, `error` or `silent`', 'info', 'debug', 'warn', 'error', 'silent'),
  OTEL_EXPORTER_OTLP_ENDPOINT: url(
    'OpenTelemetry collector for traces, such as `http://collector:4318`',
    'http://collector:4318',
    hasProtocol('http:', 'https:'),
  ),
  OTEL_TRACES_SAMPLER_ARG: variable('sampling ratio for root traces, 0 to 1', 1, 'a number from 0 to 1', (text) =>
    /^(0(\.\d+)?|1(\.0+)?)$/.test(text) ? Number(text) : undefined,
  ),
} satisfies Readonly<Record<string, Variable>>;

type Variables = typeof VARIABLES;
type Values = { readonly [N in keyof Variables]: Variables[N] extends Variable<infer T> ? T : never };

/**
 * Reads the configuration from the environment. An empty variable counts as not set. Throws ConfigError with all
 * mistakes.
 */
export function readConfig(env: Environment, processors = availableParallelism()) {
  const mistakes: string[] = [];
  const values = readValues(env, mistakes);
  const { HOST, PORT, METRICS_PORT, OTEL_EXPORTER_OTLP_ENDPOINT: collector } = values;
  const config = {
    ...BOUNDS,
    workers: readWorkers(values, processors, mistakes),
    port: PORT,
    host: HOST,
    store: readStore(values, env, mistakes),
    // The keys of the demo data are public, and others may reach HOST. Only an explicit `on` counts, not the default.
    demoKeys: LOOPBACK.test(HOST) || env.DEMO_DATA === 'on',
    connections: values.STORE_CONNECTIONS,
    deadlineMs: values.DEADLINE_MS,
    drainMs: values.DRAIN_MS,
    bodyLimit: values.BODY_LIMIT_BYTES,
    refusalsPerMinute: values.REFUSALS_PER_MINUTE,
    contractCheck: values.CONTRACT_CHECK,
    proxyHops: values.PROXY_HOPS,
    rateLimits: { perAddress: values.ADDRESS_REQUESTS_PER_MINUTE, redisUrl: values.REDIS_URL },
    timeZone: values.TIME_ZONE,
    corsOrigins: values.CORS_ORIGINS,
    docs: values.DOCS,
    mcp: values.MCP,
    metricsPort: METRICS_PORT,
    logLevel: values.LOG_LEVEL,
    traces: collector === undefined ? undefined : { url: collector, ratio: values.OTEL_TRACES_SAMPLER_ARG },
  };
  if (PORT !== 0 && PORT === METRICS_PORT) {
    mistakes.push('PORT and METRICS_PORT are the same: expected two different ports, or no METRICS_PORT');
  }
  mistakes.push(...findNearMisses(env));
  if (mistakes.length > 0) throw new ConfigError(mistakes.join('\n'));
  return config;
}

function readValues(env: Environment, mistakes: string[]): Values {
  const read = (name: string, { fallback, expected, parse, isSecret = false }: Variable) => {
    const text = env[name] ?? '';
    if (text === '') return fallback;
    const refuse = (reason: string) => {
      mistakes.push(`${name}=${isSecret ? '(not shown)' : JSON.stringify(text)}: ${reason}`);
      return fallback;
    };
    try {
      return parse(text) ?? refuse(`expected ${expected}`);
    } catch (error) {
      if (error instanceof UrlError) return refuse(error.message);
      throw error;
    }
  };
  return Object.fromEntries(Object.entries(VARIABLES).map(([name, one]) => [name, read(name, one)])) as Values;
}

/** An empty variable counts as not set. */
function isSet(env: Environment, name: string): boolean {
  return (env[name] ?? '') !== '';
}

/** Finds misspelled variables: the gateway must not start with the demo data because DATABASE_URL is misspelled. */
function findNearMisses(env: Environment): string[] {
  const missing = Object.keys(VARIABLES).filter((name) => !isSet(env, name));
  return Object.keys(env).flatMap((found) => {
    if (!isSet(env, found) || found in VARIABLES) return [];
    const meant = findNear(found.toUpperCase().replaceAll('-', '_'), missing);
    return meant ? [`${found} is not a variable of the gateway: expected ${meant}`] : [];
  });
}

/**
 * `auto` starts one worker per processor, with two connections: of one, a key with slow calls would have all. Each worker needs at least
 * one connection and one refusal of its own.
 */
function readWorkers(values: Values, processors: number, mistakes: string[]): number {
  const { WORKERS: workers, STORE_CONNECTIONS: connections } = values;
  const refusals = values.REFUSALS_PER_MINUTE || MAX_WORKERS;
  if (workers === 'auto') return Math.min(processors, Math.max(1, Math.floor(connections / 2)), refusals, MAX_WORKERS);
  if (workers > connections) {
    mistakes.push(
      `WORKERS=${workers} and STORE_CONNECTIONS=${connections}: expected at least one connection per worker`,
    );
  }
  if (workers > refusals) {
    mistakes.push(
      `WORKERS=${workers} and REFUSALS_PER_MINUTE=${refusals}: expected at least one refusal per worker, or 0 for no limit`,
    );
  }
  return workers;
}

/** The environment of a command that works on the database itself: there DATABASE_URL takes the place of SUPABASE_URL. */
export function preferDatabase(env: Environment): Environment {
  return env.DATABASE_URL ? { ...env, SUPABASE_URL: undefined, SUPABASE_KEY: undefined } : env;
}

function readStore(values: Values, env: Environment, mistakes: string[]): StoreConfig {
  const { DATABASE_URL: database, SUPABASE_URL: supabase, SUPABASE_KEY: key, DATA_DIR: dataDir } = values;
  if (database && supabase) {
    mistakes.push('DATABASE_URL and SUPABASE_URL are both set: expected one of them, or none');
  }
  if (isSet(env, 'SUPABASE_URL') !== isSet(env, 'SUPABASE_KEY')) {
    mistakes.push('SUPABASE_URL and SUPABASE_KEY: expected both of them, or none');
  }
  if (database) return { kind: 'postgres', url: database };
  if (supabase) return { kind: 'supabase', url: supabase, key: key ?? '', restPath: values.SUPABASE_REST_PATH };
  return {
    kind: 'embedded',
    dataDir: dataDir === ':memory:' ? undefined : dataDir,
    programs: values.POSTGRES_BIN,
    demoData: values.DEMO_DATA,
  };
}
