import type { OpenAPIV3 } from 'openapi-types';
import { expect, test } from 'vitest';
import { document, KEYS, operations, STUDENT } from '../helpers/api.ts';
import { as, rows, useConnection } from '../helpers/database.ts';

// The bounds of the document and those of SQL: a field that the document lets through, and SQL does not, would be a 502.

const { NovoAluno } = document.components?.schemas ?? {};
const { properties = {} } = NovoAluno as OpenAPIV3.SchemaObject;
const { parameters = [] } = operations.find(({ id }) => id === 'criarAluno')?.operation ?? {};
const header = parameters.find((one) => 'name' in one && one.name === 'Idempotency-Key') as OpenAPIV3.ParameterObject;

/** What SQL reads as a date and as a uuid, which are short. */
const CONVERTED = ['p_data_nascimento', 'p_academia_id'];
const BOUNDS = [
  ...Object.entries(properties).filter(([name]) => !CONVERTED.includes(name)),
  ['p_idempotency_key', header.schema] as const,
].map(([name, schema]) => [name, (schema as OpenAPIV3.SchemaObject).maxLength ?? Number.NaN] as const);

const db = useConnection();

const create = (fields: Record<string, string>) => {
  const args = { p_api_key: KEYS.aurora, ...STUDENT, ...fields };
  const list = Object.keys(args).map((name, index) => `${name} => $${index + 1}`);
  return as(db, 'gateway', () => rows(db, `select * from public.criar_aluno(${list})`, Object.values(args)));
};

test.each(BOUNDS)('%s has the bound of the document in SQL: %i characters', async (name, most) => {
  // One character, of two UTF-16 units and four bytes.
  expect(await create({ [name]: '😀'.repeat(most) })).toHaveLength(1);
  await expect(create({ [name]: '😀'.repeat(most + 1) })).rejects.toMatchObject({ code: '23514' });
});
