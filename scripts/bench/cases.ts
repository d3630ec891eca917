// The measured cases: requests to the API, and the function calls behind them.

export type CaseId = 'rows10' | 'rows100' | 'rows1000' | 'create' | 'refused' | 'invalid';

/** A kind of request; each tenant sends it with its own key. */
export type Case = {
  readonly id: CaseId;
  readonly title: string;
  /** The expected status. */
  readonly status: number;
  /** Only for peers that validate. */
  readonly isForValidating?: boolean;
  /** Sent with unknown keys. */
  readonly isRefused?: boolean;
  readonly query?: Readonly<Record<string, string>>;
  /** The body of a case that writes. */
  readonly body?: Readonly<Record<string, string>>;
};

export type HttpRequest = {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
};

export const CASES: readonly Case[] = [
  { id: 'rows10', title: 'list of 10', status: 200, query: { limit: '10' } },
  { id: 'rows100', title: 'list of 100, the default', status: 200 },
  { id: 'rows1000', title: 'list of 1,000', status: 200, query: { limit: '1000' } },
  { id: 'refused', title: 'refused key', status: 401, isRefused: true, query: { limit: '10' } },
  {
    id: 'invalid',
    title: 'invalid request',
    status: 422,
    isForValidating: true,
    query: { limit: '5000', offset: '-1' },
  },
  {
    id: 'create',
    title: 'create',
    status: 201,
    body: {
      p_nome: 'Lígia Prado',
      p_email: 'ligia@bench.example',
      p_data_nascimento: '1990-05-17',
      p_modalidade: 'pilates',
    },
  },
];

/** Lists of all kinds, for a mixed load. */
export const LISTS = [
  ...['/alunos?limit=10', '/alunos?limit=100', '/alunos?nome=an&limit=10', '/alunos?ativo=true&limit=50'],
  ...['/academias', '/personais', '/treinos?limit=20', '/anamnese/secoes', '/anamnese/alunos?limit=20'],
].map((path) => ({ path }));

/** The case with an id. */
export function findCase(id: CaseId): Case {
  const found = CASES.find((case_) => case_.id === id);
  if (!found) throw new Error(`there is no case ${id}`);
  return found;
}

/** The case as a request to the API. */
export function toApiRequest({ query, body }: Case, key: string): HttpRequest {
  const headers = { 'X-Api-Key': key };
  const path = `/v1/alunos${query ? `?${new URLSearchParams(query)}` : ''}`;
  if (!body) return { method: 'GET', path, headers };
  const type = { 'Content-Type': 'application/json' };
  return { method: 'POST', path, headers: { ...headers, ...type }, body: JSON.stringify(body) };
}

/** The case as a request to PostgREST, as supabase-js sends it. */
export function toRpcRequest(
  { query: { limit = '100', offset = '0' } = {}, body }: Case,
  key: string,
  token: string,
): HttpRequest {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  const [path, args] = body
    ? ['/rpc/criar_aluno', body]
    : ['/rpc/listar_alunos', { p_limit: Number(limit), p_offset: Number(offset) }];
  return { method: 'POST', path, headers, body: JSON.stringify({ p_api_key: key, ...args }) };
}
