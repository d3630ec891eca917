// Whether the demo data is in the store: the document's first example of a list is correct for it.

import type { Config } from '../config.ts';
import { OperatorError } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { readExamples } from '../openapi/examples.ts';
import { isNewStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';

/** The demo data's key, by the header that takes it, and an example request. */
export type Demo = {
  readonly key: string;
  /** Path and query, relative to the document's server. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
};

/** The demo data would be served where others reach it. */
export class DemoError extends OperatorError {
  constructor(host: string) {
    super(
      `HOST=${host} is reachable by others, and everybody knows the keys of the demo data: set DEMO_DATA=off and DATA_DIR to a new folder, or DEMO_DATA=on to serve them all the same`,
    );
  }
}

/** Refuses to make a store with demo data that must not be served. Rejects with DemoError. */
export async function refuseNewDemo({ store, demoKeys, host }: Config): Promise<void> {
  if (demoKeys || store.kind !== 'embedded' || !store.demoData) return;
  if (await isNewStore(store)) throw new DemoError(host);
}

/** Timeout of the call that looks for the demo data, in milliseconds. */
const CALL_MS = 5_000;

/** Calls the store directly: a logged request that nobody sent would be confusing. */
export async function findDemo({ source, operations }: CompiledDocument, store: Store): Promise<Demo | undefined> {
  const example = readExamples(source).find(({ request, status }) => request.method === 'GET' && status === 200);
  if (!example) return undefined;
  const { target, headers } = example.request;
  const { function: name = '', key } = operations.get(example.operationId) ?? {};
  const value = Object.entries(headers).find(([header]) => header.toLowerCase() === key?.header)?.[1];
  if (!key || value === undefined) return undefined;
  const call = { function: name, args: { [key.argument]: value }, returns: 'rows', readOnly: true } as const;
  const result = await store.call(call, AbortSignal.timeout(CALL_MS));
  return 'failure' in result ? undefined : { key: value, target, headers };
}
