import type { Operation } from '../openapi/operations.ts';
import type { Call, Json } from '../store/store.ts';
import type { ApiRequest } from './request.ts';

/**
 * The call that a validated request stands for. An input that the client left out takes the document's default;
 * without one it is left out of the call, and the function's own default applies.
 */
export function toCall(operation: Operation, request: ApiRequest): Call {
  const args: Record<string, Json> = { [operation.key.argument]: request.headers[operation.key.header] ?? '' };
  for (const input of operation.inputs) {
    const value = readInput(request, input) ?? input.default;
    if (value !== undefined) args[input.argument] = value;
  }
  // In the document's order and not the client's: Postgres prepares a statement for each order of the arguments, and
  // without a key that is right anybody could have it keep thousands.
  for (const { argument, default: fallback } of operation.fields) {
    const value = request.requestBody?.[argument];
    if (value !== undefined) args[argument] = value;
    else if (fallback !== undefined) args[argument] = fallback;
  }
  return {
    function: operation.function,
    args,
    returns: operation.returns,
    readOnly: operation.readOnly,
  };
}

function readInput(request: ApiRequest, input: Operation['inputs'][number]): Json | undefined {
  if (input.in === 'header') return request.headers[input.name.toLowerCase()];
  return (input.in === 'path' ? request.params : request.query)[input.name];
}
