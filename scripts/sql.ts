// Runs a file of SQL on the embedded store, as its administrator: npm run sql -- FILE

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { readConfig } from '../src/config.ts';
import { messageOf } from '../src/errors.ts';
import { type Connection, runScript } from '../src/store/migrations.ts';
import { openFolder } from './database.ts';

const HELP = `
The embedded store is in the folder DATA_DIR, .data by default; no gateway may have it open. For
other stores use psql.

Example:
  echo 'select nome, email from private.alunos limit 3' | npm run sql -- -`;

/** The result of one statement. */
type Result = { readonly rows: object[]; readonly affectedRows?: number };

async function run(file: string): Promise<void> {
  const { store } = readConfig(process.env);
  if (store.kind !== 'embedded') {
    throw new Error('This is for the embedded store: unset DATABASE_URL and SUPABASE_URL, or run the SQL with psql');
  }
  // npm runs in the package's folder and names the caller's in INIT_CWD.
  const sql = readFileSync(file === '-' ? 0 : resolve(process.env.INIT_CWD ?? '.', file), 'utf8');
  const { db, close } = await openFolder(store);
  try {
    const results: Result[] = [];
    const connection: Connection = {
      query: (text, values) => db.query(text, values),
      exec: async (text) => results.push(...(await db.exec(text))),
    };
    await runScript(connection, { file, sql });
    // PGlite adds up the affected rows of a script.
    for (const [index, result] of results.entries()) print(result, results[index - 1]?.affectedRows ?? 0);
  } finally {
    await close();
  }
}

function print({ rows, affectedRows = 0 }: Result, affectedBefore: number): void {
  if (rows.length > 0) console.table(rows);
  const count = affectedRows - affectedBefore || rows.length;
  console.log(`${count} row${count === 1 ? '' : 's'}`);
}

new Command('npm run sql --')
  .description('Runs SQL on the embedded store in one transaction, and prints rows and row counts.')
  .argument('<FILE>', 'a file of SQL; - is standard input')
  .addHelpText('after', HELP)
  .action(run)
  .parseAsync()
  .catch((error) => {
    console.error(messageOf(error));
    process.exitCode = 1;
  });
