// Records usage while other transactions write.

import { createHash, randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from './helpers/database.ts';
import { waitForBlocked } from './helpers/wait-for.ts';

const database = useDatabase();

/** A key of a new tenant. */
async function createKey(): Promise<{ id: string; key: string }> {
  const sql = `select k.id, k.key from private.create_tenant('Academia') t (id), private.issue_key(t.id, 'Site') k`;
  const [key] = (await database.query(sql)) as [{ id: string; key: string }];
  return key;
}

async function readCalls(id: string): Promise<number> {
  const sql = 'select coalesce(sum(calls), 0)::integer as calls from private.usage where key_id = $1';
  return (await database.query(sql, [id]))[0]?.calls;
}

describe('a batch', () => {
  let gateway: pg.Client;
  let other: pg.Client;

  beforeEach(async () => {
    [gateway, other] = [new pg.Client(database.adminUrl), new pg.Client(database.adminUrl)];
    await Promise.all([gateway.connect(), other.connect()]);
    await gateway.query('set role gateway');
  });

  afterEach(async () => {
    await Promise.all([gateway.end(), other.end()]);
  });

  const report = async (client: pg.Client, keys: readonly string[]) => {
    const rows = keys.map((key) => {
      const name = createHash('sha256').update(key).digest('hex');
      return { key: name, day: '2030-01-01', operation: 'listarAlunos', class: '2xx', calls: 1 };
    });
    const sql = `select key from public.record_usage($1, 1, '2030-01-01', 400, $2)`;
    return (await client.query(sql, [randomUUID(), JSON.stringify(rows)])).rows.length;
  };

  test.each([
    ['revoked', 'select private.revoke_key($1)', 2, 1],
    ['rotated', 'select private.rotate_key($1)', 2, 1],
    ['deleted with its tenant', 'select private.delete_tenant(tenant_id) from private.api_keys where id = $1', 1, 0],
  ])('and a key that is %s wait for each other, and both succeed', async (_, sql, known, calls) => {
    for (const isFirst of [true, false]) {
      const [key, kept] = [await createKey(), await createKey()];
      const [begins, follows] = isFirst ? [gateway, other] : [other, gateway];
      const record = () => report(gateway, [key.key, kept.key]);
      const change = () => other.query(sql, [key.id]);
      await begins.query('begin');
      const first = await (isFirst ? record() : change());
      const second = isFirst ? change() : record();
      await waitForBlocked(database.adminUrl, 1);
      await begins.query('commit');
      await follows.query('select 1');
      expect(isFirst ? first : await second).toBe(isFirst ? 2 : known);
      await second;
      expect([await readCalls(key.id), await readCalls(kept.id)]).toEqual([calls, 1]);
    }
  });

  test('of many keys waits for another one with the same keys, and both count', async () => {
    const keys = [await createKey(), await createKey(), await createKey()];
    const names = keys.map(({ key }) => key);
    await other.query('set role gateway; begin');
    await gateway.query('begin');
    await report(gateway, names);
    const second = report(other, names.toReversed());
    await waitForBlocked(database.adminUrl, 1);
    await gateway.query('commit');
    await second;
    await other.query('commit');
    for (const { id } of keys) expect(await readCalls(id)).toBe(2);
  });
});
