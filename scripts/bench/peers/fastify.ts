// The API's operations on students as a careful team writes them by hand: Fastify with a schema of everything that
// comes in and goes out, `pg` with prepared statements, limits, and one form of errors. It lacks what the gateway has
// beside that: Link and ETag, the headers of helmet, metrics, request ids in the database.

import fastify, {
  type FastifyError,
  type FastifyReply,
  type FastifySchemaValidationError,
  LogController,
} from 'fastify';
import pg from 'pg';
import { openPool, query } from './pool.ts';
import { BODY, ERROR, QUERY, STUDENT } from './schemas.ts';

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

// A time goes out as Postgres has it, to the microsecond, which a Date would cut off and take longer for.
const readTime = (text: string) => `${text.replace(' ', 'T')}:00`;
const pool = openPool((type) => (type === pg.types.builtins.TIMESTAMPTZ ? readTime : pg.types.getTypeParser(type)));

const app = fastify({
  // A line for each request, as the gateway has it; Fastify's own are two.
  logger: { level: 'info' },
  logController: new LogController({ disableRequestLogging: true }),
  bodyLimit: 100_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 75_000,
  ajv: { customOptions: { allErrors: true, coerceTypes: true, removeAdditional: false } },
});

app.addHook('onResponse', async (req, reply) => {
  const { method, routeOptions, log } = req;
  log.info({ method, path: routeOptions.url, status: reply.statusCode, durationMs: reply.elapsedTime });
});

app.addHook('onRequest', async (req, reply) => {
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
  { schema: { querystring: QUERY, response: { 200: { type: 'array', items: STUDENT }, '4xx': ERROR, '5xx': ERROR } } },
  async ({ headers, query: filters }) => {
    const { ativo, limit, offset, academia_id, id_personal, nome } = filters;
    const values = [headers['x-api-key'], ativo, limit, offset, academia_id, id_personal, nome];
    return query(pool, { name: 'list', text: LIST, values });
  },
);

app.post<{ Body: Record<string, string> }>(
  '/v1/alunos',
  { schema: { body: BODY, response: { 201: STUDENT, '4xx': ERROR, '5xx': ERROR } } },
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
process.once('disconnect', () => process.exit());
