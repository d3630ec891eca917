// node --import …/default-fetch.ts src/start.js starts the gateway with another store for Supabase: that of
// supabase-on-fetch.ts. All else of it is the gateway as it is.

import { registerHooks } from 'node:module';

const STORE = new URL('../../../src/store/supabase/store.ts', import.meta.url).href;
const OTHER = new URL('./supabase-on-fetch.ts', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) => {
    const resolved = next(specifier, context);
    return resolved.url === STORE && context.parentURL !== OTHER ? { ...resolved, url: OTHER } : resolved;
  },
});
