// A Postgres as a child process: made, started, started again when it ends, and stopped.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { readFileSync, readlinkSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { OperatorError } from '../../errors.ts';
import { type Programs, toLauncher } from './programs.ts';

/** The role of the administrator, who may do everything, and the database. */
export const ADMINISTRATOR = 'postgres';
export const DATABASE = 'postgres';

/** Settings of Postgres by name. */
export type Settings = Readonly<Record<string, string | number>>;

type ServerOptions = {
  readonly programs: Programs;
  /** The data folder, as createCluster makes it. */
  readonly folder: string;
  readonly settings?: Settings;
  /** A folder to remove when the server has ended, even if this process was killed. */
  readonly temporary?: string | undefined;
  /** Receives a line when the server has ended by itself. */
  readonly onWarning?: (text: string) => void;
  /** Receives the server's log. */
  readonly onOutput?: (text: string) => void;
};

/** A server that is started again when it ends by itself. */
export type ServerProcess = {
  /** Its first process; undefined while it starts. */
  readonly pid: number | undefined;
  /** Ends all sessions, writes everything to the data folder, and ends the server. */
  stop(): Promise<void>;
};

/** Postgres did not start, or did not make a data folder; the message has its reason. */
export class ServerError extends OperatorError {}

/** How long a server may take to start, which replays what a crash has left, in milliseconds. */
const START_MS = 60_000;
/** How long a server may take to stop, in milliseconds; then it is killed, and the next start replays the WAL. */
const STOP_MS = 5_000;
/** How often a state is looked at, and how long after a failed start the next one begins, in milliseconds. */
const POLL_MS = 10;
const RETRY_MS = 500;
/** How much of the end of the log is kept, in characters. */
const LOG_LENGTH = 10_000;

/**
 * Runs a program until its standard input ends: the kernel closes that with the gateway, however the gateway ends. It ignores the
 * signals of a terminal and of a service manager, because the server has to outlive the requests, and that nobody reads its errors
 * any more. $1 is a folder to remove.
 */
const KEEPER = `
trap '' HUP INT TERM PIPE
temporary=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & program=$!
{ read -r _ <&3; kill -INT "$program"; } & reader=$!
wait "$program"; code=$?
kill -KILL "$reader" 2>/dev/null
[ -z "$temporary" ] || rm -rf "$temporary"
exit "$code"`;

/** Only the socket, no personal data in the log, and less memory than by default: the system caches the files too. */
const SETTINGS: Settings = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  shared_buffers: '64MB',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  lc_messages: 'C',
  log_line_prefix: '%qsession: ',
};

/** Makes a data folder without rows; the owner of its parent owns it. Rejects with ServerError. */
export function createCluster(folder: string, programs: Programs): Promise<void> {
  const locale = programs.version >= 17 ? ['--locale-provider=builtin', '--locale=C.UTF-8'] : ['--locale=C'];
  const login = [`--username=${ADMINISTRATOR}`, '--auth-local=trust', '--auth-host=scram-sha-256'];
  return initdb(folder, programs, '--no-sync', '--encoding=UTF8', ...locale, ...login);
}

/** Writes a data folder whose server is stopped to the disk. */
export function syncCluster(folder: string, programs: Programs): Promise<void> {
  return initdb(folder, programs, '--sync-only');
}

async function initdb(folder: string, programs: Programs, ...args: string[]): Promise<void> {
  const run = launch({ folder, programs }, programs.initdb, [...args, `--pgdata=${folder}`]);
  await run.ended;
  if (run.child.exitCode !== 0) throw toError(run);
}

/** Starts a server; ends another one on the folder first, which has outlived its gateway. Rejects with ServerError. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const { folder, onWarning = () => {} } = options;
  const stopping = new AbortController();
  let run = await start(options, stopping.signal);
  const keepRunning = async () => {
    for (;;) {
      await run.ended;
      if (stopping.signal.aborted) return;
      onWarning(`${toError(run).message}; it is started again`);
      while (run.hasEnded && !stopping.signal.aborted) {
        run = await start(options, stopping.signal).catch(() => delay(RETRY_MS, run));
      }
    }
  };
  const ended = keepRunning();
  return {
    get pid() {
      return readPid(folder);
    },
    stop: async () => {
      stopping.abort();
      const timer = setTimeout(() => kill(readPid(folder), 'SIGKILL'), STOP_MS);
      await ended;
      clearTimeout(timer);
    },
  };
}

/** A program under the keeper. */
type Run = { readonly child: ChildProcess; readonly ended: Promise<void>; hasEnded: boolean; log: string };

async function start(options: ServerOptions, stopping: AbortSignal): Promise<Run> {
  const { folder, programs, settings } = options;
  const flags = Object.entries({ ...SETTINGS, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const until = performance.now() + START_MS;
  for (;;) {
    await endOther(folder);
    const run = launch(options, programs.postgres, ['-D', folder, ...flags], stopping);
    while (!run.hasEnded) {
      if (isReady(folder)) return run;
      if (performance.now() > until) kill(readPid(folder), 'SIGKILL');
      await delay(POLL_MS);
    }
    // The processes of a killed server hold its memory for a moment.
    if (!/pre-existing shared memory block/.test(run.log)) throw toError(run);
  }
}

function launch(options: ServerOptions, file: string, args: readonly string[], stopping?: AbortSignal): Run {
  const { folder, programs, temporary = '', onOutput = () => {} } = options;
  const { command, user } = toLauncher(dirname(folder), programs);
  const [program = '', ...rest] = [...command, '/bin/sh', '-c', KEEPER, 'keeper', temporary, file, ...args];
  const env = { PATH: process.env.PATH, LC_ALL: 'C' };
  // A group of its own: Ctrl-C would end the server before the requests.
  const child = spawn(program, rest, { ...user, env, stdio: ['pipe', 'ignore', 'pipe'], detached: true });
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const run: Run = { child, ended, hasEnded: false, log: '' };
  const write = (text: string) => {
    run.log = (run.log + text).slice(-LOG_LENGTH);
    onOutput(text);
  };
  const stop = () => child.stdin?.end();
  const end = () => {
    run.hasEnded = true;
    stopping?.removeEventListener('abort', stop);
    resolve();
  };
  child.stderr?.setEncoding('utf8').on('data', write);
  child.stdin?.on('error', () => {});
  child.on('close', end).on('error', ({ message }) => {
    write(`FATAL: ${message}`);
    end();
  });
  if (stopping?.aborted) stop();
  stopping?.addEventListener('abort', stop);
  return run;
}

/** Lines that do not say why a program has ended: those of its sessions, and those of its work. */
const OTHER = /^(session|LOG|WARNING|HINT|STATEMENT):|^$/;
const REASON = /(?:FATAL|PANIC|DETAIL|error): +/;

/** Why a program has ended, in its own words. */
function toError({ log, child }: Run): ServerError {
  const lines = log.split('\n').filter((line) => !OTHER.test(line));
  const reasons = lines.flatMap((line) => line.split(REASON)[1] ?? []);
  const isRefused = /^(FATAL: spawn|setpriv)/.test(log) && process.getuid?.() === 0;
  const advice = isRefused ? '; run the gateway as another user than root, in a folder of that user' : '';
  const reason =
    (reasons.length > 0 ? reasons : lines).join('; ') || `${child.signalCode ?? `exit code ${child.exitCode}`}`;
  return new ServerError(`Postgres has ended: ${reason}${advice}`);
}

/** The lines of the file in which a server writes its process and, in the eighth, its state. */
function readPidFile(folder: string): string[] {
  try {
    return readFileSync(join(folder, 'postmaster.pid'), 'utf8').split('\n');
  } catch {
    return [];
  }
}

const readPid = (folder: string): number | undefined => Number(readPidFile(folder)[0]) || undefined;
const isReady = (folder: string): boolean => /^(ready|standby)/.test(readPidFile(folder)[7] ?? '');

/**
 * Ends the server that the folder names, and removes its file: Postgres would take any process with that number, such as one of a
 * restarted container, for a server that runs.
 */
async function endOther(folder: string): Promise<void> {
  const pid = readPid(folder);
  const until = performance.now() + STOP_MS;
  if (isServerOf(pid, folder)) kill(pid, 'SIGINT');
  while (isServerOf(pid, folder)) {
    if (performance.now() > until) kill(pid, 'SIGKILL');
    await delay(POLL_MS);
  }
  rmSync(join(folder, 'postmaster.pid'), { force: true });
}

/** A server works in its folder. */
function isServerOf(pid: number | undefined, folder: string): boolean {
  if (pid === undefined) return false;
  try {
    if (process.platform === 'linux') return readlinkSync(`/proc/${pid}/cwd`) === folder;
    return execFileSync('ps', ['-o', 'command=', '-p', `${pid}`], { encoding: 'utf8' }).includes(folder);
  } catch {
    return false;
  }
}

function kill(pid: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}
