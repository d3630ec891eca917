// Runs an SQL file on the embedded store as its administrator: npm run sql -- FILE

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import type pg from 'pg';
import { toPath } from '../src/admin/arguments.ts';
import { openStore } from '../src/admin/database.ts';
import { readConfig } from '../src/config.ts';
import { messageOf } from '../src/errors.ts';
import { runScript } from '../src/store/migrations.ts';

const HELP = `
The embedded store is in the folder DATA_DIR, .data by default. Its gateway may run meanwhile. For
other stores use psql.

Example:
  echo 'select nome, email from private.alunos limit 3' | npm run sql -- -`;

async function run(file: string): Promise<void> {
  const { store } = readConfig(process.env);
  if (store.kind !== 'embedded') {
    throw new Error('This is for the embedded store: unset DATABASE_URL and SUPABASE_URL, or run the SQL with psql');
  }
  const sql = readFileSync(file === '-' ? 0 : toPath(file), 'utf8');
  const db = await openStore(store, (text) => process.stderr.write(text));
  try {
    const results: pg.QueryResult[] = [];
    const query = async (text: string, values?: unknown[]) => {
      const all = [await db.query(text, values)].flat() as pg.QueryResult[];
      if (text === sql) results.push(...all);
      return all.at(-1) as pg.QueryResult;
    };
    await runScript({ query }, { file, sql });
    for (const result of results) print(result);
  } finally {
    await db.close();
  }
}

function print({ command, rows, rowCount }: pg.QueryResult): void {
  if (rows.length > 0) console.table(rows);
  const isChange = ['INSERT', 'UPDATE', 'DELETE', 'MERGE', 'COPY'].includes(command);
  const count = isChange ? (rowCount ?? 0) : rows.length;
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
