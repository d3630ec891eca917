// Runs Postgres as a child process: creates the data folder, and starts, restarts and stops the server.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { OperatorError } from '../../errors.ts';
import { type Programs, toLauncher } from './programs.ts';

/** The superuser, and the database. */
export const ADMINISTRATOR = 'postgres';
export const DATABASE = 'postgres';

/** Settings of Postgres by name. */
export type Settings = Readonly<Record<string, string | number>>;

type ServerOptions = {
  readonly programs: Programs;
  /** The data folder, as createCluster makes it. */
  readonly folder: string;
  readonly settings?: Settings;
  /** A folder to remove after the server's end, even if this process was killed. */
  readonly temporary?: string | undefined;
  /** Receives a line each time the server has ended by itself. */
  readonly onWarning?: (text: string) => void;
  /** Receives the server's log. */
  readonly onOutput?: (text: string) => void;
};

/** A server that is restarted when it ends by itself. */
export type ServerProcess = {
  /** Ends all sessions, writes everything to the data folder, and ends the server. */
  stop(): Promise<void>;
};

/** Postgres did not start, or did not create a data folder; the message says why. */
export class ServerError extends OperatorError {}

/** How long a starting server may log nothing, in milliseconds. A recovery logs its progress every 10 s. */
const START_MS = 60_000;
/** How long a server may take to stop, in milliseconds. Then it is killed, and the next start replays the WAL. */
const STOP_MS = 5_000;
/** How often the server's state is checked, and the delay after a failed start, in milliseconds. */
const POLL_MS = 10;
const RETRY_MS = 500;
/** The number of characters that are kept from the end of the log. */
const LOG_LENGTH = 10_000;

/**
 * Runs a program until standard input ends: the kernel closes it when the gateway ends, for whatever reason. Ignores the signals of a
 * terminal or a service manager, because the server has to outlive the requests, and SIGPIPE, because nobody may read its errors
 * any more. Writes no core dump, which would contain personal data and fill the disk. $1 is a folder to remove.
 */
const KEEPER = `
trap '' HUP INT TERM PIPE
temporary=$1; shift
ulimit -c 0
exec 3<&0
"$@" </dev/null 3<&- & program=$!
{ read -r _ <&3; kill -INT "$program"; } & reader=$!
wait "$program"; code=$?
kill -KILL "$reader" 2>/dev/null
[ -z "$temporary" ] || rm -rf "$temporary"
exit "$code"`;

/**
 * The server listens on the socket only, logs no personal data, and takes less memory than by default, because the system caches the
 * files too. It ends after a crash of one of its processes, and the gateway starts it again: if the disk is full, Postgres 18 has been
 * seen to stay in its own recovery for ever.
 */
const SETTINGS: Settings = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  shared_buffers: '64MB',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  lc_messages: 'C',
  log_line_prefix: '%qsession: ',
  restart_after_crash: 'off',
};

/** Creates an empty data folder, owned by the owner of its parent. Rejects with ServerError. */
export function createCluster(folder: string, programs: Programs): Promise<void> {
  const locale = programs.version >= 17 ? ['--locale-provider=builtin', '--locale=C.UTF-8'] : ['--locale=C'];
  const login = [`--username=${ADMINISTRATOR}`, '--auth-local=trust', '--auth-host=scram-sha-256'];
  return initdb(folder, programs, '--no-sync', '--encoding=UTF8', ...locale, ...login);
}

/** Flushes the data folder of a stopped server to the disk. */
export function syncCluster(folder: string, programs: Programs): Promise<void> {
  return initdb(folder, programs, '--sync-only');
}

async function initdb(folder: string, programs: Programs, ...args: string[]): Promise<void> {
  const run = launch({ folder, programs }, programs.initdb, [...args, `--pgdata=${folder}`]);
  await run.ended;
  if (run.child.exitCode !== 0) throw toError(run);
}

/** Starts a server, after ending any that has outlived its gateway on the same folder. Rejects with ServerError. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const { folder, onWarning = () => {} } = options;
  const stopping = new AbortController();
  let run = await start(options, stopping.signal);
  const keepRunning = async () => {
    for (;;) {
      await run.ended;
      if (stopping.signal.aborted) return;
      let reason = toError(run).message;
      onWarning(`${reason}; it is started again`);
      while (run.hasEnded && !stopping.signal.aborted) {
        run = await start(options, stopping.signal).catch(({ message }) => {
          if (message !== reason) onWarning(message);
          reason = message;
          return delay(RETRY_MS, run);
        });
      }
    }
  };
  const ended = keepRunning();
  return {
    stop: async () => {
      stopping.abort();
      const timer = setTimeout(() => kill(readPid(folder), 'SIGKILL'), STOP_MS);
      await ended;
      clearTimeout(timer);
    },
  };
}

/** A program that KEEPER runs. */
type Run = {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  hasEnded: boolean;
  log: string;
  heardAt: number;
};

async function start(options: ServerOptions, stopping: AbortSignal): Promise<Run> {
  const { folder, programs, settings } = options;
  const flags = Object.entries({ ...SETTINGS, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const until = performance.now() + START_MS;
  for (;;) {
    await endOther(folder);
    const run = launch(options, programs.postgres, ['-D', folder, ...flags], stopping);
    while (!run.hasEnded) {
      if (isReady(folder)) return run;
      if (performance.now() > run.heardAt + START_MS) kill(readPid(folder), 'SIGKILL');
      await delay(POLL_MS);
    }
    // Outside of Linux endOther ends only the postmaster, and its other processes may hold the shared memory for a moment.
    if (!/pre-existing shared memory block/.test(run.log) || performance.now() > until) throw toError(run);
  }
}

/** The server's own line: lines with a client's text begin with the prefix of a session, or with a tab. */
const SMART_SHUTDOWN = /^LOG: {2}received smart shutdown request$/m;

function launch(options: ServerOptions, file: string, args: readonly string[], stopping?: AbortSignal): Run {
  const { folder, programs, temporary = '', onOutput = () => {} } = options;
  const { command, user } = toLauncher(dirname(folder), programs);
  const [program = '', ...rest] = [...command, '/bin/sh', '-c', KEEPER, 'keeper', temporary, file, ...args];
  const env = { PATH: process.env.PATH, LC_ALL: 'C' };
  // In its own process group: otherwise Ctrl-C would end the server before the requests.
  const child = spawn(program, rest, { ...user, env, stdio: ['pipe', 'ignore', 'pipe'], detached: true });
  child.stdin?.on('error', () => {});
  const stop = () => child.stdin?.end();
  const write = (text: string) => {
    run.log = (run.log + text).slice(-LOG_LENGTH);
    // Lines of sessions, such as attempts to connect, say nothing about the progress of the start.
    if (!text.startsWith('session: ')) run.heardAt = performance.now();
    // After a SIGTERM Postgres refuses new sessions, and waits for the end of the gateway's, which do not end by themselves.
    if (SMART_SHUTDOWN.test(run.log)) stop();
    onOutput(text);
  };
  child.stderr?.setEncoding('utf8').on('data', write);
  if (stopping?.aborted) stop();
  stopping?.addEventListener('abort', stop);
  const end = async () => {
    // The output closes when the last process of the server has ended. If one cannot be ended, the next start says why.
    const ending = once(child, 'exit').then(() => endOther(folder).catch(() => {}));
    await Promise.all([ending, once(child, 'close')]).catch(({ message }) => write(`FATAL: ${message}`));
    run.hasEnded = true;
    stopping?.removeEventListener('abort', stop);
  };
  const run: Run = { child, ended: end(), hasEnded: false, log: '', heardAt: performance.now() };
  return run;
}

/**
 * Log lines that do not say why a server ended: lines of sessions except a panic, statements, normal work except a crash, and the
 * lines of a message after its first.
 */
const IRRELEVANT =
  /^(session(?!: PANIC)|LOG(?!.* was terminated by )|WARNING|HINT|STATEMENT|DETAIL: {2}Failed process was running):|^\t|^$/;
const REASON = /(?:LOG|FATAL|PANIC|DETAIL|error): +/;

/** The error of a program that has ended, with the reason from its log. */
function toError({ log, child }: Run): ServerError {
  const lines = log.split('\n').filter((line) => !IRRELEVANT.test(line));
  const reasons = lines.flatMap((line) => line.split(REASON)[1] ?? []);
  const isRefused = /^(FATAL: spawn|setpriv)/.test(log) && process.getuid?.() === 0;
  const advice = isRefused ? '; run the gateway as another user than root, in a folder of that user' : '';
  const ended = child.signalCode ?? `exit code ${child.exitCode}`;
  const reason = (reasons.length > 0 ? reasons : lines).join('; ') || ended;
  return new ServerError(`Postgres has ended: ${reason}${advice}`);
}

/** The lines of postmaster.pid: the first is the process id, the eighth the server's state. */
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
 * Ends the processes of a server, and removes postmaster.pid. Postgres takes any process with that id for a running server, such as
 * one in a restarted container.
 */
async function endOther(folder: string): Promise<void> {
  const postmaster = readPid(folder);
  const until = performance.now() + STOP_MS;
  if (findProcesses(folder).includes(postmaster)) kill(postmaster, 'SIGINT');
  for (let left = findProcesses(folder); left.length > 0; left = findProcesses(folder)) {
    // Without their postmaster the others may wait for each other for ever.
    if (!left.includes(postmaster) || performance.now() > until) for (const pid of left) kill(pid, 'SIGKILL');
    await delay(POLL_MS);
  }
  rmSync(join(folder, 'postmaster.pid'), { force: true });
}

/** The processes of Postgres whose working directory is a folder; outside of Linux the postmaster alone. */
function findProcesses(folder: string): (number | undefined)[] {
  const pid = readPid(folder);
  if (process.platform !== 'linux') return pid !== undefined && hasCommand(pid, folder) ? [pid] : [];
  // In a container another folder may have the same path.
  const { dev, ino } = statSync(folder);
  const isOfServer = (name: string) => {
    try {
      if (readFileSync(`/proc/${name}/comm`, 'utf8') !== 'postgres\n') return false;
      const directory = statSync(`/proc/${name}/cwd`);
      return directory.dev === dev && directory.ino === ino;
    } catch {
      // It has ended, or belongs to another user.
      return false;
    }
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && isOfServer(name))
    .map(Number);
}

function hasCommand(pid: number, part: string): boolean {
  try {
    return execFileSync('ps', ['-o', 'command=', '-p', `${pid}`], { encoding: 'utf8' }).includes(part);
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
