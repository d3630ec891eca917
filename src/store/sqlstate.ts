// Converts an error of Postgres to what it means for a client, by its SQLSTATE.

import {
  type Fault,
  type FieldErrors,
  isFault,
  type Message,
  type Raised,
  type Refusal,
  type StoreFaultKind,
} from '../errors.ts';
import type { Argument, Call, Result } from './store.ts';

/** An error of Postgres, under the names of its protocol; PostgREST gives the same fields. */
export type PgError = {
  /** SQLSTATE, or a code of PostgREST's own. */
  readonly code?: string | undefined;
  readonly message: string;
  readonly detail?: string | undefined;
  readonly hint?: string | undefined;
  /** The violated constraint. PostgREST only mentions it in the message. */
  readonly constraint?: string | undefined;
  /** The functions that were running. PostgREST does not give it. */
  readonly where?: string | undefined;
};

/** PostgREST's convention for raising a status: PT404. */
const STATUS = /^PT(4\d\d)$/;

/** Violations of a foreign key (23001 for `on delete restrict`), a unique constraint or an exclusion constraint. */
const CONFLICT = /^(23001|2350[35]|23P01)$/;
/** Postgres's own message would reveal the constraint, and its detail the value. */
const CONFLICT_TEXT = 'Conflicts with another record';

/** A value is invalid for its type (class 22), or violates the check of a domain. */
const INVALID_VALUE = /^(22|23514$)/;
const CHECK_VIOLATED = '23514';
/** Types that accept every text. */
const TEXT = /^(text|character varying|citext)$/;
/** A null in a column or a domain that does not accept it. */
const NOT_NULL = '23502';
/** Matches the end of an error's context if Postgres was reading a parameter, before it called the function. The value may follow. */
const PARAMETER = /(?:^|\n)[^\n]*?\$(\d+)(?:[^\n=]*| = '(?:[^']|'')*')$/;
/** The line that lists all parameters, which log_parameter_max_length_on_error adds. */
const LIST = /(?:^|\n)[^\n']*: \$1 = (?:'|NULL)/;
/** The name of a domain in Postgres's message, with or without schema and quotes. */
const DOMAIN = /\bdomain (?:\S*\.)?"?([^".\s]+)"? /;
/** The name of any other type in the message. */
const TYPE = /\b(?:type|enum) (?:\S*\.)?"?([^".:]+?)"?(?::|$)/;
const CANNOT_HOLD: Message = { en: 'is no value that can be stored', 'pt-BR': 'Informe um valor válido' };

/** A statement was cancelled, by its timeout or by the gateway; lock_timeout or transaction_timeout of the login has passed. */
const TIMED_OUT = /^(57014|55P03|25P04)$/;

/**
 * The server cannot serve now: the classes of connection exceptions, insufficient resources and operator intervention, and
 * PostgREST's codes for errors of its connection.
 */
const UNAVAILABLE = /^(08|53|57|PGRST00)/;

/**
 * Converts an error that SQL raised to a failure, by its SQLSTATE alone (Postgres, appendix A). `PT401` and the bare
 * `raise exception` (`P0001`) refuse the key with the message; the detail `permission` says that only this call is refused.
 * `PT422` refuses the fields in `detail`; another `PT4xx` is that status with the message, and a violated key is a conflict.
 * Everything else is a fault of the store.
 */
export function toFailure(error: PgError): Refusal | Fault {
  const refusal = { kind: 'refusedKey', text: error.message } as const;
  if (error.code === 'P0001') return { ...refusal, isBare: true };
  if (error.code === 'PT401') return error.detail === 'permission' ? { ...refusal, lacksPermission: true } : refusal;
  const fields = error.code === 'PT422' ? readFields(error) : undefined;
  if (fields) return { kind: 'invalidInput', fields };
  return readStatus(error) ?? { kind: toFaultKind(error.code ?? ''), cause: error };
}

/** Whether the context of an error shows that it occurred before the function was called. */
export function isBeforeCall(where: string): boolean {
  return where === '' || LIST.exec(where)?.index === 0 || readParameter(where) !== undefined;
}

/** The number of the parameter that Postgres was reading, by the context of an error; undefined for another error. */
function readParameter(where: string): string | undefined {
  return LIST.test(where) ? undefined : PARAMETER.exec(where)?.[1];
}

/** Turns a fault about an argument that Postgres cannot read into a refusal of that field: the value is the client's mistake. */
export function blameArgument(result: Result, { args }: Call): Result {
  const name = Object.keys(args)[Number(readParameter(readInvalidValue(result)?.where ?? '')) - 1];
  return blame(result, name === undefined ? [] : [name]);
}

/**
 * Does what blameArgument does for errors without a context, such as PostgREST's: refuses the arguments whose value and type, or whose
 * domain, the message names. `readTypes` returns the types of the function's arguments.
 */
export async function blameNamed(
  result: Result,
  { args }: Call,
  readTypes: () => Promise<ReadonlyMap<string, string>>,
): Promise<Result> {
  const { message, code } = readInvalidValue(result) ?? {};
  if (message === undefined) return result;
  const [, domain] = DOMAIN.exec(message) ?? [];
  // The check of a table has the same code, and its message quotes names.
  if (code === CHECK_VIOLATED && domain === undefined) return result;
  const [, type] = TYPE.exec(message) ?? [];
  const isQuoted = (name: string) => textsOf(args[name]).some((text) => message.includes(`"${text}"`));
  const isMeant = (name: string) =>
    (args[name] === null) === (code === NOT_NULL) && (domain !== undefined || isQuoted(name));
  const quoted = Object.keys(args).filter(isMeant);
  if (quoted.length === 0) return result;
  const types = await readTypes();
  const isNamed = (name: string) => {
    const own = types.get(name)?.replace(/( without time zone)?(\[\])?$/, '');
    if (domain !== undefined) return own?.replace(/^.*\.|"/g, '') === domain;
    // The function itself may have read a text as another type.
    if (own !== undefined && TEXT.test(own)) return false;
    // A type with a schema may be a domain over the type in the message.
    return type === undefined || own === undefined || own.includes('.') || own === type;
  };
  return blame(result, quoted.filter(isNamed));
}

function readInvalidValue(result: Result): PgError | undefined {
  if (!('failure' in result) || !isFault(result.failure)) return undefined;
  const error: PgError = Object(result.failure.cause);
  const isNull = error.code === NOT_NULL && DOMAIN.test(error.message);
  return isNull || INVALID_VALUE.test(error.code ?? '') ? error : undefined;
}

function blame(result: Result, names: readonly string[]): Result {
  if (names.length === 0) return result;
  const fields = Object.fromEntries(names.map((name) => [name, [CANNOT_HOLD]]));
  return { failure: { kind: 'invalidInput', fields, isUnread: true } };
}

/** The texts of an argument that Postgres may quote in a message. */
function textsOf(value: Argument | undefined): readonly string[] {
  if (value === null || value === undefined) return [];
  if (typeof value !== 'object') return [String(value)];
  return 'json' in value ? [] : value.map(String);
}

/** Reads the status that an error stands for, if any. 422 is left out, because it needs a field. */
function readStatus(error: PgError): Raised | undefined {
  const { code = '', message } = error;
  const [, status] = STATUS.exec(code) ?? [];
  if (status !== undefined && status !== '422') return { kind: 'raised', status: Number(status), text: message, error };
  if (!CONFLICT.test(code)) return undefined;
  const constraint = error.constraint ?? /constraint "([^"]+)"/.exec(message)?.[1];
  return { kind: 'raised', status: 409, text: CONFLICT_TEXT, constraint, error };
}

/** The detail of a PT422: the name of a field, or a JSON object of fields with lists of messages. */
function readFields({ detail, message }: PgError): FieldErrors | undefined {
  if (!detail) return undefined;
  if (!detail.startsWith('{')) return Object.fromEntries([[detail, [message]]]);
  try {
    const fields = JSON.parse(detail);
    const lists = Object.values(fields);
    return lists.length > 0 && lists.every(isListOfTexts) ? fields : undefined;
  } catch {
    return undefined;
  }
}

function isListOfTexts(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((text) => typeof text === 'string');
}

function toFaultKind(code: string): StoreFaultKind {
  if (TIMED_OUT.test(code)) return 'storeTimeout';
  return UNAVAILABLE.test(code) ? 'storeUnavailable' : 'storeError';
}
