// With --import …/default-fetch.ts the gateway's supabase store is that of supabase-on-fetch.ts.

import { registerHooks } from 'node:module';

const STORE = new URL('../../../src/store/supabase/store.ts', import.meta.url).href;
const OTHER = new URL('./supabase-on-fetch.ts', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) => {
    const resolved = next(specifier, context);
    return resolved.url === STORE && context.parentURL !== OTHER ? { ...resolved, url: OTHER } : resolved;
  },
});
