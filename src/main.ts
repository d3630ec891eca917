// The process: signals and exit codes; alone, primary or worker. The only reader of process.env.

import cluster from 'node:cluster';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { type Config, readConfig, VARIABLES } from './config.ts';
import { OperatorError } from './errors.ts';

/** The arguments of npm run dev and npm start. */
const ARGUMENTS = ['--watch', '--check'];
/** npm run dev follows the files as they are saved. */
const isWatching = process.argv.includes('--watch');
/** npm start -- --check tests what a start needs, without serving. */
const isCheck = process.argv.includes('--check');

/** The handlers of signals: the first signal finishes the requests in progress, the second one ends the process at once. */
type SignalHandlers = { stop(noticeMs: number): Promise<unknown>; cut(): void };

async function main(): Promise<void> {
  if (cluster.isWorker) return runWorker();
  const unknown = process.argv.slice(2).find((argument) => !ARGUMENTS.includes(argument));
  if (unknown !== undefined) return refuseArgument(unknown);
  const config = readConfig(process.env);
  if (isCheck) return runCheck(config);
  // Before the gateway serves there is nothing to finish. Without a listener, a signal would not end PID 1 of a container.
  const handlers: SignalHandlers = { stop: async () => process.exit(0), cut: () => {} };
  listenToSignals(handlers, config.drainMs);
  if (config.workers > 1 && !isWatching) await runPrimary(config, handlers);
  else await runAlone(config, handlers);
}

/** Ignoring an unknown argument would start the gateway, which may not be what was meant. */
function refuseArgument(argument: string): never {
  console.error(`${argument} is not an argument of the gateway: expected --check, or none`);
  console.error('The configuration is in variables: see docs/configuration.md.');
  process.exit(2);
}

async function runCheck(config: Config): Promise<void> {
  const { checkStart } = await import('./check.ts');
  // The reader may exit early, as `head` does.
  process.stdout.on('error', () => {});
  process.exit((await checkStart(config, console.log)) ? 0 : 1);
}

async function runAlone(config: Config, handlers: SignalHandlers): Promise<void> {
  listenToHangup(() => console.error('SIGHUP replaces workers (WORKERS), and there are none: it is ignored'));
  const { openService } = await import('./service.ts');
  const service = await openService(config, { isWatching });
  handlers.stop = async (noticeMs) => {
    await service.close({ noticeMs });
    // A DNS lookup cannot be cancelled, and would hold the process for many seconds.
    process.exit();
  };
  try {
    await service.welcome({ workers: 1 });
    await service.follow();
  } catch (error) {
    await service.close();
    throw error;
  }
}

async function runPrimary(config: Config, handlers: SignalHandlers): Promise<void> {
  // Workers read .env too, which may have other variables by then: the primary process keeps what the gateway began with.
  for (const name of Object.keys(VARIABLES)) process.env[name] ??= '';
  const { Primary } = await import('./cluster/primary.ts');
  const primary = new Primary(config);
  listenToHangup(() => void primary.replaceWorkers());
  await primary.open();
  handlers.stop = async (noticeMs) => primary.stop(noticeMs);
  handlers.cut = () => primary.kill();
  process.exit(await primary.run());
}

async function runWorker(): Promise<void> {
  const { work } = await import('./cluster/worker.ts');
  await work(readConfig(process.env), process.argv);
}

/** A supervisor's SIGTERM gives clients notice; a person who presses Ctrl-C (SIGINT) does not want to wait for that. */
function listenToSignals(handlers: SignalHandlers, drainMs: number): void {
  const onFirst = async (signal: NodeJS.Signals) => {
    process.off('SIGINT', onFirst).off('SIGTERM', onFirst);
    process.once('SIGINT', onSecond).once('SIGTERM', onSecond);
    await handlers.stop(signal === 'SIGTERM' ? drainMs : 0);
  };
  const onSecond = (signal: NodeJS.Signals) => {
    handlers.cut();
    process.off('SIGINT', onSecond).off('SIGTERM', onSecond);
    process.kill(process.pid, signal);
    // The system ignores the signal if this is PID 1 of a container.
    process.exit(128 + constants.signals[signal]);
  };
  process.on('SIGINT', onFirst).on('SIGTERM', onFirst);
}

/** SIGHUP reloads. In a terminal it means that the terminal was closed, and ends the process as Node does by default. */
function listenToHangup(reload: () => void): void {
  if (!isatty(0)) process.on('SIGHUP', reload);
}

main().catch((error) => {
  // Operator errors are printed without a stack trace, and so are those of the system.
  const isExpected = error instanceof OperatorError || typeof error?.syscall === 'string';
  console.error(isExpected ? error.message : error);
  process.exit(1);
});
