// The program: its help, and the commands but those for keys.

import { Argument, Command, Option } from 'commander';
import { type Environment, readConfig } from '../../src/config.ts';
import { readDelimiter, readEncoding, readName } from './arguments.ts';
import { add, CALL, type Run, tenantOption, type WithJson, type Work } from './command.ts';
import { addKeyCommands } from './key-commands.ts';
import { openStore } from './store.ts';
import { createTenant, listTenants } from './tenants.ts';

const STORES = `
It works on the store that the gateway is configured for: the folder DATA_DIR, by
default .data, which no gateway may have open then; or DATABASE_URL, whose role must
be the one that migrated the database.`;

const CODES = `
For scripts: npm run --silent admin -- … --json gives one JSON value on standard
output, and {"error": …, "hint": …} on standard error where it fails.

Exit codes: 0 done; 1 refused or failed, bad lines in an import too; 2 wrong usage.`;

/** The commands, which print what they give. Parsing throws commander's error, or that of the command. */
export function createProgram(env: Environment): Command {
  const run = (options: WithJson, work: Work) => runInStore(env, options, work);
  const program = new Command(CALL)
    .description('Administers tenants, their API keys and their data.')
    .exitOverride()
    // main tells it, as JSON where that is wanted.
    .configureOutput({ outputError: () => {} })
    .addHelpText('after', STORES)
    .addHelpText('afterAll', CODES);
  addTenantCommands(program.command('tenant').description('create and list tenants'), run);
  addKeyCommands(program.command('key').description('issue, list, rotate, revoke and limit API keys'), run);
  addImportCommands(program.command('import').description("import a tenant's data"), run, env);
  return program;
}

async function runInStore(env: Environment, { json: isJson = false }: WithJson, work: Work): Promise<void> {
  const db = await openStore(readConfig(env).store);
  try {
    const { json, text } = await work(db);
    console.log(isJson ? JSON.stringify(json) : text);
  } finally {
    await db.close();
  }
}

function addTenantCommands(tenant: Command, run: Run): void {
  add(tenant, 'create', 'create a tenant', ["tenant create 'Academia Aurora'"])
    .addArgument(new Argument('<NAME>', 'its name').argParser(readName))
    .action((name: string, options: WithJson) => run(options, (db) => createTenant(db, name)));
  add(tenant, 'list', 'list the tenants, with their ids', ['tenant list']).action((options: WithJson) =>
    run(options, listTenants),
  );
}

function addImportCommands(parent: Command, run: Run, env: Environment): void {
  add(parent, 'alunos', 'create a student from each line of a CSV file, or none where a line is bad', [
    'import alunos alunos.csv --tenant ID',
    'import alunos alunos.csv --tenant ID --encoding windows-1252',
  ])
    .argument('<FILE>', 'CSV whose first line names the fields: nome, email, …; - is standard input')
    .addOption(tenantOption('the tenant, as tenant list shows it').makeOptionMandatory())
    .addOption(
      new Option(
        '--delimiter <CHARACTER>',
        'what is between the values; otherwise , ; or tab, as the first line has it',
      ).argParser(readDelimiter),
    )
    .addOption(
      new Option('--encoding <NAME>', 'how the file writes letters: utf-8, windows-1252, utf-16le')
        .argParser(readEncoding)
        .default('utf-8'),
    )
    .action(async (file: string, options: WithJson & { tenant: string; delimiter?: string; encoding: string }) => {
      // The other commands need neither CSV nor the document, which take their time to load.
      const { importFile } = await import('./import.ts');
      const folder = env.INIT_CWD ?? '.';
      await importFile(file, { ...options, folder }, (work) => run(options, work));
    });
}
