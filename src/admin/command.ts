// Code that the commands share: how they are declared, and how their actions run.

import type { Command } from 'commander';
import { readTenantId } from './arguments.ts';
import { t, translate } from './language.ts';
import type { Output } from './terminal.ts';

/**
 * Creates a command's action, which runs `work` on the store and prints its output. Adds `timeZone`, `programs` (the folder of the
 * Postgres programs) and `note` to the command's options, which are the last argument of `work`.
 */
export type Run<S> = (work: (store: S, ...args: never[]) => Promise<Output>) => (...args: unknown[]) => Promise<void>;

export const CALL = 'npm run admin --';

const TENANT_ID = ['the tenant, as in tenant list', readTenantId] as const;
const TENANT = ['--tenant <ID>', ...TENANT_ID] as const;
export const TENANT_FILTER = ['--tenant <ID>', 'only the keys of this tenant', readTenantId] as const;
export const YES = ['--yes', 'do not ask for the name, for scripts'] as const;

/** The help and the parsers of arguments that several commands have. An argument in brackets is optional. */
const ARGUMENTS: Readonly<Record<string, readonly [help: string, parse?: (text: string) => string]>> = {
  ID: TENANT_ID,
  KEY: ["the key's id or its prefix, as in key list"],
  STUDENT: ["the student's id or e-mail"],
  RESOURCE: ['academias, personais, alunos, …: a table with data of tenants'],
  RECORD: ['its id; or its e-mail, or the name of a gym'],
};

/** Adds a command by its usage, with examples of its arguments. */
export function add(parent: Command, usage: string, description: string, ...examples: string[]): Command {
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
export function addOfTenant(...command: Parameters<typeof add>): Command {
  return add(...command).requiredOption(...TENANT);
}
