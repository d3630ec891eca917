// Finds out whether the store has the demo data, for which the document's examples are correct.

import { toCall } from '../api/call.ts';
import { receiveExample } from '../api/validate.ts';
import type { Config } from '../config.ts';
import { type Fault, isFault, OperatorError } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { type ExampleRequest, findKeyScheme, readExamples } from '../openapi/examples.ts';
import { isNewStore } from '../store/open.ts';
import type { Call, Store } from '../store/store.ts';

/** A key of the demo data, and an example request with it. */
export type Demo = Pick<ExampleRequest, 'target' | 'headers'> & { readonly key: string };

/** The demo data would be served to others. */
export class DemoError extends OperatorError {
  constructor(host: string) {
    super(
      `HOST=${host} is reachable by others, and everybody knows the keys of the demo data: set DEMO_DATA=off and DATA_DIR to a new folder, or DEMO_DATA=on to serve them all the same`,
    );
  }
}

/** Refuses to create a store with demo data that must not be served. Rejects with DemoError. */
export async function refuseNewDemo({ store, demoKeys, host }: Config): Promise<void> {
  if (demoKeys || store.kind !== 'embedded' || !store.demoData) return;
  if (await isNewStore(store)) throw new DemoError(host);
}

/**
 * Calls the functions of the document's reads until one accepts its key. Does not try a refused key again. Calls the store
 * directly, because a logged request that nobody sent would be confusing. Returns the fault of a store that does not answer.
 */
export async function findDemo(
  document: CompiledDocument,
  store: Store,
  deadlineMs: number,
): Promise<Demo | { readonly failure: Fault } | undefined> {
  const refused = new Set<string>();
  for await (const { call, ...demo } of listReads(document)) {
    if (refused.has(demo.key)) continue;
    const result = await store.call(call, AbortSignal.timeout(deadlineMs));
    if (!('failure' in result)) return demo;
    const { failure } = result;
    if (failure.kind === 'storeUnavailable' || failure.kind === 'storeTimeout') return { failure };
    if (failure.kind === 'refusedKey') refused.add(demo.key);
    else if (!isFault(failure)) return demo;
  }
  return undefined;
}

/** The calls of example reads, then of each read that needs no input: a document needs no examples to serve the demo data. */
async function* listReads(document: CompiledDocument): AsyncGenerator<Demo & { readonly call: Call }> {
  const examples = readExamples(document.source).filter(
    ({ request, status }) => request.method === 'GET' && status === 200,
  );
  const reads = [...document.operations.values()].flatMap(({ source, path, key: { name } }) => {
    const key = findKeyScheme(document.source, source.security)?.['x-example'];
    if (source.method !== 'get' || key === undefined || path.includes('{')) return [];
    return [{ method: 'GET', target: path, headers: { [name]: key } }];
  });
  for (const request of [...examples.map(({ request }) => request), ...reads]) {
    const received = await receiveExample(document, request);
    if (received) yield { ...request, key: received.key, call: toCall(received.operation, received.request) };
  }
}
