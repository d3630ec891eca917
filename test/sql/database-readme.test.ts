import { readFileSync } from 'node:fs';
import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runScript } from '../../src/store/migrations.ts';
import { as, openDatabase, rows } from '../helpers/database.ts';
import { openPglite, readScript, runTap } from '../helpers/tap.ts';

// The SQL of supabase/README.md and docs/administration.md, run as it stands there.

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const file = 'supabase/README.md';
const blocks = [...readFileSync(file, 'utf8').matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => sql ?? '');
const TABLE = blocks.find((sql) => sql.includes('create table')) ?? '';
const KEYS = blocks.find((sql) => sql.includes('private.issue_key')) ?? '';
let db: PGlite;

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(() => db.close());

test('a table is added with both walls, by every rule of the linter', async () => {
  const project = await openPglite({ asSupabase: true });
  const report = await runTap(project, readScript('database_linter.sql', TABLE));
  await project.close();
  expect(report).toMatchObject({ failed: [], skipped: [] });
});

test("its function returns only the rows of the key's tenant", async () => {
  await runScript(db, { file, sql: TABLE });
  await db.exec(`insert into private.armarios (tenant_id, academia_id, numero)
                 select tenant_id, id, 7 from private.academias`);
  const list = (key: string) =>
    as(db, 'gateway', () => rows(db, 'select academia_id, numero from public.listar_armarios($1)', [key]));
  expect(await list('wms_demo_aurora')).toHaveLength(3);
  expect(await list('wms_demo_bosque')).toEqual([{ academia_id: 'b1000000-0000-4000-8000-000000000001', numero: 7 }]);
  await expect(as(db, 'gateway', () => rows(db, 'select from private.armarios'))).rejects.toThrow('permission denied');
});

test('the functions for keys work as the page describes', async () => {
  const [{ id = '' } = {}] = await rows<{ id: string }>(db, `select id from private.issue_key($1, 'Leitor')`, [AURORA]);
  const sql = KEYS.replaceAll('<tenant>', AURORA).replaceAll('<key id>', id);
  expect(sql).not.toMatch(/<\w/);
  await runScript(db, { file, sql });
  const keys = await rows(
    db,
    `select name, state, permissions, expires_at is not null as expires from private.list_keys($1)
      where created_at > '2026-01-01' order by created_at, name`,
    [AURORA],
  );
  expect(keys).toHaveLength(4);
  expect(keys).toContainEqual({ name: 'Site', state: 'active', permissions: null, expires: false });
  const limited = ['listar_alunos', 'listar_treinos'];
  expect(keys).toContainEqual({ name: 'Painel', state: 'active', permissions: limited, expires: true });
  // The one that was rotated, limited and revoked, and the one in its place.
  expect(keys).toContainEqual({ name: 'Leitor', state: 'revoked', permissions: ['listar_alunos'], expires: true });
  expect(keys).toContainEqual({ name: 'Leitor', state: 'active', permissions: null, expires: false });
});

test('the inserts for gyms, trainers and workouts work, and the table has the columns of each', async () => {
  const page = readFileSync('docs/administration.md', 'utf8');
  const [, insert = ''] = /^```sql\n(.*?)^```$/ms.exec(page) ?? [];
  await db.exec(`insert into private.alunos (tenant_id, nome, email) values ('${AURORA}', 'Ana', 'ana@minha.example')`);
  await runScript(db, { file: 'docs/administration.md', sql: insert.replaceAll('<tenant>', AURORA) });
  const created = await rows(
    db,
    `select p.nome from private.treinos t join private.personais p
    on p.id = t.personal_id where t.nome = 'Treino A' and p.nome = 'Bia Rocha'`,
  );
  expect(created).toHaveLength(1);

  for (const [, table, required = '', optional = ''] of page.matchAll(/^\| `(\w+)` \| (.*) \| (.*) \|$/gm)) {
    const toNames = (text: string) => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name);
    const columns = await rows<{ name: string; required: boolean }>(
      db,
      `select column_name as name, is_nullable = 'NO' and column_default is null as required
         from information_schema.columns
        where table_schema = 'private' and table_name = $1 and is_generated = 'NEVER'
          and column_name not in ('tenant_id', 'id', 'criado_em')`,
      [table],
    );
    const named = (isRequired: boolean) => columns.filter(({ required }) => required === isRequired).map((c) => c.name);
    expect(toNames(required).sort(), table).toEqual(named(true).sort());
    expect(toNames(optional).sort(), table).toEqual(named(false).sort());
  }
});
