import { expect, test } from 'vitest';
import { runCommand } from '../helpers/run.ts';

test('the test of an unknown operation names the known ones', async () => {
  const { code, errors } = await runCommand('scripts/test-operation.ts', ['criaraluno']);
  expect(code).toBe(1);
  expect(errors).toMatch(/'criaraluno' is invalid .* Allowed choices are listarAlunos, criarAluno, /);
});
