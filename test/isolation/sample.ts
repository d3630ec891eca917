// Two tenants whose rows have the same ids, names and times wherever they can, and what is asked of them: few calls,
// of which each would be answered otherwise if something of the other tenant came into it.

import type { Request } from './request.ts';
import { IDS, MISSING_ID, type World } from './world.ts';

/** Ids that both tenants have rows of, one that only A has, and one that only B has. */
const [BOTH, ALSO_BOTH, ONLY_A, ONLY_B] = IDS as [string, string, string, string];
const A = 'aa000000-0000-4000-8000-000000000000';
const B = 'bb000000-0000-4000-8000-000000000000';

/** Rows of one table: the tenant, the id, the hour of its creation, the rest. */
function rowsOf<T>(...rows: readonly (readonly [tenant: string, id: string, hour: number, rest: T])[]) {
  return rows.map(([tenant_id, id, hour, rest]) => ({
    tenant_id,
    id,
    ...rest,
    criado_em: `2024-02-01T${String(hour).padStart(2, '0')}:00:00+00:00`,
  }));
}

const key = (tenant_id: string, key: string, rest: Partial<World['api_keys'][number]> = {}) => {
  return { tenant_id, key, permissions: null, active: true, expires_at: null, ...rest };
};

const email = 'ana@example.com';

// What B has is older, so that it would come first in a page of A.
export const SAMPLE: World = {
  tenants: [
    { id: A, name: 'A' },
    { id: B, name: 'B' },
  ],
  api_keys: [
    key(A, 'a'),
    key(B, 'b'),
    key(A, 'a-lasting', { expires_at: '2100-01-01T00:00:00+00:00' }),
    key(A, 'a-expired', { expires_at: '2020-01-01T00:00:00+00:00' }),
    key(A, 'a-inactive', { active: false }),
    key(A, 'a-reads-gyms', { permissions: ['listar_academias'] }),
    key(A, 'a-reads-all-else', {
      permissions: ['criar_aluno', 'listar_alunos', 'listar_anamneses', 'listar_personais', 'listar_secoes'],
    }),
    key(A, 'a-may-nothing', { permissions: [] }),
    key(B, 'b-inactive', { active: false }),
  ],
  academias: rowsOf(
    [A, BOTH, 9, { nome: 'A1', ativo: true }],
    [A, ALSO_BOTH, 11, { nome: 'A2', ativo: false }],
    [A, ONLY_A, 13, { nome: 'A3', ativo: true }],
    [B, BOTH, 8, { nome: 'B1', ativo: false }],
    [B, ALSO_BOTH, 10, { nome: 'B2', ativo: true }],
    [B, ONLY_B, 12, { nome: 'B4', ativo: true }],
  ),
  personais: rowsOf(
    [A, BOTH, 9, { nome: 'A1', email, ativo: true, academia_id: BOTH }],
    [A, ALSO_BOTH, 11, { nome: 'A2', email, ativo: true, academia_id: ALSO_BOTH }],
    [A, ONLY_A, 13, { nome: 'A3', email, ativo: true, academia_id: ONLY_A }],
    [B, BOTH, 8, { nome: 'B1', email, ativo: true, academia_id: ALSO_BOTH }],
    [B, ALSO_BOTH, 10, { nome: 'B2', email, ativo: true, academia_id: BOTH }],
    [B, ONLY_B, 12, { nome: 'B4', email, ativo: true, academia_id: ONLY_B }],
  ),
  // The names that one search finds have other ids in the other tenant.
  alunos: rowsOf(
    [A, BOTH, 9, { nome: 'Ana 100%', email, ativo: true, academia_id: BOTH, personal_id: BOTH }],
    [A, ALSO_BOTH, 11, { nome: 'Bruno', email, ativo: false, academia_id: ALSO_BOTH, personal_id: ALSO_BOTH }],
    [A, ONLY_A, 13, { nome: 'ANA É', email, ativo: true, academia_id: ONLY_A, personal_id: ONLY_A }],
    [B, BOTH, 8, { nome: 'Bruno', email, ativo: true, academia_id: ALSO_BOTH, personal_id: ALSO_BOTH }],
    [B, ALSO_BOTH, 10, { nome: 'Ana_é', email, ativo: true, academia_id: BOTH, personal_id: BOTH }],
    [B, ONLY_B, 12, { nome: 'Ana', email, ativo: false, academia_id: ONLY_B, personal_id: ONLY_B }],
  ),
  treinos: rowsOf(
    [A, BOTH, 9, { nome: 'A1', aluno_id: BOTH, personal_id: BOTH, ativo: true, data_inicio: '2024-03-01' }],
    [A, ALSO_BOTH, 11, { nome: 'A2', aluno_id: ONLY_A, personal_id: ONLY_A, ativo: false, data_inicio: '2024-03-02' }],
    [B, BOTH, 8, { nome: 'B1', aluno_id: ALSO_BOTH, personal_id: ALSO_BOTH, ativo: false, data_inicio: '2024-03-02' }],
    [B, ALSO_BOTH, 10, { nome: 'B2', aluno_id: ONLY_B, personal_id: ONLY_B, ativo: true, data_inicio: '2024-03-01' }],
    [B, ONLY_B, 12, { nome: 'B3', aluno_id: ONLY_B, personal_id: ONLY_B, ativo: true, data_inicio: '2024-03-01' }],
  ),
  anamneses: rowsOf(
    [A, BOTH, 9, { aluno_id: BOTH, status: 'concluida', resposta: { dona: 'A1' } }],
    [A, ALSO_BOTH, 11, { aluno_id: ONLY_A, status: 'pendente', resposta: { dona: 'A2' } }],
    [A, ONLY_A, 13, { aluno_id: BOTH, status: 'pendente', resposta: {} }],
    [B, BOTH, 8, { aluno_id: ALSO_BOTH, status: 'pendente', resposta: { dona: 'B1' } }],
    [B, ALSO_BOTH, 10, { aluno_id: ONLY_B, status: 'concluida', resposta: { dona: 'B2' } }],
    [B, ONLY_B, 12, { aluno_id: BOTH, status: 'concluida', resposta: null }],
  ),
  anamnese_secoes: [
    { tenant_id: A, id: BOTH, titulo: 'A1', ordem: 2, ativo: true },
    { tenant_id: A, id: ALSO_BOTH, titulo: 'A2', ordem: 4, ativo: true },
    { tenant_id: B, id: BOTH, titulo: 'B1', ordem: 1, ativo: true },
    { tenant_id: B, id: ALSO_BOTH, titulo: 'B2', ordem: 3, ativo: true },
    { tenant_id: B, id: ONLY_B, titulo: 'B3', ordem: 5, ativo: true },
  ],
};

const someIds = [BOTH, ONLY_B, MISSING_ID];
/** Queries with each of these ids as one filter. */
const withSome = (filter: string) => someIds.map((id): Record<string, string> => ({ [filter]: id }));
const byTrainer = someIds.map((id) => ({ id_personal: id.replaceAll('-', '') }));
/** A page of the second row alone. */
const SECOND = { limit: '1', offset: '1' };

/** What A asks; of each line B asks the first two. */
const QUERIES: readonly (readonly [operation: string, ...queries: Record<string, string>[]])[] = [
  ['listarAcademias', {}, SECOND, { ativo: 'false' }, ...withSome('after')],
  ['listarPersonais', {}, SECOND, ...withSome('academia_id'), ...withSome('after')],
  ['listarAlunos', {}, SECOND, { ativo: 'false' }, ...withSome('academia_id'), ...byTrainer, ...withSome('after')],
  [
    'listarAlunos',
    { nome: 'ana' },
    { nome: 'ANA', limit: '1' },
    { nome: 'a', limit: '1', offset: '1' },
    { nome: 'É' },
    { nome: '%' },
    { nome: '_' },
    { nome: 'ana', academia_id: BOTH },
    { nome: 'ana', id_personal: ONLY_B.replaceAll('-', '') },
  ],
  [
    'listarTreinos',
    {},
    SECOND,
    { ativo: 'false' },
    { data_inicio_gte: '2024-03-02' },
    { data_inicio_gte: '2024-03-01', limit: '1' },
    { data_inicio_gte: '2024-03-01', ...SECOND },
    ...withSome('id_aluno'),
    ...withSome('id_personal'),
    ...withSome('after'),
  ],
  ['listarAnamneses', {}, SECOND, { status: 'pendente' }, ...withSome('id_aluno'), ...withSome('after')],
  ['listarSecoes', {}, SECOND, ...withSome('after')],
];

const ask = (key: string, operation: string, query: Record<string, string> = {}): Request => {
  return { operation, key, query };
};

const create = (key: string, body: Record<string, string> = {}, idempotencyKey?: string): Request => {
  return { operation: 'criarAluno', key, query: {}, body: { p_nome: 'Caio', p_email: email, ...body }, idempotencyKey };
};

const lists = new Set(QUERIES.map(([operation]) => operation));
const keys = ['a', 'b'];

/** In their order: the creations change what comes after them. */
export const CALLS: readonly Request[] = [
  ...QUERIES.flatMap(([operation, ...queries]) => [
    ...queries.map((query) => ask('a', operation, query)),
    ...queries.slice(0, 2).map((query) => ask('b', operation, query)),
  ]),
  ...['a-reads-gyms', 'a-reads-all-else'].flatMap((key) => [...lists].map((list) => ask(key, list))),
  ...['a-lasting', 'a-expired', 'a-inactive', 'a-may-nothing', 'b-inactive', 'unknown'].map((key) =>
    ask(key, 'listarTreinos'),
  ),
  ...keys.flatMap((key) => someIds.map((p_academia_id) => create(key, { p_academia_id }))),
  ...['a-inactive', 'a-expired', 'a-reads-gyms', 'a-reads-all-else', 'unknown'].map((key) => create(key)),
  // Each tenant is given its own first answer again, whatever the other one does with the same idempotency key.
  create('a', { p_academia_id: BOTH }, 'k1'),
  create('b', { p_academia_id: BOTH }, 'k1'),
  create('a', { p_academia_id: BOTH }, 'k1'),
  create('b', { p_academia_id: BOTH }, 'k1'),
  create('b', { p_nome: 'Dora' }, 'k1'),
  create('b', { p_nome: 'Dora' }, 'k2'),
  create('a', { p_nome: 'Caio' }, 'k2'),
  create('a', { p_nome: 'Caio' }, 'k2'),
  ...keys.map((key) => ask(key, 'listarAlunos')),
];
