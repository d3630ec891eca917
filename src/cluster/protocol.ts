// What the processes of a gateway with several workers agree on.

import type { Config } from '../config.ts';
import type { CounterName, CounterOptions } from '../http/counters.ts';

/** Which worker a process is, counted from 1, of how many. */
export type Place = { readonly number: number; readonly of: number };

/** A counter that all workers add to. */
export type SharedCounter = Omit<CounterOptions, 'redis'>;

/** What the primary process tells a worker, and asks it for. */
export type ToWorker =
  /** To stop as one process does at SIGTERM. */
  | { readonly kind: 'stop' }
  /** To say where the gateway listens, since every worker does. */
  | { readonly kind: 'welcome' }
  /** For its metrics, as Figures. */
  | { readonly kind: 'readFigures' };

/** What a worker tells the primary process, and asks it for. */
export type ToPrimary =
  | { readonly kind: 'serving' }
  /** That it cannot go on for a reason that holds for all. */
  | { readonly kind: 'failed' }
  /** For the metrics of all workers, as text. */
  | { readonly kind: 'readMetrics' }
  /** For a Count, after a request was added to the counter of a name. */
  | { readonly kind: 'count'; readonly counter: SharedCounter; readonly name: CounterName };

const OPTION = '--worker=';

/** The argument that tells a process its place; it is seen in a list of processes too. */
export function toArgument({ number, of }: Place): string {
  return `${OPTION}${number}/${of}`;
}

/** The place that the arguments of a process tell. */
export function readPlace(args: readonly string[]): Place {
  const [number, of] = (args.find((arg) => arg.startsWith(OPTION)) ?? '').slice(OPTION.length).split('/').map(Number);
  if (!number || !of) throw new Error(`a worker is started with ${OPTION}<number>/<count>`);
  return { number, of };
}

/** What one worker has of a configuration, so that all of them together have what is configured. */
export function toShare(config: Config, place: Place): Config {
  return {
    ...config,
    connections: divide(config.connections, place),
    waiting: divide(config.waiting, place),
    refusalsPerMinute: divide(config.refusalsPerMinute, place),
    unreadLimit: divide(config.unreadLimit, place),
    maxSockets: Math.max(1, divide(config.maxSockets, place)),
  };
}

/** A part of a whole; the first workers have one more each where it does not come out even. */
export function divide(whole: number, { number, of }: Place): number {
  return Math.floor(whole / of) + (number <= whole % of ? 1 : 0);
}
