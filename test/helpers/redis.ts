// Debian's Redis, which keeps nothing on the disk.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endProcess, findPort, untilReady } from './process.ts';
import { isPresent } from './requirement.ts';

const BINARY = '/usr/bin/redis-server';

/** A running Redis. */
export type RedisServer = {
  readonly url: string;
  readonly port: number;
  /** Ends it at once, as a crash does. */
  stop(): Promise<void>;
};

/** Whether Debian's Redis is installed. Warns if not, or throws in CI. */
export function canTestRedis(): boolean {
  return isPresent(
    existsSync(BINARY),
    'The package redis-server is not installed: the tests of limits that gateways share cannot run',
  );
}

/** Starts an empty Redis with these settings on its command line. */
export async function startRedis(settings: readonly string[] = [], port?: number): Promise<RedisServer> {
  const taken = port ?? (await findPort());
  const folder = mkdtempSync(join(tmpdir(), 'redis-'));
  const nothingKept = ['--save', '', '--appendonly', 'no', '--dir', folder];
  const args = ['--port', `${taken}`, '--bind', '127.0.0.1', ...nothingKept, ...settings];
  const server = spawn(BINARY, args, { stdio: 'ignore' });
  const stop = async () => {
    await endProcess(server, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  await untilReady(server, () => listens(taken));
  return { url: `redis://127.0.0.1:${taken}`, port: taken, stop };
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } finally {
    socket.destroy();
  }
}
