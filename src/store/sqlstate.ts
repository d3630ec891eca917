import type { Fault, FieldErrors, Refusal, StoreFaultKind } from '../errors.ts';

/** An error of Postgres, under the names of its protocol; PostgREST gives the same fields. */
export type PgError = {
  /** SQLSTATE, or a code of PostgREST's own. */
  readonly code?: string | undefined;
  readonly message: string;
  readonly detail?: string | undefined;
  readonly hint?: string | undefined;
  /** The functions that were running. PostgREST does not give it. */
  readonly where?: string | undefined;
};

/** A statement was cancelled, by its timeout or by the gateway. */
const QUERY_CANCELED = '57014';

/**
 * Codes that say the server cannot serve now: the classes of connection, resources and operator intervention, and
 * PostgREST's group of errors of its own connection.
 */
const UNAVAILABLE = /^(08|53|57|PGRST00)/;

/**
 * Converts an error that SQL raised to a failure, by its SQLSTATE alone (Postgres, appendix A). `PT401` and the bare
 * `raise exception` (`P0001`) refuse the key with the message; `PT422` refuses the fields in `detail`. Everything else is
 * a fault of the store.
 */
export function toFailure(error: PgError): Refusal | Fault {
  if (error.code === 'PT401' || error.code === 'P0001') return { kind: 'refusedKey', text: error.message };
  const fields = error.code === 'PT422' ? readFields(error) : undefined;
  if (fields) return { kind: 'invalidInput', fields };
  return { kind: toFaultKind(error.code ?? ''), cause: error };
}

/** The detail of a PT422: the name of a field, or a JSON object of fields with lists of messages. */
function readFields({ detail, message }: PgError): FieldErrors | undefined {
  if (!detail) return undefined;
  if (!detail.startsWith('{')) return Object.fromEntries([[detail, [message]]]);
  try {
    const fields = JSON.parse(detail);
    return Object.values(fields).every(isListOfTexts) ? fields : undefined;
  } catch {
    return undefined;
  }
}

function isListOfTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}

function toFaultKind(code: string): StoreFaultKind {
  if (code === QUERY_CANCELED) return 'storeTimeout';
  return UNAVAILABLE.test(code) ? 'storeUnavailable' : 'storeError';
}
