// Compares openapi.yaml with the configured database, and checks the bodies of its functions where possible: npm run check:contract.
// Without DATABASE_URL or SUPABASE_URL the database is a temporary one with the migrations of supabase/migrations.

import { type Environment, FILES, preferDatabase, readConfig } from '../src/config.ts';
import { type Fault, messageOf, OperatorError } from '../src/errors.ts';
import { compileFile } from '../src/openapi/compile.ts';
import { DriftError, describeDrift } from '../src/openapi/drift.ts';
import { openStore } from '../src/store/open.ts';
import type { Store } from '../src/store/store.ts';
import { checkBodies } from './function-bodies.ts';

const DOCUMENT = 'openapi.yaml';

/** Prints that document and database agree, or throws OperatorError with a line for each difference. */
export async function checkDrift(env: Environment, print: (line: string) => void): Promise<void> {
  const config = readConfig(preferDatabase(env));
  const document = await compileFile(DOCUMENT);
  // A temporary store with only the migrations replaces an embedded one.
  const empty = config.store.kind === 'embedded' ? { ...config.store, dataDir: undefined, demoData: false } : undefined;
  const { store } = await openStore({ ...config, connections: 1, store: empty ?? config.store }, FILES, {
    info: () => {},
    warn: console.warn,
  });
  try {
    const fault = await store.check(AbortSignal.timeout(config.deadlineMs));
    if (fault) throw toError(store, fault);
    const drift = await describeDrift({ document, store, deadlineMs: config.deadlineMs });
    if ('failure' in drift) throw toError(store, drift.failure);
    const { url } = config.store.kind === 'postgres' ? config.store : {};
    const bodies = url ? await checkBodies(url) : { obstacle: 'needs DATABASE_URL' };
    if ('obstacle' in bodies) print(`Note: the bodies of the functions are not checked: ${bodies.obstacle}`);
    const lines = [...drift.lines, ...('errors' in bodies ? bodies.errors : [])];
    if (lines.length > 0) throw new DriftError(lines.join('\n'));
    print(`${DOCUMENT} and the database agree on ${document.operations.size} operations`);
  } finally {
    await store.close();
  }
}

function toError(store: Store, { cause }: Fault): Error {
  if (cause instanceof OperatorError) return cause;
  const text = cause instanceof Error ? messageOf(cause) : JSON.stringify(cause);
  return new Error(`${store.description} does not answer: ${text}`);
}

if (import.meta.main) {
  await checkDrift(process.env, console.log).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
