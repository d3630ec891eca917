import type { RawAnswer, Request } from './request.ts';
import { MISSING_ID, type World } from './world.ts';

/** Every input that takes an id, and the table whose rows it names. */
export const ID_INPUTS = [
  { operation: 'criarAluno', input: 'p_academia_id', table: 'academias' },
  { operation: 'listarAlunos', input: 'academia_id', table: 'academias' },
  { operation: 'listarAlunos', input: 'id_personal', table: 'personais' },
  { operation: 'listarTreinos', input: 'id_aluno', table: 'alunos' },
  { operation: 'listarTreinos', input: 'id_personal', table: 'personais' },
  { operation: 'listarPersonais', input: 'academia_id', table: 'academias' },
  { operation: 'listarAnamneses', input: 'id_aluno', table: 'alunos' },
  { operation: 'listarAlunos', input: 'after', table: 'alunos' },
  { operation: 'listarTreinos', input: 'after', table: 'treinos' },
  { operation: 'listarAcademias', input: 'after', table: 'academias' },
  { operation: 'listarPersonais', input: 'after', table: 'personais' },
  { operation: 'listarAnamneses', input: 'after', table: 'anamneses' },
  { operation: 'listarSecoes', input: 'after', table: 'anamnese_secoes' },
] as const;

/** The same request twice: for an id that only another tenant has, and for one that nobody has. */
export type Pair = { readonly foreign: Request; readonly missing: Request };

type Keyless = Omit<Request, 'key'>;

/** A world in which every tenant has a key that may do everything. */
export function withMasterKeys(world: World): World {
  const masterKeys = world.tenants.map(({ id }) => {
    return { tenant_id: id, key: masterKeyOf(id), permissions: null, active: true, expires_at: null };
  });
  return { ...world, api_keys: [...world.api_keys, ...masterKeys] };
}

/** The key that withMasterKeys gives a tenant. */
export function masterKeyOf(tenant: string): string {
  return `mestra-${tenant}`;
}

/** Pairs for every tenant and every input that takes an id: with no other input, and with those of some request. */
export function pairsOf(world: World, others: readonly Keyless[]): Pair[] {
  return world.tenants.flatMap((tenant) =>
    ID_INPUTS.flatMap(({ operation, input, table }) => {
      const id = foreignIdOf(world[table], tenant.id);
      if (id === undefined) return [];
      const other = others.find((other) => other.operation === operation);
      return [bareRequest(operation), ...(other ? [other] : [])].map((base) => {
        const request = { ...base, key: masterKeyOf(tenant.id) };
        return { foreign: withId(request, input, id), missing: withId(request, input, MISSING_ID) };
      });
    }),
  );
}

/** All that a client is sent, but for the time, the request's own id, and the id in a Link that it has sent itself. */
export function toBytes({ status, headers, text }: RawAnswer): unknown {
  const others = [...headers].filter(([name]) => !['date', 'x-request-id'].includes(name));
  return { status, headers: others.map(([name, value]) => [name, value.replace(SENT_ID, '$1=')]), text };
}

const SENT_ID = new RegExp(`\\b(${ID_INPUTS.map(({ input }) => input).join('|')})=[\\w-]+`, 'g');

function bareRequest(operation: string): Keyless {
  const body = operation === 'criarAluno' ? { p_nome: 'Ana', p_email: 'ana@example.com' } : undefined;
  return { operation, query: {}, body, idempotencyKey: undefined };
}

function foreignIdOf(rows: readonly { tenant_id: string; id: string }[], tenant: string): string | undefined {
  const own = rows.filter(({ tenant_id }) => tenant_id === tenant).map(({ id }) => id);
  return rows.find(({ id }) => !own.includes(id))?.id;
}

function withId(request: Request, input: string, id: string): Request {
  if (request.body) return { ...request, body: { ...request.body, [input]: id } };
  // The one spelling that every filter by a trainer takes.
  return { ...request, query: { ...request.query, [input]: input === 'id_personal' ? id.replaceAll('-', '') : id } };
}
