import { expect, test } from 'vitest';
import { openDatabase } from '../helpers/database.ts';
import { runCommand } from '../helpers/run.ts';
import { functionsOf } from '../isolation/removal.ts';

test('the test of an unknown operation names the known ones', async () => {
  const { code, errors } = await runCommand('scripts/test-operation.ts', ['criaraluno']);
  expect(code).toBe(1);
  expect(errors).toMatch(/'criaraluno' is invalid .* Allowed choices are listarAlunos, criarAluno, /);
});

test('the functions of an extension are no fault', async () => {
  const db = await openDatabase();
  try {
    await db.exec(`create extension citext schema public; create procedure public.varrer() language sql as 'select 1'`);
    const names = (await functionsOf(db)).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['varrer', 'citext_eq']));
  } finally {
    await db.close();
  }
});
