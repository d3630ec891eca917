import { expect, test } from 'vitest';
import { type Config, ConfigError, readConfig } from '../src/config.ts';

test.each<[string, string, Partial<Config>]>([
  ['PORT', '0', { port: 0 }],
  ['HOST', '::1', { host: '::1' }],
  ['HOST', 'fe80::1%eth0', { host: 'fe80::1%eth0', demoKeys: false }],
  ['STORE_CONNECTIONS', '3', { connections: 3 }],
  ['DEADLINE_MS', '250', { deadlineMs: 250 }],
  ['DRAIN_MS', '0', { drainMs: 0 }],
  ['BODY_LIMIT_BYTES', '1000', { bodyLimit: 1_000 }],
  ['REFUSALS_PER_MINUTE', '0', { refusalsPerMinute: 0 }],
  ['CONTRACT_CHECK', 'warn', { contractCheck: 'warn' }],
  ['PROXY_HOPS', '2', { proxyHops: 2 }],
  ['ADDRESS_REQUESTS_PER_MINUTE', '6000', { rateLimits: { perAddress: 6_000, redisUrl: undefined } }],
  ['REDIS_URL', 'redis://redis:6379/1', { rateLimits: { perAddress: 0, redisUrl: 'redis://redis:6379/1' } }],
  ['REDIS_URL', 'rediss://:p@h', { rateLimits: { perAddress: 0, redisUrl: 'rediss://:p@h' } }],
  ['TIME_ZONE', 'UTC', { timeZone: 'UTC' }],
  ['TIME_ZONE', 'Asia/Kolkata', { timeZone: 'Asia/Kolkata' }],
  ['CORS_ORIGINS', 'https://a.io, http://b:5', { corsOrigins: ['https://a.io', 'http://b:5'] }],
  ['DOCS', 'off', { docs: false }],
  ['MCP', 'on', { mcp: true }],
  ['METRICS_PORT', '9464', { metricsPort: 9464 }],
  ['LOG_LEVEL', 'warn', { logLevel: 'warn' }],
])('reads %s=%s', (name, value, read) => {
  expect(readConfig({ [name]: value })).toEqual({ ...readConfig({}), ...read });
});

test('reads where traces go, and how many', () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', OTEL_TRACES_SAMPLER_ARG: '0.1' };
  expect(readConfig(env).traces).toEqual({ url: 'http://collector:4318', ratio: 0.1 });
});

test.each([
  [{}, true],
  [{ HOST: 'localhost' }, true],
  [{ HOST: '127.0.0.2' }, true],
  [{ HOST: '0.0.0.0' }, false],
  [{ HOST: '::' }, false],
  [{ HOST: '10.0.0.7', DEMO_DATA: 'off' }, false],
  [{ HOST: '0.0.0.0', DEMO_DATA: 'on' }, true],
])('serves demo keys on an address that others reach only if told: %j', (env, demoKeys) => {
  expect(readConfig(env)).toMatchObject({ demoKeys });
});

const DATABASE_URL = 'postgres://u%40server:p%40%23%2F@host:5432/name?sslmode=require&options=-c%20a%3Db';
const SUPABASE = { SUPABASE_URL: 'https://x.supabase.co', SUPABASE_KEY: 'sb_secret_x' };
const [postgres, supabase] = [
  { kind: 'postgres', url: DATABASE_URL },
  { kind: 'supabase', url: SUPABASE.SUPABASE_URL, key: SUPABASE.SUPABASE_KEY, restPath: '/rest/v1' },
];

const PROGRAMS = '/usr/lib/postgresql/18/bin';

test.each<[Record<string, string>, store: object]>([
  [
    { DATA_DIR: '/data', POSTGRES_BIN: PROGRAMS, DEMO_DATA: 'off' },
    { kind: 'embedded', dataDir: '/data', programs: PROGRAMS, demoData: false },
  ],
  [{ DATA_DIR: ':memory:' }, { kind: 'embedded', dataDir: undefined, demoData: true }],
  [{ DATABASE_URL }, postgres],
  [SUPABASE, supabase],
  [
    { ...SUPABASE, SUPABASE_REST_PATH: '/' },
    { ...supabase, restPath: '/' },
  ],
])('takes the store that is named: %j', (env, store) => {
  expect(readConfig(env).store).toEqual(store);
});

test.each([
  [{ WORKERS: '4' }, 4],
  [{ WORKERS: 'auto' }, 5],
  [{ WORKERS: 'auto', STORE_CONNECTIONS: '20' }, 8],
  [{ WORKERS: 'auto', STORE_CONNECTIONS: '1' }, 1],
  [{ WORKERS: 'auto', REFUSALS_PER_MINUTE: '2' }, 2],
  [{ WORKERS: 'auto', REFUSALS_PER_MINUTE: '0' }, 5],
])('takes as many workers as %j says on 8 processors: %i', (env, workers) => {
  expect(readConfig(env, 8).workers).toBe(workers);
});

test.each([
  [
    { DATABASE_URL: 'postgres://a/b', SUPABASE_URL: 'https://x', SUPABASE_KEY: 'k' },
    'DATABASE_URL and SUPABASE_URL are both set: expected one of them, or none',
  ],
  [{ SUPABASE_URL: 'https://x' }, 'SUPABASE_URL and SUPABASE_KEY: expected both of them, or none'],
  [
    { SUPABASE_URL: 'https://x/base', SUPABASE_KEY: 'k' },
    'SUPABASE_URL=(not shown): expected a URL like https://project.supabase.co without user and password, and its path in SUPABASE_REST_PATH',
  ],
  [
    { SUPABASE_URL: 'https://user:password@x', SUPABASE_KEY: 'k' },
    'SUPABASE_URL=(not shown): expected a URL like https://project.supabase.co without user and password, and its path in SUPABASE_REST_PATH',
  ],
  [{ ...SUPABASE, SUPABASE_KEY: 'k ' }, 'SUPABASE_KEY=(not shown): expected a secret key without spaces'],
  [{ SUPABASE_KEY: 'k' }, 'SUPABASE_URL and SUPABASE_KEY: expected both of them, or none'],
  [
    { WORKERS: '4', STORE_CONNECTIONS: '3' },
    'WORKERS=4 and STORE_CONNECTIONS=3: expected at least one connection per worker',
  ],
  [
    { WORKERS: '4', REFUSALS_PER_MINUTE: '3' },
    'WORKERS=4 and REFUSALS_PER_MINUTE=3: expected at least one refusal per worker, or 0 for no limit',
  ],
  // A file with line ends of Windows gives this value.
  [{ DATABASE_URL: 'postgres://a/b\r' }, 'DATABASE_URL=(not shown): expected no blanks or line ends around the URL'],
  // The parameter would have no effect.
  [
    { REDIS_URL: 'redis://h/0?ssl=true' },
    'REDIS_URL=(not shown): expected a URL like redis://host:6379/0, or rediss:// for TLS, without the parameter ssl',
  ],
])('refuses %j', (env, message) => {
  expect(() => readConfig(env)).toThrow(new ConfigError(message));
});

test('never shows what may be secret', () => {
  const env = {
    DATABASE_URL: 'mysql://u:hidden@h/d',
    SUPABASE_URL: 'hidden',
    SUPABASE_KEY: 'hid den',
    REDIS_URL: 'hidden',
  };
  expect(() => readConfig(env)).toThrow(/^DATABASE_URL=\(not shown\): expected a URL like postgres:/);
  expect(() => readConfig(env)).not.toThrow(/hidden|hid den/);
});

test.each([
  'postgres://u:hid@den@h/d',
  'postgres://u:hid#den@h/d',
  'postgres://u:123/hidden@h/d',
  'postgres://u:123?hidden@h/d',
  'postgres://u@hid.den:hidden@h/d',
])('refuses a password that is not percent-encoded, and shows no part of it: %s', (url) => {
  expect(() => readConfig({ DATABASE_URL: url })).toThrow(
    new ConfigError('DATABASE_URL=(not shown): expected @ # / ? in the user and the password as %40 %23 %2F %3F'),
  );
});

test.each([
  ['DATABSE_URL', 'DATABASE_URL'],
  ['DATABASE_URI', 'DATABASE_URL'],
  ['database_url', 'DATABASE_URL'],
  ['DATABASE-URL', 'DATABASE_URL'],
  ['DATADIR', 'DATA_DIR'],
  ['DEMODATA', 'DEMO_DATA'],
  ['PROT', 'PORT'],
  ['SUPABASE_KYE', 'SUPABASE_KEY'],
])('names a near miss: %s', (name, meant) => {
  expect(() => readConfig({ [name]: 'x' })).toThrow(
    new ConfigError(`${name} is not a variable of the gateway: expected ${meant}`),
  );
});

test('ignores the variables of other programs, and near misses of a variable that is set', () => {
  const others = {
    PATH: '/bin',
    HOME: '/',
    HOSTNAME: 'a',
    OTEL_EXPORTER_OTLP_HEADERS: 'a=b',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://c',
    POSTGRES_PASSWORD: 'x',
    GATEWAY_PORT: 'tcp://10.0.0.1:80',
    GATEWAY_SERVICE_HOST: '10.0.0.1',
    TCP: 'x',
    DATABSE_URL: '',
    DATABASE_URL_OLD: 'x',
  };
  expect(readConfig(others)).toEqual(readConfig({}));
  expect(readConfig({ PORT: '80', PROT: '90' }).port).toBe(80);
});

test('treats an empty variable as not set', () => {
  expect(readConfig({ PORT: '', DEMO_DATA: '' })).toEqual(readConfig({}));
});

test.each([
  ['WORKERS', '0', 'a whole number from 1 to 64, or auto'],
  ['WORKERS', '65', 'a whole number from 1 to 64, or auto'],
  ['WORKERS', 'all', 'a whole number from 1 to 64, or auto'],
  ['PORT', '65536', 'a whole number from 0 to 65535'],
  ['PORT', '-1', 'a whole number from 0 to 65535'],
  ['PORT', '3e3', 'a whole number from 0 to 65535'],
  ['PORT', ' 80', 'a whole number from 0 to 65535'],
  ['HOST', 'http://localhost', 'a host name or address, without a port'],
  ['HOST', 'localhost:3000', 'a host name or address, without a port'],
  ['TIME_ZONE', 'IST', 'a time zone such as America/Sao_Paulo, or UTC'],
  ['POSTGRES_BIN', 'bin', 'the absolute path of the folder of initdb and postgres'],
  ['DEMO_DATA', 'false', 'on or off'],
  ['DOCS', 'constructor', 'on or off'],
  ['DEADLINE_MS', '0', 'a whole number from 10 to 60000'],
  ['BODY_LIMIT_BYTES', '100kb', 'a whole number from 1 to 10000000'],
  ['CORS_ORIGINS', 'https://a.example/', 'origins like https://painel.example, separated by commas, or *'],
  ['CORS_ORIGINS', 'https://*.a.example', 'origins like https://painel.example, separated by commas, or *'],
  ['CORS_ORIGINS', 'https://a.example,,*', 'origins like https://painel.example, separated by commas, or *'],
  ['LOG_LEVEL', 'verbose', 'info or debug or warn or error or silent'],
  ['OTEL_TRACES_SAMPLER_ARG', '1.5', 'a number from 0 to 1'],
])('refuses %s=%s', (name, value, expected) => {
  expect(() => readConfig({ [name]: value })).toThrow(
    new ConfigError(`${name}=${JSON.stringify(value)}: expected ${expected}`),
  );
});

test('reports every mistake at once', () => {
  expect(() => readConfig({ PORT: 'x', DEMO_DATA: 'y', DEADLINE_MS: 'z' })).toThrow(
    /^PORT=.*\nDEMO_DATA=.*\nDEADLINE_MS=/,
  );
});
