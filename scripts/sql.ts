// Runs an SQL file on the embedded store as its administrator: npm run sql -- FILE

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import pg from 'pg';
import { toPath } from '../src/admin/arguments.ts';
import { openDatabase } from '../src/admin/database.ts';
import { reportError } from '../src/admin/terminal.ts';
import { readConfig } from '../src/config.ts';
import { OperatorError } from '../src/errors.ts';
import { readScript, runScript } from '../src/store/migrations.ts';

const HELP = `
The embedded store is in the folder DATA_DIR, .data by default. Its gateway may run meanwhile. For
other stores use psql.

Example:
  echo 'select nome, email from private.alunos limit 3' | npm run sql -- -`;

const { BOOL, INT2, INT4, OID, FLOAT4, FLOAT8 } = pg.types.builtins;

/** Keeps values as Postgres writes them: a Date would be in another time zone, and console.table shortens JSON. */
const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (type: number) =>
    [BOOL, INT2, INT4, OID, FLOAT4, FLOAT8].includes(type) ? pg.types.getTypeParser(type) : String,
};

/** The parts of its process that the command uses. */
type Surroundings = { readonly env: NodeJS.ProcessEnv; readonly console: Console; readInput(): string };

/** Runs the command; returns its exit code. */
export async function runSqlFile(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { console } = surroundings;
  try {
    await new Command('npm run sql --')
      .description('Runs SQL on the embedded store in one transaction, and prints rows and row counts.')
      .argument('<FILE>', 'a file of SQL; - is standard input')
      .addHelpText('after', HELP)
      .exitOverride()
      .configureOutput({ writeOut: (text) => console.log(text.trimEnd()), outputError: () => {} })
      .action((file: string) => run(file, surroundings))
      .parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    return reportError(error, false, (text) => console.error(text.trimEnd()));
  }
}

async function run(file: string, { env, console, readInput }: Surroundings): Promise<void> {
  const { store } = readConfig(env);
  if (store.kind !== 'embedded') {
    throw new OperatorError(
      'This is for the embedded store: unset DATABASE_URL and SUPABASE_URL, or run the SQL with psql',
    );
  }
  const { sql } = file === '-' ? { sql: readInput() } : readScript(toPath(file));
  const db = await openDatabase(store, (text) => console.error(text.trimEnd()), TYPES);
  try {
    const results: pg.QueryResult[] = [];
    const query = async (text: string, values?: unknown[]) => {
      const all = [await db.query(text, values)].flat() as pg.QueryResult[];
      if (text === sql) results.push(...all);
      return all.at(-1) as pg.QueryResult;
    };
    await runScript({ query }, { file, sql });
    for (const { command, rows, rowCount } of results) {
      if (rows.length > 0) console.table(rows);
      const isChange = ['INSERT', 'UPDATE', 'DELETE', 'MERGE', 'COPY'].includes(command);
      const count = isChange ? (rowCount ?? 0) : rows.length;
      console.log(`${count} row${count === 1 ? '' : 's'}`);
    }
  } finally {
    await db.close();
  }
}

if (import.meta.main) {
  const readInput = () => readFileSync(0, 'utf8');
  process.exitCode = await runSqlFile(process.argv.slice(2), { env: process.env, console, readInput });
}
