import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KEYS, operations } from '../helpers/api.ts';
import { type Db, openDatabase, rows } from '../helpers/database.ts';

// What the SQL has in common with the other files; what it does by itself, supabase/tests says.

let db: Db;

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(() => db.close());

test('public has the functions of the document and nothing else', async () => {
  const published = await rows<{ name: string }>(
    db,
    `select proname as name from pg_proc where pronamespace = 'public'::regnamespace order by 1`,
  );
  expect(published.map(({ name }) => name)).toEqual([...operations.map(({ rpc }) => rpc), 'record_usage'].sort());
});

test('no demo key is stored', async () => {
  const text = JSON.stringify(await rows(db, 'select k::text from private.api_keys k'));
  for (const key of Object.values(KEYS)) expect(text).not.toContain(key);
});

test('the tenant of a key is gone when the transaction has ended', async () => {
  const [during] = await rows(db, `select private.verify_key($1, 'listar_alunos') = private.current_tenant() as same`, [
    KEYS.aurora,
  ]);
  const [after] = await rows(db, 'select private.current_tenant() as tenant');
  expect([during, after]).toEqual([{ same: true }, { tenant: null }]);
});

describe('error-codes.md', () => {
  const text = readFileSync('supabase/error-codes.md', 'utf8');
  const listed = [...text.matchAll(/^\| `(\w+)` \| `([^`]+)` \| /gm)].map(([, code, message]) => [code, message]);

  test('lists what the functions raise and the fields that they find invalid, and nothing else', async () => {
    const functions = await rows<{ prosrc: string }>(
      db,
      `select prosrc from pg_proc where pronamespace in ('public'::regnamespace, 'private'::regnamespace)`,
    );
    const sql = functions.map(({ prosrc }) => prosrc).join('\n');
    const find = (pattern: RegExp) => [...sql.matchAll(pattern)].map(([, name, message]) => [name, message]);
    const raised = find(/raise exception using\s+errcode = '(\w+)',\s+message = (?:format\()?'((?:[^']|'')+)'/g);
    const fields = find(/field := '(\w+)';\s+message := '((?:[^']|'')+)'/g);
    expect(raised).toHaveLength(sql.match(/raise exception/g)?.length ?? 0);
    expect(fields).toHaveLength(sql.match(/field :=/g)?.length ?? 0);
    expect(listed.toSorted()).toEqual([...raised, ...fields].toSorted());
  });
});
