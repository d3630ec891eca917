// The supabase store with supabase-js's defaults: Node's `fetch`, and parsed rows instead of text that is passed on.

import { createClient } from '@supabase/supabase-js';
import { type PgError, toFailure } from '../../../src/store/sqlstate.ts';
import type { Result, Store } from '../../../src/store/store.ts';
import { openSupabase as openOnPool, type SupabaseOptions } from '../../../src/store/supabase/store.ts';

/** Only `call` differs from the gateway's store. */
export function openSupabase(options: SupabaseOptions): Store {
  const { url, key, restPath } = options;
  const prefix = new URL('rest/v1', url.replace(/\/?$/, '/')).href;
  const root = url.replace(/\/$/, '') + restPath.replace(/\/$/, '');
  const client = createClient(url, key, {
    // A bare PostgREST has no prefix.
    global: { fetch: (input, init) => fetch(root + String(input).slice(prefix.length), init) },
    accessToken: async () => key,
  });
  return {
    ...openOnPool(options),
    call: async ({ function: name, args, returns }, signal): Promise<Result> => {
      const { data, error } = await client.rpc(name, args).retry(false).abortSignal(signal);
      if (error) return { failure: toFailure({ ...error, detail: error.details } as PgError) };
      if (returns === 'row') return { json: JSON.stringify(data[0]), count: 1 };
      return { json: JSON.stringify(data), count: data.length };
    },
  };
}
