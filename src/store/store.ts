import type { Fault, Refusal } from '../errors.ts';

/** Any value that JSON can write. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** A call of one Postgres function: plain data, so that it can be logged, compared and sent anywhere. */
export type Call = {
  /** The function's name in schema public. */
  readonly function: string;
  /** Arguments by name; one that is missing takes the function's default. */
  readonly args: Readonly<Record<string, Json>>;
  /** Whether the answer is a JSON array of all rows, or the one row as an object. */
  readonly returns: 'rows' | 'row';
  /** Whether it only reads, so that it may be made again where the connection was lost. */
  readonly readOnly: boolean;
};

/** The request that a call is made for, so that what it does in the database can be traced to it. */
export type Origin = {
  readonly requestId: string;
  /** Whose share of the store the call takes: a key's, or of a key that is not known to be right its address's. */
  readonly share?: string;
  /** The request's place in a trace (W3C Trace Context, section 3.2). */
  readonly traceparent?: string | undefined;
};

/** JSON text as the database wrote it. */
export type Rows = {
  readonly json: string;
  /** How many rows it has, where the call returns rows. */
  readonly count?: number;
};

/** What a call gives: rows, a refusal, or a fault. A store never throws. */
export type Result = Rows | { readonly failure: Refusal | Fault };

/** The connections that a store has open, and those of them that are not in use. */
export type Connections = { readonly open: number; readonly idle: number };

/** An argument that a function takes. */
export type Argument = {
  readonly name: string;
  /** As Postgres writes it, such as `timestamp with time zone`; of a domain the type that it is made of. */
  readonly type: string;
  readonly hasDefault: boolean;
  /** The values of an enumerated type. */
  readonly labels?: readonly string[] | null;
};

/** A column that a function returns. */
export type Column = {
  readonly name: string;
  readonly type: string;
  /** Whether it may be null; null where the database does not tell. */
  readonly isNullable: boolean | null;
};

/** What a database says of a function in schema public. What a store cannot see of it is left out. */
export type DatabaseFunction = {
  readonly name: string;
  readonly arguments: readonly Argument[];
  readonly isVolatile?: boolean;
  readonly result?: {
    readonly columns: readonly Column[];
    /** Whether it returns a set, and whether that is of one row at most. */
    readonly isSet: boolean;
    readonly isSingle: boolean;
  };
  readonly security?: {
    readonly owner: string;
    /** Whether the owner can log in, owns tables or bypasses row security. */
    readonly ownerIsAble: boolean;
    readonly definer: boolean;
    readonly path: string | null;
    /** The roles beside the owner that may execute it; `public` for everybody. */
    readonly executors: readonly string[];
  };
};

/** The functions of a store, or why it cannot tell now. */
export type Description = { readonly functions: readonly DatabaseFunction[] } | { readonly failure: Fault };

/** Where the functions live. Any number of calls may be made at once. */
export interface Store {
  /** What a person reads at start: the kind of store and where its data is. */
  readonly description: string;

  /**
   * Calls a function. When the signal aborts, nobody waits for the result any more and the store stops the work as
   * soon as it can; a call that was not begun by then is never begun.
   */
  call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result>;

  /** Why the store cannot serve now, or undefined where it can. It never throws. */
  check(signal: AbortSignal): Promise<Fault | undefined>;

  /** What its database says of the functions in schema public. It never throws. */
  describe(signal: AbortSignal): Promise<Description>;

  /** Its connections; a store that has its database in the process has none. */
  connections?(): Connections;

  /** Finishes what is under way and lets go of everything. */
  close(): Promise<void>;
}
