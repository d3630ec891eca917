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

const YES = 'do not ask for the name, for scripts';
const RESOURCES = 'academias, personais, alunos, …: a table with data of tenants';
const RECORD = 'its id; or its e-mail, or the name of a gym';
const TENANT = ['--tenant <ID>', 'the tenant, as in tenant list', readTenantId] as const;
const LANG = [
  '--lang <LANGUAGE>',
  'the language: pt or en; by default as LC_ALL, LC_MESSAGES or LANG says',
  readLanguage,
] as const;
const KEY_HELP = "the key's id or its prefix, as in key list";
const readCount = readInteger(1, 999_999);
const readCalls = readInteger(1, 999_999_999_999);

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
    .option(...LANG)
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
  const student = program.command('student').description('show and erase what the store has of one student');
  addStudentCommands(student, run);
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
  add(tenant, 'delete', 'delete a tenant, its keys and all its data', 'ID')
    .argument('<ID>', 'the tenant, as in tenant list', readTenantId)
    .option('--yes', YES)
    .action(run(deleteTenant));
}

function addStudentCommands(student: Command, run: Run<Database>): void {
  const addOne = (name: string, description: string, example: string) =>
    add(student, name, description, example)
      .argument('<STUDENT>', "the student's id or e-mail")
      .requiredOption(...TENANT);
  addOne('data', 'print all data about a student as JSON', 'ana@minha.example --tenant ID').action(run(showStudent));
  addOne('erase', 'delete all data about a student', 'ana@minha.example --tenant ID')
    .option('--yes', YES)
    .action(run(eraseStudent));
}

function addKeyCommands(key: Command, run: Run<Database>): void {
  add(
    key,
    'issue',
    'issue a key and show it once',
    '--tenant ID --name Site',
    '--tenant ID --name Report --permission listar_alunos listar_treinos --expires 90d',
  )
    // The verb of `tenant create`.
    .alias('create')
    .requiredOption(...TENANT)
    .requiredOption('--name <NAME>', 'what the key is for', readName)
    .option('--permission <FUNCTION...>', 'a function that it may call; all by default', readPermission)
    .addOption(new Option('--expires <WHEN>', WHEN).argParser(readWhen).default(NEVER, 'never'))
    .option('--environment <WORD>', 'a word at the beginning of the key', readEnvironment, 'live')
    .action(run(issueKey));
  add(key, 'list', 'list keys: everything except the key itself', '', '--tenant ID')
    .option('--tenant <ID>', 'only the keys of this tenant', readTenantId)
    .action(run(listKeys));
  add(
    key,
    'rotate',
    'issue a key that replaces another; both work for a while',
    'wms_live_4fG7kQz1',
    'wms_live_4fG7kQz1 --overlap 0s --expires 1y',
  )
    .argument('<KEY>', KEY_HELP)
    .addOption(
      new Option('--overlap <DURATION>', 'how long the old key still works: 24h, 30m, 0s')
        .argParser(readDuration)
        .default(readDuration('24h'), '24h'),
    )
    .option('--expires <WHEN>', t`${translate(WHEN)}; by default like the old key`, readWhen)
    .action(run(rotateKey));
  add(key, 'revoke', 'end a key, now and for good', 'wms_live_4fG7kQz1')
    .argument('<KEY>', KEY_HELP)
    .option('--yes', YES)
    .action(run(revokeKey));
  add(
    key,
    'permit',
    'set the functions that a key may call',
    'wms_live_4fG7kQz1 --permission listar_alunos criar_aluno',
    'wms_live_4fG7kQz1 --all',
  )
    .argument('<KEY>', t`${translate(KEY_HELP)}; before the options`)
    .addOption(
      new Option('--permission <FUNCTION...>', 'a function that it may call, and no others')
        .argParser(readPermission)
        .conflicts('all'),
    )
    .option('--all', 'it may call all functions')
    .hook('preAction', (command) => {
      const { permission, all } = command.opts();
      if (!permission && !all) throw new InvalidArgumentError('Expected --permission FUNCTION or --all.');
    })
    .action(run(permitKey));
}

function addUsageCommands(tenant: Command, key: Command, run: Run<Database>): void {
  const addUsage = (parent: Command, description: string, ...examples: string[]) =>
    add(parent, 'usage', description, ...examples)
      .option('--days <NUMBER>', 'how many days, today included', readInteger(1, 9_999), 30)
      .addOption(new Option('--csv', 'print CSV, with a line for each day').conflicts('json'));
  addUsage(tenant, 'show the calls of tenants', 'ID --days 90 --csv', '')
    .argument('[ID]', 'the tenant, as in tenant list; all by default', readTenantId)
    .action(run(showTenantUsage));
  addUsage(key, 'show the calls of keys', 'wms_live_4fG7kQz1 --days 7', '--tenant ID --csv')
    .argument('[KEY]', t`${translate(KEY_HELP)}; all by default. It counts together with the keys that it replaced.`)
    .option('--tenant <ID>', 'only the keys of this tenant', readTenantId)
    .action(run(showKeyUsage));
  const limits = ['perMinute', 'burst', 'perDay', 'perMonth'];
  const addLimit = (parent: Command, description: string, ...examples: string[]) =>
    add(parent, 'limit', description, ...examples)
      .option('--per-minute <NUMBER>', 'calls per minute', readCalls)
      .option('--burst <NUMBER>', 'how many of them may come at once; all by default', readCalls)
      .option('--per-day <NUMBER>', 'calls per day', readCalls)
      .option('--per-month <NUMBER>', 'calls per month', readCalls)
      .addOption(new Option('--none', 'no limit').conflicts(limits));
  addLimit(tenant, 'set or show the limits of each key that has none of its own', 'ID --per-minute 600', 'ID --none')
    .argument('<ID>', 'the tenant, as in tenant list', readTenantId)
    .action(run(limitTenant));
  addLimit(
    key,
    'set or show the limits of a key; those that are left out are lifted',
    'wms_live_4fG7kQz1 --per-minute 600 --burst 100 --per-day 100000',
    'wms_live_4fG7kQz1 --none',
  )
    .argument('<KEY>', KEY_HELP)
    .addOption(new Option('--default', 'the limits of its tenant').conflicts([...limits, 'none']))
    .action(run(limitKey));
}

function addRecordCommands(program: Command, run: Run<Database>): void {
  const addOne = (name: string, description: string, ...examples: string[]) =>
    add(program, name, description, ...examples)
      .argument('<RESOURCE>', RESOURCES)
      .requiredOption(...TENANT);
  addOne('find', 'list the records that have a text, such as a part of a name', 'alunos prado --tenant ID')
    .argument('<TEXT>', 'ignoring capitals and accents; or an id', readName)
    .option('--limit <NUMBER>', 'list no more', readCount, 20)
    .action(run(findRecords));
  addOne('show', 'show a record', 'alunos ana@minha.example --tenant ID')
    .argument('<RECORD>', RECORD)
    .action(run(showRecord));
  addOne('history', 'show who changed a record, and when', 'alunos ana@minha.example --tenant ID')
    .argument('<RECORD>', t`${translate(RECORD)}; of one that was deleted its id`)
    .action(run(showHistory));
  addOne(
    'update',
    'correct a record, and show what has changed',
    "alunos ana@minha.example --tenant ID --set 'telefone=11 98888-0001' academia=Centro",
    'alunos ana@minha.example --tenant ID --set email=ana@nova.example telefone= ativo=sim',
  )
    .argument('<RECORD>', RECORD)
    .requiredOption('--set <COLUMN=VALUE...>', 'as in a file to import; without a value it is cleared', readSetting)
    .option('--allow-duplicates', 'take an e-mail or a name that another record has')
    .action(run(updateRecord));
  addOne('deactivate', 'set ativo to false; update sets it to true again', 'personais bia@minha.example --tenant ID')
    .argument('<RECORD>', RECORD)
    .action(run(deactivateRecord));
}

function addDataCommands(program: Command, run: Run<Database>): void {
  const addOne = (name: string, description: string, ...examples: string[]) =>
    add(program, name, description, ...examples).requiredOption(...TENANT);
  addOne(
    'import',
    'create a record from each line of a CSV file, or none if a line is bad',
    'alunos alunos.csv --tenant ID --dry-run',
    'alunos alunos.csv --tenant ID --encoding windows-1252',
    "alunos alunos.csv --tenant ID --map 'Fone 2=telefone' --ignore-unknown --update",
    'all export --tenant ID',
  )
    .argument('<RESOURCE>', t`${translate(RESOURCES)}; or all`)
    .argument('<FILE>', 'CSV whose first line names the columns; - is standard input; with all, a folder of them')
    .option('--dry-run', 'check all lines, and change nothing')
    .option('--delimiter <CHARACTER>', 'between the values; by default , ; or tab as in the first line', readDelimiter)
    .option('--encoding <NAME>', 'utf-8, windows-1252, utf-16le, …', readEncoding, 'utf-8')
    .option('--map <TITLE=COLUMN...>', 'which column of the table a column of the file is', readMapping)
    .option('--ignore-unknown', 'leave out the columns of the file that the table lacks')
    .option('--problems <FILE>', 'if a line is bad, write all lines to a new file, with what is wrong with each')
    .addOption(
      new Option('--skip-existing', 'leave out lines whose record exists').conflicts(['update', 'allowDuplicates']),
    )
    .addOption(
      new Option('--update', 'correct the records that exist; an empty value leaves what is there').conflicts(
        'allowDuplicates',
      ),
    )
    .option('--allow-duplicates', 'create another record where one exists')
    .action(run(importData));
  addOne('export', "write a tenant's data to a folder of CSV files, which can be imported", 'export --tenant ID')
    .argument('<FOLDER>', 'where to write them; it is created')
    .action(run(exportData));
}

function addBackupCommands(program: Command, run: Run<StoreConfig>, runOnDatabase: Run<Database>): void {
  // Loaded on demand: it imports the tar library, which slows down every start.
  const load = () => import('./backup.ts');
  add(
    program,
    'backup',
    'back up the embedded store, also while the gateway runs',
    '/backup/wellness-2026-12-01.tar.gz',
  )
    .argument('<FILE>', 'where to write it; it replaces no file')
    .action(run(async (store, file) => (await load()).backUp(store, file)));
  add(program, 'restore', 'restore a backup into the folder DATA_DIR', '/backup/wellness-2026-12-01.tar.gz')
    .argument('<FILE>', 'a backup of this version or an earlier one')
    .option('--replace', 'replace the store that is there, for good')
    .option('--yes', YES)
    .action(run(async (store, file, options) => (await load()).restore(store, file, options)));
  add(
    program,
    'erasures',
    'list who was erased, by ids alone, or erase them again after a restore',
    '> /backup/erasures.csv',
    '--repeat /backup/erasures.csv',
  )
    .option('--repeat <FILE>', 'a list that this command printed')
    .action(runOnDatabase(listErasures));
  add(program, 'copy', 'copy an embedded store, keys included, to the configured one', '.data')
    .argument('<FOLDER>', 'the DATA_DIR of the store: its gateway has to be stopped, one of version 1 has to run')
    .action(run(copyStore));
}

/** Adds a command, with examples of its arguments. */
function add(parent: Command, name: string, description: string, ...examples: string[]): Command {
  const command = parent.command(name).description(description).option('--json', 'print one JSON value, for scripts');
  const call = parent.parent ? `${CALL} ${parent.name()} ${name}` : `${CALL} ${name}`;
  // Without --silent a redirected file would also get npm's own lines.
  const toCall = (example: string) => (example.startsWith('>') ? call.replace('run', 'run --silent') : call);
  const lines = examples.map((example) => `  ${toCall(example)} ${example}`.trimEnd());
  return command.addHelpText('after', `\n${lines.length > 1 ? t`Examples` : t`Example`}:\n${lines.join('\n')}`);
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
