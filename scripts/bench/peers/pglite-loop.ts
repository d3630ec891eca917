// PGlite alone: the functions in the process, on the folder of an embedded store that DATA_DIR names.

import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { serveLoop } from './loop.ts';

const db = await PGlite.create({ dataDir: join(process.env.DATA_DIR ?? '', 'postgres') });
await db.exec(`set timezone = 'UTC'; set role gateway`);

serveLoop(async ({ text, values }) => {
  const { rows } = await db.query<{ json: string }>(text, [...values]);
  return rows[0]?.json ?? '';
});
