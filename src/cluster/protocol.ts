// The messages between the primary process and its workers, and how the workers share the configured limits.

import type { Config } from '../config.ts';
import type { TakeToken } from '../limits/buckets.ts';
import type { Ending, Welcome } from '../service.ts';

/** A worker's number, from 1, and the number of workers. */
export type WorkerNumber = { readonly number: number; readonly of: number };

/** Messages from the primary process to a worker. */
export type ToWorker =
  /** Stop as a single process does. */
  | { readonly kind: 'stop'; readonly ending: Ending }
  /** Log the start message: every worker is serving. */
  | { readonly kind: 'welcome'; readonly welcome: Welcome }
  /** Answer with the worker's metrics, as Figures. */
  | { readonly kind: 'readFigures' }
  /** Answer with the worker's ReadinessReport. */
  | { readonly kind: 'readReadiness' }
  /** Answer with true: the worker still runs. */
  | { readonly kind: 'ping' };

/** Messages from a worker to the primary process. */
export type ToPrimary =
  | { readonly kind: 'serving' }
  /** The worker has failed for a reason that affects all workers. */
  | { readonly kind: 'failed' }
  /** Answer with the metrics of all workers, as text. */
  | { readonly kind: 'readMetrics' }
  /** Take a token as TakeToken does, and answer with Taken. */
  | { readonly kind: 'take'; readonly args: Parameters<TakeToken> };

const OPTION = '--worker=';

/** The command-line argument that tells a worker its number; `ps` shows it too. */
export function toArgument({ number, of }: WorkerNumber): string {
  return `${OPTION}${number}/${of}`;
}

/** Reads a worker's number from its command line. Throws if it is missing. */
export function readNumber(args: readonly string[]): WorkerNumber {
  const [number, of] = (args.find((arg) => arg.startsWith(OPTION)) ?? '').slice(OPTION.length).split('/').map(Number);
  if (!number || !of) throw new Error(`a worker needs the argument ${OPTION}<number>/<count>`);
  return { number, of };
}

/** One worker's share of the configuration. The shares of all workers add up to the configured limits. */
export function toShare(config: Config, worker: WorkerNumber): Config {
  return {
    ...config,
    connections: divide(config.connections, worker),
    waiting: divide(config.waiting, worker),
    refusalsPerMinute: divide(config.refusalsPerMinute, worker),
    unreadLimit: divide(config.unreadLimit, worker),
    maxSockets: divide(config.maxSockets, worker),
  };
}

/** One worker's share of a whole number; the first workers get one more each if there is a remainder. */
export function divide(whole: number, { number, of }: WorkerNumber): number {
  return Math.floor(whole / of) + (number <= whole % of ? 1 : 0);
}
