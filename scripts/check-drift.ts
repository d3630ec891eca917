// Holds openapi.yaml against a database: npm run check:contract. Without DATABASE_URL or SUPABASE_URL that is one in
// memory, with the migrations of the repository.

import { compile } from '../src/api/handler.ts';
import { type Config, readConfig } from '../src/config.ts';
import { messageOf } from '../src/errors.ts';
import { readDocument } from '../src/openapi/document.ts';
import { ContractError, findDrift } from '../src/openapi/drift-check.ts';
import { openEmbedded } from '../src/store/embedded/store.ts';
import { openPostgres } from '../src/store/postgres/store.ts';
import type { Store } from '../src/store/store.ts';
import { openSupabase } from '../src/store/supabase/store.ts';

const DOCUMENT = 'openapi.yaml';

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const program = await compile(readDocument(DOCUMENT));
  const store = await openStore(config);
  try {
    const drift = await findDrift({ program, document: DOCUMENT, store, deadlineMs: config.deadlineMs });
    if ('failure' in drift) throw new Error(`${store.description} cannot say: ${describe(drift.failure.cause)}`);
    if (drift.lines.length > 0) throw new ContractError(drift.lines.join('\n'));
    console.log(`${DOCUMENT} and the database agree on ${program.operations.size} operations`);
  } finally {
    await store.close();
  }
}

function openStore({ store, deadlineMs }: Config): Store | Promise<Store> {
  if (store.kind === 'postgres') return openPostgres({ ...store, connections: 1, deadlineMs });
  if (store.kind === 'supabase') return openSupabase({ ...store, connections: 1, deadlineMs });
  return openEmbedded({ migrationsDir: 'supabase/migrations', statementLimitMs: deadlineMs });
}

function describe(cause: unknown): string {
  return cause instanceof Error ? messageOf(cause) : JSON.stringify(cause);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
