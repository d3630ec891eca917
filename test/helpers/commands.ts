// The commands and options of the npm scripts, by their help.

import { runAdmin, runCommand } from './run.ts';

const SCRIPTS = {
  contract: 'scripts/conformance/main.ts',
  'contract:diff': 'scripts/breaking-changes/main.ts',
  migrate: 'scripts/migrate.ts',
  operation: 'scripts/operation/main.ts',
};

/** Every command of the npm scripts that have options, and each of its options: `command admin key issue --tenant`. */
export async function readCommands(): Promise<string[]> {
  const commands = await readAdminCommands();
  for (const [script, file] of Object.entries(SCRIPTS)) {
    commands.push(...(await readHelp(script, [], async () => (await runCommand(file, ['--help'])).output)));
  }
  return commands;
}

/** Those of `npm run admin`. */
export function readAdminCommands(): Promise<string[]> {
  return readHelp('admin', [], async (path) => (await runAdmin([...path, '--help'], {})).output);
}

/** The options of a command, and its commands with theirs. */
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
  const inner =
    script === 'admin' ? await Promise.all(names.map((name) => readHelp(script, [...path, name], help))) : [];
  return [call, ...options.filter((option) => !option.endsWith('--help')), ...inner.flat()];
}
