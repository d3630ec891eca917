// Runs a file of SQL on the embedded store, as its administrator: npm run sql -- FILE

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm';
import { readConfig } from '../src/config.ts';
import { lockFolder } from '../src/store/lock.ts';
import { runScript } from '../src/store/migrations.ts';

async function main(file: string | undefined): Promise<void> {
  if (!file) throw new Error('Usage: npm run sql -- FILE\nFILE is SQL for the embedded store; - is standard input.');
  const { store } = readConfig(process.env);
  const dataDir = store.kind === 'embedded' ? store.dataDir : undefined;
  const folder = dataDir && join(dataDir, 'postgres');
  if (!folder || !existsSync(folder))
    throw new Error(`There is no store in ${dataDir ?? 'memory'}: npm start makes one`);
  const sql = readFileSync(file === '-' ? 0 : file, 'utf8');

  const unlock = lockFolder(dataDir);
  const db = await PGlite.create({ dataDir: folder, extensions: { pg_trgm } });
  try {
    const results: { rows: object[] }[] = [];
    const query = async (text: string, values?: unknown[]) => {
      const result = await db.query<object>(text, values);
      results.push(result);
      return result;
    };
    await runScript({ query }, { file, sql });
    for (const { rows } of results) if (rows.length > 0) console.table(rows);
  } finally {
    await db.close();
    unlock();
  }
}

main(process.argv[2]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
