// Administers tenants, their keys and their data: npm run admin -- --help

import { Command, InvalidArgumentError, Option } from 'commander';
import { preferDatabase, readConfig, type StoreConfig } from '../config.ts';
import type { Database } from '../store/migrations.ts';
import {
  NEVER,
  readDelimiter,
  readDuration,
  readEncoding,
  readEnvironment,
  readInteger,
  readLanguage,
  readMapping,
  readName,
  readPermission,
  readSetting,
  readTenantId,
  readWhen,
  WHEN,
} from './arguments.ts';
import { copyStore } from './copy.ts';
import { describeStore, openStore } from './database.ts';
import { listErasures } from './erasures.ts';
import { exportData } from './export.ts';
import { importData } from './import.ts';
import {
  createTenant,
  deleteTenant,
  issueKey,
  listKeys,
  listTenants,
  permitKey,
  revokeKey,
  rotateKey,
} from './keys.ts';
import { findLanguage, inLanguage, t, translate } from './language.ts';
import {
  deactivateRecord,
  eraseStudent,
  findRecords,
  showHistory,
  showRecord,
  showStudent,
  updateRecord,
} from './records.ts';
import { type Output, reportError, showControls } from './terminal.ts';
import { limitKey, limitTenant, showKeyUsage, showTenantUsage } from './usage.ts';

/** The environment of a command, and its outputs. */
export type Surroundings = {
  readonly env: Readonly<Record<string, string | undefined>>;
  print(text: string): void;
  printError(text: string): void;
  /** Prints progress and notices for people. */
  note(text: string): void;
};

/**
 * Creates a command's action, which runs `work` on the store and prints its output. Adds `timeZone`, `programs` (the folder of the
 * Postgres programs) and `note` to the command's options, which are the last argument of `work`.
 */
type Run<S> = (work: (store: S, ...args: never[]) => Promise<Output>) => (...args: unknown[]) => Promise<void>;

const CALL = 'npm run admin --';

const STORES = `It works on the store in the gateway's configuration, also while the gateway runs: the folder
DATA_DIR, .data by default, or DATABASE_URL with the role that migrated the database.`;

const CODES = `For scripts: npm run --silent admin -- … --json prints one JSON value on standard output, and
{"error": …, "hint": …} on standard error after a failure; in English, unless --lang pt is given.

Exit codes: 0 done; 1 refused or failed, also for bad lines in an import; 2 wrong usage.`;

const TENANT_ID = ['the tenant, as in tenant list', readTenantId] as const;
const TENANT = ['--tenant <ID>', ...TENANT_ID] as const;
const TENANT_FILTER = ['--tenant <ID>', 'only the keys of this tenant', readTenantId] as const;
const LANG_HELP = 'the language: pt or en; by default as LC_ALL, LC_MESSAGES or LANG says';
const YES = ['--yes', 'do not ask for the name, for scripts'] as const;
const readCalls = readInteger(1, 999_999_999_999);

/** The arguments that several commands have, with their parsers. One in brackets may be left out. */
const ARGUMENTS: Readonly<Record<string, readonly [help: string, parse?: (text: string) => string]>> = {
  ID: TENANT_ID,
  KEY: ["the key's id or its prefix, as in key list"],
  STUDENT: ["the student's id or e-mail"],
  RESOURCE: ['academias, personais, alunos, …: a table with data of tenants'],
  RECORD: ['its id; or its e-mail, or the name of a gym'],
};

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
      const db = await openStore(store, note);
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
    .option('--lang <LANGUAGE>', LANG_HELP, readLanguage)
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
  addTenantCommands(tenant, run);
  const key = program.command('key').description('issue, list, rotate, revoke and limit API keys, and their usage');
  addKeyCommands(key, run);
  addUsageCommands(tenant, key, run);
  addRecordCommands(program, run);
  addDataCommands(program, run);
  addBackupCommands(program, runOnStore, run);
  return program;
}

function addTenantCommands(tenant: Command, run: Run<Database>): void {
  add(tenant, 'create', 'create a tenant', "'Academia Aurora'")
    .argument('<NAME>', 'its name', readName)
    .action(run(createTenant));
  add(tenant, 'list', 'list the tenants with their ids', '').action(run(listTenants));
  add(tenant, 'delete <ID>', 'delete a tenant, its keys and all its data', 'ID')
    .option(...YES)
    .action(run(deleteTenant));
}

function addKeyCommands(key: Command, run: Run<Database>): void {
  const all = '--tenant ID --name Site';
  const some = '--tenant ID --name Report --permission listar_alunos listar_treinos --expires 90d';
  addOfTenant(key, 'issue', 'issue a key and show it once', all, some)
    // The verb of `tenant create`.
    .alias('create')
    .requiredOption('--name <NAME>', 'what the key is for', readName)
    .option('--permission <FUNCTION...>', 'a function that it may call; all by default', readPermission)
    .addOption(new Option('--expires <WHEN>', WHEN).argParser(readWhen).default(NEVER, 'never'))
    .option('--environment <WORD>', 'a word at the beginning of the key', readEnvironment, 'live')
    .action(run(issueKey));
  add(key, 'list', 'list keys: everything except the key itself', '', '--tenant ID')
    .option(...TENANT_FILTER)
    .action(run(listKeys));
  const overlap = new Option('--overlap <DURATION>', 'how long the old key still works: 24h, 30m, 0s');
  add(key, 'rotate <KEY>', 'issue a key that replaces another; both work for a while', 'wms_live_4fG7kQz1 --overlap 1h')
    .addOption(overlap.argParser(readDuration).default(readDuration('24h'), '24h'))
    .option('--expires <WHEN>', t`${translate(WHEN)}; by default like the old key`, readWhen)
    .action(run(rotateKey));
  add(key, 'revoke <KEY>', 'end a key, now and for good', 'wms_live_4fG7kQz1')
    .option(...YES)
    .action(run(revokeKey));
  const permission = new Option('--permission <FUNCTION...>', 'a function that it may call, and no others');
  add(key, 'permit <KEY>', 'set the functions that a key may call', 'wms_live_4fG7kQz1 --permission listar_alunos')
    // An argument behind the functions would be one of them.
    .usage('<KEY> [options]')
    .addOption(permission.argParser(readPermission).conflicts('all'))
    .option('--all', 'it may call all functions')
    .hook('preAction', (command) => {
      const { permission, all } = command.opts();
      if (!permission && !all) throw new InvalidArgumentError('Expected --permission FUNCTION or --all.');
    })
    .action(run(permitKey));
}

function addUsageCommands(tenant: Command, key: Command, run: Run<Database>): void {
  const addUsage = (parent: Command, usage: string, description: string, ...examples: string[]) =>
    add(parent, usage, description, ...examples)
      .option('--days <NUMBER>', 'how many days, today included', readInteger(1, 9_999), 30)
      .addOption(new Option('--csv', 'print CSV, with a line for each day').conflicts('json'));
  addUsage(tenant, 'usage [ID]', 'show the calls of tenants', 'ID --days 90 --csv', '').action(run(showTenantUsage));
  const ofKeys = 'show the calls of keys; a key counts together with those that it replaced';
  addUsage(key, 'usage [KEY]', ofKeys, 'wms_live_4fG7kQz1 --days 7', '--tenant ID --csv')
    .option(...TENANT_FILTER)
    .action(run(showKeyUsage));
  const limits = ['perMinute', 'burst', 'perDay', 'perMonth'];
  const addLimit = (parent: Command, usage: string, description: string, ...examples: string[]) =>
    add(parent, usage, description, ...examples)
      .option('--per-minute <NUMBER>', 'calls per minute', readCalls)
      .option('--burst <NUMBER>', 'how many of them may come at once; all by default', readCalls)
      .option('--per-day <NUMBER>', 'calls per day', readCalls)
      .option('--per-month <NUMBER>', 'calls per month', readCalls)
      .addOption(new Option('--none', 'no limit').conflicts(limits));
  const ofOthers = 'set or show the limits of each key that has none of its own';
  addLimit(tenant, 'limit <ID>', ofOthers, 'ID --per-minute 600', 'ID --none').action(run(limitTenant));
  const ofKey = 'set or show the limits of a key; those that are left out are lifted';
  addLimit(key, 'limit <KEY>', ofKey, 'wms_live_4fG7kQz1 --per-minute 600 --burst 100 --per-day 100000')
    .addOption(new Option('--default', 'the limits of its tenant').conflicts([...limits, 'none']))
    .action(run(limitKey));
}

function addRecordCommands(program: Command, run: Run<Database>): void {
  const student = program.command('student').description('show and erase what the store has of one student');
  const ana = 'ana@minha.example --tenant ID';
  addOfTenant(student, 'data <STUDENT>', 'print all data about a student as JSON', ana).action(run(showStudent));
  addOfTenant(student, 'erase <STUDENT>', 'delete all data about a student', ana)
    .option(...YES)
    .action(run(eraseStudent));
  const find = 'list the records that have a text, such as a part of a name';
  addOfTenant(program, 'find <RESOURCE>', find, 'alunos prado --tenant ID')
    .argument('<TEXT>', 'ignoring capitals and accents; or an id', readName)
    .option('--limit <NUMBER>', 'list no more', readInteger(1, 999_999), 20)
    .action(run(findRecords));
  const addOne = (name: string, description: string, example: string) =>
    addOfTenant(program, `${name} <RESOURCE> <RECORD>`, description, example);
  const ofStudent = 'alunos ana@minha.example --tenant ID';
  addOne('show', 'show a record', ofStudent).action(run(showRecord));
  const history = 'show who changed a record, and when; name a deleted one by its id';
  addOne('history', history, ofStudent).action(run(showHistory));
  const correct = 'correct a record, and show what has changed';
  addOne('update', correct, "alunos ana@minha.example --tenant ID --set 'telefone=11 98888-0001' academia=Centro sexo=")
    .requiredOption('--set <COLUMN=VALUE...>', 'as in a file to import; without a value it is cleared', readSetting)
    .option('--allow-duplicates', 'take an e-mail or a name that another record has')
    .action(run(updateRecord));
  const deactivate = 'set ativo to false; update sets it to true again';
  addOne('deactivate', deactivate, 'personais bia@minha.example --tenant ID').action(run(deactivateRecord));
}

function addDataCommands(program: Command, run: Run<Database>): void {
  const skip = new Option('--skip-existing', 'leave out lines whose record exists');
  const update = new Option('--update', 'correct the records that exist; an empty value leaves what is there');
  addOfTenant(
    program,
    'import <RESOURCE>',
    'create a record from each line of a CSV file, or none if a line is bad',
    'alunos alunos.csv --tenant ID --dry-run',
    'alunos alunos.csv --tenant ID --encoding windows-1252',
    "alunos alunos.csv --tenant ID --map 'Fone 2=telefone' --ignore-unknown --update",
    'all export --tenant ID',
  )
    .argument('<FILE>', 'CSV whose first line names the columns; - is standard input; for RESOURCE all, a folder')
    .option('--dry-run', 'check all lines, and change nothing')
    .option('--delimiter <CHARACTER>', 'between the values; by default , ; or tab as in the first line', readDelimiter)
    .option('--encoding <NAME>', 'utf-8, windows-1252, utf-16le, …', readEncoding, 'utf-8')
    .option('--map <TITLE=COLUMN...>', 'which column of the table a column of the file is', readMapping)
    .option('--ignore-unknown', 'leave out the columns of the file that the table lacks')
    .option('--problems <FILE>', 'if a line is bad, write all lines to a new file, with what is wrong with each')
    .addOption(skip.conflicts(['update', 'allowDuplicates']))
    .addOption(update.conflicts('allowDuplicates'))
    .option('--allow-duplicates', 'create another record where one exists')
    .action(run(importData));
  const exported = "write a tenant's data to a folder of CSV files, which can be imported";
  addOfTenant(program, 'export', exported, 'export --tenant ID')
    .argument('<FOLDER>', 'where to write them; it is created')
    .action(run(exportData));
}

function addBackupCommands(program: Command, run: Run<StoreConfig>, runOnDatabase: Run<Database>): void {
  // Loaded on demand: it imports the tar library, which slows down every start.
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

/** Adds a command by its usage, with examples of its arguments. */
function add(parent: Command, usage: string, description: string, ...examples: string[]): Command {
  const command = parent.command(usage).description(description).option('--json', 'print one JSON value, for scripts');
  for (const argument of command.registeredArguments) {
    const [help = '', parse] = ARGUMENTS[argument.name()] ?? [];
    argument.description = argument.required ? help : t`${translate(help)}; all by default`;
    if (parse) argument.argParser(parse);
  }
  const call = [CALL, ...(parent.parent ? [parent.name()] : []), command.name()].join(' ');
  // Without --silent a redirected file would also get npm's own lines.
  const toCall = (example: string) => (example.startsWith('>') ? call.replace('run', 'run --silent') : call);
  const lines = examples.map((example) => `  ${toCall(example)} ${example}`.trimEnd());
  return command.addHelpText('after', `\n${lines.length > 1 ? t`Examples` : t`Example`}:\n${lines.join('\n')}`);
}

/** Adds a command for the data of one tenant. */
function addOfTenant(...command: Parameters<typeof add>): Command {
  return add(...command).requiredOption(...TENANT);
}

/** An option's help, with its default, and whether it is required, which Commander omits. */
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
