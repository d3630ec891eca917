// Administers tenants, their keys and their data: npm run admin -- --help

import { inspect } from 'node:util';
import { Command, CommanderError, Help, InvalidArgumentError, Option } from 'commander';
import { type Config, readConfig } from '../config.ts';
import type { Database } from '../store/migrations.ts';
import {
  NEVER,
  readDelimiter,
  readDuration,
  readEncoding,
  readEnvironment,
  readLimit,
  readMapping,
  readName,
  readPermission,
  readQuantity,
  readSetting,
  readTenantId,
  readWhen,
} from './arguments.ts';
import { describeStore, openStore } from './database.ts';
import { deleteTenant, eraseStudent, showStudent } from './erasure.ts';
import { type BadLine, CommandError, describeBad, type Report, toReport } from './errors.ts';
import { exportData } from './export.ts';
import type { ImportOptions } from './import.ts';
import {
  createTenant,
  issueKey,
  type KeyRequest,
  listKeys,
  listTenants,
  permitKey,
  type Rotation,
  revokeKey,
  rotateKey,
} from './keys.ts';
import { type Output, showControls } from './output.ts';
import { findRecords, showRecord, updateRecord } from './records.ts';
import { type LimitRequest, limitKey, limitTenant, showKeyUsage, showTenantUsage, type UsageRequest } from './usage.ts';

/** Where a command finds the configuration, and where it prints. */
export type Surroundings = {
  readonly env: Readonly<Record<string, string | undefined>>;
  print(text: string): void;
  printError(text: string): void;
  /** Tells people something besides the output and the errors. */
  note(text: string): void;
};

/** Opens the store, works in it, and prints the output. */
type Run = (options: WithJson, work: (db: Database) => Promise<Output>) => Promise<void>;

/** Works on the configured store without opening it, and prints the output. */
type RunOnStore = (options: WithJson, work: (store: Config['store']) => Promise<Output>) => Promise<void>;

type WithJson = { readonly json?: boolean };

const FAILED = 1;
const USAGE = 2;
/** How many bad lines of a file are printed for people. */
const MAX_LINES = 1_000;
const LONG_RUN = 10;

const CALL = 'npm run admin --';

const STORES = `
It works on the store in the gateway's configuration, also while the gateway runs: the folder
DATA_DIR, .data by default, or DATABASE_URL with the role that migrated the database.`;

const CODES = `
For scripts: npm run --silent admin -- … --json prints one JSON value on standard output, and
{"error": …, "hint": …} on standard error after a failure.

Exit codes: 0 done; 1 refused or failed, also for bad lines in an import; 2 wrong usage.`;

const YES = 'do not ask for the name, for scripts';
const RESOURCES = 'academias, personais, alunos, …: a table with data of tenants';
const RECORD = 'its id; or its e-mail, or the name of a gym';
const TENANT = ['--tenant <ID>', 'the tenant, as in tenant list', readTenantId] as const;
const KEY_HELP = "the key's id or its prefix, as in key list";
const WHEN = 'a duration from now (90d, 12h), a date (its start in UTC), a time (2027-12-31T18:00Z), or never';

function createProgram({ env, print, printError, note }: Surroundings): Command {
  const runOnStore: RunOnStore = async ({ json: isJson = false }, work) => {
    const { store } = readConfig(env);
    if (!isJson) note(`${describeStore(store, env)}\n`);
    const { json, text } = await work(store);
    print(`${isJson ? JSON.stringify(json) : text}\n`);
  };
  const run: Run = (options, work) =>
    runOnStore(options, async (store) => {
      const db = await openStore(store, note);
      return work(db).finally(() => db.close());
    });
  const program = new Command(CALL)
    .description('Administers tenants, their API keys, their data, and backups.')
    .exitOverride()
    .configureHelp({ optionDescription: describeOption })
    // Printed below, with --json as JSON.
    .configureOutput({ writeOut: print, writeErr: printError, outputError: () => {} })
    .addHelpText('after', STORES)
    .addHelpText('afterAll', CODES);
  const tenant = program.command('tenant').description('create, list and delete tenants, their usage and limits');
  addTenantCommands(tenant, run);
  const key = program.command('key').description('issue, list, rotate, revoke and limit API keys, and their usage');
  addKeyCommands(key, run);
  const readTimeZone = () => readConfig(env).timeZone;
  addUsageCommands(tenant, key, run, readTimeZone);
  addStudentCommands(program.command('student').description('show and erase what the store has of one student'), run);
  addRecordCommands(program, run, readTimeZone);
  addDataCommands(program, run, readTimeZone);
  addBackupCommands(program, runOnStore);
  addCopyCommand(program, runOnStore, env, note);
  return program;
}

function describeOption(option: Option): string {
  return new Help().optionDescription(option) + (option.mandatory ? ' (required)' : '');
}

function addTenantCommands(tenant: Command, run: Run): void {
  add(tenant, 'create', 'create a tenant', "tenant create 'Academia Aurora'")
    .argument('<NAME>', 'its name', readName)
    .action((name: string, options: WithJson) => run(options, (db) => createTenant(db, name)));
  add(tenant, 'list', 'list the tenants with their ids', 'tenant list').action((options: WithJson) =>
    run(options, listTenants),
  );
  add(tenant, 'delete', 'delete a tenant, its keys and all its data', 'tenant delete ID')
    .argument('<ID>', 'the tenant, as in tenant list', readTenantId)
    .option('--yes', YES)
    .action((id: string, options: WithJson & { yes?: boolean }) => run(options, (db) => deleteTenant(db, id, options)));
}

function addStudentCommands(student: Command, run: Run): void {
  type Options = WithJson & { tenant: string; yes?: boolean };
  const addOne = (name: string, description: string, example: string) =>
    add(student, name, description, example)
      .argument('<STUDENT>', "the student's id or e-mail")
      .requiredOption(...TENANT);
  addOne('data', 'print all data about a student as JSON', 'student data ana@minha.example --tenant ID').action(
    (name: string, options: Options) => run(options, (db) => showStudent(db, options.tenant, name)),
  );
  addOne('erase', 'delete all data about a student', 'student erase ana@minha.example --tenant ID')
    .option('--yes', YES)
    .action((name: string, options: Options) => run(options, (db) => eraseStudent(db, options.tenant, name, options)));
}

function addKeyCommands(key: Command, run: Run): void {
  add(
    key,
    'issue',
    'issue a key and show it once',
    'key issue --tenant ID --name Site',
    'key issue --tenant ID --name Report --permission listar_alunos listar_treinos --expires 90d',
  )
    // As a tenant is created.
    .alias('create')
    .requiredOption(...TENANT)
    .requiredOption('--name <NAME>', 'what the key is for', readName)
    .option('--permission <FUNCTION...>', 'a function that it may call; all by default', readPermission)
    .addOption(new Option('--expires <WHEN>', WHEN).argParser(readWhen).default(NEVER, 'never'))
    .option('--environment <WORD>', 'a word at the beginning of the key', readEnvironment, 'live')
    .action((options: KeyRequest & WithJson) => run(options, (db) => issueKey(db, options)));
  add(key, 'list', 'list keys: everything except the key itself', 'key list', 'key list --tenant ID')
    .option('--tenant <ID>', 'only the keys of this tenant', readTenantId)
    .action((options: WithJson & { tenant?: string }) => run(options, (db) => listKeys(db, options.tenant)));
  add(
    key,
    'rotate',
    'issue a key that replaces another; both work for a while',
    'key rotate wms_live_4fG7kQz1',
    'key rotate wms_live_4fG7kQz1 --overlap 0s --expires 1y',
  )
    .argument('<KEY>', KEY_HELP)
    .addOption(
      new Option('--overlap <DURATION>', 'how long the old key still works: 24h, 30m, 0s')
        .argParser(readDuration)
        .default(readDuration('24h'), '24h'),
    )
    .option('--expires <WHEN>', `${WHEN}; by default like the old key`, readWhen)
    .action((name: string, options: Rotation & WithJson) => run(options, (db) => rotateKey(db, name, options)));
  add(key, 'revoke', 'end a key, now and for good', 'key revoke wms_live_4fG7kQz1')
    .argument('<KEY>', KEY_HELP)
    .option('--yes', YES)
    .action((name: string, options: WithJson & { yes?: boolean }) =>
      run(options, (db) => revokeKey(db, name, options)),
    );
  add(
    key,
    'permit',
    'set the functions that a key may call',
    'key permit wms_live_4fG7kQz1 --permission listar_alunos criar_aluno',
    'key permit wms_live_4fG7kQz1 --all',
  )
    .argument('<KEY>', `${KEY_HELP}; before the options`)
    .addOption(
      new Option('--permission <FUNCTION...>', 'a function that it may call, and no others')
        .argParser(readPermission)
        .conflicts('all'),
    )
    .option('--all', 'it may call all functions')
    .action((name: string, options: WithJson & { permission?: readonly string[]; all?: boolean }) => {
      const { permission = null, all } = options;
      if (!permission && !all) throw new InvalidArgumentError('Expected --permission FUNCTION or --all.');
      return run(options, (db) => permitKey(db, name, permission));
    });
}

function addUsageCommands(tenant: Command, key: Command, run: Run, readTimeZone: () => string): void {
  type Options = WithJson & Omit<UsageRequest, 'key' | 'timeZone'>;
  const addUsage = (parent: Command, description: string, ...examples: string[]) =>
    add(parent, 'usage', description, ...examples)
      .addOption(new Option('--days <NUMBER>', 'how many days, today included').argParser(readLimit).default(30))
      .addOption(new Option('--csv', 'print CSV, with a line for each day').conflicts('json'));
  addUsage(tenant, 'show the calls of tenants', 'tenant usage ID --days 90 --csv', 'tenant usage')
    .argument('[ID]', 'the tenant, as in tenant list; all by default', readTenantId)
    .action((id: string | undefined, options: Options) =>
      run(options, (db) => showTenantUsage(db, { ...options, tenant: id, timeZone: readTimeZone() })),
    );
  addUsage(key, 'show the calls of keys', 'key usage wms_live_4fG7kQz1 --days 7', 'key usage --tenant ID --csv')
    .argument('[KEY]', `${KEY_HELP}; all by default. It counts together with the keys that it replaced.`)
    .option('--tenant <ID>', 'only the keys of this tenant', readTenantId)
    .action((name: string | undefined, options: Options) =>
      run(options, (db) => showKeyUsage(db, { ...options, key: name, timeZone: readTimeZone() })),
    );
  const others = ['perMinute', 'burst', 'perDay', 'perMonth'];
  const addLimit = (parent: Command, description: string, ...examples: string[]) =>
    add(parent, 'limit', description, ...examples)
      .option('--per-minute <NUMBER>', 'calls per minute', readQuantity)
      .option('--burst <NUMBER>', 'how many of them may come at once; all by default', readQuantity)
      .option('--per-day <NUMBER>', 'calls per day', readQuantity)
      .option('--per-month <NUMBER>', 'calls per month', readQuantity)
      .addOption(new Option('--none', 'no limit').conflicts(others));
  addLimit(
    tenant,
    'set or show the limits of each key that has none of its own',
    'tenant limit ID --per-minute 600',
    'tenant limit ID --none',
  )
    .argument('<ID>', 'the tenant, as in tenant list', readTenantId)
    .action((id: string, options: WithJson & LimitRequest) => run(options, (db) => limitTenant(db, id, options)));
  addLimit(
    key,
    'set or show the limits of a key; those that are left out are lifted',
    'key limit wms_live_4fG7kQz1 --per-minute 600 --burst 100 --per-day 100000',
    'key limit wms_live_4fG7kQz1 --none',
  )
    .argument('<KEY>', KEY_HELP)
    .addOption(new Option('--default', 'the limits of its tenant').conflicts([...others, 'none']))
    .action((name: string, options: WithJson & LimitRequest) => run(options, (db) => limitKey(db, name, options)));
}

function addRecordCommands(program: Command, run: Run, readTimeZone: () => string): void {
  type Options = WithJson & { tenant: string };
  const update = (
    db: Database,
    resource: string,
    name: string,
    { tenant }: Options,
    set: ReadonlyMap<string, string>,
  ) => updateRecord(db, { tenant, resource, timeZone: readTimeZone() }, name, set);
  const addOne = (name: string, description: string, ...examples: string[]) =>
    add(program, name, description, ...examples)
      .argument('<RESOURCE>', RESOURCES)
      .requiredOption(...TENANT);
  addOne('find', 'list the records that have a text, such as a part of a name', 'find alunos prado --tenant ID')
    .argument('<TEXT>', 'ignoring capitals and accents; or an id', readName)
    .addOption(new Option('--limit <NUMBER>', 'list no more').argParser(readLimit).default(20))
    .action((resource: string, text: string, options: Options & { limit: number }) =>
      run(options, (db) => findRecords(db, { tenant: options.tenant, resource }, text, options.limit)),
    );
  addOne('show', 'show a record', 'show alunos ana@minha.example --tenant ID')
    .argument('<RECORD>', RECORD)
    .action((resource: string, name: string, options: Options) =>
      run(options, (db) => showRecord(db, { tenant: options.tenant, resource }, name)),
    );
  addOne(
    'update',
    'correct a record, and show what has changed',
    "update alunos ana@minha.example --tenant ID --set 'telefone=11 98888-0001' academia=Centro",
    'update alunos ana@minha.example --tenant ID --set email=ana@nova.example telefone= ativo=sim',
  )
    .argument('<RECORD>', RECORD)
    .requiredOption('--set <COLUMN=VALUE...>', 'as in a file to import; without a value it is cleared', readSetting)
    .action((resource: string, name: string, options: Options & { set: ReadonlyMap<string, string> }) =>
      run(options, (db) => update(db, resource, name, options, options.set)),
    );
  addOne(
    'deactivate',
    'set ativo to false; update sets it to true again',
    'deactivate personais bia@minha.example --tenant ID',
  )
    .argument('<RECORD>', RECORD)
    .action((resource: string, name: string, options: Options) =>
      run(options, (db) => update(db, resource, name, options, new Map([['ativo', 'false']]))),
    );
}

function addDataCommands(program: Command, run: Run, readTimeZone: () => string): void {
  const addOne = (name: string, description: string, ...examples: string[]) =>
    add(program, name, description, ...examples).requiredOption(...TENANT);
  addOne(
    'import',
    'create a record from each line of a CSV file, or none if a line is bad',
    'import alunos alunos.csv --tenant ID --dry-run',
    'import alunos alunos.csv --tenant ID --encoding windows-1252',
    "import alunos alunos.csv --tenant ID --map 'Fone 2=telefone' --ignore-unknown --update",
    'import all export --tenant ID',
  )
    .argument('<RESOURCE>', `${RESOURCES}; or all`)
    .argument('<FILE>', 'CSV whose first line names the columns; - is standard input; with all, a folder of them')
    .option('--dry-run', 'check all lines, and change nothing')
    .option('--delimiter <CHARACTER>', 'between the values; by default , ; or tab as in the first line', readDelimiter)
    .option('--encoding <NAME>', 'utf-8, windows-1252, utf-16le, …', readEncoding, 'utf-8')
    .option('--map <TITLE=COLUMN...>', 'which column of the table a column of the file is', readMapping)
    .option('--ignore-unknown', 'leave out the columns of the file that the table lacks')
    .addOption(
      new Option('--skip-existing', 'leave out lines whose record exists').conflicts(['update', 'allowDuplicates']),
    )
    .addOption(
      new Option('--update', 'correct the records that exist; an empty value leaves what is there').conflicts(
        'allowDuplicates',
      ),
    )
    .option('--allow-duplicates', 'create another record where one exists')
    .action(async (resource: string, file: string, options: WithJson & Omit<ImportOptions, 'timeZone'>) => {
      // The other commands should not wait for the CSV parser and the validator.
      const { importData } = await import('./import.ts');
      await importData(resource, file, { ...options, timeZone: readTimeZone() }, (work) => run(options, work));
    });
  addOne('export', "write a tenant's data to a folder of CSV files, which can be imported", 'export export --tenant ID')
    .argument('<FOLDER>', 'where to write them; it is created')
    .action((folder: string, options: WithJson & { tenant: string }) =>
      run(options, (db) => exportData(db, options.tenant, folder)),
    );
}

function addBackupCommands(program: Command, run: RunOnStore): void {
  add(
    program,
    'backup',
    'back up the embedded store, also while the gateway runs',
    'backup /backup/wellness-2026-12-01.tar.gz',
  )
    .argument('<FILE>', 'where to write it; it replaces no file')
    .action((file: string, options: WithJson) =>
      run(options, async (store) => (await import('./backup.ts')).backUp(store, file)),
    );
  add(program, 'restore', 'restore a backup into the folder DATA_DIR', 'restore /backup/wellness-2026-12-01.tar.gz')
    .argument('<FILE>', 'a backup of this version or an earlier one')
    .option('--replace', 'replace the store that is there, for good')
    .action((file: string, options: WithJson & { replace?: boolean }) =>
      run(options, async (store) => (await import('./backup.ts')).restore(store, file, options)),
    );
}

function addCopyCommand(
  program: Command,
  run: RunOnStore,
  { POSTGRES_BIN: programs }: Surroundings['env'],
  note: Surroundings['note'],
): void {
  add(program, 'copy', 'copy an embedded store, keys included, to the configured one', 'copy .data')
    .argument('<FOLDER>', 'the DATA_DIR of the store: its gateway has to be stopped, one of version 1 has to run')
    .action((folder: string, options: WithJson) =>
      run(options, async (store) => (await import('./copy.ts')).copyStore(store, folder, { programs, note })),
    );
}

function add(parent: Command, name: string, description: string, ...examples: string[]): Command {
  const lines = examples.map((example) => `  ${CALL} ${example}`);
  return parent
    .command(name)
    .description(description)
    .option('--json', 'print one JSON value, for scripts')
    .addHelpText('after', `\n${lines.length > 1 ? 'Examples' : 'Example'}:\n${lines.join('\n')}`);
}

/** Runs a command and returns its exit code. Nothing that it prints controls the terminal. */
export async function administer(args: readonly string[], { env, ...printers }: Surroundings): Promise<number> {
  const surroundings: Surroundings = {
    env,
    print: (text) => printers.print(showControls(text)),
    printError: (text) => printers.printError(showControls(text)),
    note: (text) => printers.note(showControls(text)),
  };
  try {
    await createProgram(surroundings).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    return fail(error, args.includes('--json'), surroundings);
  }
}

/** Prints an error and returns the exit code. */
function fail(error: unknown, isJson: boolean, { printError }: Surroundings): number {
  if (error instanceof CommanderError && error.exitCode === 0) return 0;
  const isUsage = error instanceof CommanderError;
  // The command's help was printed because its subcommand is missing.
  if (isUsage && error.code === 'commander.help') return USAGE;
  const report = isUsage ? toUsageReport(error) : toReport(error);
  if (isJson) printError(`${JSON.stringify(report ?? { error: String(error) })}\n`);
  else printError(`${report ? toText(report, error) : inspect(error)}\n`);
  return isUsage ? USAGE : FAILED;
}

function toUsageReport({ message }: CommanderError): Report {
  return { error: message.replace(/^error: /, ''), hint: 'See --help.' };
}

function toText({ error, hint, lines = [] }: Report, cause: unknown): string {
  const runs = toRuns(lines);
  const more = runs.length > MAX_LINES ? ['and more, which --json prints'] : [];
  const preface = cause instanceof CommandError && cause.preface ? [cause.preface] : [];
  return [...preface, ...runs.slice(0, MAX_LINES), ...more, error, ...(hint ? [hint] : [])].join('\n');
}

/** One text for each bad line, or for many in a row that are bad in the same way. */
function toRuns(lines: readonly BadLine[]): string[] {
  const runs: [BadLine, ...BadLine[]][] = [];
  for (const bad of lines) {
    const [run, last] = [runs.at(-1), runs.at(-1)?.at(-1)];
    const isSame = last?.message === bad.message && last.field === bad.field && last.line + 1 === bad.line;
    if (run && isSame) run.push(bad);
    else runs.push([bad]);
  }
  return runs.flatMap((run) => {
    const [first, last] = [run[0], run.at(-1)];
    if (run.length <= LONG_RUN) return run.map((bad) => `line ${bad.line}: ${describeBad(bad)}`);
    return [`lines ${first.line} to ${last?.line}: ${describeBad({ ...first, value: null })}`];
  });
}

if (import.meta.main) {
  // head and the like stop reading.
  process.stdout.on('error', () => {});
  process.exitCode = await administer(process.argv.slice(2), {
    env: process.env,
    print: (text) => process.stdout.write(text),
    printError: (text) => process.stderr.write(text),
    note: (text) => process.stderr.write(text),
  });
}
