// Preloaded by the commands of package.json (node --import ./scripts/env.ts). Reads .env if it exists; the environment takes
// precedence. Node's --env-file-if-exists would print a line if there is none.

import cluster from 'node:cluster';
import { existsSync, readFileSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';

// Saves a fifth of the processor time of a start. Does nothing if the folder cannot be written.
enableCompileCache(resolve(import.meta.dirname, '../node_modules/.cache/compiled'));

/** Matches a value in quotes, which may have several lines, and the rest of its last line, which parseEnv ignores. */
const QUOTED = /^(?!#)[^\n=]*=[^\S\n]*(["'`])[\s\S]*?\1.*/gm;
const LINE = /^\s*(#|$|(export\s+)?[^\s=:]+\s*=)/;

if (existsSync('.env')) {
  const text = readFileSync('.env', 'utf8');
  const lines = text.replace(QUOTED, (value) => value.replace(/\n.*/g, '\n')).split('\n');
  // parseEnv would ignore such a line, or all of a file in UTF-16: the gateway would start with the demo data.
  const bad = lines.findIndex((line) => /^\ufeff|\0/.test(line) || !LINE.test(line));
  // A worker inherits the gateway's variables, and has to start even if the file has become invalid.
  if (bad >= 0 && !cluster.isWorker) {
    console.error(`.env, line ${bad + 1}: expected NAME=value, in UTF-8 without a byte order mark`);
    process.exit(1);
  }
  for (const [name, value] of Object.entries(parseEnv(text))) process.env[name] ??= value;
}
