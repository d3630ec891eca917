// Administers tenants, their keys and their data: npm run admin -- --help

import { Command, type Option } from 'commander';
import { preferDatabase, readConfig, type StoreConfig } from '../config.ts';
import type { Database } from '../store/migrations.ts';
import { readLanguage } from './arguments.ts';
import { add, CALL, type Run, YES } from './command.ts';
import { copyStore } from './copy.ts';
import { describeStore, openDatabase } from './database.ts';
import { listErasures } from './erasures.ts';
import { addDataCommands } from './import.ts';
import { addKeyCommands } from './keys.ts';
import { findLanguage, inLanguage, t, translate } from './language.ts';
import { addRecordCommands } from './records.ts';
import { reportError, showControls } from './terminal.ts';
import { addUsageCommands } from './usage.ts';

/** The environment of a command, and its outputs. */
export type Surroundings = {
  readonly env: Readonly<Record<string, string | undefined>>;
  print(text: string): void;
  printError(text: string): void;
  /** Prints progress and notices for people. */
  note(text: string): void;
};

const STORES = `It works on the store in the gateway's configuration, also while the gateway runs: the folder
DATA_DIR, .data by default, or DATABASE_URL with the role that migrated the database.`;

const CODES = `For scripts: npm run --silent admin -- … --json prints one JSON value on standard output, and
{"error": …, "hint": …} on standard error after a failure; in English, unless --lang pt is given.

Exit codes: 0 done; 1 refused or failed, also for bad lines in an import; 2 wrong usage.`;

function createProgram({ env, print, printError, note }: Surroundings): Command {
  const runOnStore: Run<StoreConfig> =
    (work) =>
    async (...given) => {
      // The last argument is the Command itself.
      const args = given.slice(0, -1);
      const { store, timeZone } = readConfig(preferDatabase(env));
      const options = Object.assign(args.at(-1) as { json?: boolean }, { timeZone, programs: env.POSTGRES_BIN, note });
      if (!options.json) note(`${describeStore(store, env)}\n`);
      const { json, text } = await work(store, ...(args as never[]));
      print(`${options.json ? JSON.stringify(json) : text}\n`);
    };
  const run: Run<Database> = (work) =>
    runOnStore(async (store, ...args) => {
      const { tenant } = (args as unknown[]).at(-1) as { readonly tenant?: string };
      const db = await openDatabase(store, note);
      try {
        if (tenant) await db.query('select private.require_tenant($1)', [tenant]);
        return await work(db, ...args);
      } finally {
        await db.close();
      }
    });
  const program = new Command(CALL)
    .description('Administers tenants, their API keys, their data, and backups.')
    .exitOverride()
    .option('--lang <LANGUAGE>', 'the language: pt or en; by default as LC_ALL, LC_MESSAGES or LANG says', readLanguage)
    .configureHelp({
      styleTitle: translate,
      styleDescriptionText: translate,
      // Commander's placeholders, such as [options].
      styleOptionText: translate,
      styleArgumentText: translate,
      styleSubcommandText: translate,
      optionDescription: describeOption,
    })
    // reportError prints errors, with --json as JSON.
    .configureOutput({ writeOut: print, writeErr: printError, outputError: () => {} })
    .addHelpText('after', `\n${translate(STORES)}`)
    .addHelpText('afterAll', `\n${translate(CODES)}`);
  const tenant = program.command('tenant').description('create, list and delete tenants, their usage and limits');
  const key = program.command('key').description('issue, list, rotate, revoke and limit API keys, and their usage');
  addKeyCommands(tenant, key, run);
  addUsageCommands(tenant, key, run);
  addRecordCommands(program, run);
  addDataCommands(program, run);
  addBackupCommands(program, runOnStore, run);
  return program;
}

function addBackupCommands(program: Command, run: Run<StoreConfig>, runOnDatabase: Run<Database>): void {
  // Loaded on demand, because the tar library would slow down the start of every command.
  const load = () => import('./backup.ts');
  const file = '/backup/wellness-2026-12-01.tar.gz';
  add(program, 'backup', 'back up the embedded store, also while the gateway runs', file)
    .argument('<FILE>', 'where to write it; it replaces no file')
    .action(run(async (store, file) => (await load()).backUp(store, file)));
  add(program, 'restore', 'restore a backup into the folder DATA_DIR', file)
    .argument('<FILE>', 'a backup of this version or an earlier one')
    .option('--replace', 'replace the store that is there, for good')
    .option(...YES)
    .action(run(async (store, file, options) => (await load()).restore(store, file, options)));
  const erasures = 'list who was erased, by ids alone, or erase them again after a restore';
  add(program, 'erasures', erasures, '> /backup/erasures.csv', '--repeat /backup/erasures.csv')
    .option('--repeat <FILE>', 'a list that this command printed')
    .action(runOnDatabase(listErasures));
  add(program, 'copy', 'copy an embedded store, keys included, to the configured one', '.data')
    .argument('<FOLDER>', 'the DATA_DIR of the store: its gateway has to be stopped, one of version 1 has to run')
    .action(run(copyStore));
}

/** Describes an option with its default, and says whether it is required, which Commander does not. */
function describeOption({ description, defaultValue, defaultValueDescription, mandatory }: Option): string {
  const shown = defaultValueDescription ?? JSON.stringify(defaultValue);
  const preset = shown === undefined ? '' : t` (default: ${shown})`;
  return translate(description) + preset + (mandatory ? t` (required)` : '');
}

/** Runs a command in its language and returns its exit code. Escapes the control characters of everything that it prints. */
export function administer(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { env } = surroundings;
  const print = (text: string) => surroundings.print(showControls(text));
  const printError = (text: string) => surroundings.printError(showControls(text));
  const note = (text: string) => surroundings.note(showControls(text));
  return inLanguage(findLanguage(args, env), async () => {
    try {
      await createProgram({ env, print, printError, note }).parseAsync(args, { from: 'user' });
      return 0;
    } catch (error) {
      return reportError(error, args.includes('--json'), printError);
    }
  });
}

if (import.meta.main) {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // The reader may exit early, as `head` does.
    if (error.code === 'EPIPE') return;
    process.exitCode = reportError(error, process.argv.includes('--json'), (text) => process.stderr.write(text));
  });
  const code = await administer(process.argv.slice(2), {
    env: process.env,
    print: (text) => process.stdout.write(text),
    printError: (text) => process.stderr.write(text),
    note: (text) => process.stderr.write(text),
  });
  process.exitCode ||= code;
}
