// npm run check:contract compares openapi.yaml with the configured database. Without DATABASE_URL or SUPABASE_URL it
// compares with a database in memory that has the repository's migrations.

import { type Config, readConfig } from '../src/config.ts';
import { messageOf } from '../src/errors.ts';
import { compileFile } from '../src/openapi/compile.ts';
import { DriftError, describeDrift } from '../src/openapi/drift.ts';
import { openStore } from '../src/store/open.ts';

const DOCUMENT = 'openapi.yaml';
const FILES = { migrations: 'supabase/migrations', seed: 'supabase/seed.sql' };

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const document = await compileFile(DOCUMENT);
  const { store } = await openStore({ ...config, connections: 1, store: toEmpty(config.store) }, FILES, {
    info: () => {},
    warn: console.warn,
  });
  try {
    const drift = await describeDrift({ document, file: DOCUMENT, store, deadlineMs: config.deadlineMs });
    if ('failure' in drift) throw new Error(`${store.description} does not answer: ${describe(drift.failure.cause)}`);
    if (drift.lines.length > 0) throw new DriftError(drift.lines.join('\n'));
    console.log(`${DOCUMENT} and the database agree on ${document.operations.size} operations`);
  } finally {
    await store.close();
  }
}

/** An embedded store is compared as the migrations make it. */
function toEmpty(store: Config['store']): Config['store'] {
  return store.kind === 'embedded' ? { ...store, dataDir: undefined, demoData: false } : store;
}

function describe(cause: unknown): string {
  return cause instanceof Error ? messageOf(cause) : JSON.stringify(cause);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
