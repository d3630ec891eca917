import type { Call } from '../../src/store/store.ts';
import { operations } from '../helpers/api.ts';

/** A request to one operation of the document: data, so that it can be sent, called and shown. */
export type Request = {
  /** The operationId. */
  readonly operation: string;
  readonly key: string;
  readonly query: Readonly<Record<string, string>>;
  readonly body?: Readonly<Record<string, string>>;
  readonly idempotencyKey?: string | undefined;
};

/** The function that an operation calls. */
export function functionOf(operation: string): string {
  return (entryOf(operation).operation as { 'x-rpc'?: string })['x-rpc'] ?? '';
}

/** Sends a request to a gateway. */
export async function send(url: string, request: Request): Promise<{ status: number; text: string }> {
  const { method, path } = entryOf(request.operation);
  const response = await fetch(`${url}${path}?${new URLSearchParams(request.query)}`, {
    method,
    headers: {
      'X-Api-Key': request.key,
      ...(request.idempotencyKey === undefined ? {} : { 'Idempotency-Key': request.idempotencyKey }),
    },
    ...(request.body && { body: JSON.stringify(request.body) }),
  });
  return { status: response.status, text: await response.text() };
}

/** The call that a valid request comes to, for a store without a gateway in front of it. */
export function toCall({ operation, key, query, body, idempotencyKey }: Request): Call {
  const filters = Object.entries(query).map(([name, value]) => [`p_${name}`, value]);
  return {
    function: functionOf(operation),
    args: {
      p_api_key: key,
      ...Object.fromEntries(filters),
      ...body,
      ...(idempotencyKey === undefined ? {} : { p_idempotency_key: idempotencyKey }),
    },
    returns: body ? 'row' : 'rows',
    readOnly: !body,
  };
}

/** How a request reads in a message. */
export function describeRequest({ operation, key, query, body, idempotencyKey }: Request): string {
  return `${operation} ${JSON.stringify({ key, query, body, idempotencyKey })}`;
}

function entryOf(operation: string): (typeof operations)[number] {
  const entry = operations.find(({ id }) => id === operation);
  if (!entry) throw new Error(`the document has no operation ${operation}`);
  return entry;
}
