import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { runScript } from '../../src/store/migrations.ts';
import { rows, useConnection } from '../helpers/database.ts';

// Runs the SQL of supabase/README.md, and compares the columns on docs/administration.md with the database.

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const file = 'supabase/README.md';
const blocks = [...readFileSync(file, 'utf8').matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => sql ?? '');
const KEYS = blocks.find((sql) => sql.includes('private.issue_key')) ?? '';
const db = useConnection();

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
  // The key that was rotated, limited and revoked, and its successor.
  expect(keys).toContainEqual({ name: 'Leitor', state: 'revoked', permissions: ['listar_alunos'], expires: true });
  expect(keys).toContainEqual({ name: 'Leitor', state: 'active', permissions: null, expires: false });
});

test('the page about imports has the columns of each resource that it names', async () => {
  const page = readFileSync('docs/administration.md', 'utf8');
  const toNames = (text = '') => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name).sort();
  const found = [...page.matchAll(/^\| `(\w+)` \| (.*) \| (.*) \|$/gm)].map(([, table, required, optional]) => [
    table,
    toNames(required),
    toNames(optional),
  ]);
  const columns = await rows<{ table: string; name: string; required: boolean }>(
    db,
    `select replace(t.name::text, 'private.', '') as table, regexp_replace(c.name, '_id$', '') as name, c.required
       from private.data_tables() t cross join lateral private.data_columns(t.name) c
      where c.name <> 'id'`,
  );
  const names = [...new Set(columns.map(({ table }) => table))];
  const named = (name: string, isRequired: boolean) =>
    columns.filter(({ table, required }) => table === name && required === isRequired).map((c) => c.name);
  const expected = names.map((table) => [table, named(table, true).sort(), named(table, false).sort()]);
  // Tables that somebody has added are not on the page.
  expect(found.length).toBeGreaterThan(0);
  expect(expected).toEqual(expect.arrayContaining(found));
});
