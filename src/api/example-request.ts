import { RequestFailed } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { readApiRoot } from '../openapi/document.ts';
import type { ExampleRequest } from '../openapi/examples.ts';
import { type Received, receive } from './validate.ts';

/** Receives the request of an example; undefined if it is not valid. */
export async function receiveExample(
  document: CompiledDocument,
  request: ExampleRequest,
): Promise<Received | undefined> {
  const { method, target, headers, body = '' } = request;
  const lowerCase = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  try {
    return await receive(document, {
      method,
      url: readApiRoot(document.source).replace(/\/$/, '') + target,
      headers: Object.fromEntries(lowerCase),
      readBody: async () => new TextEncoder().encode(body),
    });
  } catch (error) {
    if (error instanceof RequestFailed) return undefined;
    throw error;
  }
}
