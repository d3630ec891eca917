// Debian's Postgres 15, which has extensions that check SQL, in the state of a Supabase project with the migrations.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { applyMigrations, readMigrations } from '../../src/store/migrations.ts';
import { MIGRATIONS } from './gateway.ts';
import { endProcess, findPort, untilReady } from './process.ts';
import { isPresent } from './requirement.ts';
import { asAdmin, createOnce, killFamily, loginUrl, PASSWORD, type PostgresServer, stopFamily } from './servers.ts';
import { SUPABASE_GRANTS, SUPABASE_ROLES } from './supabase-project.ts';

/** The folder of its programs. */
export const BINARIES = '/usr/lib/postgresql/15/bin';
/** Its folder of platform-independent files, such as those in `extension`. */
export const DEBIAN_SHARE = '/usr/share/postgresql/15';
const EXTENSIONS = join(DEBIAN_SHARE, 'extension');
const SUPERUSER = 'supabase_admin';
const OWNER = 'postgres';

/** A running Debian Postgres, with the URLs of two of its roles. Tests leave its database as it was. */
export type DebianPostgres = {
  /** For a role like the owner of a Supabase project: it may create roles, is no superuser, and has applied the migrations. */
  readonly ownerUrl: string;
  readonly superuserUrl: string;
  stop(): Promise<void>;
};

/** Whether Debian's Postgres is installed with an extension. Warns if not, or throws in CI. */
export function canTestOnDebian(extension: 'pgtap' | 'plpgsql_check'): boolean {
  return isPresent(
    existsSync(join(BINARIES, 'postgres')) && existsSync(join(EXTENSIONS, `${extension}.control`)),
    `The package postgresql-15-${extension.replace('_', '-')} is not installed: its tests cannot run`,
  );
}

/** Starts it in a folder of its own and applies the migrations, without the demo data. */
export async function startDebianPostgres(): Promise<DebianPostgres> {
  const { adminUrl: superuserUrl, stop } = await startBareDebianPostgres(SUPERUSER);
  const ownerUrl = loginUrl(superuserUrl, OWNER);
  try {
    await asAdmin(superuserUrl, makeProject);
    await asAdmin(ownerUrl, async (db) => {
      await db.query(SUPABASE_GRANTS);
      await applyMigrations(db, readMigrations(MIGRATIONS));
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return { ownerUrl, superuserUrl, stop };
}

/** A Postgres in a folder of its own. */
export type BareDebianPostgres = Omit<PostgresServer, 'crash'> & {
  /** The server's files are in its folder `data`. */
  readonly folder: string;
  /** Runs a shell script in the folder, as the server's user. */
  run(script: string, options?: { readonly env?: Record<string, string>; readonly input?: string }): void;
  /** Stops the server, runs `work`, and starts it again. */
  restart(work: () => void): Promise<void>;
  /** Shuts it down; a primary waits until its standbys have everything. */
  shutDown(): Promise<void>;
  /** Ends all of its processes as a loss of power would. */
  kill(): Promise<void>;
  /** Starts it again. */
  start(): Promise<void>;
  /** Suspends all of its processes; its connections stay open. Returns a function that resumes them. */
  freeze(): () => void;
};

type BareOptions = {
  readonly settings?: readonly string[];
  readonly auth?: string;
  /** The parent of its folder. */
  readonly parent?: string;
  /** Creates the folder `data`; by default it is empty. */
  readonly create?: (options: Options) => void;
};

/** Starts it in a folder of its own, without roles and migrations: the URL is its superuser's. */
export async function startBareDebianPostgres(
  superuser = 'postgres',
  { settings = [], auth = 'scram-sha-256', parent = tmpdir(), create }: BareOptions = {},
): Promise<BareDebianPostgres> {
  const folder = mkdtempSync(join(parent, 'postgres-15-'));
  const port = await findPort();
  const adminUrl = `postgres://${superuser}:${PASSWORD}@127.0.0.1:${port}/postgres`;
  const user = findUser();
  const options = { ...user, cwd: folder };
  let server: ChildProcess | undefined;
  const start = async () => {
    server = startServer(port, settings, options);
    await untilReady(server, () => asAdmin(adminUrl, async () => true));
  };
  const shutDown = async () => {
    if (server) await endProcess(server, 'SIGINT');
  };
  const stop = async () => {
    await shutDown();
    rmSync(folder, { recursive: true });
  };
  try {
    if (user) chownSync(folder, user.uid, user.gid);
    if (create) create(options);
    else {
      const first = join(tmpdir(), `postgres-15-${superuser}-${auth}`);
      await createOnce(first, join(folder, 'data'), () => createCluster(superuser, auth, options));
    }
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    adminUrl,
    folder,
    stop,
    run: (script, { env, input } = {}) => {
      execFileSync('sh', ['-ec', script], { ...options, stdio: 'pipe', env: { ...process.env, ...env }, input });
    },
    restart: async (work) => {
      await shutDown();
      work();
      await start();
    },
    shutDown,
    kill: async () => {
      if (!server || server.exitCode !== null || server.signalCode !== null) return;
      const ended = once(server, 'exit');
      killFamily(server.pid ?? 0);
      await ended;
    },
    start,
    freeze: () => stopFamily(server?.pid ?? 0),
  };
}

type Options = Partial<ReturnType<typeof findUser>> & { readonly cwd: string };

/** Creates the folder `data`. */
function createCluster(superuser: string, auth: string, options: Options): void {
  const passwordFile = join(options.cwd, 'password');
  writeFileSync(passwordFile, PASSWORD);
  if (options.uid !== undefined && options.gid !== undefined) chownSync(passwordFile, options.uid, options.gid);
  const login = [`--username=${superuser}`, `--pwfile=${passwordFile}`, `--auth=${auth}`];
  const cluster = ['--encoding=UTF8', '--locale=C', '--no-sync', 'data'];
  execFileSync(join(BINARIES, 'initdb'), [...login, ...cluster], { ...options, stdio: 'pipe' });
}

function startServer(port: number, settings: readonly string[], options: Options): ChildProcess {
  // JIT compilation takes longer than these queries.
  const cheap = ['fsync=off', 'jit=off'];
  const all = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', ...cheap, ...settings];
  const args = ['-D', 'data', ...all.flatMap((setting) => ['-c', setting])];
  return spawn(join(BINARIES, 'postgres'), args, { ...options, stdio: 'ignore' });
}

/** The user of Postgres's package if the tests run as root, because Postgres refuses to; undefined otherwise. */
export function findUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

async function makeProject(db: pg.Client): Promise<void> {
  await db.query(SUPABASE_ROLES);
  await db.query(`create role ${OWNER} login createrole password '${PASSWORD}'`);
  await db.query(`grant anon, authenticated, service_role to ${OWNER}`);
  await db.query(`alter database postgres owner to ${OWNER}; create schema extensions authorization ${OWNER}`);
}
