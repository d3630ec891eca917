import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { document, KEYS, operations } from './helpers/api.ts';
import { as, openDatabase, rows } from './helpers/database.ts';
import { MIGRATIONS } from './helpers/gateway.ts';

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const BOSQUE = 'b0000000-0000-4000-8000-000000000000';
const functions = operations.map(({ operation }) => (operation as { 'x-rpc'?: string })['x-rpc'] ?? '');
const lists = functions.filter((name) => name.startsWith('listar_'));
let db: PGlite;

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(() => db.close());

describe('the catalog', () => {
  test('has in public the functions of the document and nothing else', async () => {
    const published = await rows<{ name: string }>(
      db,
      `select proname as name from pg_proc where pronamespace = 'public'::regnamespace order by 1`,
    );
    expect(published.map(({ name }) => name)).toEqual([...functions, 'record_key_use'].sort());
    expect(await rows(db, `select relname from pg_class where relnamespace = 'public'::regnamespace`)).toEqual([]);
  });

  test.each(functions)('has %s with owner, security, path, grants and a comment', async (name) => {
    const method = operations[functions.indexOf(name)]?.method;
    const [found] = await rows(
      db,
      `select p.proowner::regrole::text as owner, p.prosecdef as definer, p.provolatile as volatility,
              p.proconfig[1] as path, p.proconfig @> '{statement_timeout=5s}' as timeout, obj_description(p.oid) is not null as commented,
              (select array_agg(a.grantee::regrole::text order by a.grantee::regrole::text) from aclexplode(p.proacl) a) as executors
         from pg_proc p where p.proname = $1 and p.pronamespace = 'public'::regnamespace`,
      [name],
    );
    expect(found).toEqual({
      owner: 'gateway_functions',
      definer: true,
      volatility: method === 'GET' ? 's' : 'v',
      path: 'search_path=pg_catalog, pg_temp',
      timeout: true,
      commented: true,
      executors: ['gateway', 'gateway_functions'],
    });
  });

  test('lets nobody but their callers execute the private functions', async () => {
    const executors = await rows<{ name: string; executors: string[] }>(
      db,
      `select p.proname as name, (select array_agg(a.grantee::regrole::text) from aclexplode(p.proacl) a
                                   where a.grantee <> p.proowner) as executors
         from pg_proc p where p.pronamespace = 'private'::regnamespace order by 1`,
    );
    const granted = executors.filter(({ executors }) => executors !== null);
    expect(Object.fromEntries(granted.map(({ name, executors }) => [name, executors]))).toEqual({
      current_tenant: ['gateway_functions'],
      forget_responses: ['gateway_functions'],
      keep_response: ['gateway_functions'],
      recall_response: ['gateway_functions'],
      require_academia: ['gateway_functions'],
      search_alunos: ['gateway_functions'],
      to_birth_date: ['gateway_functions'],
      to_uuid: ['gateway_functions'],
      touch_key: ['gateway_functions'],
      verify_key: ['gateway_functions'],
    });
  });

  test('has every private function commented and with a fixed path', async () => {
    const loose = await rows(
      db,
      `select proname from pg_proc where pronamespace = 'private'::regnamespace
          and (obj_description(oid) is null or not proconfig @> '{"search_path=pg_catalog, pg_temp"}')`,
    );
    expect(loose).toEqual([]);
  });

  test('has row security enabled and forced, with a policy, for every table', async () => {
    const tables = await rows(
      db,
      `select relname, relrowsecurity and relforcerowsecurity as forced,
              exists (select from pg_policy where polrelid = c.oid) as policy, obj_description(oid) is not null as commented
         from pg_class c where relnamespace = 'private'::regnamespace and relkind in ('r', 'p') order by 1`,
    );
    const names = [
      'academias',
      'alunos',
      'anamnese_secoes',
      'anamneses',
      'api_keys',
      'idempotency_keys',
      'personais',
      'tenants',
      'treinos',
    ];
    expect(tables).toEqual(names.map((relname) => ({ relname, forced: true, policy: true, commented: true })));
  });

  test('has tenant_id first in every primary key and in every foreign key', async () => {
    const keys = await rows(
      db,
      `select c.conrelid::regclass::text as table, c.contype as kind, pg_get_constraintdef(c.oid) as definition
         from pg_constraint c join pg_class r on r.oid = c.conrelid
        where r.relnamespace = 'private'::regnamespace and c.contype in ('p', 'f') and c.conrelid <> 'private.tenants'::regclass
          and pg_get_constraintdef(c.oid) !~ '^(PRIMARY|FOREIGN) KEY \\(tenant_id'`,
    );
    expect(keys).toEqual([]);
  });

  test('has an index behind every foreign key', async () => {
    const unindexed = await rows(
      db,
      `select c.conrelid::regclass::text as table, c.conname from pg_constraint c
        where c.contype = 'f' and not exists (
          select from pg_index i
           where i.indrelid = c.conrelid and (i.indkey::smallint[])[0:cardinality(c.conkey) - 1] = c.conkey)`,
    );
    expect(unindexed).toEqual([]);
  });

  test('has roles that cannot log in, own no table and do not bypass row security', async () => {
    const roles = await rows(
      db,
      `select rolname, rolcanlogin or rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolinherit as able,
              (select count(*)::int from pg_class where relowner = r.oid) as owns
         from pg_roles r where rolname like 'gateway%' order by 1`,
    );
    const names = ['gateway', 'gateway_functions', 'gateway_keys', 'gateway_retention', 'gateway_search'];
    expect(roles).toEqual(names.map((rolname) => ({ rolname, able: false, owns: 0 })));
  });

  test('executes nothing for everybody that is created later', async () => {
    const executors = await as(db, 'postgres', async () => {
      await db.query('create function public.later() returns int language sql as $$ select 1 $$');
      return rows(db, `select has_function_privilege('gateway_keys', 'public.later()', 'execute') as allowed`);
    });
    expect(executors).toEqual([{ allowed: false }]);
  });
});

describe('publish', () => {
  const publish = (clauses: string, schema = 'public') =>
    as(db, 'postgres', async () => {
      await db.exec(`create function ${schema}.nova() returns table (n int) language sql ${clauses} as $$ select 1 $$`);
      await db.query(`select private.publish('${schema}.nova')`);
    });

  test('refuses a function without security definer or without the path', async () => {
    await expect(publish('set search_path = pg_catalog, pg_temp')).rejects.toThrow('lacks "security definer"');
    await expect(publish('security definer')).rejects.toThrow('lacks "security definer"');
    await expect(publish('security definer set search_path = public')).rejects.toThrow('lacks "security definer"');
    await expect(publish('security definer set search_path = pg_catalog, pg_temp')).resolves.toBeUndefined();
  });

  test('refuses a function of another schema', async () => {
    const clauses = 'security definer set search_path = pg_catalog, pg_temp';
    await expect(publish(clauses, 'private')).rejects.toThrow('it is in schema private');
  });
});

describe('a key', () => {
  const verify = (key: string | null, name = 'listar_alunos') =>
    as(db, 'gateway_functions', () => rows(db, 'select private.verify_key($1, $2) as tenant', [key, name]));

  test('gives its tenant', async () => {
    expect(await verify('wms_demo_aurora')).toEqual([{ tenant: AURORA }]);
  });

  test.each([null, '', 'wms_demo', 'wms_demo_aurora '])('that is not there is refused: %j', async (key) => {
    await expect(verify(key)).rejects.toMatchObject({ code: 'PT401', message: 'API Key inválida' });
  });

  test('that is inactive and expired and lacks the permission is told the first of it', async () => {
    await expect(verify('wms_demo_inativa', 'x')).rejects.toMatchObject({ message: 'API Key inativa' });
    await expect(verify('wms_demo_expirada', 'x')).rejects.toMatchObject({ message: 'API Key expirada' });
    await expect(verify('wms_demo_leitura', 'x')).rejects.toMatchObject({ message: 'API Key sem permissão para x' });
  });

  test('is stored as its hash alone', async () => {
    const text = JSON.stringify(await rows(db, 'select * from private.api_keys'));
    for (const key of Object.values(KEYS)) expect(text).not.toContain(key);
  });
});

describe('the role gateway', () => {
  test.each([
    'select * from private.alunos',
    'select * from private.api_keys',
    `select private.verify_key('wms_demo_aurora', 'listar_alunos')`,
    `select * from private.search_alunos('${AURORA}', 'a', null, null, true, null, 10, 0)`,
    'create table public.t (n int)',
    'create function public.f() returns int language sql as $$ select 1 $$',
    'select * from supabase_migrations.schema_migrations',
  ])('may not: %s', async (sql) => {
    await expect(as(db, 'gateway', () => rows(db, sql))).rejects.toMatchObject({ code: '42501' });
  });

  test('is not led astray by a tenant that was set before', async () => {
    const students = await as(db, 'gateway', async () => {
      await db.query(`select set_config('wellness.tenant_id', '${AURORA}', true)`);
      return rows(db, `select * from public.listar_alunos('wms_demo_bosque')`);
    });
    expect(students).toHaveLength(5);
  });

  test('is not led astray by a temporary table in front of a real one', async () => {
    const students = await as(db, 'gateway', async () => {
      await db.query('create temporary table alunos (nome text)');
      await db.query('create temporary table api_keys (tenant_id uuid, key_hash bytea)');
      return rows(db, `select * from public.listar_alunos('wms_demo_bosque')`);
    });
    expect(students).toHaveLength(5);
  });
});

describe.each([
  ['without row security', removeRowSecurity],
  ['without the tenant in any query of a function', removePredicates],
])('%s', (_which, removeWall) => {
  let wall: PGlite;

  beforeAll(async () => {
    wall = await openDatabase();
    await removeWall(wall);
  });

  afterAll(() => wall.close());

  test.each(lists)('%s gives the rows of the tenant of the key alone', async (name) => {
    for (const key of ['wms_demo_aurora', 'wms_demo_bosque']) {
      const call = `select id from public.${name}($1, p_limit => 1000) order by 1`;
      const expected = await as(db, 'gateway', () => rows(db, call, [key]));
      expect(await as(wall, 'gateway', () => rows(wall, call, [key]))).toEqual(expected);
      expect(expected.length).toBeGreaterThan(0);
    }
  });

  test('a search by name gives no student of another tenant', async () => {
    const found = await as(wall, 'gateway', () =>
      rows<{ id: string }>(
        wall,
        `select id from public.listar_alunos('wms_demo_bosque', p_limit => 1000, p_nome => 'a')`,
      ),
    );
    expect(found).toHaveLength(5);
    expect(found.every(({ id }) => id.startsWith('b3'))).toBe(true);
  });

  test('a student cannot be created at a gym of another tenant', async () => {
    const create = as(wall, 'gateway', () =>
      rows(
        wall,
        `select * from public.criar_aluno('wms_demo_bosque', 'A', 'a@b.co',
                    p_academia_id => 'a1000000-0000-4000-8000-000000000001')`,
      ),
    );
    await expect(create).rejects.toMatchObject({ code: 'PT422', detail: 'p_academia_id' });
  });
});

test('row security lets no row of another tenant be written', async () => {
  const insert = as(db, 'gateway_functions', async () => {
    await db.query(`select set_config('wellness.tenant_id', '${BOSQUE}', true)`);
    await db.query(`insert into private.alunos (tenant_id, nome, email) values ('${AURORA}', 'A', 'a@b.co')`);
  });
  await expect(insert).rejects.toMatchObject({ code: '42501', message: expect.stringContaining('row-level security') });
});

test('no row can point into another tenant, not even an administrator can make it', async () => {
  const insert = rows(
    db,
    `insert into private.alunos (tenant_id, nome, email, academia_id)
     values ('${BOSQUE}', 'A', 'a@b.co', 'a1000000-0000-4000-8000-000000000001')`,
  );
  await expect(insert).rejects.toMatchObject({ code: '23503' });
});

describe('error-codes.md', () => {
  const text = readFileSync('supabase/error-codes.md', 'utf8');
  const listed = [...text.matchAll(/^\| `(\w+)` \| `([^`]+)` \| /gm)].map(([, code, message]) => [code, message]);

  test('lists what the functions and the migrations themselves raise, and nothing else', async () => {
    const migrations = readdirSync(MIGRATIONS).map((file) => readFileSync(join(MIGRATIONS, file), 'utf8'));
    // A function that a migration has made may have been replaced by a later one.
    const blocks = migrations.flatMap((sql) => [...sql.matchAll(/^do \$\$.*?^\$\$;/gms)].map(([block]) => block));
    const functions = await rows<{ prosrc: string }>(
      db,
      `select prosrc from pg_proc where pronamespace in ('public'::regnamespace, 'private'::regnamespace)`,
    );
    const sql = [...blocks, ...functions.map(({ prosrc }) => prosrc)].join('\n');
    const raised = [
      ...sql.matchAll(/raise exception using\s+errcode = '(\w+)',\s+message = (?:format\()?'((?:[^']|'')+)'/g),
    ].map(([, code, message]) => [code, message]);
    expect(raised).toHaveLength(sql.match(/raise exception/g)?.length ?? 0);
    expect(listed.toSorted()).toEqual(raised.toSorted());
  });
});

test('the document names a function of the database in every operation', () => {
  expect(Object.keys(document.paths).length).toBeGreaterThan(0);
  expect(functions).not.toContain('');
});

async function removeRowSecurity(wall: PGlite): Promise<void> {
  const tables = await rows<{ name: string }>(
    wall,
    `select oid::regclass::text as name from pg_class where relnamespace = 'private'::regnamespace and relkind = 'r'`,
  );
  for (const { name } of tables) {
    await wall.exec(`alter table ${name} disable row level security; alter table ${name} no force row level security`);
  }
}

async function removePredicates(wall: PGlite): Promise<void> {
  const sources = await rows<{ definition: string }>(
    wall,
    `select pg_get_functiondef(oid) as definition from pg_proc
      where pronamespace in ('public'::regnamespace, 'private'::regnamespace) and prosrc ~ 'tenant_id = [pv]_tenant\\M'`,
  );
  // Every list, the search, the gym's check and the two of idempotency.
  expect(sources).toHaveLength(lists.length + 4);
  for (const { definition } of sources)
    await wall.exec(definition.replaceAll(/\w+\.tenant_id = [pv]_tenant\b/g, 'true'));
}
