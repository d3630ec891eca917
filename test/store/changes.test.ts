import pg from 'pg';
import { beforeAll, expect, inject, test } from 'vitest';
import { underLoad } from '../helpers/clients.ts';
import { useDatabase, useOpened } from '../helpers/database.ts';
import { compareIds, Follower } from '../helpers/follower.ts';
import { GatewayProcess } from '../helpers/process.ts';
import { createDatabase, findPort, loginUrl, startPostgres } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Eight writers whose transactions take some time before they commit or roll back, by a key and as an administrator, and clients
// that create, while an import comes at once, and the gateway and Postgres are killed. A reader that knows nothing but the changes
// has at the end exactly what there is.

const WRITERS = 8;
const COMMITS = inject('isLong') ? 100_000 : 300;
const IMPORTED = inject('isLong') ? 10_000 : 1_000;
const LONGEST_MS = inject('isLong') ? 8 : 40;
/** The number of times that each of the two is killed. */
const KILLS = inject('isLong') ? 10 : 1;
const timeout = inject('isLong') ? 1_800_000 : 120_000;
const TENANT = 'e0000000-0000-4000-8000-000000000001';
const KEY = 'test_changes';

const server = useOpened(startPostgres, ({ stop }) => stop());
const database = useDatabase({ create: () => createDatabase(server.adminUrl) });
let keyId: string;

beforeAll(async () => {
  await database.query(`insert into private.tenants (id, name) values ('${TENANT}', 'Academia')`);
  const sql = `insert into private.api_keys (tenant_id, name, key_hash) values ($1, 'Site', sha256($2)) returning id`;
  keyId = (await database.query<{ id: string }>(sql, [TENANT, Buffer.from(KEY)]))[0]?.id ?? '';
});

/** Runs transactions over one connection, and over a new one when it is lost. */
async function write(isDone: () => boolean, onCommit: () => void): Promise<void> {
  const ids: string[] = [];
  while (!isDone()) {
    const db = new pg.Client(database.adminUrl);
    db.on('error', () => {});
    try {
      await db.connect();
      while (!isDone()) {
        await transact(db, ids);
        onCommit();
      }
    } catch {
      // Postgres was killed.
    } finally {
      await db.end().catch(() => {});
    }
  }
}

/** Creates, changes or deletes one or two students of this writer. */
async function transact(db: pg.Client, ids: string[]): Promise<void> {
  await db.query('begin');
  // A change is recorded with a key, or without one.
  await db.query(`select set_config('wellness.key_id', $1, true)`, [Math.random() < 0.7 ? keyId : '']);
  const [own, kind] = [ids.slice(-2), Math.random()];
  const isCreation = kind < 0.6 || own.length < 2;
  const { rows } = isCreation
    ? await db.query(
        `insert into private.alunos (tenant_id, nome, email) select $1, 'Ana', 'ana@um.example' from generate_series(1, 2) returning id`,
        [TENANT],
      )
    : await db.query(
        kind < 0.8
          ? 'update private.alunos set ativo = not ativo where tenant_id = $1 and id = any ($2)'
          : 'delete from private.alunos where tenant_id = $1 and id = any ($2)',
        [TENANT, own],
      );
  await db.query('select pg_sleep($1)', [(Math.random() * LONGEST_MS) / 1_000]);
  if (Math.random() < 0.2) {
    await db.query('rollback');
    return;
  }
  // An unanswered commit may have happened or not: what may be gone is not changed again.
  if (kind >= 0.8 && !isCreation) ids.splice(-2);
  await db.query('commit');
  ids.push(...rows.map(({ id }) => id));
}

test('a reader of the changes has what there is', { timeout }, async () => {
  if (!server.crash) return expect(process.env.TEST_DATABASE_URL).toBeDefined();
  const { crash } = server;
  const port = await findPort();
  const env = { PORT: `${port}`, DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test') };
  const url = `http://127.0.0.1:${port}/v1`;
  let gateway = new GatewayProcess(env);
  await gateway.printed('Listening');
  const follower = new Follower(url, KEY);
  let commits = 0;
  const end = () => commits >= COMMITS;
  const writers = Array.from({ length: WRITERS }, () =>
    write(end, () => {
      commits += 1;
    }),
  );
  const clients = Array.from({ length: 2 }, () => ({ url, keys: [KEY], creates: 'repeated' as const, lists: [] }));
  await underLoad(clients, async () => {
    for (let kill = 1; kill <= KILLS; kill += 1) {
      await waitFor(() => expect(commits).toBeGreaterThan(((2 * kill - 1) * COMMITS) / (2 * KILLS + 1)));
      await importAtOnce();
      gateway.child.kill('SIGKILL');
      await gateway.ended;
      gateway = new GatewayProcess(env);
      await gateway.printed('Listening');
      await waitFor(() => expect(commits).toBeGreaterThan((2 * kill * COMMITS) / (2 * KILLS + 1)));
      await crash();
    }
    await Promise.all(writers);
  });
  await follower.stop();
  await gateway.stop();
  const there = await database.query<{ id: string }>('select id from private.alunos where tenant_id = $1', [TENANT]);
  const ids = new Set(there.map(({ id }) => id));
  console.log(`${commits} commits, ${follower.count} changes, ${ids.size} records`);
  expect(follower.problems).toEqual([]);
  expect(compareIds(follower.ids, ids)).toEqual({ missed: [], left: [] });
});

/** An import of one transaction, which stays open until others have committed what they began after it. */
async function importAtOnce(): Promise<void> {
  const toLine = (_: unknown, line: number) => ({ line, fields: { nome: `Aluno ${line}`, email: 'a@um.example' } });
  const lines = JSON.stringify(Array.from({ length: IMPORTED }, toLine));
  const db = new pg.Client(database.adminUrl);
  await db.connect();
  await db.query('begin');
  await db.query(`select from private.import_rows($1, 'private.alunos', $2)`, [TENANT, lines]);
  const later = `select from private.alunos where tenant_id = $1 and nome = 'Ana' and criado_em > now() limit 1`;
  await waitFor(async () => expect((await db.query(later, [TENANT])).rowCount).toBe(1));
  await db.query('commit');
  await db.end();
}
