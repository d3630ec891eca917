// The bare server with the gateway's store. The gateway's own cost is the difference to this.

import { openPostgres } from '../../../src/store/postgres/store.ts';
import { KeyRefused, serve } from './bare.ts';

const { DATABASE_URL: url = '', STORE_CONNECTIONS } = process.env;
const store = openPostgres({ url, connections: Number(STORE_CONNECTIONS), deadlineMs: 5_000 });

serve(async (call) => {
  const result = await store.call(call, new AbortController().signal);
  if ('json' in result) return result.json;
  const { failure } = result;
  throw failure.kind === 'refusedKey' ? new KeyRefused(failure.text) : new Error(failure.kind);
});
