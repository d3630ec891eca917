// Adds operations for a table of tenants: npm run operation -- list|get|create|update|delete|all TABLE
// or for a function that exists: npm run operation -- from FUNCTION

import { readFileSync, writeFileSync } from 'node:fs';
import { Argument, Command } from 'commander';
import { readPairs } from '../../src/admin/arguments.ts';
import { reportError } from '../../src/admin/terminal.ts';
import { planFromFunction } from './from.ts';
import { type Change, type Files, planOperations } from './plan.ts';
import { KINDS, type Kind } from './subject.ts';

/** The command's files and outputs. */
type Surroundings = { readonly files: Files; print(text: string): void; printError(text: string): void };

type Options = {
  readonly dryRun?: boolean;
  readonly singular?: string;
  readonly object: readonly string[];
  readonly path?: string;
  readonly with?: ReadonlyMap<string, string>;
};

const FILES: Files = {
  document: 'openapi.yaml',
  migrations: 'supabase/migrations',
  seed: 'supabase/seed.sql',
};

const HELP = `
It reads the table from a temporary Postgres server with supabase/migrations and supabase/seed.sql, adds the YAML to
openapi.yaml, and writes the functions to a new migration. Both are yours: edit them as you like.

Examples:
  npm run operation -- all armarios --dry-run
  npm run operation -- delete treinos
  npm run operation -- from contar_personais --path /personais/contagem --with minimo=2 --dry-run

Exit codes: 0 done; 1 refused or failed, and nothing was written; 2 wrong usage.`;

/** Runs the command and returns the exit code. */
export async function addOperations(
  args: readonly string[],
  { files, print, printError }: Surroundings,
): Promise<number> {
  const program = new Command('npm run operation --')
    .description('Writes operations for a table of tenants: YAML in the document, and SQL in a new migration.')
    .addArgument(
      new Argument('<OPERATION>', 'all: all five; from: for an existing function').choices([...KINDS, 'all', 'from']),
    )
    .argument('<TABLE>', 'a table in schema private, such as armarios; with from, a function in schema public')
    .option('--dry-run', 'show what it would write, and write nothing')
    .option('--singular <NAME>', "a record's name, such as armario, if the ending of TABLE does not tell")
    .option(
      '--object <COLUMN>',
      'a column of JSON whose values are objects; repeatable',
      (name, all: string[]) => [...all, name],
      [],
    )
    .option('--path <PATH>', 'with from, the path of the operation, such as /treinos/{id}/concluir')
    .option(
      '--with <NAME=VALUE>',
      'with from, a value of an input in the example, a list as JSON; repeatable',
      readPairs(/^([^=]+)=(.*)$/s, "NAME=VALUE, as in 'minimo=2'"),
    )
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({ writeOut: print, outputError: () => {} })
    .action(async (kind: Kind | 'all' | 'from', name: string, options: Options, command: Command) => {
      const others = kind === 'from' ? ['singular', 'object'] : ['path', 'with'];
      const unused = others.find((option) => command.getOptionValueSource(option) === 'cli');
      if (unused) command.error(`--${unused} is not an option of ${kind}`);
      const { dryRun: isDryRun, singular, object: objects, path, with: values = new Map() } = options;
      const kinds = kind === 'all' || kind === 'from' ? KINDS : [kind];
      const changes =
        kind === 'from'
          ? await planFromFunction(name.replace(/^public\./, ''), { path, values: Object.fromEntries(values) }, files)
          : await planOperations(name.replace(/^private\./, ''), { kinds, singular, objects }, files);
      if (isDryRun) {
        for (const change of changes) print(describe(change, files));
        print('Nothing was written.\n');
        return;
      }
      for (const { file, text } of changes) writeFileSync(file, text);
      print(
        `Wrote ${changes.map(({ file }) => file).join(' and ')}. Next: npm run generate && npm run check && npm test\n`,
      );
    });
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    return reportError(error, false, printError);
  }
}

/** Describes a change for --dry-run: the new lines of the document with their numbers, or the text of a new file. */
function describe({ file, text }: Change, { document }: Files): string {
  if (file !== document) return `--- ${file}\n${text}\n`;
  const old = readFileSync(file, 'utf8').split('\n');
  let next = 0;
  const added = text.split('\n').flatMap((line, index) => {
    if (line === old[next]) {
      next += 1;
      return [];
    }
    return [`${index + 1}: ${line}`];
  });
  return `--- ${file}\n${added.join('\n')}\n\n`;
}

if (import.meta.main) {
  // The reader may exit early, as `head` does.
  process.stdout.on('error', () => {});
  const print = (text: string) => process.stdout.write(text);
  const printError = (text: string) => process.stderr.write(text);
  process.exitCode = await addOperations(process.argv.slice(2), { files: FILES, print, printError });
}
