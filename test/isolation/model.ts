// What the interface says of every request, for one tenant at a time: an answer is made of what the tenant of the key
// has, so whatever else there is in the database it stays the same.

import { isDeepStrictEqual } from 'node:util';
import { describeRequest, functionOf, type Request } from './request.ts';
import { ownOf, type World } from './world.ts';

type Student = {
  readonly id: string;
  readonly nome: string;
  readonly email: string;
  readonly ativo: boolean;
  readonly academia_id: string | null;
  readonly criado_em: string;
};

/** The answer to expect; of a student that is new, everything but what the database makes. */
type Expected =
  | { readonly status: number; readonly body: unknown }
  | { readonly status: 201; readonly created: Omit<Student, 'id' | 'criado_em'> };

/** What a request was answered with. */
export type ModelAnswer = { readonly status: number; readonly body: unknown };

const HYPHENATED = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const UNHYPHENATED = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/i;

/** Follows a world through its requests. */
export class Model {
  readonly #world: World;
  readonly #students: World['alunos'][number][];
  /** By tenant and idempotency key. */
  readonly #kept = new Map<string, { readonly request: string; readonly student: Student }>();

  constructor(world: World) {
    this.#students = [...world.alunos];
    this.#world = { ...world, alunos: this.#students };
  }

  /** What is wrong with an answer, or undefined; takes note of the student that a right one has created. */
  judge(request: Request, answer: ModelAnswer): string | undefined {
    const expected = this.#expect(request);
    if ('created' in expected) return this.#judgeCreation(request, expected.created, answer);
    return isDeepStrictEqual(answer, expected) ? undefined : this.#complain(request, expected, answer);
  }

  #expect(request: Request): Expected {
    // The gateway validates before the store verifies the key.
    const invalid = findInvalid(request);
    if (Object.keys(invalid).length > 0) return { status: 422, body: { error: invalid } };
    const refusal = this.#refusalOf(request);
    if (refusal !== undefined) return { status: 401, body: { error: refusal } };

    const own = ownOf(this.#world, this.#tenantOf(request));
    const list = LISTS[request.operation];
    if (!list) return this.#expectCreation(request, own);
    const { limit = '100', offset = '0', after } = request.query;
    const isOwn = ({ id }: { id: string }) => id === after?.toLowerCase();
    const rows = own[TABLES[request.operation] ?? 'alunos'] as readonly { id: string }[];
    if (after !== undefined && !rows.some(isOwn)) {
      return refuse('after', 'must be the id of a record of the tenant');
    }
    return { status: 200, body: list(own, request.query).slice(Number(offset), Number(offset) + Number(limit)) };
  }

  #refusalOf({ key, operation }: Request): string | undefined {
    const found = this.#world.api_keys.find((other) => other.key === key);
    const name = functionOf(operation);
    if (!found) return 'API Key inválida';
    if (!found.active) return 'API Key inativa';
    if (found.expires_at !== null && Date.parse(found.expires_at) <= Date.now()) return 'API Key expirada';
    return found.permissions === null || found.permissions.includes(name)
      ? undefined
      : `API Key sem permissão para ${name}`;
  }

  #tenantOf({ key }: Request): string {
    return this.#world.api_keys.find((other) => other.key === key)?.tenant_id ?? '';
  }

  #expectCreation(request: Request, own: World): Expected {
    const { p_nome = '', p_email = '', p_academia_id } = request.body ?? {};
    const kept = this.#kept.get(this.#placeOf(request));
    if (kept) {
      return kept.request === textOf(request)
        ? { status: 201, body: kept.student }
        : refuse('Idempotency-Key', 'was used for another request in the last 24 hours');
    }
    const academia_id = p_academia_id?.toLowerCase() ?? null;
    if (academia_id !== null && !own.academias.some(({ id }) => id === academia_id)) {
      return refuse('p_academia_id', 'must be the id of a gym of the tenant');
    }
    return { status: 201, created: { nome: p_nome, email: p_email, ativo: true, academia_id } };
  }

  #judgeCreation(request: Request, created: object, answer: ModelAnswer): string | undefined {
    const student = answer.body as Student;
    const { id, criado_em, ...rest } = student;
    const isNew = HYPHENATED.test(id ?? '') && !this.#students.some((other) => other.id === id);
    const isNow = Math.abs(Date.parse(criado_em) - Date.now()) < 60_000;
    if (answer.status !== 201 || !isDeepStrictEqual(rest, created) || !isNew || !isNow) {
      return this.#complain(request, { status: 201, body: created }, answer);
    }
    this.#students.push({ ...student, tenant_id: this.#tenantOf(request), personal_id: null });
    if (request.idempotencyKey !== undefined) {
      this.#kept.set(this.#placeOf(request), { request: textOf(request), student });
    }
    return undefined;
  }

  #placeOf(request: Request): string {
    return `${this.#tenantOf(request)} ${request.idempotencyKey}`;
  }

  #complain(request: Request, expected: unknown, answer: ModelAnswer): string {
    return `${describeRequest(request)}\n  expected ${JSON.stringify(expected)}\n  received ${JSON.stringify(answer)}`;
  }
}

type Query = Request['query'];

/** The messages for inputs that no database is needed for. */
function findInvalid({ operation, query }: Request): Record<string, string[]> {
  const text = "must be the trainer's id without hyphens (1 to 64 letters, digits or underscores)";
  const isHyphenated = operation === 'listarAlunos' && HYPHENATED.test(query.id_personal ?? '');
  const isTwice = query.after !== undefined && query.offset !== undefined;
  return {
    ...(isHyphenated ? { id_personal: [text] } : {}),
    ...(isTwice ? { after: ['must not be given with offset'] } : {}),
  };
}

/** The table that each list is of. */
const TABLES: Record<string, keyof World> = {
  listarAlunos: 'alunos',
  listarTreinos: 'treinos',
  listarAcademias: 'academias',
  listarPersonais: 'personais',
  listarAnamneses: 'anamneses',
  listarSecoes: 'anamnese_secoes',
};

const LISTS: Record<string, (own: World, query: Query) => object[]> = {
  listarAlunos: (own, query) =>
    own.alunos
      .filter((row) => isAtivo(row, query) && isOf(row.academia_id, query.academia_id))
      .filter((row) => isOf(row.personal_id, query.id_personal))
      .filter((row) => query.nome === undefined || toSearchable(row.nome).includes(toSearchable(query.nome)))
      .filter(isBehind(own.alunos, query, byAge))
      .toSorted(byAge)
      .map(toStudent),
  listarTreinos: (own, query) =>
    own.treinos
      .filter((row) => isAtivo(row, query) && isOf(row.aluno_id, query.id_aluno))
      .filter((row) => isOf(row.personal_id, query.id_personal))
      .filter((row) => query.data_inicio_gte === undefined || row.data_inicio >= query.data_inicio_gte)
      .filter(isBehind(own.treinos, query, byAge))
      .toSorted(byAge)
      .map(({ id, nome, aluno_id, personal_id, ativo, data_inicio, criado_em }) => {
        return { id, nome, id_aluno: aluno_id, id_personal: unhyphenate(personal_id), ativo, data_inicio, criado_em };
      }),
  listarAcademias: (own, query) =>
    own.academias
      .filter((row) => isAtivo(row, query))
      .filter(isBehind(own.academias, query, byAge))
      .toSorted(byAge)
      .map(({ id, nome, ativo, criado_em }) => ({ id, nome, ativo, criado_em })),
  listarPersonais: (own, query) =>
    own.personais
      .filter((row) => isOf(row.academia_id, query.academia_id))
      .filter(isBehind(own.personais, query, byAge))
      .toSorted(byAge)
      .map(({ id, nome, email, ativo, academia_id }) => ({ id, nome, email, ativo, academia_id })),
  listarAnamneses: (own, query) =>
    own.anamneses
      .filter((row) => row.resposta !== null && Object.keys(row.resposta).length > 0)
      .filter((row) => isOf(row.aluno_id, query.id_aluno))
      .filter((row) => query.status === undefined || row.status === query.status)
      .filter(isBehind(own.anamneses, query, byAge))
      .toSorted(byAge)
      .map(({ id, aluno_id, status, resposta, criado_em }) => ({
        id,
        id_aluno: aluno_id,
        status,
        resposta,
        criado_em,
      })),
  listarSecoes: (own, query) =>
    own.anamnese_secoes
      .filter(({ ativo }) => ativo)
      .filter(isBehind(own.anamnese_secoes, query, byOrdem))
      .toSorted(byOrdem)
      .map(({ id, titulo, ordem, ativo }) => ({ id, titulo, ordem, ativo })),
};

function refuse(field: string, message: string): Expected {
  return { status: 422, body: { error: { [field]: [message] } } };
}

function isAtivo(row: { ativo: boolean }, query: Query): boolean {
  return query.ativo === undefined || String(row.ativo) === query.ativo;
}

/** Whether a reference is what a filter names; a text that spells no id names nothing. */
function isOf(reference: string | null, filter: string | undefined): boolean {
  if (filter === undefined) return true;
  const hyphenated = filter.replace(UNHYPHENATED, '$1-$2-$3-$4-$5').toLowerCase();
  return HYPHENATED.test(hyphenated) && reference === hyphenated;
}

/** Whether a row comes behind the one that the request names, which need not be in the list itself. */
function isBehind<T extends { id: string }>(all: readonly T[], query: Query, order: (a: T, b: T) => number) {
  const last = all.find(({ id }) => id === query.after?.toLowerCase());
  return (row: T) => !last || order(row, last) > 0;
}

function toSearchable(text: string): string {
  return text
    .toLowerCase()
    .normalize('NFD')
    .replaceAll(/[\u0300-\u036f]/g, '')
    .normalize('NFC');
}

function toStudent({ id, nome, email, ativo, academia_id, criado_em }: Student): Student {
  return { id, nome, email, ativo, academia_id, criado_em };
}

function textOf({ body }: Request): string {
  const fields = { ...body, p_academia_id: body?.p_academia_id?.toLowerCase() };
  return JSON.stringify(Object.entries(fields).toSorted(([a], [b]) => compare(a, b)));
}

function byAge(a: { id: string; criado_em: string }, b: { id: string; criado_em: string }): number {
  return compare(instantOf(a.criado_em), instantOf(b.criado_em)) || compare(a.id, b.id);
}

function byOrdem(a: { id: string; ordem: number }, b: { id: string; ordem: number }): number {
  return a.ordem - b.ordem || compare(a.id, b.id);
}

/** A time in UTC, as a text that sorts to the microsecond: Postgres leaves out zeros at the end. */
function instantOf(time: string): string {
  const [, seconds = '', fraction = ''] = /^(.{19})(?:\.(\d+))?\+00:00$/.exec(time) ?? [];
  return `${seconds}.${fraction.padEnd(6, '0')}`;
}

function unhyphenate(id: string): string {
  return id.replaceAll('-', '');
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
