// Debian's PgBouncer, in front of a Postgres of the tests.

import { spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findUser } from './debian-postgres.ts';
import { endProcess, findPort, untilReady } from './process.ts';
import { isPresent } from './requirement.ts';
import { asAdmin } from './servers.ts';

const BINARY = '/usr/sbin/pgbouncer';

/** A running PgBouncer. */
export type Pgbouncer = {
  /** The URL of the database through PgBouncer. */
  readonly url: string;
  stop(): Promise<void>;
};

/** Whether Debian's PgBouncer is installed. Warns if not, or throws in CI. */
export function canTestPgbouncer(): boolean {
  return isPresent(existsSync(BINARY), 'The package pgbouncer is not installed: the tests of poolers cannot run');
}

/** Starts PgBouncer in front of the database of a URL, with its login. */
export async function startPgbouncer(target: string, mode: 'session' | 'transaction'): Promise<Pgbouncer> {
  const url = new URL(target);
  const port = await findPort();
  const folder = mkdtempSync(join(tmpdir(), 'pgbouncer-'));
  const [users, settings] = [join(folder, 'users.txt'), join(folder, 'pgbouncer.ini')];
  writeFileSync(users, `"${url.username}" "${url.password}"\n`);
  writeFileSync(
    settings,
    `[databases]
* = host=${url.hostname} port=${url.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = ${mode}
`,
  );
  // PgBouncer refuses to run as root.
  const user = findUser();
  if (user) for (const path of [folder, users, settings]) chownSync(path, user.uid, user.gid);
  const server = spawn(BINARY, ['--quiet', settings], { ...user, stdio: 'ignore' });
  const stop = async () => {
    await endProcess(server, 'SIGKILL');
    rmSync(folder, { recursive: true });
  };
  url.port = String(port);
  await untilReady(server, () => asAdmin(url.href, async () => true));
  return { url: url.href, stop };
}
