// What is started. It is JavaScript: Node strips the types of the file that it starts with each time, and loads a compiler
// for that, which takes a sixth of a start. What is imported from here on is kept as Node has compiled it.

import { constants, enableCompileCache } from 'node:module';
import { join } from 'node:path';

// In a folder of ours, and not in one that others write to. One that cannot be written to, as in a container, is no
// mistake. Threads and workers find it by the variable.
const folder = join(import.meta.dirname, '../node_modules/.cache/compiled');
const { status } = enableCompileCache(folder);
if (status === constants.compileCacheStatus.ENABLED) process.env.NODE_COMPILE_CACHE = folder;

await import('./main.ts');
