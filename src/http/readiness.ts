import { setTimeout as delay } from 'node:timers/promises';
import type { Program } from '../api/handler.ts';
import { type Fault, toHttpError } from '../errors.ts';
import { ContractError, findDrift } from '../openapi/drift-check.ts';
import type { Store } from '../store/store.ts';

/** What readiness depends on. */
export type ReadinessOptions = {
  readonly store: Store;
  /** The program that is served now. */
  readonly readProgram: () => Program;
  /** The document's file. */
  readonly document: string;
  readonly deadlineMs: number;
  /** Whether a gateway whose document and database disagree must not serve. */
  readonly isDriftFatal: boolean;
  readonly log: {
    info(text: string): void;
    warn(text: string): void;
    fault(text: string, fault: Fault): void;
  };
};

/** Whether the gateway can serve, and what it depends on: a text other than `ok` says what is wrong. */
export type ReadinessReport = {
  readonly status: 'ready' | 'not ready' | 'stopping';
  readonly checks?: { readonly store: string; readonly contract: string };
};

/** Whether the gateway can serve. */
export type Readiness = {
  /** Checks the contract for a start: throws ContractError where it does not hold and has to. */
  checkAtStart(): Promise<Fault | undefined>;
  /** Tells of the fault of a store that could not be reached at the start, until it can. */
  reportUntilReachable(fault: Fault): Promise<void>;
  read(): Promise<ReadinessReport>;
  /** From now on it is not ready: it is being stopped. */
  end(): void;
};

/** Anybody may ask, and each time costs the store a query: an answer holds for so long, in milliseconds. */
const STORE_EVERY_MS = 1_000;
const CONTRACT_EVERY_MS = 10_000;

const OK = 'ok';
const DRIFTED = 'document and database disagree';
const UNKNOWN = 'unknown: the store does not answer';

/** Watches over what the gateway depends on. It asks when it is asked, and never by itself. */
export function createReadiness(options: ReadinessOptions): Readiness {
  const { store, readProgram, document, deadlineMs, isDriftFatal, log } = options;
  let told = '';
  let isStopping = false;
  let hasFault = false;
  const late: Fault = { kind: 'storeTimeout', cause: new Error(`no answer within ${deadlineMs} ms`) };
  const readDrift = () =>
    within(deadlineMs, findDrift({ program: readProgram(), document, store, deadlineMs }), { failure: late });
  const tell = (lines: readonly string[]) => {
    const text = lines.join('\n');
    if (text !== told) for (const line of lines) log.warn(line);
    told = text;
  };
  const readStore = remember(STORE_EVERY_MS, async () => {
    const fault = await within(deadlineMs, store.check(AbortSignal.timeout(deadlineMs)), late);
    if (fault && !hasFault) log.fault('The store does not answer', fault);
    if (!fault && hasFault) log.info('The store answers again');
    hasFault = fault !== undefined;
    return fault ? String(toHttpError(fault).error) : OK;
  });
  const readContract = remember(CONTRACT_EVERY_MS, async () => {
    const drift = await readDrift();
    if ('failure' in drift) return undefined;
    tell(drift.lines);
    return drift.lines.length > 0 ? DRIFTED : OK;
  });

  const checkAtStart = async () => {
    const drift = await readDrift();
    if ('failure' in drift) return drift.failure;
    if (drift.lines.length > 0 && isDriftFatal) throw new ContractError(drift.lines.join('\n'));
    tell(drift.lines);
    return undefined;
  };
  return {
    checkAtStart,
    reportUntilReachable: async (first) => {
      let fault: Fault | undefined = first;
      for (let attempt = 1; fault && !isStopping; attempt += 1) {
        const seconds = Math.min(attempt, 30);
        log.fault(`The store does not answer, and is tried again in ${seconds} s`, fault);
        await delay(seconds * 1_000, undefined, { ref: false });
        fault = await checkAtStart();
      }
      if (!isStopping) log.info('The store answers');
    },
    read: async () => {
      if (isStopping) return { status: 'stopping' };
      const state = await readStore();
      const contract = (state === OK ? await readContract() : undefined) ?? UNKNOWN;
      const holds = contract === OK || (contract === DRIFTED && !isDriftFatal);
      const status = state === OK && holds ? 'ready' : 'not ready';
      return { status, checks: { store: state ?? UNKNOWN, contract } };
    },
    end: () => {
      isStopping = true;
    },
  };
}

/** Gives `late` when the time is up, whatever a store does about the signal that it gets then. */
async function within<T>(ms: number, work: Promise<T>, late: T): Promise<T> {
  const { promise, resolve } = Promise.withResolvers<T>();
  const timer = setTimeout(resolve, ms, late);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Keeps what was read, unless that is undefined or has failed, and reads but once for all who ask at a time. */
function remember<T>(ms: number, read: () => Promise<T>): () => Promise<T> {
  let last: Promise<T> | undefined;
  const forget = () => {
    last = undefined;
  };
  const readOnce = async () => {
    try {
      const value = await read();
      if (value === undefined) forget();
      else setTimeout(forget, ms).unref();
      return value;
    } catch (error) {
      forget();
      throw error;
    }
  };
  return () => {
    last ??= readOnce();
    return last;
  };
}
