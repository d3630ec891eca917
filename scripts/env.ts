// What comes before each command of package.json: node --import ./scripts/env.ts. It reads .env, if there is one; a variable of the
// environment counts more. Node's --env-file-if-exists would report each time that there is none.

import { existsSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { resolve } from 'node:path';
import { loadEnvFile } from 'node:process';

// A fifth of a start's processor time. A folder that cannot be written is no error.
enableCompileCache(resolve(import.meta.dirname, '../node_modules/.cache/compiled'));
if (existsSync('.env')) loadEnvFile();
