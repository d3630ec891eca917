// Runs a file of SQL on the embedded store, as its administrator: npm run sql -- FILE

import { readFileSync } from 'node:fs';
import { readConfig } from '../src/config.ts';
import { type Connection, runScript } from '../src/store/migrations.ts';
import { openFolder } from './database.ts';

async function main(file: string | undefined): Promise<void> {
  if (!file) throw new Error('Usage: npm run sql -- FILE\nFILE is SQL for the embedded store; - is standard input.');
  const { store } = readConfig(process.env);
  if (store.kind !== 'embedded') {
    throw new Error('This is for the embedded store: unset DATABASE_URL and SUPABASE_URL, or run the SQL with psql');
  }
  const sql = readFileSync(file === '-' ? 0 : file, 'utf8');
  const { db, close } = await openFolder(store.dataDir);
  try {
    const results: { rows: object[] }[] = [];
    const connection: Connection = {
      query: (text, values) => db.query(text, values),
      exec: async (text) => results.push(...(await db.exec(text))),
    };
    await runScript(connection, { file, sql });
    for (const { rows } of results) if (rows.length > 0) console.table(rows);
  } finally {
    await close();
  }
}

main(process.argv[2]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
