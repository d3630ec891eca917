// The schemas that go with fastify.ts, by hand.

/** What a list takes. */
export const QUERY = {
  type: 'object',
  additionalProperties: false,
  properties: {
    ativo: { type: 'string', enum: ['true', 'false'] },
    limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
    offset: { type: 'integer', minimum: 0, maximum: 2147483647, default: 0 },
    academia_id: { type: 'string', format: 'uuid' },
    id_personal: { type: 'string', pattern: '^[a-zA-Z0-9_]{1,64}$' },
    nome: { type: 'string', minLength: 1, maxLength: 100 },
  },
} as const;

/** A student to create. */
export const BODY = {
  type: 'object',
  additionalProperties: false,
  required: ['p_nome', 'p_email'],
  properties: {
    p_nome: { type: 'string', minLength: 1, maxLength: 255, pattern: '\\S' },
    p_email: { type: 'string', format: 'email' },
    p_telefone: { type: 'string' },
    p_sexo: { type: 'string' },
    p_data_nascimento: { type: 'string' },
    p_academia_id: { type: 'string', format: 'uuid' },
    p_modalidade: { type: 'string' },
  },
} as const;

/** A student as it is answered. */
export const STUDENT = {
  type: 'object',
  required: ['id', 'nome', 'email', 'ativo', 'academia_id', 'criado_em'],
  properties: {
    id: { type: 'string' },
    nome: { type: 'string' },
    email: { type: 'string' },
    ativo: { type: 'boolean' },
    academia_id: { type: 'string', nullable: true },
    criado_em: { type: 'string' },
  },
} as const;

/** Any error: a text, or messages by the name of the field. */
export const ERROR = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      anyOf: [
        { type: 'string' },
        { type: 'object', additionalProperties: { type: 'array', items: { type: 'string' } } },
      ],
    },
  },
} as const;
