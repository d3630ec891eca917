// The commands and options of the npm scripts, by their help.

import { compareContract } from '../../scripts/breaking-changes/main.ts';
import { testContract } from '../../scripts/conformance/main.ts';
import { migrate } from '../../scripts/migrate.ts';
import { addOperations } from '../../scripts/operation/main.ts';
import { runAdmin, runInProcess } from './run.ts';

type Printing = Parameters<Parameters<typeof runInProcess>[0]>[0];

const HELP = ['--help'];
const NO_FILES = { document: '', migrations: '', seed: '' };
const SCRIPTS: Readonly<Record<string, (printing: Printing) => Promise<number>>> = {
  contract: (printing) => testContract(HELP, printing),
  'contract:diff': async (printing) => compareContract(HELP, { folder: '', ...printing }),
  migrate: (printing) => migrate(HELP, { env: {}, folder: '', ...printing }),
  operation: (printing) => addOperations(HELP, { files: NO_FILES, ...printing }),
};

/** Every command of the npm scripts that have options, and each of its options: `command admin key issue --tenant`. */
export async function readCommands(): Promise<string[]> {
  const commands = await readAdminCommands();
  for (const [script, help] of Object.entries(SCRIPTS)) {
    commands.push(...(await readHelp(script, [], async () => (await runInProcess(help)).output)));
  }
  return commands;
}

/** The commands and options of `npm run admin`. */
export function readAdminCommands(): Promise<string[]> {
  return readHelp('admin', [], async (path) => (await runAdmin([...path, '--help'], {})).output);
}

/** Reads a command, its options and its subcommands from its help. */
async function readHelp(
  script: string,
  path: readonly string[],
  help: (path: readonly string[]) => Promise<string>,
): Promise<string[]> {
  const text = await help(path);
  const call = ['command', script, ...path].join(' ');
  const options = [...text.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, name]) => `${call} ${name}`);
  const [, commands = ''] = /\nCommands:\n(.*?)\n\n/s.exec(text) ?? [];
  const names = [...commands.matchAll(/^ {2}(\w[\w-]*)/gm)]
    .map(([, name = '']) => name)
    .filter((name) => name !== 'help');
  const inner = await Promise.all(names.map((name) => readHelp(script, [...path, name], help)));
  return [call, ...options.filter((option) => !option.endsWith('--help')), ...inner.flat()];
}
