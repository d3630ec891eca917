import type { Operation } from './operations.ts';
import type { ApiRequest } from './request.ts';
import type { Call, Json } from './store/store.ts';

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
  return {
    function: operation.function,
    args: operation.hasBody ? { ...args, ...operation.bodyDefaults, ...request.requestBody } : args,
    returns: operation.returns,
    readOnly: operation.readOnly,
  };
}

function readInput(request: ApiRequest, input: Operation['inputs'][number]): Json | undefined {
  if (input.in === 'header') return request.headers[input.name.toLowerCase()];
  return (input.in === 'path' ? request.params : request.query)[input.name];
}
