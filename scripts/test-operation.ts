// Tests one operation: its isolation, contract and drift: npm run test:operation -- criarAluno

import { spawnSync } from 'node:child_process';
import { Argument, Command } from 'commander';
import { FILES } from '../src/config.ts';
import { compileFile } from '../src/openapi/compile.ts';
import { checkDrift } from './check-drift.ts';

const TESTS = ['test/openapi/document.test.ts', 'test/isolation/any-operation.test.ts'];

const { operations } = await compileFile(FILES.document).catch(({ message }: Error) => {
  console.error(message);
  process.exit(1);
});
const { args } = new Command('npm run test:operation --')
  .description('Tests one operation: its isolation, its contract with its examples, and drift.')
  .addArgument(new Argument('<OPERATION>', 'its operationId').choices([...operations.keys()]))
  .parse();
const command = ['run', '--project', 'postgres', ...TESTS, '-t', `((^| )${args[0]} |^the examples of other states)`];
process.exitCode = spawnSync('vitest', command, { stdio: 'inherit' }).status ?? 1;
// A note would name a variable that has no effect here.
const print = (line: string) => line.startsWith('Note:') || console.log(line);
await checkDrift({}, print).catch(({ message }: Error) => {
  console.error(message);
  process.exitCode = 1;
});
