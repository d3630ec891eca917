// What the interface says of every request, for one tenant at a time: an answer is made of what the tenant of the key
// has, so whatever else there is in the database it stays the same.

import { isDeepStrictEqual } from 'node:util';
import { describeRequest, functionOf, type Request } from './request.ts';
import { ownOf, type World } from './world.ts';

/** A student as an answer has it. */
type Student = Omit<World['alunos'][number], 'tenant_id' | 'personal_id'>;

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
    const { limit = '100', offset = '0' } = request.query;
    const rows = find(list, own, request.query);
    if (!rows) return refuse('after', 'must be the id of a record of the tenant');
    return { status: 200, body: rows.slice(Number(offset), Number(offset) + Number(limit)) };
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

/** A row of a list, with the columns that some tables have. */
type Row = {
  readonly id: string;
  readonly criado_em?: string;
  readonly nome?: string;
  readonly ativo?: boolean;
  readonly academia_id?: string | null;
  readonly personal_id?: string | null;
  readonly aluno_id?: string;
  readonly data_inicio?: string;
  readonly status?: string;
  readonly resposta?: object | null;
  readonly ordem?: number;
};

/** Which rows a filter finds, in whatever list. */
const FILTERS: Readonly<Record<string, (row: Row, value: string) => boolean>> = {
  ativo: ({ ativo }, value) => String(ativo) === value,
  academia_id: ({ academia_id }, value) => isOf(academia_id, value),
  id_personal: ({ personal_id }, value) => isOf(personal_id, value),
  id_aluno: ({ aluno_id }, value) => isOf(aluno_id, value),
  nome: ({ nome = '' }, value) => toSearchable(nome).includes(toSearchable(value)),
  data_inicio_gte: ({ data_inicio = '' }, value) => data_inicio >= value,
  status: ({ status }, value) => status === value,
};

type List = {
  readonly table: Exclude<keyof World, 'tenants' | 'api_keys'>;
  /** The fields of its answer. */
  readonly fields: readonly string[];
  /** Which rows are in it without a filter: all, if not these. */
  readonly has?: (row: Row) => boolean;
  /** By their age, if not in this order. */
  readonly order?: (a: Row, b: Row) => number;
};

const LISTS: Readonly<Record<string, List>> = {
  listarAlunos: { table: 'alunos', fields: ['id', 'nome', 'email', 'ativo', 'academia_id', 'criado_em'] },
  listarTreinos: {
    table: 'treinos',
    fields: ['id', 'nome', 'id_aluno', 'id_personal', 'ativo', 'data_inicio', 'criado_em'],
  },
  listarAcademias: { table: 'academias', fields: ['id', 'nome', 'ativo', 'criado_em'] },
  listarPersonais: { table: 'personais', fields: ['id', 'nome', 'email', 'ativo', 'academia_id'] },
  listarAnamneses: {
    table: 'anamneses',
    fields: ['id', 'id_aluno', 'status', 'resposta', 'criado_em'],
    has: ({ resposta }) => Object.keys(resposta ?? {}).length > 0,
  },
  listarSecoes: {
    table: 'anamnese_secoes',
    fields: ['id', 'titulo', 'ordem', 'ativo'],
    has: ({ ativo = false }) => ativo,
    order: (a, b) => (a.ordem ?? 0) - (b.ordem ?? 0) || compare(a.id, b.id),
  },
};

/** The rows of a list that a query asks for; undefined if it begins behind a row that there is not. */
function find(
  { table, fields, has = () => true, order = byAge }: List,
  own: World,
  query: Query,
): object[] | undefined {
  const all: readonly Row[] = own[table];
  // It need not be in the list itself.
  const last = all.find(({ id }) => id === query.after?.toLowerCase());
  if (query.after !== undefined && !last) return undefined;
  const isWanted = (row: Row) => Object.entries(query).every(([name, value]) => FILTERS[name]?.(row, value) ?? true);
  const rows = all.filter((row) => has(row) && isWanted(row) && (!last || order(row, last) > 0));
  return rows.toSorted(order).map((row) => Object.fromEntries(fields.map((field) => [field, show(row, field)])));
}

function show(row: Row, field: string): unknown {
  if (field === 'id_aluno') return row.aluno_id;
  if (field === 'id_personal') return row.personal_id?.replaceAll('-', '');
  return row[field as keyof Row];
}

function refuse(field: string, message: string): Expected {
  return { status: 422, body: { error: { [field]: [message] } } };
}

/** Whether a reference is what a filter names; a text that spells no id names nothing. */
function isOf(reference: string | null | undefined, filter: string): boolean {
  const hyphenated = filter.replace(UNHYPHENATED, '$1-$2-$3-$4-$5').toLowerCase();
  return HYPHENATED.test(hyphenated) && reference === hyphenated;
}

function toSearchable(text: string): string {
  return text
    .toLowerCase()
    .normalize('NFD')
    .replaceAll(/[\u0300-\u036f]/g, '')
    .normalize('NFC');
}

function textOf({ body }: Request): string {
  const fields = { ...body, p_academia_id: body?.p_academia_id?.toLowerCase() };
  return JSON.stringify(Object.entries(fields).toSorted(([a], [b]) => compare(a, b)));
}

function byAge(a: Row, b: Row): number {
  return compare(instantOf(a), instantOf(b)) || compare(a.id, b.id);
}

/** A time in UTC, as a text that sorts to the microsecond: Postgres leaves out zeros at the end. */
function instantOf({ criado_em = '' }: Row): string {
  const [, seconds = '', fraction = ''] = /^(.{19})(?:\.(\d+))?\+00:00$/.exec(criado_em) ?? [];
  return `${seconds}.${fraction.padEnd(6, '0')}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
