import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { compile } from '../../src/openapi/compile.ts';
import { type Difference, findDrift } from '../../src/openapi/drift.ts';
import { canHold, isWrittenAs } from '../../src/openapi/postgres-types.ts';
import { DESCRIPTION } from '../../src/store/catalog.ts';
import { document, operations } from '../helpers/api.ts';
import { as, type Db, openDatabase, rows } from '../helpers/database.ts';
import { compileOnce } from '../helpers/gateway.ts';

// Breaks each rule of the check by a migration or by an edit of the document.

let db: Db;

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(() => db.close());

type Edit = (paths: OpenAPIV3.PathsObject, document: OpenAPIV3.Document) => void;

/** The findings after a migration and an edit, both of which are undone. */
async function check(sql: string, edit?: Edit): Promise<Difference[]> {
  const edited = structuredClone(document);
  edit?.(edited.paths, edited);
  const compiled = await (edit ? compile(edited) : compileOnce());
  return as(db, 'postgres', async () => {
    await db.exec(sql);
    // The gateway reads the description as this role.
    await db.exec('set local role gateway');
    const [row] = await rows<{ json: string }>(db, DESCRIPTION.text);
    return findDrift(compiled.operations, JSON.parse(row?.json ?? ''));
  });
}

const SIGNATURE = 'public.listar_academias(text, boolean, integer, integer, uuid)';
const FUNCTION = {
  args: 'p_api_key text, p_ativo boolean default null, p_limit integer default 100, p_offset integer default 0, p_after uuid default null',
  returns: 'table (id uuid, nome text, ativo boolean, criado_em timestamptz)',
  clauses: 'stable security definer set search_path = pg_catalog, pg_temp',
};

/** Replaces the function of the list of gyms by a changed one, and publishes it. */
function changed(change: Partial<typeof FUNCTION>): string {
  const { args, returns, clauses } = { ...FUNCTION, ...change };
  return `drop function ${SIGNATURE};
    create function public.listar_academias(${args}) returns ${returns} language plpgsql ${clauses} as $$ begin end $$;
    select private.publish('public.listar_academias')`;
}

/** The findings as texts. All are of the one operation, and an addition says that it is one. */
async function find(sql: string, edit?: Edit): Promise<string[]> {
  const findings = await check(sql, edit);
  for (const finding of findings) {
    expect(finding).toMatchObject({ operation: 'listarAcademias', function: 'listar_academias' });
  }
  return findings.map(
    ({ document, database, isAddition }) => `${document}; ${database}${isAddition ? ' (an addition)' : ''}`,
  );
}

/** Replaces a text in the arguments or the columns of the function. */
const withArgs = (from: string, to: string) => changed({ args: FUNCTION.args.replace(from, to) });
const withColumns = (from: string, to: string) => changed({ returns: FUNCTION.returns.replace(from, to) });

const withPage = (type: string) =>
  `create domain private.pagina as ${type}; ${withArgs('p_offset integer', 'p_offset private.pagina')}`;

/** Adds a parameter to the function, or to the list of gyms. */
const withOrder = (type: string) => changed({ args: `${FUNCTION.args}, p_ordem ${type} default null` });
/** The parameter has a domain over a domain, or an array of that. */
const withRounding = (type: string, suffix = '') =>
  `create domain private.passo as ${type}; create domain private.medida as private.passo; ${withOrder(`private.medida${suffix}`)}`;
const toOrder =
  (schema: object): Edit =>
  (paths) => {
    paths['/academias']?.get?.parameters?.push({ name: 'ordem', in: 'query', schema });
  };
/** Gives the list of gyms another schema of its answer. */
const withAnswer =
  (change: (schema: OpenAPIV3.ArraySchemaObject) => unknown): Edit =>
  (paths) => {
    const response = paths['/academias']?.get?.responses['200'] as OpenAPIV3.ResponseObject;
    const media = response.content?.['application/json'] as OpenAPIV3.MediaTypeObject;
    media.schema = change(media.schema as OpenAPIV3.ArraySchemaObject) as OpenAPIV3.SchemaObject;
    // Only a list has a next page.
    delete response.headers?.Link;
  };
const enumOf = (labels: string, type = 'private.situacao') =>
  `create type private.situacao as enum (${labels}); ${withArgs('p_ativo boolean', `p_ativo ${type}`)}`;
const ROW = `${FUNCTION.args}, out id uuid, out nome text, out ativo boolean, out criado_em timestamptz`;
const toJson = withAnswer((schema) => ({ ...schema, items: { type: 'object', required: ['id'] } }));
const toText = withAnswer(() => ({ type: 'string' }));
const toOne = withAnswer(({ items }) => items);
const GYM = parse(`{ type: object, required: [id], properties: {
  id: { type: string, format: uuid }, ativo: { type: boolean }, criado_em: { type: string, format: date-time } } }`);
/** Gives the answer another schema of the name. */
const withName = (nome: object, more = {}) =>
  withAnswer((list) => ({ ...list, items: { ...GYM, ...more, properties: { ...GYM.properties, nome } } }));
const toInteger = withName({ type: 'integer' });
const toInt32 = withName({ type: 'integer', format: 'int32' });
const ADDED = 'the response has no tenant_id; it returns the column tenant_id (an addition)';

/** What the document needs of the database, a migration or an edit that breaks it, and the finding. */
const NEEDS: Readonly<Record<string, readonly [sql: string, finding: string | RegExp | undefined, edit?: Edit]>> = {
  'a function': [`drop function ${SIGNATURE}`, 'x-rpc names the function; there is none of that name in schema public'],
  'one function': [
    'create function public.listar_academias(p_api_key text) returns int language sql return 1',
    /^x-rpc names the function; there are 2 of that name: keep one, and in a migration drop function .* or drop function /,
  ],
  'an argument for an input': [
    withArgs('p_ativo', 'p_ativa'),
    'the query parameter ativo is its argument p_ativo; it has no such argument',
  ],
  'types that hold words': [
    withArgs('p_ativo boolean', 'p_ativo integer'),
    /string, one of true, false; p_ativo is integer$/,
  ],
  'types that hold numbers': [
    withArgs('integer default 100', 'boolean default null'),
    /1 to 1000; p_limit is boolean$/,
  ],
  'types that hold all numbers': [
    withArgs('p_offset integer', 'p_offset smallint'),
    /2147483647; p_offset is smallint, which is too small/,
  ],
  'a type that holds the key': [
    withArgs('p_api_key text', 'p_api_key uuid'),
    'the API key is string; p_api_key is uuid',
  ],
  'a smallint for its bounds': [withArgs('p_limit integer', 'p_limit smallint'), undefined],
  'a bigint for an integer': [withArgs('p_offset integer', 'p_offset bigint'), undefined],
  'a text for words': [withArgs('p_ativo boolean', 'p_ativo text'), undefined],
  'the labels of its words': [enumOf("'true', 'false', 'talvez'"), undefined],
  'all of its words': [enumOf("'true', 'talvez'"), /false; p_ativo is private.situacao \(true, talvez\)$/],
  'no array': [enumOf("'true', 'false'", 'private.situacao[]'), /p_ativo is private.situacao\[\] \(true, false\)$/],
  'a domain as its type, integer': [withPage('integer'), undefined],
  'a domain as its type, smallint': [withPage('smallint'), /p_offset is smallint, which is too small/],
  'a domain that rounds no number': [
    withRounding('numeric(6, 2)'),
    'the query parameter ordem is number; p_ordem is a domain, which rounds to multiples of 0.01: declare multipleOf: 0.01 ' +
      '(an addition)',
    toOrder({ type: 'number', multipleOf: 0.005 }),
  ],
  'a domain that rounds no number of an array': [
    withRounding('numeric(6, 1)', '[]'),
    /multiples of 0.1: declare multipleOf: 0.1 \(an addition\)$/,
    toOrder({ type: 'array', items: { type: 'number' } }),
  ],
  'a domain for multiples': [withRounding('numeric(6, 2)'), undefined, toOrder({ type: 'number', multipleOf: 0.05 })],
  'a domain for numbers': [withRounding('numeric(6, 2)'), undefined, toOrder({ type: 'number', enum: [0.25, 1] })],
  'a domain for integers': [withRounding('numeric(6)'), undefined, toOrder({ type: 'integer' })],
  'a domain that rounds no time': [
    withRounding('timestamptz(0)'),
    /which rounds seconds: create the domain without a precision \(an addition\)$/,
    toOrder({ type: 'string', format: 'date-time' }),
  ],
  'a smallint for small words': [withOrder('smallint'), undefined, toOrder({ type: 'integer', enum: [1, 2] })],
  'an integer for a word without a type': [withOrder('integer'), undefined, toOrder({ enum: [1] })],
  'a smallint for exclusive bounds': [
    withOrder('smallint'),
    undefined,
    toOrder({ type: 'integer', minimum: -1, exclusiveMinimum: true, maximum: 100, exclusiveMaximum: true }),
  ],
  'a bigint for an integer without bounds': [withOrder('bigint'), undefined, toOrder({ type: 'integer' })],
  'a type without bounds for an input without': [
    withOrder('integer'),
    'the query parameter ordem is integer, -9007199254740991 to 9007199254740991; p_ordem is integer, which is too small: ' +
      'declare minimum and maximum, or format: int32 for an integer',
    toOrder({ type: 'integer' }),
  ],
  'a default of what may be left out, unless the document has one': [
    changed({ args: FUNCTION.args.replace(/ default (null|100)(?=, p_(limit|offset))/g, '') }),
    'the query parameter ativo may be left out and has no default; p_ativo has no default',
  ],
  'an input for an argument': [
    changed({ args: `p_ordem text, ${FUNCTION.args}` }),
    'no input is its argument p_ordem; p_ordem has no default',
  ],
  'no input for a default': [changed({ args: `${FUNCTION.args}, p_ordem text default ''` }), undefined],

  'all columns': [withColumns(' ativo boolean,', ''), 'the response has ativo; it returns no such column'],
  'no other column': [
    withColumns('timestamptz', 'timestamptz, cnpj text'),
    'the response has no cnpj; it returns the column cnpj (an addition)',
  ],
  'the type of a format': [withColumns('id uuid', 'id text'), 'id is string, uuid; the column id is text'],
  'a time with its zone': [
    withColumns('timestamptz', 'timestamp'),
    'criado_em is string, date-time; the column criado_em is timestamp without time zone',
  ],
  texts: [withColumns('nome text', 'nome integer'), 'nome is string; the column nome is integer'],
  'no rows for texts': [
    withColumns('nome text', 'nome private.academias'),
    'nome is string; the column nome is record, which is written as an object: return jsonb',
  ],
  'rows for objects': [withColumns('nome text', 'nome private.academias'), undefined, withName({ type: 'object' })],
  booleans: [withColumns('ativo boolean', 'ativo text'), 'ativo is boolean; the column ativo is text'],
  'integers without decimals': [
    withColumns('nome text', 'nome numeric'),
    /integer; the column nome is numeric, which may have decimals: return ::bigint$/,
    toInteger,
  ],
  'integers of 32 bits': [
    withColumns('nome text', 'nome bigint'),
    /the column nome is bigint, which is larger: declare no format/,
    toInt32,
  ],
  'an integer of 32 bits': [withColumns('nome text', 'nome integer'), undefined, toInt32],
  'a bigint for any integer': [withColumns('nome text', 'nome bigint'), undefined, toInteger],
  'columns of a table': [changed({ returns: 'setof private.academias' }), ADDED],
  'no null in a column whose domain is not null': [
    `create domain private.escrito as text not null;
      create domain private.nome as private.escrito;
      alter table private.academias alter column nome drop not null, alter column nome type private.nome;
      ${changed({ returns: 'setof private.academias' })}`,
    ADDED,
  ],
  'a value for a text': [changed({ returns: 'void' }), 'the response is string; it returns void', toText],
  'no rows for a text': [
    changed({ returns: 'setof text' }),
    'the response is string; it returns rows: return text',
    toText,
  ],
  'no rows for an array': [
    changed({ returns: 'setof text' }),
    'the response is array of string; it returns rows: return text[]',
    withAnswer(() => ({ type: 'array', items: { type: 'string' } })),
  ],
  'no rows for a map': [
    changed({ returns: 'table (total integer)' }),
    'the response is object; it returns rows: return jsonb',
    withAnswer(() => ({ type: 'object', additionalProperties: { type: 'integer' } })),
  ],
  'a column for a required property that is declared nowhere': [
    changed({}),
    'the response has nmoe; it returns no such column',
    withName({ type: 'string' }, { required: ['id', 'nmoe'] }),
  ],
  'no record for a text': [
    `create type public.nomes as (nome text, apelido text); ${changed({ returns: 'public.nomes' })}`,
    'the response is string; it returns a row: return one value',
    toText,
  ],
  'a set for an array': [changed({ args: ROW, returns: 'record' }), 'the response is an array; it returns one row'],
  'columns for properties': [
    changed({ returns: 'setof jsonb' }),
    'the properties of a record are columns; it returns jsonb',
  ],
  'JSON for other objects': [changed({ returns: 'setof jsonb' }), undefined, toJson],
  'no texts for other objects': [changed({ returns: 'setof text' }), 'an item is object; it returns text', toJson],
  'one row for an object': [changed({ clauses: `${FUNCTION.clauses} rows 1` }), undefined, toOne],
  'no set for an object': [
    changed({}),
    'the response is one object; it may return many rows: declare "rows 1" if it returns one',
    toOne,
  ],
  'a stable function for a read, not volatile': [
    changed({ clauses: FUNCTION.clauses.replace('stable', 'volatile') }),
    'GET reads tables; it is volatile, and not stable',
  ],
  'a stable function for a read, not immutable': [
    changed({ clauses: FUNCTION.clauses.replace('stable', 'immutable') }),
    'GET reads tables; it is immutable, and not stable',
  ],
  'a response for a status that is raised': [
    changed({}).replace(
      'begin end',
      `begin /* PT410, ** isn't raised ***/ raise sqlstate 'PT401'; -- nor is PT409
       perform '/* -- ''';  raise sqlstate 'PT404'; end`,
    ),
    'there is no response 404; it raises PT404, which would be a 502 (an addition)',
  ],
};

test.each(Object.entries(NEEDS))('a list needs %s', async (_what, [sql, finding, edit]) => {
  const expected = finding instanceof RegExp ? expect.stringMatching(finding) : finding;
  expect(await find(sql, edit)).toEqual(expected === undefined ? [] : [expected]);
});

test('the function that records the use of keys has to exist', async () => {
  expect(await check('drop function public.record_usage(uuid, integer, date, integer, jsonb)')).toMatchObject([
    { function: 'record_usage', place: ['components', 'securitySchemes'] },
  ]);
});

test('an input of a header and of a body has its argument', async () => {
  const findings = await check(
    `drop function public.criar_aluno(text, text, text, text, text, text, uuid, text, text);
     create function public.criar_aluno(p_api_key text, p_nome text, p_email text, p_telefone text default null,
       p_sexo text default null, p_data_nascimento text default null, p_modalidade text default null)
     returns table (id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz)
     language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$ begin end $$;
     select private.publish('public.criar_aluno')`,
  );
  expect(findings.map(({ document, place }) => [document, place.slice(3)])).toEqual([
    ['the header parameter Idempotency-Key is its argument p_idempotency_key', ['parameters', 0]],
    [
      'the field p_academia_id is its argument p_academia_id',
      ['requestBody', 'content', 'application/json', 'schema', 'properties', 'p_academia_id'],
    ],
  ]);
});

test('only the fields of a closed object are an argument each', async () => {
  const findings = await check('', (_paths, { components }) => {
    Object.assign(components?.schemas?.NovoAluno ?? {}, { additionalProperties: true });
  });
  expect(findings[0]).toMatchObject({
    document: 'the whole body is its argument p_body',
    database: expect.stringMatching(/^it has no such argument: only an object of .* additionalProperties: false/),
  });
});

test('timetz is not written as a time of JSON Schema, and an array of texts or labels is no text', () => {
  const time = { type: 'string', format: 'time' };
  const types = ['time with time zone', 'text'];
  expect(types.map((type) => isWrittenAs(time, { type }))).toEqual([false, true]);
  expect(canHold(time, { type: 'time with time zone', labels: null })).toBe(true);
  const [texts, text] = [{ type: 'array', items: { type: 'string' } }, { type: 'string' }];
  expect([text, texts].map((schema) => canHold(schema, { type: 'text[]', labels: undefined }))).toEqual([false, true]);
  expect(isWrittenAs({ type: 'string', enum: ['a'] }, { type: 'public.letra[]', labels: ['a'] })).toBe(false);
});

test.each([undefined, false])('null is allowed only if the document says so, x-never-null: %j', async (isNever) => {
  const edit: Edit = (_paths, { components }) => {
    const student = components?.schemas?.Aluno as OpenAPIV3.SchemaObject;
    Object.assign(student.properties?.email ?? {}, { 'x-never-null': isNever });
  };
  const findings = await check('alter table private.alunos alter column email drop not null', edit);
  const remedy = /^a column of the name email may be null: let it be null .* or say x-never-null: true/;
  expect(findings).toMatchObject(
    ['listar_alunos', 'criar_aluno'].map((name) => ({
      ...{ function: name, document: 'email is never null', database: expect.stringMatching(remedy) },
    })),
  );
});

test('a constraint that has a text of its own has to exist', async () => {
  const findings = await check('', (paths) => {
    const texts = { api_keys_by_prefix: 'another key has this prefix', api_keys_by_name: 'another key has this name' };
    Object.assign(paths['/alunos']?.post?.responses ?? {}, {
      409: { description: 'It is taken', 'x-conflicts': texts },
    });
  });
  expect(findings).toEqual([
    {
      operation: 'criarAluno',
      function: 'criar_aluno',
      place: ['paths', '/alunos', 'post', 'responses', '409', 'x-conflicts'],
      document: 'a constraint is named api_keys_by_name',
      database: 'there is none in schema private',
      isAddition: false,
    },
  ]);
});

test('a write has to be volatile', async () => {
  const findings = await check(
    'alter function public.criar_aluno(text, text, text, text, text, text, uuid, text, text) stable',
  );
  const database = 'it is stable, and not volatile: say x-read-only: true if it only reads';
  expect(findings).toMatchObject([{ document: 'POST writes tables', database }]);
});

test.each([
  ['alter function $ security invoker', 'it is not security definer'],
  [
    'alter function $ strict',
    'it is strict, so Postgres does not run it where an argument is null, and so verifies no key: ' +
      'declare it called on null input',
  ],
  ['alter function $ reset search_path', 'its search_path is not set, and not pg_catalog, pg_temp'],
  ['alter function $ set search_path = public', 'its search_path is public, and not pg_catalog, pg_temp'],
  [
    'alter function $ owner to postgres',
    'its owner is postgres, which can log in, owns tables or bypasses row security, and not gateway_functions',
  ],
  ['revoke execute on function $ from gateway', 'gateway may not execute it'],
  ['grant execute on function $ to public', 'public may execute it too'],
  ['create role anon; grant execute on function $ to anon', 'anon may execute it too'],
  ['alter role gateway_functions bypassrls', undefined],
  ['create role service_role; grant execute on function $ to service_role', ''],
])('the security is that of a published function, after %s', async (sql, finding) => {
  const findings = await check(sql.replace('$', SIGNATURE));
  // A change of the owning role concerns every function. service_role may execute them: it is a Supabase project's secret key.
  if (finding === undefined) expect(findings).toHaveLength(operations.length);
  else expect(findings.map(({ database }) => database)).toEqual(finding === '' ? [] : [finding]);
  for (const { document, function: name } of findings) {
    expect(document).toBe(`x-rpc names a function published by private.publish('public.${name}')`);
  }
});
