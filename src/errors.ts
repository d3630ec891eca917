// Every way a request can fail. Imports nothing.

/** A message in both languages. A string is English only, and the document may translate it. */
export type Message = string | { readonly en: string; readonly 'pt-BR': string };

/** Messages by the name of the parameter or field. */
export type FieldErrors = Readonly<Record<string, readonly Message[]>>;

type Entry = { readonly status: number; readonly text: string; readonly headers?: Readonly<Record<string, string>> };

const table = {
  badRequest: { status: 400, text: 'Bad request' },
  invalidJson: { status: 400, text: 'Invalid JSON body' },
  malformedUrl: { status: 400, text: 'Malformed URL' },
  originRefused: { status: 403, text: 'Origin not allowed' },
  notFound: { status: 404, text: 'Not found' },
  requestTimeout: { status: 408, text: 'Request timeout' },
  bodyTooLarge: { status: 413, text: 'Request body too large' },
  expectationFailed: { status: 417, text: 'Expectation failed' },
  // Never sent: the client has disconnected.
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
  // For a list with pages the client gets a 422 on `limit` instead.
  answerTooLarge: { status: 502, text: 'Data store error' },
} as const satisfies Record<string, Entry>;

/** How a store can fail through no fault of the client. */
export type StoreFaultKind = 'storeUnavailable' | 'storeOverloaded' | 'storeTimeout' | 'storeError' | 'answerTooLarge';

/** A failure of the gateway or the store. The cause is logged and never sent. */
export type Fault = {
  readonly kind: StoreFaultKind | 'internal';
  readonly cause: unknown;
  /** The connection to the store was lost or never established: a read may be retried. */
  readonly connectionLost?: boolean;
};

/** A store's refusal of a call, which the client can fix. */
export type Refusal = RefusedKey | InvalidInput | Raised;

export type RefusedKey = {
  readonly kind: 'refusedKey';
  readonly text: string;
  /** The key is valid, but lacks the permission for the call: it does not count as a guess. */
  readonly lacksPermission?: true;
  /** A bare `raise exception`, which may be about something else. */
  readonly isBare?: true;
};

/** A status that SQL raised. It is an answer only if the operation declares it. */
export type Raised = {
  readonly kind: 'raised';
  readonly status: number;
  readonly text: string;
  /** The constraint that the call violates. */
  readonly constraint?: string | undefined;
  /** The error of SQL, for the log. */
  readonly error: unknown;
};

/** A request with invalid inputs. */
export type InvalidInput = {
  readonly kind: 'invalidInput';
  readonly fields: FieldErrors;
  /** The languages of the messages (BCP 47 tags); English by default. */
  readonly languages?: readonly string[];
  /** The store could not read a value, and has not called the function: the failure says nothing about the key. */
  readonly isUnread?: true;
};

/** Every way a request can fail. */
export type Failure =
  | Fault
  | Refusal
  | { readonly kind: 'methodNotAllowed'; readonly allow: readonly string[] }
  /** A path that would be an operation's below `root`. */
  | { readonly kind: 'withoutRoot'; readonly root: string }
  /** `header` is the key's, as the document spells it. */
  | { readonly kind: 'missingKey'; readonly header: string }
  /** `retryAfter` is in seconds. */
  | { readonly kind: 'tooManyRequests'; readonly retryAfter: number }
  | { readonly kind: Exclude<keyof typeof table, Fault['kind']> };

/** A failure as an HTTP answer: the status, the value of `error` in the body, and headers. */
type HttpError = {
  readonly status: number;
  readonly error: string | Readonly<Record<string, readonly string[]>>;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Maps a failure to its status and text. */
export function toHttpError(failure: Failure): HttpError {
  switch (failure.kind) {
    case 'refusedKey':
      return { status: 401, error: failure.text };
    case 'invalidInput':
      return { status: 422, error: mapMessages(failure.fields, toEnglish), headers: toLanguageHeaders(failure) };
    case 'missingKey':
      return { status: 400, error: `Missing ${failure.header} header` };
    case 'raised':
      return { status: failure.status, error: failure.text };
    case 'withoutRoot':
      return { status: 404, error: `Not found: the path begins with ${failure.root}` };
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

/** Writes each message of the fields, once: several schemas of a `oneOf` may have the same. */
export function mapMessages(fields: FieldErrors, write: (message: Message) => string): Record<string, string[]> {
  return Object.fromEntries(Object.entries(fields).map(([name, list]) => [name, [...new Set(list.map(write))]]));
}

/** The English text of a message. */
export function toEnglish(message: Message): string {
  return typeof message === 'string' ? message : message.en;
}

function toLanguageHeaders({ languages = ['en'] }: InvalidInput): Readonly<Record<string, string>> {
  return { 'Content-Language': languages.join(', '), Vary: 'Accept-Language' };
}

/** Whether a failure is a fault, which is the gateway's or the store's, and is logged. Only faults have a `cause`. */
export function isFault(failure: Failure): failure is Fault {
  return 'cause' in failure;
}

/** Creates the result of a call that failed in the store. */
export function storeFault(kind: StoreFaultKind, cause: unknown): { readonly failure: Fault } {
  return { failure: { kind, cause } };
}

/** Creates the result of a call whose function returned no record. */
export function noRecord(): { readonly failure: Raised } {
  return { failure: { kind: 'raised', status: 404, text: 'Not found', error: new Error('it returned no record') } };
}

/** Creates the result of a call whose answer is larger than the limit. */
export function answerTooLarge(): { readonly failure: Fault } {
  return storeFault('answerTooLarge', 'the answer is larger than the limit');
}

/** An error's message. Node leaves it empty if every address of a host failed, and lists an error for each address. */
export function messageOf(error: Error): string {
  return error.message || (error instanceof AggregateError ? error.errors.map(String).join('; ') : error.name);
}

/**
 * Thrown to end a request; the handler answers with the failure. Not an Error: its stack, which nobody reads, would take a third
 * of the time of a refusal.
 */
export class RequestFailed {
  readonly failure: Failure;

  constructor(failure: Failure) {
    this.failure = failure;
  }
}

/** An error that the operator can fix: it is printed without a stack trace. */
export class OperatorError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
