// The API's operations on students as a careful team would write them: Fastify with a schema for every input and output,
// `pg` with prepared statements, limits, one form of errors, and the headers of the gateway's refusals. It has no Link, ETag,
// metrics, or request ids in the database.

import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import fastify, {
  type FastifyError,
  type FastifyReply,
  type FastifySchemaValidationError,
  LogController,
} from 'fastify';
import type { OpenAPIV3 } from 'openapi-types';
import pg from 'pg';
import { compile } from '../../../src/openapi/compile.ts';
import { readDocument } from '../../../src/openapi/document.ts';
import { SECURITY_HEADERS } from '../../../src/openapi/headers.ts';
import type { DocumentParameter } from '../../../src/openapi/operations.ts';
import { openPool, query } from './pool.ts';

type Query = { limit: number; offset: number } & Partial<
  Record<'ativo' | 'academia_id' | 'id_personal' | 'nome', string>
>;

const LIST = `select id, nome, email, ativo, academia_id, criado_em
  from public.listar_alunos(p_api_key => $1, p_ativo => $2, p_limit => $3, p_offset => $4, p_academia_id => $5,
                            p_id_personal => $6, p_nome => $7)`;
const CREATE = `select id, nome, email, ativo, academia_id, criado_em
  from public.criar_aluno(p_api_key => $1, p_nome => $2, p_email => $3, p_telefone => $4, p_sexo => $5,
                          p_data_nascimento => $6, p_academia_id => $7, p_modalidade => $8, p_idempotency_key => $9)`;
const FIELDS = ['p_nome', 'p_email', 'p_telefone', 'p_sexo', 'p_data_nascimento', 'p_academia_id', 'p_modalidade'];

const { operations } = await compile(readDocument(join(import.meta.dirname, '../../../openapi.yaml')));
const [list, create] = ['listarAlunos', 'criarAluno'].map((id) => operations.get(id)?.source);

function toQuerySchema(parameters: readonly DocumentParameter[] = []) {
  const own = parameters.filter((parameter) => parameter.in === 'query');
  const properties = Object.fromEntries(own.map(({ name, schema }) => [name, schema]));
  return { type: 'object', additionalProperties: false, properties };
}

function toSchema(source: unknown) {
  return (source as OpenAPIV3.ResponseObject).content?.['application/json']?.schema;
}

// Times stay text: a Date would be slower and lose microseconds.
const readTime = (text: string) => `${text.replace(' ', 'T')}:00`;
const pool = openPool((type) => (type === pg.types.builtins.TIMESTAMPTZ ? readTime : pg.types.getTypeParser(type)));

const app = fastify({
  // One line per request, like the gateway; by default Fastify logs two.
  logger: { level: 'info' },
  logController: new LogController({ disableRequestLogging: true }),
  requestIdHeader: 'x-request-id',
  genReqId: () => randomUUID(),
  bodyLimit: 100_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 75_000,
  ajv: { customOptions: { allErrors: true, coerceTypes: true, removeAdditional: false, strict: false } },
});

app.addHook('onResponse', async (req, reply) => {
  const { method, routeOptions, log } = req;
  log.info({ method, path: routeOptions.url, status: reply.statusCode, durationMs: reply.elapsedTime });
});

const HEADERS = { ...SECURITY_HEADERS, 'Cache-Control': 'no-store', Vary: 'Accept-Encoding' };

app.addHook('onRequest', async (req, reply) => {
  reply.headers(HEADERS).header('X-Request-Id', req.id);
  if (!req.headers['x-api-key']) return reply.code(400).send({ error: 'Missing X-Api-Key header' });
});

app.setErrorHandler((error: FastifyError, req, reply) => {
  if (error.validation) return reply.code(422).send({ error: toFields(error.validation) });
  if (error instanceof pg.DatabaseError) return sendRefusal(error, reply);
  if (error.statusCode === 413) return reply.code(413).send({ error: 'Request body too large' });
  if (error.statusCode && error.statusCode < 500) return reply.code(400).send({ error: 'Invalid JSON body' });
  req.log.error(error);
  return reply.code(502).send({ error: 'Data store unavailable' });
});

app.setNotFoundHandler((_req, reply) => reply.code(404).send({ error: 'Not found' }));

app.get<{ Querystring: Query }>(
  '/v1/alunos',
  { schema: { querystring: toQuerySchema(list?.parameters), response: { 200: toSchema(list?.responses[200]) } } },
  async ({ headers, query: filters }) => {
    const { ativo, limit, offset, academia_id, id_personal, nome } = filters;
    const values = [headers['x-api-key'], ativo, limit, offset, academia_id, id_personal, nome];
    return query(pool, { name: 'list', text: LIST, values });
  },
);

app.post<{ Body: Record<string, string> }>(
  '/v1/alunos',
  { schema: { body: toSchema(create?.requestBody), response: { 201: toSchema(create?.responses[201]) } } },
  async ({ headers, body }, reply) => {
    const values = [headers['x-api-key'], ...FIELDS.map((name) => body[name]), headers['idempotency-key']];
    const [student] = await query(pool, { name: 'create', text: CREATE, values });
    return reply.code(201).send(student);
  },
);

function sendRefusal({ code, message, detail }: pg.DatabaseError, reply: FastifyReply): FastifyReply {
  if (code === 'PT401' || code === 'P0001') return reply.code(401).send({ error: message });
  if (code === 'PT422' && detail) {
    return reply.code(422).send({ error: detail.startsWith('{') ? JSON.parse(detail) : { [detail]: [message] } });
  }
  reply.log.error({ code, message });
  return reply.code(502).send({ error: code === '57014' ? 'Data store timeout' : 'Data store error' });
}

function toFields(errors: readonly FastifySchemaValidationError[]): Record<string, string[]> {
  const fields: Record<string, string[]> = {};
  for (const { instancePath, params, message = 'is invalid' } of errors) {
    const name = String(params.missingProperty ?? params.additionalProperty ?? instancePath.slice(1));
    fields[name] = [...(fields[name] ?? []), message];
  }
  return fields;
}

await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
