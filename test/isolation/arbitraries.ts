import fc, { type Arbitrary } from 'fast-check';
import { operations } from '../helpers/api.ts';
import { functionOf, type Request } from './request.ts';
import { IDS, MISSING_ID, type World } from './world.ts';

// Few values, so that rows of different tenants agree in them, and that filters find something.
const criado_em = fc.constantFrom(
  '2024-02-01T09:00:00+00:00',
  '2024-02-01T10:00:00+00:00',
  '2024-02-02T09:00:00+00:00',
);
const day = fc.constantFrom('2024-03-01', '2024-03-02', '2024-04-01');
const status = fc.constantFrom('concluida', 'pendente', '');
const letter = fc.constantFrom(...'aAáÁçÇéÉ%_\\ ');
const nome = fc.string({ unit: letter, minLength: 1, maxLength: 6 }).filter((text) => text.trim() !== '');
const email = fc.constantFrom('ana@example.com', 'bruno@example.com');
const ativo = fc.boolean();
/** Which of the rows that there are. */
const pick = fc.nat({ max: 11 });

const functions = operations.map(({ id }) => functionOf(id));
const key = fc.record({
  permissions: mostly(fc.constant(null), fc.subarray(functions)),
  active: mostly(fc.constant(true), fc.constant(false)),
  expires_at: mostly(fc.constant(null), fc.constantFrom('2100-01-01T00:00:00+00:00', '2020-01-01T00:00:00+00:00')),
});

const tenant = fc.record({
  keys: fc.array(key, { minLength: 1, maxLength: 3 }),
  academias: rowsWith({ nome, ativo, criado_em }, 1, 3),
  personais: rowsWith({ nome, email, ativo, academia_id: pick, criado_em }, 1, 3),
  alunos: rowsWith({ nome, email, ativo, academia_id: fc.option(pick), personal_id: fc.option(pick), criado_em }, 1, 6),
  treinos: rowsWith({ nome, aluno_id: pick, personal_id: pick, ativo, data_inicio: day, criado_em }, 0, 5),
  anamneses: rowsWith(
    {
      aluno_id: pick,
      status,
      resposta: fc.option(fc.dictionary(letter, fc.nat(), { maxKeys: 2, noNullPrototype: true })),
      criado_em,
    },
    0,
    4,
  ),
  anamnese_secoes: rowsWith({ titulo: nome, ordem: fc.nat({ max: 3 }), ativo }, 0, 4),
});

/** Two to four tenants, whose rows share their ids. */
const world: Arbitrary<World> = fc.array(tenant, { minLength: 2, maxLength: 4 }).map((tenants) => {
  const parts = tenants.map((raw, index) => toRows('abcd'.charAt(index), raw));
  const tables = Object.keys(parts[0] ?? {}) as (keyof World)[];
  return Object.fromEntries(
    tables.map((table) => [table, parts.flatMap((part) => [...part[table]])]),
  ) as unknown as World;
});

const anyId = fc.constantFrom(...IDS, MISSING_ID);
const upperCaseId = anyId.map((id) => id.toUpperCase());
const spelledId = mostly(anyId, upperCaseId);
const personalId = fc.oneof(
  { weight: 4, arbitrary: anyId.map((id) => id.replaceAll('-', '')) },
  { weight: 1, arbitrary: anyId },
  { weight: 1, arbitrary: fc.constantFrom('ninguem', '_', '0') },
);
const page = {
  limit: fc.constantFrom('1', '2', '3', '1000'),
  offset: fc.constantFrom('0', '1', '2', '5'),
  after: spelledId,
};
const word = { ativo: fc.constantFrom('true', 'false') };
const search = mostly(letter, nome);

/** What every list takes, by operationId. */
const QUERIES: Record<string, Record<string, Arbitrary<string>>> = {
  listarAlunos: { ...page, ...word, academia_id: spelledId, id_personal: personalId, nome: search },
  listarTreinos: { ...page, ...word, id_aluno: spelledId, id_personal: personalId, data_inicio_gte: day },
  listarAcademias: { ...page, ...word },
  listarPersonais: { ...page, academia_id: spelledId },
  listarAnamneses: { ...page, id_aluno: personalId, status },
  listarSecoes: page,
};

/** The lists that the model knows. */
export const LISTS = Object.keys(QUERIES);

const body = fc.record({
  p_nome: nome,
  p_email: email,
  p_data_nascimento: mostly(fc.constant(undefined), fc.constantFrom('1990-05-17', '31/12/1999')),
  p_academia_id: fc.option(spelledId, { nil: undefined, freq: 2 }),
});
const list = fc
  .constantFrom(...Object.entries(QUERIES))
  .chain(([operation, inputs]) => fc.record({ operation: fc.constant(operation), query: someOf(inputs) }));
const creation = fc.record({
  operation: fc.constant('criarAluno'),
  query: fc.constant({}),
  // One body often, so that a request is sent again.
  body: fc.oneof(body.map(withoutUndefined), fc.constant({ p_nome: 'Ana', p_email: 'ana@example.com' })),
  idempotencyKey: fc.option(fc.constantFrom('k1', 'k2'), { nil: undefined, freq: 3 }),
});

/** A request to any operation, which lacks its key. */
const keyless: Arbitrary<Omit<Request, 'key'>> = mostly(list, creation);

/** A world, and what is asked of it with the keys that it has and with one that it has not. */
export const scenario: Arbitrary<{ readonly world: World; readonly requests: readonly Request[] }> = fc
  .tuple(world, fc.array(fc.tuple(keyless, pick), { minLength: 1, maxLength: 50, size: 'max' }))
  .map(([world, requests]) => {
    const keys = [...world.api_keys.map(({ key }) => key), 'desconhecida'];
    return { world, requests: requests.map(([request, n]) => ({ ...request, key: choose(keys, n) })) };
  });

/** Rows that have an id each, from those that all tables and tenants share. */
function rowsWith<T>(columns: { [name in keyof T]: Arbitrary<T[name]> }, minLength: number, maxLength: number) {
  return fc
    .uniqueArray(fc.tuple(fc.constantFrom(...IDS), fc.record(columns)), {
      selector: ([id]) => id,
      minLength,
      maxLength,
    })
    .map((rows) => rows.map(([id, values]) => ({ id, ...(values as T) })));
}

type TenantOf<A> = A extends Arbitrary<infer T> ? T : never;

/** The tables that the columns refer to. */
const REFERENCES = { academia_id: 'academias', personal_id: 'personais', aluno_id: 'alunos' } as const;

/** The rows of a tenant, with ids of its own rows where one was picked. */
function toRows(letter: string, { keys, ...tables }: TenantOf<typeof tenant>): World {
  const tenant_id = `${letter}0000000-0000-4000-8000-000000000000`;
  const toValue = ([name, value]: [string, unknown]) => {
    const table = REFERENCES[name as keyof typeof REFERENCES];
    return [name, table && typeof value === 'number' ? choose<{ id: string }>(tables[table], value).id : value];
  };
  const toRow = (row: object) => ({ tenant_id, ...Object.fromEntries(Object.entries(row).map(toValue)) });
  return {
    tenants: [{ id: tenant_id, name: `Academia ${letter}` }],
    api_keys: keys.map((rest, n) => ({ tenant_id, key: `chave-${letter}${n}`, ...rest })),
    ...Object.fromEntries(Object.entries(tables).map(([table, rows]) => [table, rows.map(toRow)])),
  } as unknown as World;
}

/** One kind of value most of the time, and at times another. */
function mostly<T, U>(usual: Arbitrary<T | U>, others: Arbitrary<U>): Arbitrary<T | U> {
  return fc.oneof({ weight: 5, arbitrary: usual }, { weight: 1, arbitrary: others });
}

/** A few of the filters that there are: with all of them at once nothing would be found. */
function someOf(inputs: Record<string, Arbitrary<string>>): Arbitrary<Record<string, string>> {
  const entries = Object.entries(inputs).map(([name, value]) => [name, mostly(fc.constant(undefined), value)] as const);
  return fc.record(Object.fromEntries(entries)).map(withoutUndefined);
}

function withoutUndefined(fields: Record<string, string | undefined>): Record<string, string> {
  const given = Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given);
}

function choose<T>(items: readonly T[], n: number): T {
  const item = items[n % items.length];
  if (item === undefined) throw new Error('there is nothing to choose from');
  return item;
}
