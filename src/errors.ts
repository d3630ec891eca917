// The closed table of everything that a request can end in but success. It imports nothing.

/** Messages by the name of the parameter or field that they are about. */
export type FieldErrors = Readonly<Record<string, readonly string[]>>;

type Entry = { readonly status: number; readonly text: string; readonly headers?: Readonly<Record<string, string>> };

const table = {
  badRequest: { status: 400, text: 'Bad request' },
  missingKey: { status: 400, text: 'Missing X-Api-Key header' },
  invalidJson: { status: 400, text: 'Invalid JSON body' },
  malformedUrl: { status: 400, text: 'Malformed URL' },
  notFound: { status: 404, text: 'Not found' },
  requestTimeout: { status: 408, text: 'Request timeout' },
  bodyTooLarge: { status: 413, text: 'Request body too large' },
  expectationFailed: { status: 417, text: 'Expectation failed' },
  // Never sent: there is nobody left to read it.
  clientGone: { status: 499, text: 'Client closed request' },
  tooManyRefusals: {
    status: 429,
    text: 'Too many refused requests',
    headers: { 'Retry-After': '60', Connection: 'close' },
  },
  headersTooLarge: { status: 431, text: 'Request header fields too large' },
  internal: { status: 500, text: 'Internal error' },
  storeUnavailable: { status: 502, text: 'Data store unavailable' },
  storeOverloaded: { status: 502, text: 'Data store unavailable', headers: { 'Retry-After': '1' } },
  storeTimeout: { status: 502, text: 'Data store timeout' },
  storeError: { status: 502, text: 'Data store error' },
  // Of a list that is given in pages the client is told to ask for fewer records instead.
  answerTooLarge: { status: 502, text: 'Data store error' },
} as const satisfies Record<string, Entry>;

/** How a store can fail; none of it is the client's doing. */
export type StoreFaultKind = 'storeUnavailable' | 'storeOverloaded' | 'storeTimeout' | 'storeError' | 'answerTooLarge';

/** A fault, ours or the store's: the cause is for the log and never for the client. */
export type Fault = {
  readonly kind: StoreFaultKind | 'internal';
  readonly cause: unknown;
  /** The connection to the store was lost or never made: a read may be tried again. */
  readonly connectionLost?: boolean;
};

/** What a store says when it refuses a call that the client can mend. */
export type Refusal = { readonly kind: 'refusedKey'; readonly text: string } | InvalidInput;

/** A request whose inputs are refused. */
export type InvalidInput = {
  readonly kind: 'invalidInput';
  readonly fields: FieldErrors;
  /**
   * Writes in Portuguese, by their English, the messages that no table can have, because they name a rule's values.
   * Most clients read English.
   */
  readonly compose?: () => ReadonlyMap<string, string>;
  /** The languages of the messages, as BCP 47 has them; English alone unless told. */
  readonly languages?: readonly string[];
};

/** What a request can end in other than success. */
export type Failure =
  | Fault
  | Refusal
  | { readonly kind: 'methodNotAllowed'; readonly allow: readonly string[] }
  /** In how many seconds the client may come again. */
  | { readonly kind: 'tooManyRequests'; readonly retryAfter: number }
  | { readonly kind: Exclude<keyof typeof table, Fault['kind']> };

/** A failure as HTTP has it: the status, the value of `error` in the body, and headers that belong to it. */
export type HttpError = {
  readonly status: number;
  readonly error: string | FieldErrors;
  readonly headers?: Readonly<Record<string, string>>;
};

/** The one place where a kind of failure becomes a status and a text. */
export function toHttpError(failure: Failure): HttpError {
  switch (failure.kind) {
    case 'refusedKey':
      return { status: 401, error: failure.text };
    case 'invalidInput':
      return { status: 422, error: failure.fields, headers: toLanguageHeaders(failure) };
    case 'methodNotAllowed':
      return { status: 405, error: 'Method not allowed', headers: { Allow: failure.allow.join(', ') } };
    case 'tooManyRequests':
      return { status: 429, error: 'Too many requests', headers: { 'Retry-After': `${failure.retryAfter}` } };
    default: {
      const { status, text, headers = {} }: Entry = table[failure.kind];
      return { status, error: text, headers };
    }
  }
}

function toLanguageHeaders({ languages = ['en'] }: InvalidInput): Readonly<Record<string, string>> {
  return { 'Content-Language': languages.join(', '), Vary: 'Accept-Language' };
}

/** Tells a fault, which is logged, from a failure that is the client's. */
export function isFault(failure: Failure): failure is Fault {
  return 'cause' in failure;
}

/** The result of a call that the store could not serve. */
export function storeFault(kind: StoreFaultKind, cause: unknown): { readonly failure: Fault } {
  return { failure: { kind, cause } };
}

/** The result of a call whose answer would take more bytes than the configuration allows. */
export function answerTooLarge(): { readonly failure: Fault } {
  return storeFault('answerTooLarge', 'the answer takes more bytes than ANSWER_LIMIT_BYTES');
}

/** What an error says. Where every address of a host has failed Node says nothing itself, but of each address. */
export function messageOf(error: Error): string {
  return error.message || (error instanceof AggregateError ? error.errors.map(String).join('; ') : error.name);
}

/** Ends a request from below: carries the failure to where the answer is written. */
export class RequestFailed extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.kind, { cause: 'cause' in failure ? failure.cause : undefined });
    this.failure = failure;
  }
}
