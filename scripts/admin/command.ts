// What the commands have in common.

import { type Command, Option } from 'commander';
import type { Connection } from '../../src/store/migrations.ts';
import { readPermission, readTenantId } from './arguments.ts';
import type { Output } from './output.ts';

/** How the program is called. */
export const CALL = 'npm run admin --';

/** The option that every command has. */
export type WithJson = { readonly json?: boolean };

/** What a command does in the store. */
export type Work = (db: Connection) => Promise<Output>;

/** Opens the store, works in it, and prints the outcome. */
export type Run = (options: WithJson, work: Work) => Promise<void>;

/** Adds a command, with examples that follow the call. */
export function add(parent: Command, name: string, description: string, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  ${CALL} ${example}`);
  return parent
    .command(name)
    .description(description)
    .addHelpText('after', `\n${lines.length > 1 ? 'Examples' : 'Example'}:\n${lines.join('\n')}`)
    .addOption(new Option('--json', 'give one JSON value, for scripts'));
}

/** The option that names a tenant. */
export function tenantOption(description: string): Option {
  return new Option('--tenant <ID>', description).argParser(readTenantId);
}

/** The option that names functions: several at once, and more than once. */
export function permissionOption(description: string): Option {
  return new Option('--permission <FUNCTION...>', description).argParser(readPermission);
}
