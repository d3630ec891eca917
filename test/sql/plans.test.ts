import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { load, toKey } from '../../scripts/bench/data.ts';
import { createStatementWriter } from '../../src/store/statement.ts';
import type { Call } from '../../src/store/store.ts';
import { lists } from '../helpers/api.ts';
import { canTestOnDebian, startDebianPostgres } from '../helpers/debian-postgres.ts';
import { countPages, explain, findSequentialScans, inTransaction, type Plan } from '../helpers/plans.ts';
import { asAdmin, createDatabase } from '../helpers/servers.ts';
import { CASES } from './growth/cases.ts';
import { growTo, toId } from './growth/data.ts';

// How the lists find their rows where one tenant has twice as many as all others together.

const OTHERS = { tenants: 99, students: 500 };
const STAGE = { tenant: OTHERS.tenants + 1, students: 200 * OTHERS.students, step: 0 };
const ID = '00000003-0000-4000-8000-000010000000';
const SECTION = '00000009-0000-4000-8000-000010000000';
const USE = '0000000a-0000-4000-8000-000010000000';
/** The one of those in the middle. */
const CHANGE = '00060d00-0000-8000-8000-000006000001';

/** How many pages a list may read, each time counted, where its time must not grow: to look at all would be more. */
const MOST_PAGES = 1_500;

type Query = Readonly<Record<string, string>>;
type Case = { readonly title: string; readonly path: string; readonly query: Query; readonly isBounded: boolean };

/** The lists of few rows, which the benchmark leaves out. */
const SMALL: readonly Case[] = [
  { path: '/academias', query: {} },
  { path: '/academias', query: { ativo: 'true' } },
  { path: '/academias', query: { offset: '100' } },
  { path: '/academias', query: { after: toId('academia', STAGE.tenant, 5) } },
  { path: '/personais', query: {} },
  { path: '/personais', query: { academia_id: ID } },
  { path: '/personais', query: { offset: '100' } },
  { path: '/personais', query: { after: toId('personal', STAGE.tenant, 20) } },
  { path: '/anamnese/secoes', query: {} },
  { path: '/anamnese/secoes', query: { offset: '100' } },
  { path: '/anamnese/secoes', query: { after: SECTION } },
  { path: '/uso', query: {} },
  { path: '/uso', query: { offset: '100' } },
  { path: '/uso', query: { dia_gte: '2026-01-01' } },
  { path: '/uso', query: { after: USE } },
  { path: '/alteracoes', query: {} },
  { path: '/alteracoes', query: { offset: '1' } },
  { path: '/alteracoes', query: { after: CHANGE } },
  { path: '/alteracoes', query: { after: CHANGE, recurso: 'personais' } },
].map((case_) => ({ ...case_, title: JSON.stringify(case_.query), isBounded: true }));

const LARGE = CASES.filter(({ id }) => id !== 'create').map(({ group, title, reason, toRequest }): Case => {
  const { pathname, searchParams } = new URL(toRequest(STAGE).path, 'http://localhost');
  const query = Object.fromEntries(searchParams);
  return { title: `${group}, ${title}`, path: pathname.replace('/v1', ''), query, isBounded: reason === undefined };
});

const ALL = [...LARGE, ...SMALL];

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
  let server: Awaited<ReturnType<typeof start>>;

  beforeAll(async () => {
    server = await start();
    await asAdmin(server.url, fill);
  });

  afterAll(() => server.stop());

  test.each(ALL)('$path, $title: reads no table from its beginning to its end', async (case_) => {
    const plans = await inTransaction(server.url, (db) => explain(db, toCall(case_)));
    expect(plans.map((plan) => plan.function)).toEqual(expect.arrayContaining([`public.${functionOf(case_.path)}`]));
    expect(findSequentialScans(plans)).toEqual([]);
    if (case_.isBounded) expect(countPages(plans)).toBeLessThan(MOST_PAGES);
  });

  test('the end of changes reads no change that is kept', async () => {
    const plans = await inTransaction(server.url, async (db) => {
      await db.query(`update private.tenants set changes_kept = '50 years'`);
      const text = `select from public.record_usage(gen_random_uuid(), null, current_date, 400, '[]')`;
      return explain(db, { text, values: [] });
    });
    const own = plans.filter((plan) => plan.function === 'private.forget_changes');
    expect(findSequentialScans(own)).toEqual(['private.forget_changes: Seq Scan on tenants t']);
    expect(countPages(own)).toBeLessThan(MOST_PAGES);
  });

  test('the changes of a resource that has none are not looked for among all', async () => {
    const plans = await inTransaction(server.url, async (db) => {
      // To the planner the resource is no choice then.
      await db.query(
        `update private.changes set resource = 'alunos' where resource <> 'alunos'; analyze private.changes`,
      );
      return explain(db, toCall({ path: '/alteracoes', query: { recurso: 'academias' } }));
    });
    // All are on more than 900.
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
    // Those of alunos, treinos and anamneses.
    expect(changed).toHaveLength(3);
  });

  test('detects a full table read if an index is missing', async () => {
    const plans = await explainWithout(server.url, 'treinos_by_aluno', 'Workouts, id_aluno');
    expect(findSequentialScans(plans)).toContain('public.listar_treinos: Seq Scan on treinos t');
  });

  test.each([
    ['alunos_in_order', 'Pages of students, first page'],
    ['alunos_by_name_parts', 'Searches of students, nome=yq, of nobody'],
    ['alunos_by_name_parts', 'Searches of students, nome=xyzzy, of nobody'],
  ])('without %s a plan is seen to read too much', async (index, title) => {
    expect(countPages(await explainWithout(server.url, index, title))).toBeGreaterThan(MOST_PAGES);
  });

  // What it finds does not depend on the version, how it finds it may.
  test.runIf(name === SERVERS[0]?.name).each(LARGE.filter(({ query }) => query.nome && !query.after))(
    '$title: finds what a search of all would',
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

function explainWithout(url: string, index: string, title: string): Promise<Plan[]> {
  const case_ = ALL.find((one) => one.title === title);
  if (!case_) throw new Error(`there is no case ${title}`);
  return inTransaction(url, async (db) => {
    await db.query(`drop index private.${index}`);
    return explain(db, toCall(case_));
  });
}

async function fill(db: pg.Client): Promise<void> {
  const exec = (sql: string) => db.query(sql);
  await load({ query: db.query.bind(db), exec } as Parameters<typeof load>[0], OTHERS);
  // So much of what a tenant has little of that it is on more than a few pages.
  await db.query(`
    insert into private.api_keys (tenant_id, name, key_hash)
    select id, 'Painel', sha256(convert_to(id || ' ' || n, 'UTF8')) from private.tenants, generate_series(1, 30) n;
    insert into private.academias (tenant_id, nome) select id, 'Filial' from private.tenants, generate_series(1, 200);
    insert into private.anamnese_secoes (tenant_id, titulo, ordem)
    select id, 'Seção', n from private.tenants, generate_series(1, 200) n;
    insert into private.personais (tenant_id, nome, email, academia_id)
    select a.tenant_id, 'Ana', 'ana@bench.example', a.id from private.academias a where a.nome = 'Filial';`);
  await growTo(db, STAGE, 0);
  await db.query(`
    create temporary view stage as
      select tenant_id, id from private.api_keys where key_hash = sha256(convert_to('${toKey(STAGE.tenant)}', 'UTF8'));
    insert into private.anamnese_secoes (tenant_id, id, titulo, ordem)
    select tenant_id, '${SECTION}', 'Seção', 100 from stage;
    insert into private.usage (tenant_id, key_id, day, operation, class, calls)
    select tenant_id, id, date '2025-01-01' + day, operation::text, '2xx', 1
      from private.api_keys, generate_series(0, 399) day, generate_series(1, 10) operation
     where name <> 'Painel' or tenant_id = (select tenant_id from stage);
    insert into private.usage (tenant_id, id, key_id, day, operation, class, calls)
    select tenant_id, '${USE}', id, '2026-01-01', 'last', '2xx', 1 from stage;
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
    args: { p_api_key: toKey(STAGE.tenant), ...Object.fromEntries(args) },
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
    [
      ...[toKey(STAGE.tenant), query.nome, query.ativo, query.academia_id, query.id_personal],
      ...[page.limit, page.offset],
    ],
  );
  return rows.map(({ id }) => id);
}
