// Several of Debian's Postgres 15 that replicate from each other, each behind a proxy of its own, for tests of failover.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findUser } from './debian-postgres.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';
import { isPresent } from './requirement.ts';
import { asAdmin, fillDatabase, findPort, killFamily, loginUrl, stopFamily } from './servers.ts';
import { waitFor } from './wait-for.ts';

/** Its programs. */
export const BINARIES = '/usr/lib/postgresql/15/bin';
const SUPERUSER = 'postgres';
/** For pg_rewind, and so that a standby that was away finds what it missed, soon. */
const SETTINGS = [
  'fsync=off',
  'wal_log_hints=on',
  'wal_keep_size=256MB',
  'wal_retrieve_retry_interval=100ms',
  'shared_buffers=16MB',
];

/** Whether Debian's Postgres is here; where it is not, that is said, and is an error in CI. */
export const canReplicate = (): boolean =>
  isPresent(
    existsSync(join(BINARIES, 'pg_rewind')),
    'The package postgresql-15 is not installed: the tests of failover cannot run',
  );

/** One server. It begins as the primary, or as a copy of one. */
export class ReplicatedServer {
  readonly proxy: FaultProxy;
  readonly port: number;
  readonly #folder: string;
  readonly #user = findUser();
  #process: ChildProcess | undefined;

  constructor(folder: string, port: number, proxy: FaultProxy) {
    this.proxy = proxy;
    this.port = port;
    this.#folder = folder;
  }

  /** The superuser's URL, past the proxy. */
  get adminUrl(): string {
    return `postgres://${SUPERUSER}@127.0.0.1:${this.port}/postgres`;
  }

  get data(): string {
    return join(this.#folder, 'data');
  }

  run(program: string, ...args: string[]): void {
    execFileSync(join(BINARIES, program), args, { ...this.#user, cwd: this.#folder, stdio: 'pipe' });
  }

  async start(): Promise<void> {
    const all = [`port=${this.port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', ...SETTINGS];
    const args = ['-D', this.data, ...all.flatMap((setting) => ['-c', setting])];
    this.#process = spawn(join(BINARIES, 'postgres'), args, { ...this.#user, stdio: 'ignore' });
    await waitFor(() => this.query('select'));
  }

  async query<T>(sql: string): Promise<T[]> {
    return (await asAdmin(this.adminUrl, (admin) => admin.query(sql))).rows as T[];
  }

  /** Changes a setting for as long as its folder is there. */
  async set(name: string, value: string): Promise<void> {
    await this.query(`alter system set ${name} = '${value}'`);
    await this.query('select pg_reload_conf()');
  }

  /** Makes it a standby of another server from now on. */
  follow(primary: ReplicatedServer): Promise<void> {
    return this.set('primary_conninfo', toConninfo(primary));
  }

  async promote(): Promise<void> {
    await this.query('select pg_promote(wait => true)');
  }

  /** Ends it as a loss of power would. */
  async kill(): Promise<void> {
    if (this.#process?.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    killFamily(this.#process.pid ?? 0);
    await ended;
  }

  /** Stops it in order; a primary waits until its standbys have everything. */
  async shutDown(): Promise<void> {
    if (this.#process?.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGINT');
    await ended;
  }

  /** Stops all of its processes; its connections stay open. Returns what lets them go on. */
  freeze(): () => void {
    return stopFamily(this.#process?.pid ?? 0);
  }

  /** Starts what was the primary as a standby of the present one. */
  async rejoin(primary: ReplicatedServer): Promise<void> {
    await this.shutDown();
    // Its checkpoint has to be on the new timeline for pg_rewind.
    await primary.query('checkpoint');
    this.run('pg_rewind', '-D', this.data, `--source-server=${toConninfo(primary)}`, '-R', '-N');
    await this.start();
  }

  async remove(): Promise<void> {
    await this.kill();
    await this.proxy.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const toConninfo = ({ port }: ReplicatedServer) => `host=127.0.0.1 port=${port} user=${SUPERUSER} dbname=postgres`;

/** Starts a primary, by default with the demo data, and its standbys. */
export async function startReplication(
  count: number,
  folder = tmpdir(),
  fill = fillDatabase,
): Promise<readonly [ReplicatedServer, ...ReplicatedServer[]]> {
  const primary = await createServer(folder);
  primary.run('initdb', `--username=${SUPERUSER}`, '--auth=trust', '--encoding=UTF8', '--locale=C', '-N', 'data');
  await primary.start();
  await asAdmin(primary.adminUrl, fill);
  return [primary, ...(await Promise.all(Array.from({ length: count - 1 }, () => startStandby(primary))))];
}

/** Starts one more standby of a primary. */
export async function startStandby(primary: ReplicatedServer): Promise<ReplicatedServer> {
  const standby = await createServer();
  standby.run('pg_basebackup', `--dbname=${toConninfo(primary)}`, '-D', 'data', '-R', '-N', '--checkpoint=fast');
  await standby.start();
  return standby;
}

async function createServer(parent = tmpdir()): Promise<ReplicatedServer> {
  const folder = mkdtempSync(join(parent, 'replicated-'));
  const user = findUser();
  if (user) chownSync(folder, user.uid, user.gid);
  const port = await findPort();
  return new ReplicatedServer(folder, port, await startFaultProxy({ host: '127.0.0.1', port }));
}

/** The URL of all servers, through their proxies, by default for the login of a gateway. */
export function toGatewayUrl(servers: readonly ReplicatedServer[], parameters: string, login = 'gateway_test'): string {
  const hosts = servers.map(({ proxy }) => `127.0.0.1:${proxy.port}`).join(',');
  const [first] = servers;
  return loginUrl(first?.adminUrl ?? '', login)
    .replace(/@[^/]*/, `@${hosts}`)
    .concat(`?${parameters}`);
}
