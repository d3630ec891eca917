import { expect, test } from 'vitest';
import { findMistake } from '../../scripts/test-operation.ts';

const IDS = ['listarAlunos', 'criarAluno'];

test.each([
  ['criarAluno', undefined],
  ['criaraluno', 'There is no operation criaraluno: did you mean criarAluno?'],
  ['nada', 'Expected an operationId of openapi.yaml: npm run test:operation -- listarAlunos'],
  [undefined, 'Expected an operationId of openapi.yaml: npm run test:operation -- listarAlunos'],
])('the test of the operation %s: %s', (id, mistake) => {
  expect(findMistake(id, IDS)).toBe(mistake);
});
