// Reads .env, if there is one, for the commands of package.json: node --import ./scripts/env.ts. A variable of the environment
// counts more. Node's --env-file-if-exists would report each time that there is none.

import { existsSync } from 'node:fs';
import { loadEnvFile } from 'node:process';

if (existsSync('.env')) loadEnvFile();
