import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { load, toKey } from '../../scripts/bench/data.ts';
import { createStatementWriter, type Statement } from '../../src/store/statement.ts';
import type { Call } from '../../src/store/store.ts';
import { lists } from '../helpers/api.ts';
import { useOpened } from '../helpers/database.ts';
import { canTestOnDebian, startDebianPostgres } from '../helpers/debian-postgres.ts';
import { asAdmin, createDatabase } from '../helpers/servers.ts';

// Checks how the lists find their rows when one tenant has twice as many as all others together.

const OTHERS = { tenants: 99, students: 500 };
/** The numbers of large-tenant.sql. */
const [TENANT, STUDENTS] = [100, 100_000];
const KINDS = { academia: 3, personal: 4, aluno: 5, treino: 6, anamnese: 7, secao: 9, uso: 10 };
/** The id of a change in the middle. */
const CHANGE = '00060d00-0000-8000-8000-000006000001';

/** The maximum of pages that a list may read, counted each time, if its time must not grow. Reading all would be more. */
const MOST_PAGES = 1_500;

type Query = Readonly<Record<string, string>>;
type Case = { readonly path: string; readonly query: Query; readonly isBounded: boolean };

/** The id that large-tenant.sql gives to a row. */
function toId(kind: keyof typeof KINDS, row: number): string {
  const digits = (number: number, length: number) => number.toString(16).padStart(length, '0');
  return `${digits(KINDS[kind], 8)}-0000-4000-8000-${digits(TENANT, 5)}${digits(row, 7)}`;
}

/** A gym with half of the students, a closed one, and one with 20 students. */
const [GYM, CLOSED, GYM_OF_20] = [0, 8, 9].map((row) => ({ academia_id: toId('academia', row) }));
/** A trainer with a tenth of the students, one of another gym, and one with 10 students. */
const [TRAINER, ELSEWHERE, TRAINER_OF_10] = [0, 2, 39].map((row) => {
  return { id_personal: toId('personal', row).replaceAll('-', '') };
});
/** A last name that five students have. */
const RARE = { nome: 'Kretzschmar' };
/** The last page of 100, and one in the middle. */
const LAST = { after: toId('aluno', STUDENTS - 101) };
const MIDDLE = { after: toId('aluno', STUDENTS / 2 - 101) };

/** Lists whose time does not depend on the number of records. */
const BOUNDED: Readonly<Record<string, readonly Query[]>> = {
  '/alunos': [
    ...[{}, { limit: '10' }, { offset: '100' }, { after: toId('aluno', 99) }, MIDDLE, LAST],
    ...[{ ...LAST, ativo: 'true' }, { ...LAST, ...GYM }, { ativo: 'true' }, { ativo: 'false' }],
    ...[{ ...GYM }, { ...GYM_OF_20 }, { ...TRAINER }, { ...TRAINER_OF_10 }],
    ...[GYM, TRAINER, { ...GYM, ...TRAINER }].map((filter) => ({ ...filter, ativo: 'false' })),
    ...[{ ativo: 'true' }, ELSEWHERE].map((filter) => ({ ...CLOSED, ...filter })),
    { ...GYM, ...TRAINER },
    // Names of a fifth, of a third, of nearly all, and of none of the students.
    ...['silva', 'ar', 'a', 'xyzzy', 'yq', '&', 'ñý'].map((nome) => ({ nome })),
    ...[{}, GYM, MIDDLE].map((filter) => ({ ...RARE, ...filter })),
    ...[LAST, { ativo: 'false' }, GYM_OF_20, TRAINER].map((filter) => ({ nome: 'silva', ...filter })),
    { nome: 'silva', ...CLOSED, ativo: 'true' },
    { nome: 'yq', ativo: 'true' },
  ],
  '/treinos': [
    ...[{}, { after: toId('treino', STUDENTS - 101) }, { ativo: 'false' }, { id_aluno: toId('aluno', 500) }],
    ...[{ ...TRAINER }, { ...TRAINER_OF_10 }, { ...TRAINER, ativo: 'false' }],
    // All workouts, half of them, the last 200, and none.
    { data_inicio_gte: '2024-01-01' },
    { data_inicio_gte: '2024-11-06', after: toId('treino', STUDENTS - 101) },
    ...[{ data_inicio_gte: '2025-07-13' }, { data_inicio_gte: '2100-01-01' }],
  ],
  '/anamnese/alunos': [
    ...[{}, { after: toId('anamnese', STUDENTS - 505) }, { status: 'pendente' }, { status: 'revisão' }],
    { id_aluno: toId('aluno', 500).replaceAll('-', '') },
  ],
  '/academias': [{}, { ativo: 'true' }, { offset: '100' }, { after: toId('academia', 5) }],
  '/personais': [{}, { ...GYM }, { offset: '100' }, { after: toId('personal', 20) }],
  '/anamnese/secoes': [{}, { offset: '100' }, { after: toId('secao', 0) }],
  '/uso': [{}, { offset: '100' }, { dia_gte: '2026-01-01' }, { after: toId('uso', 0) }],
  '/alteracoes': [{}, { offset: '1' }, { after: CHANGE }, { after: CHANGE, recurso: 'personais' }],
};

/** Lists that count what they skip, sort what they find, or look for a name that is neither frequent nor rare. */
const UNBOUNDED: Readonly<Record<string, readonly Query[]>> = {
  '/alunos': [
    ...[{ offset: '49900' }, { offset: '99900' }, { offset: '84900', ativo: 'true' }, { offset: '39900', ...GYM }],
    ...['zw', 'w', 'correia', 'antônio alves'].map((nome) => ({ nome })),
  ],
  '/treinos': [{ offset: '99900' }, { data_inicio_gte: '2024-11-06' }],
  '/anamnese/alunos': [{ offset: '19900' }],
};

const ALL = [BOUNDED, UNBOUNDED].flatMap((lists) =>
  Object.entries(lists).flatMap(([path, queries]) =>
    queries.map((query): Case => ({ path, query, isBounded: lists === BOUNDED })),
  ),
);

const SERVERS = [
  {
    name: 'Postgres 18',
    start: async () => {
      const { adminUrl, drop } = await createDatabase();
      return { url: adminUrl, stop: drop };
    },
  },
  ...(canTestOnDebian('plpgsql_check')
    ? [
        {
          name: 'Postgres 15',
          start: async () => {
            const { superuserUrl, stop } = await startDebianPostgres();
            return { url: superuserUrl, stop };
          },
        },
      ]
    : []),
];

test.each(lists)('$id has a case for each of its filters', ({ path, operation }) => {
  const names = (operation.parameters ?? []).map((parameter) => ('name' in parameter ? parameter.name : ''));
  const used = ALL.filter((case_) => case_.path === path).flatMap(({ query }) => Object.keys(query));
  expect(new Set([...used, 'limit', 'X-Api-Key'])).toEqual(new Set([...names, 'X-Api-Key']));
});

describe.each(SERVERS)('on $name', ({ name, start }) => {
  const server = useOpened<Awaited<ReturnType<typeof start>>>(start, ({ stop }) => stop());

  beforeAll(() => asAdmin(server.url, fill));

  test.each(ALL)('$path $query: reads no table from its beginning to its end', async (case_) => {
    const plans = await inTransaction(server.url, (db) => explain(db, toCall(case_)));
    expect(plans.map((plan) => plan.function)).toEqual(expect.arrayContaining([`public.${functionOf(case_.path)}`]));
    expect(findSequentialScans(plans)).toEqual([]);
    if (case_.isBounded) expect(countPages(plans)).toBeLessThan(MOST_PAGES);
  });

  test('forgetting old changes reads no change that is kept', async () => {
    const plans = await inTransaction(server.url, async (db) => {
      await db.query(`update private.tenants set changes_kept = '50 years'`);
      const text = `select from public.record_usage(gen_random_uuid(), null, current_date, 400, '[]')`;
      return explain(db, { text, values: [] });
    });
    const own = plans.filter((plan) => plan.function === 'private.forget_changes');
    expect(findSequentialScans(own)).toEqual(['private.forget_changes: Seq Scan on tenants t']);
    // Only the tenants are read.
    expect(listReaders(own)).toEqual(['Seq Scan', 'CTE Scan']);
  });

  test('a resource without changes is not searched for among all changes', async () => {
    const plans = await inTransaction(server.url, async (db) => {
      // The planner then takes every change for one of this resource.
      await db.query(
        `update private.changes set resource = 'alunos' where resource <> 'alunos'; analyze private.changes`,
      );
      return explain(db, toCall({ path: '/alteracoes', query: { recurso: 'academias' } }));
    });
    // All changes are on more than 900 pages.
    expect(countPages(plans)).toBeLessThan(300);
  });

  test('the erasure of a student looks once through the changes of each table', async () => {
    const plans = await inTransaction(server.url, async (db) => {
      const { rows } = await db.query(
        `insert into private.treinos (tenant_id, nome, aluno_id, personal_id, data_inicio)
         select t.tenant_id, t.nome, t.aluno_id, t.personal_id, t.data_inicio
           from (select * from private.treinos limit 1) t, generate_series(1, 5) returning tenant_id, aluno_id`,
      );
      const values = [rows[0].tenant_id, rows[0].aluno_id];
      return explain(db, { text: 'select private.erase_student($1, $2)', values }, 'none');
    });
    const changed = plans.filter(
      (plan) => plan.function === 'private.erase_student' && plan.node['Relation Name'] === 'changes',
    );
    // The changes of alunos, treinos and anamneses.
    expect(changed).toHaveLength(3);
  });

  test('detects a full table read if an index is missing', async () => {
    const query = { id_aluno: toId('aluno', 500) };
    const plans = await explainWithout(server.url, 'treinos_by_aluno', { path: '/treinos', query });
    expect(findSequentialScans(plans)).toContain('public.listar_treinos: Seq Scan on treinos t');
  });

  test.each([
    ['alunos_in_order', {}],
    ['alunos_by_name_parts', { nome: 'yq' }],
    ['alunos_by_name_parts', { nome: 'xyzzy' }],
  ])('without %s the plan of %j reads too much', async (index, query) => {
    expect(countPages(await explainWithout(server.url, index, { path: '/alunos', query }))).toBeGreaterThan(MOST_PAGES);
  });

  // The result does not depend on the version, but the plan may.
  test.runIf(name === SERVERS[0]?.name).each(ALL.filter(({ query }) => query.nome && !query.after))(
    '$query: finds what a search of all would',
    async ({ query }) => {
      await inTransaction(server.url, async (db) => {
        for (const page of [
          { limit: '100', offset: '0' },
          { limit: '7', offset: '3' },
          { limit: '1000', offset: '2000' },
        ]) {
          const { text, values } = toCall({ path: '/alunos', query: { ...query, ...page } });
          const { rows } = await db.query(text, [...values]);
          expect(JSON.parse(rows[0].json).map(({ id }: { id: string }) => id)).toEqual(await search(db, query, page));
        }
      });
    },
  );
});

// The plans of the statements inside functions, which auto_explain sends to the client that calls.

/** A node of a plan with those below it, as far as a test reads them. */
type Node = {
  readonly 'Node Type': string;
  readonly Schema?: string;
  readonly 'Relation Name'?: string;
  readonly Alias?: string;
  readonly 'Actual Rows'?: number;
  readonly 'Shared Hit Blocks'?: number;
  readonly 'Shared Read Blocks'?: number;
  readonly Plans?: readonly Node[];
};

/** The plan of a statement, and the function that the statement is in. The call itself is in none. */
type Plan = { readonly function: string | undefined; readonly node: Node };

const SETTINGS = `
  load 'auto_explain';
  set auto_explain.log_min_duration = 0;
  set auto_explain.log_nested_statements = on;
  set auto_explain.log_format = json;
  set auto_explain.log_verbose = on;
  -- For the pages that a plan has read; without the times of its nodes, which nobody asks for.
  set auto_explain.log_analyze = on;
  set auto_explain.log_buffers = on;
  set auto_explain.log_timing = off;
  set client_min_messages = log;`;

/** Runs a statement as a role on a superuser's connection, and undoes it. Returns all plans of it. */
async function explain(db: pg.Client, { text, values }: Statement, role = 'gateway'): Promise<Plan[]> {
  const plans: Plan[] = [];
  const onNotice = ({ message, where }: { message?: string | undefined; where?: string | undefined }) => {
    const json = /^duration: .* plan:\n(.*)/s.exec(message ?? '')?.[1];
    if (json) plans.push({ function: /function (\S+)\(/.exec(where ?? '')?.[1], node: JSON.parse(json).Plan });
  };
  await db.query('savepoint explain');
  await db.query(SETTINGS);
  await db.query(`set role ${role}`);
  db.on('notice', onNotice);
  try {
    await db.query(text, [...values]);
  } finally {
    db.off('notice', onNotice);
    await db.query('rollback to savepoint explain');
  }
  return plans;
}

/** Does something in a transaction that is rolled back. */
const inTransaction = <T>(url: string, work: (db: pg.Client) => Promise<T>): Promise<T> =>
  asAdmin(url, async (db) => {
    await db.query('begin');
    return work(db);
  });

/** The scans that read a whole table of the tenants, in words. */
function findSequentialScans(plans: readonly Plan[]): string[] {
  return plans.flatMap((plan) =>
    nodesOf(plan.node)
      .filter((node) => node['Node Type'] === 'Seq Scan' && node.Schema === 'private')
      .map((node) => `${plan.function ?? 'the call'}: Seq Scan on ${node['Relation Name']} ${node.Alias}`),
  );
}

/** The kinds of nodes that have found rows. */
function listReaders(plans: readonly Plan[]): string[] {
  return plans.flatMap(({ node }) => nodesOf(node)).flatMap((node) => (node['Actual Rows'] ? node['Node Type'] : []));
}

/** The number of pages of 8 kB that the call has read, of all tables and indexes, including what it calls. */
function countPages(plans: readonly Plan[]): number {
  return Math.max(...plans.map(({ node }) => (node['Shared Hit Blocks'] ?? 0) + (node['Shared Read Blocks'] ?? 0)));
}

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

function explainWithout(url: string, index: string, list: Pick<Case, 'path' | 'query'>): Promise<Plan[]> {
  return inTransaction(url, async (db) => {
    await db.query(`drop index private.${index}`);
    return explain(db, toCall(list));
  });
}

async function fill(db: pg.Client): Promise<void> {
  const exec = (sql: string) => db.query(sql);
  await load({ query: db.query.bind(db), exec } as Parameters<typeof load>[0], OTHERS);
  // Adds rows of what a tenant has little of, so that they are on more than a few pages.
  await db.query(`
    insert into private.api_keys (tenant_id, name, key_hash)
    select id, 'Painel', sha256(convert_to(id || ' ' || n, 'UTF8')) from private.tenants, generate_series(1, 30) n;
    insert into private.academias (tenant_id, nome) select id, 'Filial' from private.tenants, generate_series(1, 200);
    insert into private.anamnese_secoes (tenant_id, titulo, ordem)
    select id, 'Seção', n from private.tenants, generate_series(1, 200) n;
    insert into private.personais (tenant_id, nome, email, academia_id)
    select a.tenant_id, 'Ana', 'ana@bench.example', a.id from private.academias a where a.nome = 'Filial';`);
  await db.query(`set large_tenant.key = '${toKey(TENANT)}'`);
  await db.query(readFileSync(join(import.meta.dirname, 'large-tenant.sql'), 'utf8'));
  await db.query('vacuum analyze');
  await db.query(`
    create temporary view stage as
      select tenant_id, id from private.api_keys where key_hash = sha256(convert_to('${toKey(TENANT)}', 'UTF8'));
    insert into private.anamnese_secoes (tenant_id, id, titulo, ordem)
    select tenant_id, '${toId('secao', 0)}', 'Seção', 100 from stage;
    insert into private.usage (tenant_id, key_id, day, operation, class, calls)
    select tenant_id, id, date '2025-01-01' + day, operation::text, '2xx', 1
      from private.api_keys, generate_series(0, 399) day, generate_series(1, 10) operation
     where name <> 'Painel' or tenant_id = (select tenant_id from stage);
    insert into private.usage (tenant_id, id, key_id, day, operation, class, calls)
    select tenant_id, '${toId('uso', 0)}', id, '2026-01-01', 'last', '2xx', 1 from stage;
    insert into private.changes (tenant_id, id, resource, kind, records)
    select tenant_id, ('00060d00-0000-8000-8000-' || lpad(to_hex(n), 9, '0') || '000')::uuid,
           case n % 1000 when 0 then 'personais' else 'alunos' end, 'criado', array[gen_random_uuid()::text]
      from stage, generate_series(1, 50000) n;
    analyze private.usage, private.changes;`);
}

function functionOf(path: string): string {
  const operation = lists.find((list) => list.path === path)?.operation as { 'x-rpc'?: string } | undefined;
  return operation?.['x-rpc'] ?? '';
}

const writeStatement = createStatementWriter();

/** The call, as the gateway makes it. */
function toCall({ path, query }: Pick<Case, 'path' | 'query'>) {
  const args = Object.entries(query).map(([name, value]) => [`p_${name}`, value]);
  const call: Call = {
    ...{ function: functionOf(path), returns: 'rows', readOnly: true },
    args: { p_api_key: toKey(TENANT), ...Object.fromEntries(args) },
  };
  return writeStatement(call, 'rows');
}

async function search(db: pg.Client, query: Query, page: { limit: string; offset: string }): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select a.id
       from private.alunos a
       join private.api_keys k on k.tenant_id = a.tenant_id
      where k.key_hash = sha256(convert_to($1, 'UTF8'))
        and strpos(a.nome_busca, private.to_searchable($2)) > 0
        and a.ativo = coalesce($3, a.ativo)
        and ($4::uuid is null or a.academia_id = $4)
        and ($5::uuid is null or a.personal_id = $5)
      order by a.criado_em, a.id limit $6 offset $7`,
    [...[toKey(TENANT), query.nome, query.ativo, query.academia_id, query.id_personal], ...[page.limit, page.offset]],
  );
  return rows.map(({ id }) => id);
}
