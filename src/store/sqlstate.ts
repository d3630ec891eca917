import type { Fault, Refusal, StoreFaultKind } from '../errors.ts';

/** What Postgres says of an error, under the names of its protocol; PostgREST gives the same four. */
export type PgError = {
  /** SQLSTATE, or a code of PostgREST's own. */
  readonly code?: string | undefined;
  readonly message: string;
  readonly detail?: string | undefined;
};

/** A statement was cancelled: by its timeout, or because nobody waits any more. */
const QUERY_CANCELED = '57014';

/**
 * Codes that say the server cannot serve now: the classes of connection, resources and operator intervention, and
 * PostgREST's group of errors of its own connection.
 */
const UNAVAILABLE = /^(08|53|57|PGRST00)/;

/**
 * What an error that SQL raised means to the client, by its SQLSTATE alone (Postgres, appendix A). `PT401` and the
 * bare `raise exception` (`P0001`) refuse the key with the message; `PT422` refuses the field that `detail` names.
 * Everything else is a fault of the store.
 */
export function toFailure(error: PgError): Refusal | Fault {
  if (error.code === 'PT401' || error.code === 'P0001') return { kind: 'refusedKey', text: error.message };
  if (error.code === 'PT422' && error.detail) {
    return { kind: 'invalidInput', fields: Object.fromEntries([[error.detail, [error.message]]]) };
  }
  return { kind: toFaultKind(error.code ?? ''), cause: error };
}

function toFaultKind(code: string): StoreFaultKind {
  if (code === QUERY_CANCELED) return 'storeTimeout';
  return UNAVAILABLE.test(code) ? 'storeUnavailable' : 'storeError';
}
