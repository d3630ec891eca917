// Preloaded by the commands of package.json (node --import ./scripts/env.ts). Reads .env if it exists; the environment takes
// precedence. Node's --env-file-if-exists would print a line if there is none.

import { existsSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { resolve } from 'node:path';
import { loadEnvFile } from 'node:process';

// Saves a fifth of the processor time of a start. Does nothing if the folder cannot be written.
enableCompileCache(resolve(import.meta.dirname, '../node_modules/.cache/compiled'));
if (existsSync('.env')) loadEnvFile();
