import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compile } from '../../src/openapi/compile.ts';
import { type Difference, findDrift } from '../../src/openapi/drift.ts';
import { canHold, isWrittenAs } from '../../src/openapi/postgres-types.ts';
import { DESCRIPTION } from '../../src/store/catalog.ts';
import { document, operations } from '../helpers/api.ts';
import { as, type Db, openDatabase, rows } from '../helpers/database.ts';
import { compileOnce } from '../helpers/gateway.ts';

// Each rule of the check, broken by a migration or by an edit of the document.

let db: Db;

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(() => db.close());

type Edit = (paths: OpenAPIV3.PathsObject, document: OpenAPIV3.Document) => void;

/** What is found after a migration and an edit, both of which are gone afterwards. */
async function check(sql: string, edit?: Edit): Promise<Difference[]> {
  const edited = structuredClone(document);
  edit?.(edited.paths, edited);
  const compiled = await (edit ? compile(edited) : compileOnce());
  return as(db, 'postgres', async () => {
    await db.exec(sql);
    // What the gateway sees, it sees as this role.
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

/** The function of the list of gyms with something changed, published. */
function changed(change: Partial<typeof FUNCTION>): string {
  const { args, returns, clauses } = { ...FUNCTION, ...change };
  return `drop function ${SIGNATURE};
    create function public.listar_academias(${args}) returns ${returns} language plpgsql ${clauses} as $$ begin end $$;
    select private.publish('public.listar_academias')`;
}

/** The findings as texts; all are of the one operation, and only an addition says that it is one. */
async function find(sql: string, edit?: Edit): Promise<string[]> {
  const findings = await check(sql, edit);
  for (const finding of findings) {
    expect(finding).toMatchObject({ operation: 'listarAcademias', function: 'listar_academias' });
  }
  return findings.map(
    ({ document, database, isAddition }) => `${document}; ${database}${isAddition ? ' (an addition)' : ''}`,
  );
}

test('document and database agree', async () => {
  expect(await check('')).toEqual([]);
  expect(await check(changed({}))).toEqual([]);
});

describe('the function', () => {
  test('has to be there', async () => {
    expect(await find(`drop function ${SIGNATURE}`)).toEqual([
      'x-rpc names the function; there is none of that name in schema public',
    ]);
  });

  test('has to be there once', async () => {
    expect(
      await find(`create function public.listar_academias(p_api_key text) returns int language sql return 1`),
    ).toEqual([
      expect.stringMatching(
        /^x-rpc names the function; there are 2 of that name: keep one, and in a migration drop function .* or drop function /,
      ),
    ]);
  });

  test('that records the use of keys has to be there', async () => {
    expect(await check('drop function public.record_usage(uuid, integer, date, integer, jsonb)')).toMatchObject([
      { function: 'record_usage', place: ['components', 'securitySchemes'] },
    ]);
  });
});

describe('an input', () => {
  test('has its argument', async () => {
    const args = FUNCTION.args.replace('p_ativo', 'p_ativa');
    expect(await find(changed({ args }))).toEqual([
      'the query parameter ativo is its argument p_ativo; it has no such argument',
    ]);
  });

  test('of a header and of a body has its argument', async () => {
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

  test.each([
    ['p_ativo boolean', 'p_ativo integer', 'string, one of true, false; p_ativo is integer'],
    ['p_limit integer', 'p_limit boolean', 'integer, int32, 1 to 1000; p_limit is boolean'],
    ['p_offset integer', 'p_offset smallint', 'integer, int32, 0 to 2147483647; p_offset is smallint'],
    ['p_api_key text', 'p_api_key uuid', 'the API key is string; p_api_key is uuid'],
  ])('needs a type that holds all its values: not %s as %s', async (type, other, expected) => {
    const args = FUNCTION.args.replace(type, other).replace(/(smallint|boolean) default (100|0)/, '$1 default null');
    expect(await find(changed({ args }))).toEqual([expect.stringContaining(expected)]);
  });

  test.each([
    ['smallint', 'p_limit integer', 'p_limit smallint'],
    ['bigint', 'p_offset integer', 'p_offset bigint'],
    ['text', 'p_ativo boolean', 'p_ativo text'],
  ])('may have another type that holds all its values: %s', async (_type, from, to) => {
    const args = FUNCTION.args.replace(from, to);
    expect(await find(changed({ args }))).toEqual([]);
  });

  test('of an enumerated type has its values', async () => {
    const make = (...labels: string[]) =>
      `create type private.situacao as enum (${labels.map((label) => `'${label}'`)});
       ${changed({ args: FUNCTION.args.replace('p_ativo boolean', 'p_ativo private.situacao') })}`;
    expect(await find(make('true', 'false', 'talvez'))).toEqual([]);
    expect(await find(make('true', 'talvez'))).toEqual([
      'the query parameter ativo is string, one of true, false; p_ativo is private.situacao (true, talvez)',
    ]);
  });

  test('of a domain has the type that it is made of', async () => {
    const domain = (type: string) =>
      `create domain private.pagina as ${type};
       ${changed({ args: FUNCTION.args.replace('p_offset integer', 'p_offset private.pagina') })}`;
    expect(await find(domain('integer'))).toEqual([]);
    expect(await find(domain('smallint'))).toHaveLength(1);
  });

  test.each<[object, string]>([
    [{ type: 'integer', enum: [1, 2] }, 'smallint'],
    [{ enum: [1] }, 'integer'],
    [{ type: 'integer', minimum: -1, exclusiveMinimum: true, maximum: 100, exclusiveMaximum: true }, 'smallint'],
  ])('has the bounds that its schema gives it in any way: %j is %s', async (schema, type) => {
    const edit: Edit = (paths) => {
      paths['/academias']?.get?.parameters?.push({ name: 'ordem', in: 'query', schema });
    };
    expect(await find(changed({ args: `${FUNCTION.args}, p_ordem ${type} default null` }), edit)).toEqual([]);
  });

  test('is no array unless the document says so', async () => {
    const make = `create type private.situacao as enum ('true', 'false');
      ${changed({ args: FUNCTION.args.replace('p_ativo boolean', 'p_ativo private.situacao[]') })}`;
    expect(await find(make)).toEqual([
      'the query parameter ativo is string, one of true, false; p_ativo is private.situacao[] (true, false)',
    ]);
    const unknown = { type: 'text[]', labels: undefined };
    expect([
      canHold({ type: 'string' }, unknown),
      canHold({ type: 'array', items: { type: 'string' } }, unknown),
    ]).toEqual([false, true]);
  });

  test('without bounds needs a type without', async () => {
    const edit: Edit = (paths) => {
      const operation = paths['/academias']?.get;
      operation?.parameters?.push({ name: 'ordem', in: 'query', schema: { type: 'integer' } });
    };
    const args = (type: string) => `${FUNCTION.args}, p_ordem ${type} default null`;
    expect(await find(changed({ args: args('integer') }), edit)).toEqual([
      'the query parameter ordem is integer, -9007199254740991 to 9007199254740991; p_ordem is integer, which is too small: ' +
        'declare minimum and maximum, or format: int32 for an integer',
    ]);
    expect(await find(changed({ args: args('bigint') }), edit)).toEqual([]);
  });

  test('that may be left out needs a default, of the document or of the function', async () => {
    const args =
      'p_api_key text, p_ativo boolean, p_limit integer, p_offset integer default 0, p_after uuid default null, p_nada integer default 0';
    expect(await find(changed({ args: args.replace('p_offset integer default 0', 'p_offset integer') }))).toEqual([
      'the query parameter ativo may be left out and has no default; p_ativo has no default',
    ]);
  });
});

describe('an argument', () => {
  test('without a default has an input', async () => {
    const args = `p_ordem text, ${FUNCTION.args}`;
    expect(await find(changed({ args }))).toEqual(['no input is its argument p_ordem; p_ordem has no default']);
  });

  test('with a default needs none', async () => {
    expect(await find(changed({ args: `${FUNCTION.args}, p_ordem text default ''` }))).toEqual([]);
  });
});

describe('the result', () => {
  test.each([
    [
      'a column that is missing',
      'id uuid, nome text, criado_em timestamptz',
      'the response has ativo; it returns no such column',
    ],
    [
      'a column more',
      'id uuid, nome text, ativo boolean, criado_em timestamptz, cnpj text',
      'the response has no cnpj; it returns the column cnpj (an addition)',
    ],
    [
      'a column of another type',
      'id text, nome text, ativo boolean, criado_em timestamptz',
      'id is string, uuid; the column id is text',
    ],
    [
      'a time without its zone',
      'id uuid, nome text, ativo boolean, criado_em timestamp',
      'criado_em is string, date-time; the column criado_em is timestamp without time zone',
    ],
    [
      'a number for a text',
      'id uuid, nome integer, ativo boolean, criado_em timestamptz',
      'nome is string; the column nome is integer',
    ],
    [
      'a row for a text',
      'id uuid, nome private.academias, ativo boolean, criado_em timestamptz',
      'nome is string; the column nome is record, which is written as an object: return jsonb',
    ],
    [
      'a text for a boolean',
      'id uuid, nome text, ativo text, criado_em timestamptz',
      'ativo is boolean; the column ativo is text',
    ],
  ])('has the columns of the response: not %s', async (_what, columns, finding) => {
    expect(await find(changed({ returns: `table (${columns})` }))).toEqual([finding]);
  });

  test.each([
    ['void', 'void'],
    ['public.nomes', 'record'],
  ])('is no text if the function returns %s', async (returns, told) => {
    const toText: Edit = (paths) => {
      const source = paths['/academias']?.get as OpenAPIV3.OperationObject;
      source.responses[200] = { description: '', content: { 'application/json': { schema: { type: 'string' } } } };
    };
    const sql = `create type public.nomes as (nome text, apelido text); ${changed({ returns })}`;
    expect(await find(sql, toText)).toContain(`the response is string; it returns ${told}`);
  });

  test('is no time whose zone Postgres writes without minutes', () => {
    const time = { type: 'string', format: 'time' };
    const types = ['time with time zone', 'text'];
    expect(types.map((type) => isWrittenAs(time, { type }))).toEqual([false, true]);
    expect(canHold(time, { type: 'time with time zone', labels: null })).toBe(true);
  });

  test('may be rows of a table, whose columns are the columns', async () => {
    const findings = await find(changed({ returns: 'setof private.academias' }));
    expect(findings).toEqual(['the response has no tenant_id; it returns the column tenant_id (an addition)']);
  });

  test.each([undefined, false])('may be null only where the document says so, x-never-null: %j', async (isNever) => {
    const edit: Edit = (_paths, { components }) => {
      const student = components?.schemas?.Aluno as OpenAPIV3.SchemaObject;
      Object.assign(student.properties?.email ?? {}, { 'x-never-null': isNever });
    };
    const findings = await check('alter table private.alunos alter column email drop not null', edit);
    expect(findings.map(({ function: name, document, database }) => [name, document, database])).toEqual([
      [
        'listar_alunos',
        'email is never null',
        expect.stringMatching(/^a column of the name email may be null: let it be null .* or say x-never-null: true/),
      ],
      [
        'criar_aluno',
        'email is never null',
        expect.stringMatching(/^a column of the name email may be null: let it be null .* or say x-never-null: true/),
      ],
    ]);
  });

  test('is never null in a column whose domain is not null', async () => {
    const sql = `create domain private.escrito as text not null;
      create domain private.nome as private.escrito;
      alter table private.academias alter column nome drop not null, alter column nome type private.nome;`;
    expect(await find(sql)).toEqual([]);
    expect(await find(sql + changed({ returns: 'setof private.academias' }))).toEqual([
      'the response has no tenant_id; it returns the column tenant_id (an addition)',
    ]);
  });

  test('is a set where the response is an array', async () => {
    const returns = 'record';
    const args = `${FUNCTION.args}, out id uuid, out nome text, out ativo boolean, out criado_em timestamptz`;
    expect(await find(changed({ args, returns }))).toEqual(['the response is an array; it returns one row']);
  });

  test('has columns where a record has properties, and is JSON where it has none', async () => {
    const toAny: Edit = (paths) => {
      const response = paths['/academias']?.get?.responses['200'] as OpenAPIV3.ResponseObject;
      const media = response.content?.['application/json'] as OpenAPIV3.MediaTypeObject;
      (media.schema as OpenAPIV3.ArraySchemaObject).items = { type: 'object', required: ['id'] };
    };
    const [json, text] = ['jsonb', 'text'].map((type) => changed({ returns: `setof ${type}` })) as [string, string];
    expect(await find(json)).toEqual(['the properties of a record are columns; it returns jsonb']);
    expect(await find(json, toAny)).toEqual([]);
    expect(await find(text, toAny)).toEqual(['an item is object; it returns text']);
  });

  test('is one row where the response is an object', async () => {
    const edit: Edit = (paths) => {
      const response = paths['/academias']?.get?.responses['200'] as OpenAPIV3.ResponseObject;
      const media = response.content?.['application/json'] as OpenAPIV3.MediaTypeObject;
      media.schema = (media.schema as OpenAPIV3.ArraySchemaObject).items;
      // Only a list has a next page.
      delete response.headers?.Link;
    };
    const one = `${FUNCTION.clauses} rows 1`;
    expect(await find(changed({ clauses: one }), edit)).toEqual([]);
    expect(await find(changed({}), edit)).toEqual([
      'the response is one object; it may return many rows: declare "rows 1" if it returns one',
    ]);
  });
});

test.each(['volatile', 'immutable'])('a read is stable, and not %s', async (volatility) => {
  const clauses = FUNCTION.clauses.replace('stable', volatility);
  expect(await find(changed({ clauses }))).toEqual([`GET reads tables; it is ${volatility}, and not stable`]);
});

test('a status that the function raises and the document does not declare is told', async () => {
  const body = `begin raise sqlstate 'PT401'; raise sqlstate 'PT404'; end`;
  const findings = await check(changed({}).replace('begin end', body));
  expect(findings.map(({ document, database, isAddition }) => [document, database, isAddition])).toEqual([
    ['there is no response 404', 'it raises PT404, which would be a 502', true],
  ]);
});

test('a constraint that has a text of its own is there', async () => {
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

test('a write is volatile', async () => {
  const findings = await check(
    'alter function public.criar_aluno(text, text, text, text, text, text, uuid, text, text) stable',
  );
  expect(findings).toMatchObject([{ document: 'POST writes tables', database: 'it is stable, and not volatile' }]);
});

describe('the security', () => {
  test.each([
    ['security definer', `alter function ${SIGNATURE} security invoker`, 'it is not security definer'],
    [
      'the path',
      `alter function ${SIGNATURE} reset search_path`,
      'its search_path is not set, and not pg_catalog, pg_temp',
    ],
    [
      'another path',
      `alter function ${SIGNATURE} set search_path = public`,
      'its search_path is public, and not pg_catalog, pg_temp',
    ],
    [
      'the owner',
      `alter function ${SIGNATURE} owner to postgres`,
      'its owner is postgres, which can log in, owns tables or bypasses row security, and not gateway_functions',
    ],
    ['the grant', `revoke execute on function ${SIGNATURE} from gateway`, 'gateway may not execute it'],
    ['everybody', `grant execute on function ${SIGNATURE} to public`, 'public may execute it too'],
    ['another role', `create role anon; grant execute on function ${SIGNATURE} to anon`, 'anon may execute it too'],
    ['an able owner', 'alter role gateway_functions bypassrls', ''],
  ])('is that of a published function: %s', async (_what, sql, finding) => {
    const findings = await check(sql);
    if (finding) expect(findings.map(({ database }) => database)).toEqual([finding]);
    else expect(findings).toHaveLength(operations.length);
    for (const { document, function: name } of findings) {
      expect(document).toBe(`x-rpc names a function published by private.publish('public.${name}')`);
    }
  });

  test('lets a secret key of a Supabase project execute it', async () => {
    expect(await check(`create role service_role; grant execute on function ${SIGNATURE} to service_role`)).toEqual([]);
  });
});
