// Records with numeric ids, which two tenants may share.

import { expect, test } from 'vitest';
import type { Exchange } from '../../../scripts/conformance/client.ts';
import { OTHER_KEY, OWN_KEY } from '../../../scripts/conformance/request.ts';
import { runWith } from './checks.ts';

type Shelf = { readonly id: number; readonly nome: string };

const PATHS = `
/prateleiras:
  get:
    operationId: listar
    x-rpc: listar
    parameters:
      - { name: limit, in: query, schema: { type: integer, minimum: 1, default: 100 } }
      - { name: offset, in: query, schema: { type: integer, minimum: 0, default: 0 } }
    responses:
      '200': { description: OK, content: { application/json: { schema: { type: array, items: &shelf { type: object } } } } }
/prateleiras/{id}:
  parameters: [{ name: id, in: path, required: true, schema: { type: integer, minimum: 1 } }]
  get: { operationId: obter, x-rpc: obter, responses: &answers {
    '200': { description: OK, content: { application/json: { schema: *shelf } } }, '404': { description: None } } }
  delete: { operationId: excluir, x-rpc: excluir, responses: *answers }`;

/** Runs the contract on two tenants. `leak` says where the first one sees records of the other. */
async function runOn(leak?: 'list' | 'record') {
  const tenants = new Map([
    [OWN_KEY, [1, 2, 3].map((id): Shelf => ({ id, nome: `Minha ${id}` }))],
    [OTHER_KEY, [1, 2, 3, 4, 5].map((id): Shelf => ({ id, nome: `Outra ${id}` }))],
  ]);
  const exchange: Exchange = async ({ method, target, key }) => {
    const respond = (status: number, body: Shelf | Shelf[] | { error: string }) => ({
      ...{ status, headers: { 'content-type': 'application/json' } },
      ...{ text: JSON.stringify(body), body },
    });
    const own = tenants.get(key as symbol);
    if (!own) return respond(401, { error: 'API Key inválida' });
    const others = [...tenants.values()].filter((rows) => rows !== own).flat();
    const { pathname, searchParams } = new URL(target, 'http://localhost');
    const number = Number(pathname.split('/')[2]);
    if (!number) {
      const offset = Number(searchParams.get('offset') ?? 0);
      const all = leak === 'list' ? [...own, ...others] : own;
      return respond(200, all.slice(offset, offset + Number(searchParams.get('limit') ?? 100)));
    }
    const row = (leak === 'record' ? [...own, ...others] : own).find(({ id }) => id === number);
    if (row && method === 'DELETE') own.splice(own.indexOf(row), 1);
    return row ? respond(200, row) : respond(404, { error: 'Não encontrada' });
  };
  const outcomes = await runWith(PATHS, exchange, { otherKey: 'b' });
  const found = outcomes.filter(({ name }) => name.includes('of the other key'));
  return { results: found.map(({ name, result }) => `${name}: ${result}`), own: tenants.get(OWN_KEY) };
}

test('records with numeric ids are distinguished from those of the other key, and none is changed', async () => {
  const { results, own } = await runOn();
  expect(results).toEqual([
    'tells no record of the other key from an unknown one by id: passed',
    'tells no record of the other key from an unknown one by id: passed',
    'no page of /prateleiras had a record of the other key: passed',
    'leaves the records of the other key as they were: passed',
  ]);
  expect(own).toHaveLength(3);
});

test.each(['list', 'record'] as const)('a record of another tenant is found in a %s', async (leak) => {
  const name = {
    list: 'no page of /prateleiras had a record of the other key',
    record: 'tells no record of the other key from an unknown one by id',
  }[leak];
  expect((await runOn(leak)).results).toContain(`${name}: failed`);
});
