// PGlite alone, on the embedded store in DATA_DIR.

import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { serveLoop } from './loop.ts';

const db = await PGlite.create({ dataDir: join(process.env.DATA_DIR ?? '', 'postgres') });
await db.exec(`set timezone = 'UTC'; set role gateway`);

serveLoop(async ({ text, values }) => {
  const { rows } = await db.query<{ json: string }>(text, [...values]);
  return rows[0]?.json ?? '';
});
