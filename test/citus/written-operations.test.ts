// What npm run operation writes, on each node of a cluster.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { planOperations } from '../../scripts/operation/plan.ts';
import { KINDS } from '../../scripts/operation/subject.ts';
import { applyMigrations, distribute, readMigrations } from '../../src/store/migrations.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Argument, Call, Store } from '../../src/store/store.ts';
import { copyCitusDatabase } from '../helpers/citus.ts';
import { copyMigrations, SEED } from '../helpers/gateway.ts';
import { readTable } from '../helpers/readme.ts';
import { asAdmin, createDatabase, type Database, databaseUrl, loginUrl } from '../helpers/servers.ts';

const CENTRO = 'a1000000-0000-4000-8000-000000000001';
const TABLE = readTable('gaveta', 'c');
const folder = mkdtempSync(join(tmpdir(), 'written-'));
let database: Database;

beforeAll(async () => {
  const migrations = copyMigrations({ '20991230000000_gavetas.sql': TABLE.sql });
  const files = { document: 'openapi.yaml', migrations, seed: join(folder, 'seed.sql') };
  writeFileSync(files.seed, SEED.sql + TABLE.rows);
  // Without one the plan makes a database of its own, which takes seconds.
  const plain = await createDatabase();
  await plain.query(TABLE.sql + TABLE.rows);
  const [migration] = await planOperations('gavetas', { kinds: KINDS }, { ...files, database: plain.adminUrl });
  await plain.drop();
  if (!migration) throw new Error('there is no migration');
  writeFileSync(migration.file, migration.text);
  database = await copyCitusDatabase(inject('nodes'));
  await asAdmin(database.adminUrl, async (db) => {
    await applyMigrations(db, readMigrations(migrations));
    expect(await distribute(db)).toEqual(
      expect.arrayContaining([
        'grant INSERT on table private.gavetas to gateway_functions',
        'alter function public.criar_gaveta(text,jsonb,text) set plan_cache_mode = force_custom_plan',
      ]),
    );
  });
});

afterAll(() => database?.drop());

describe.each(inject('nodes').map((node, index) => ({ node, index })))('node $index', ({ node, index }) => {
  let store: Store;

  beforeAll(() => {
    const url = loginUrl(databaseUrl(node, database.name), 'gateway_test');
    store = openPostgres({ url, connections: 2, deadlineMs: 20_000 });
  });

  afterAll(() => store.close());

  const call = async (name: string, returns: Call['returns'], args: Record<string, Argument>, key = 'aurora') => {
    const made = { function: name, args: { p_api_key: `wms_demo_${key}`, ...args }, returns, readOnly: false };
    const result = await store.call(made, new AbortController().signal);
    return 'failure' in result ? result.failure : result.json && JSON.parse(result.json);
  };
  const body = (value: object) => ({ p_body: { json: JSON.stringify(value) } });

  test('creates, gets, lists, changes and deletes a record of its tenant alone', async () => {
    const numero = 100 + index;
    const record = await call('criar_gaveta', 'row', body({ academia_id: CENTRO, numero }));
    expect(record).toMatchObject({ academia_id: CENTRO, numero, apelido: null, ativo: true });
    const p_id = record.id;
    expect(await call('obter_gaveta', 'row', { p_id })).toEqual(record);
    expect(await call('listar_gavetas', 'rows', { p_academia_id: CENTRO })).toContainEqual(record);
    expect(await call('listar_gavetas', 'rows', { p_after: p_id })).toEqual([]);
    expect(await call('atualizar_gaveta', 'row', { p_id, ...body({ apelido: 'Janela' }) })).toEqual({
      ...record,
      apelido: 'Janela',
    });
    expect(await call('criar_gaveta', 'row', body({ academia_id: CENTRO, numero }))).toMatchObject({ status: 409 });
    for (const name of ['obter_gaveta', 'excluir_gaveta']) {
      expect(await call(name, 'row', { p_id }, 'bosque'), name).toMatchObject({ status: 404 });
    }
    expect(await call('excluir_gaveta', 'nothing', { p_id })).toBe('');
    expect(await call('obter_gaveta', 'row', { p_id })).toMatchObject({ status: 404 });
  });
});
