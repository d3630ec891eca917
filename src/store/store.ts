// The interface of a store, and its values.

import type { Fault, Refusal } from '../errors.ts';

/** Any JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | JsonObject;
export type JsonObject = { readonly [name: string]: Json };

/** Whether a value, of JSON or YAML, is an object. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The original text of an argument of type json or jsonb: parsing and writing it again could round its numbers. */
export type JsonText = { readonly json: string };

/** An argument: a scalar (Postgres converts its text to the argument's type), the items of an SQL array, or JSON. */
export type Argument = string | number | boolean | null | readonly Json[] | JsonText;

/** A call of a Postgres function, as plain data. */
export type Call = {
  /** The function's name in schema public. */
  readonly function: string;
  /** Arguments by name. A missing one has the function's default. */
  readonly args: Readonly<Record<string, Argument>>;
  /**
   * The form of the answer: a JSON array of all rows or of all values, the one row as an object, the one value as JSON, or nothing. A
   * call that finds no row for `row` or `nothing`, or null for `value`, ends as a raised 404.
   */
  readonly returns: 'rows' | 'values' | 'row' | 'value' | 'nothing';
  /** Whether the call only reads, so that it may be retried after a lost connection. */
  readonly readOnly: boolean;
};

/** The request for which a call is made; the database shows it. */
export type Origin = {
  readonly requestId: string;
  /** The share of the store that the call counts against: that of an accepted key, or else of the client's network. */
  readonly share?: string | undefined;
  /** The request's place in a trace (W3C Trace Context, section 3.2). */
  readonly traceparent?: string | undefined;
};

/** Rows as JSON text. The text is empty if the call returns `nothing`. */
export type Rows = {
  readonly json: string;
  /** The number of rows. */
  readonly count?: number;
  /** Whether this is the stored answer to an earlier call that this one repeats. */
  readonly isReplayed?: boolean;
};

/** A call that has failed. */
export type Failed = { readonly failure: Refusal | Fault };

/** The result of a call. A store never throws. */
export type Result = Rows | Failed;

/** One of several servers of a database. */
export type ServerReport = {
  /** Host and port. */
  readonly host: string;
  readonly role: 'primary' | 'standby' | 'away' | 'refused' | 'unknown';
  /** The calls so far. */
  readonly calls: number;
};

/** The connections of a store, and its servers if it has several. */
export type Connections = {
  /** The open connections, and the idle ones among them. */
  readonly open: number;
  readonly idle: number;
  /** The number of connections that were closed because a step stalled, by step. */
  readonly stalled?: Readonly<Record<string, number>>;
  readonly servers?: readonly ServerReport[];
  /** How often another server has become the primary. */
  readonly failovers?: number;
};

/** An argument that a function takes. */
export type Parameter = {
  readonly name: string;
  /** As Postgres writes it, such as `timestamp with time zone`; for a domain its base type. */
  readonly type: string;
  readonly hasDefault: boolean;
  /** The values of an enumerated type, or of an array of it. */
  readonly labels?: readonly string[] | null;
  /** The length or precision of a domain, as in `pg_type.typtypmod`; -1 for none. Undefined if the store does not know it. */
  readonly modifier?: number;
};

/** A column of a function's result. */
export type Column = {
  readonly name: string;
  readonly type: string;
  /** The values of an enumerated type. */
  readonly labels?: readonly string[] | null;
  /** Whether the column may be null; null if that is unknown. */
  readonly isNullable: boolean | null;
};

/** A function in schema public, as the database describes it. A store omits what it cannot see. */
export type DatabaseFunction = {
  readonly name: string;
  readonly arguments: readonly Parameter[];
  readonly volatility?: 'volatile' | 'stable' | 'immutable';
  /** The statuses that its own body raises, such as 404 for PT404. */
  readonly raises?: readonly number[];
  /** The unique constraints and foreign keys of the tables in schema private, which it may violate. */
  readonly constraints?: readonly string[];
  readonly result?: {
    readonly type: string;
    readonly columns: readonly Column[];
    /** Whether it returns a set, and whether it returns one row at most. */
    readonly isSet: boolean;
    readonly isSingle: boolean;
  };
  readonly security?: {
    readonly owner: string;
    /** Whether the owner can log in, owns tables or bypasses row security. */
    readonly ownerIsAble: boolean;
    readonly definer: boolean;
    /** Whether Postgres answers a call with a null argument by null, without running the function. */
    readonly isStrict: boolean;
    readonly path: string | null;
    /** The roles other than the owner that may execute it; `public` is everybody. */
    readonly executors: readonly string[];
  };
};

/** The functions of a store, or the fault that kept it from describing them. */
export type Description = { readonly functions: readonly DatabaseFunction[] } | { readonly failure: Fault };

/** Calls functions. Any number of calls may run at once. */
export interface Store {
  /** The kind of store and where its data is, for the log. */
  readonly description: string;

  /** The maximum number of reads in a batch, which costs little more than one read; 1 by default. It may change. */
  readonly batch?: number;

  /** Calls a function. An aborted signal stops the work as soon as possible. Reads with the same batch may share a connection. */
  call(call: Call, signal: AbortSignal, origin?: Origin, batch?: object): Promise<Result>;

  /** The fault that keeps the store from serving; undefined if it can serve. Never throws. */
  check(signal: AbortSignal): Promise<Fault | undefined>;

  /** Why the login's rights or the store's settings are a risk; undefined if they are none. Never throws. */
  inspectLogin?(signal: AbortSignal): Promise<string | undefined>;

  /** Describes the functions in schema public. Never throws. */
  describe(signal: AbortSignal): Promise<Description>;

  /** The connections of a store that has its own. */
  connections?(): Connections;

  /** Drops what was cached about the functions, because they have changed. */
  renew?(): void;

  /** Releases everything, after the last call. */
  close(): Promise<void>;
}
