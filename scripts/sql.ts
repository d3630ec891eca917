// Runs a file of SQL on the embedded store, as its administrator: npm run sql -- FILE

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { readConfig } from '../src/config.ts';
import { messageOf } from '../src/errors.ts';
import { runScript } from '../src/store/migrations.ts';
import { openFolder, type StatementResult } from './database.ts';
import { toPath } from './path.ts';

const HELP = `
The embedded store is in the folder DATA_DIR, .data by default. A gateway that runs on it waits until
the SQL is done. For other stores use psql.

Example:
  echo 'select nome, email from private.alunos limit 3' | npm run sql -- -`;

async function run(file: string): Promise<void> {
  const { store } = readConfig(process.env);
  if (store.kind !== 'embedded') {
    throw new Error('This is for the embedded store: unset DATABASE_URL and SUPABASE_URL, or run the SQL with psql');
  }
  const sql = readFileSync(file === '-' ? 0 : toPath(file), 'utf8');
  const folder = await openFolder(store, 'wellness-sql');
  try {
    const results: StatementResult[] = [];
    const exec = async (text: string) => results.push(...(await folder.exec(text)));
    await runScript({ query: folder.query, exec }, { file, sql });
    for (const result of results) print(result);
  } finally {
    await folder.close();
  }
}

function print({ rows, count }: StatementResult): void {
  if (rows.length > 0) console.table(rows);
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
