// The lists of a large tenant, and those of another one beside it.

import type { HttpRequest } from '../../../scripts/bench/cases.ts';
import { toKey } from '../../../scripts/bench/data.ts';
import { type Stage, toId, toRareName } from './data.ts';

/** One kind of request. */
export type Case = {
  readonly id: string;
  readonly group: string;
  readonly title: string;
  /** Why its time may grow with the tenant; without a reason it should not. */
  readonly reason?: string;
  toRequest(stage: Stage): HttpRequest;
};

type Query = Readonly<Record<string, string>>;
type ToQuery = Query | ((stage: Stage) => Query);

/** A tenant that should not become slower because its neighbour grows. */
const ANOTHER = 1;

/** Numbers of gyms and trainers in data.sql. */
const GYM = { ofHalf: 0, closed: 8, of20: 9 };
const TRAINER = { ofTenth: 0, elsewhere: 2, of10: 39 };

const SKIPS = 'counts what it skips';
const SORTS = 'sorts what it finds';
/** Five of the matches are among the first 1,000, so the search reads more rows there before it uses an index. */
const TRIES = 'looks at 8,000 first';

export const CASES: readonly Case[] = [
  ...inGroup('Pages of students', '/alunos', [
    ['first-10', 'first page, limit=10', { limit: '10' }],
    ['first', 'first page', {}],
    ['second', 'second page', { offset: '100' }],
    ['second-after', 'second page, after', ({ tenant }) => ({ after: toId('aluno', tenant, 99) })],
    ['middle-after', 'page in the middle, after', after('aluno', 0.5)],
    ['last-after', 'last page, after', after('aluno', 1)],
    ['last-active-after', 'last page, ativo=true, after', after('aluno', 1, { ativo: 'true' })],
    ['last-of-gym-after', 'last page, academia_id of half, after', after('aluno', 1, gym('ofHalf'))],
    ['middle', 'page in the middle', at(0.5), SKIPS],
    ['last', 'last page', at(1), SKIPS],
    ['last-active', 'last page, ativo=true', at(0.85, { ativo: 'true' }), SKIPS],
    ['last-of-gym', 'last page, academia_id of half', at(0.4, gym('ofHalf')), SKIPS],
  ]),
  ...inGroup('Filters of students', '/alunos', [
    ['active', 'ativo=true', { ativo: 'true' }],
    ['inactive', 'ativo=false', { ativo: 'false' }],
    ['gym', 'academia_id of half', gym('ofHalf')],
    ['gym-of-20', 'academia_id of 20', gym('of20')],
    ['trainer', 'id_personal of a tenth', trainer('ofTenth')],
    ['trainer-of-10', 'id_personal of 10', trainer('of10')],
    ['gym-inactive', 'academia_id of half, ativo=false', and(gym('ofHalf'), { ativo: 'false' })],
    ['closed-active', 'academia_id of a closed one, ativo=true', and(gym('closed'), { ativo: 'true' })],
    ['trainer-inactive', 'id_personal of a tenth, ativo=false', and(trainer('ofTenth'), { ativo: 'false' })],
    ['gym-trainer', 'academia_id of half, id_personal of a tenth', and(gym('ofHalf'), trainer('ofTenth'))],
    ['apart', 'academia_id, id_personal of another gym', and(gym('closed'), trainer('elsewhere'))],
    ['three', 'academia_id, id_personal, ativo=false', and(gym('ofHalf'), trainer('ofTenth'), { ativo: 'false' })],
  ]),
  ...inGroup('Searches of students', '/alunos', [
    ['name-common', 'nome=silva, of a fifth', { nome: 'silva' }],
    ['name-rare', 'nome=(a last name), of 5', (stage) => ({ nome: toRareName(stage) })],
    ['name-none', 'nome=xyzzy, of nobody', { nome: 'xyzzy' }],
    ['pair-common', 'nome=ar, of a third', { nome: 'ar' }],
    ['pair-rare', 'nome=zw, of a few', { nome: 'zw' }, TRIES],
    ['pair-none', 'nome=yq, of nobody', { nome: 'yq' }],
    ['letter-common', 'nome=a, of nearly all', { nome: 'a' }],
    ['letter-rare', 'nome=w, of a few', { nome: 'w' }, TRIES],
    ['letter-none', 'nome=&, of nobody', { nome: '&' }],
    ['accents', 'nome=ñý, of nobody', { nome: 'ñý' }],
    ['name-uncommon', 'nome=correia, of 1 in 140', { nome: 'correia' }, 'looks at 140 for each'],
    ['name-full', 'nome=antônio alves, of 1 in 4,000', { nome: 'antônio alves' }, SORTS],
    ['common-inactive', 'nome=silva, ativo=false', { nome: 'silva', ativo: 'false' }],
    ['common-gym-of-20', 'nome=silva, academia_id of 20', and(gym('of20'), { nome: 'silva' })],
    ['common-trainer', 'nome=silva, id_personal of a tenth', and(trainer('ofTenth'), { nome: 'silva' })],
    [
      'common-closed',
      'nome=silva, closed academia_id, ativo=true',
      and(gym('closed'), { nome: 'silva', ativo: 'true' }),
    ],
    ['rare-gym', 'nome=(a last name), academia_id', (stage) => ({ ...gym('ofHalf')(stage), nome: toRareName(stage) })],
    ['none-active', 'nome=yq, ativo=true', { nome: 'yq', ativo: 'true' }],
    ['name-common-after', 'nome=silva, last page, after', after('aluno', 1, { nome: 'silva' })],
    [
      'name-rare-after',
      'nome=(a last name), after',
      (stage) => after('aluno', 0.5, { nome: toRareName(stage) })(stage),
    ],
  ]),
  ...inGroup('Workouts', '/treinos', [
    ['workouts', 'first page', {}],
    ['workouts-last', 'last page', at(1), SKIPS],
    ['workouts-last-after', 'last page, after', after('treino', 1)],
    [
      'workouts-half-after',
      'data_inicio_gte, of half, last page, after',
      (stage) => after('treino', 1, halfOfDays)(stage),
    ],
    ['workouts-inactive', 'ativo=false', { ativo: 'false' }],
    ['workouts-student', 'id_aluno', ({ tenant }) => ({ id_aluno: toId('aluno', tenant, 500) })],
    ['workouts-trainer', 'id_personal of a twentieth', trainer('ofTenth')],
    ['workouts-trainer-of-10', 'id_personal of 10', trainer('of10')],
    ['workouts-trainer-inactive', 'id_personal, ativo=false', and(trainer('ofTenth'), { ativo: 'false' })],
    ['workouts-all-days', 'data_inicio_gte before all', { data_inicio_gte: '2024-01-01' }],
    ['workouts-last-day', 'data_inicio_gte, of the last 200', lastDay],
    ['workouts-no-day', 'data_inicio_gte after all', { data_inicio_gte: '2100-01-01' }],
    ['workouts-half', 'data_inicio_gte, of half', halfOfDays, SORTS],
  ]),
  ...inGroup('Anamneses', '/anamnese/alunos', [
    ['forms', 'first page', {}],
    ['forms-last', 'last page', at(0.2), SKIPS],
    ['forms-last-after', 'last page, after', after('anamnese', 1)],
    ['forms-status', 'status of a third', { status: 'pendente' }],
    ['forms-status-of-10', 'status of 10', { status: 'revisão' }],
    ['forms-student', 'id_aluno', ({ tenant }) => ({ id_aluno: toId('aluno', tenant, 500).replaceAll('-', '') })],
  ]),
  ...inGroup('Another tenant, of 500 students', '/alunos', [
    ['another-first', 'first page', {}],
    ['another-last', 'last page', { offset: '400' }],
    ['another-common', 'nome=ri', { nome: 'ri' }],
    ['another-rare', 'nome=antônio alves', { nome: 'antônio alves' }],
    ['another-none', 'nome=yq, of nobody', { nome: 'yq' }],
  ]).map((case_) => ({ ...case_, toRequest: (stage: Stage) => case_.toRequest({ ...stage, tenant: ANOTHER }) })),
  { id: 'create', group: 'Creation', title: 'create a student', toRequest: toCreation },
];

/** Lists of one path. */
function inGroup(
  group: string,
  path: string,
  cases: readonly (readonly [id: string, title: string, query: ToQuery, reason?: string])[],
): Case[] {
  return cases.map(([id, title, query, reason]) => ({
    ...{ id, group, title, ...(reason ? { reason } : {}) },
    toRequest: (stage) => {
      const parameters = new URLSearchParams(typeof query === 'function' ? query(stage) : query);
      return { method: 'GET', path: `/v1${path}?${parameters}`, headers: toHeaders(stage) };
    },
  }));
}

function toCreation(stage: Stage): HttpRequest {
  const body = JSON.stringify({ p_nome: 'Ruy Prado', p_email: 'ruy@bench.example', p_data_nascimento: '1990-05-17' });
  const headers = { ...toHeaders(stage), 'Content-Type': 'application/json' };
  return { method: 'POST', path: '/v1/alunos', headers, body };
}

function toHeaders({ tenant }: Stage): Record<string, string> {
  return { 'X-Api-Key': toKey(tenant) };
}

/** The page of 100 that ends at this part of the students. */
function at(part: number, query: ToQuery = {}): (stage: Stage) => Query {
  return (stage) => ({ ...and(query)(stage), offset: String(Math.max(1, Math.floor(stage.students * part) - 100)) });
}

/** The page of 100 behind the record that is so many places before this part of the records. */
function after(kind: 'aluno' | 'treino' | 'anamnese', part: number, query: ToQuery = {}): (stage: Stage) => Query {
  // Every fifth student has an anamnesis.
  const places = kind === 'anamnese' ? 500 : 100;
  return (stage) => {
    const row = Math.floor((stage.students * part) / 5) * 5 - places - (kind === 'anamnese' ? 5 : 1);
    return { ...and(query)(stage), after: toId(kind, stage.tenant, row) };
  };
}

function gym(name: keyof typeof GYM): (stage: Stage) => Query {
  return ({ tenant }) => ({ academia_id: toId('academia', tenant, GYM[name]) });
}

function trainer(name: keyof typeof TRAINER): (stage: Stage) => Query {
  return ({ tenant }) => ({ id_personal: toId('personal', tenant, TRAINER[name]).replaceAll('-', '') });
}

function and(...queries: readonly ToQuery[]): (stage: Stage) => Query {
  return (stage) => Object.assign({}, ...queries.map((query) => (typeof query === 'function' ? query(stage) : query)));
}

/** Every day has 200 workouts. */
function fromDayOf(workout: number): Query {
  const day = new Date(Date.UTC(2024, 2, 1 + Math.floor(workout / 200)));
  return { data_inicio_gte: day.toISOString().slice(0, 10) };
}

function lastDay({ students }: Stage): Query {
  return fromDayOf(students - 1);
}

function halfOfDays({ students }: Stage): Query {
  return fromDayOf(students / 2);
}
