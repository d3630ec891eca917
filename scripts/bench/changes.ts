// Measures the cost of recording changes, compared with the migrations before that feature: npm run bench:changes

import pg from 'pg';
import { applyMigrations, readMigrations } from '../../src/store/migrations.ts';
import { databaseUrl, newName, runSql, startEmbeddedPostgres } from '../../test/helpers/servers.ts';
import { type Cleanup, withCleanup } from './cleanup.ts';
import { readCpu } from './proc.ts';
import { toMarkdown, toRange, toSpread } from './report.ts';

/** The first migration of the feature. */
const FIRST = '20261126040000';
/** Many short rounds of both in turns, so that other load slows both down. */
const ROUNDS = 25;
const CREATIONS = 500;
const LINES = 5_000;

const CREATE = {
  name: 'create',
  text: 'select * from public.criar_aluno($1, $2, $3, p_data_nascimento => $4, p_modalidade => $5)',
  values: ['key', 'Lígia Prado', 'ligia@bench.example', '1990-05-17', 'pilates'],
};
const IMPORT = {
  text: `select private.import_rows(id, 'private.alunos', $1) from private.tenants`,
  values: [
    JSON.stringify(
      Array.from({ length: LINES }, (_, line) => ({
        line,
        fields: { nome: `Aluno ${line}`, email: 'a@bench.example' },
      })),
    ),
  ],
};

type Cost = { readonly creation: number; readonly line: number };

/** The processor time of a connection's own backend process, in µs. */
async function readTime(db: pg.Client): Promise<number> {
  const { rows } = await db.query('select pg_backend_pid() as pid');
  const { user, system } = readCpu(rows[0].pid) ?? { user: Number.NaN, system: 0 };
  return user + system;
}

/** Measures the processor time of a creation and of a line of an import, in µs. */
async function measure(db: pg.Client): Promise<Cost> {
  const begin = await readTime(db);
  for (let n = 0; n < CREATIONS; n += 1) await db.query(CREATE);
  const created = await readTime(db);
  await db.query(IMPORT);
  const imported = await readTime(db);
  return { creation: (created - begin) / CREATIONS, line: (imported - created) / LINES };
}

/** Creates a database with one tenant and the included migrations. */
async function createDatabase(cleanup: Cleanup, adminUrl: string, isIncluded: (version: string) => boolean) {
  const name = newName();
  await runSql(adminUrl, `create database ${name}`);
  const db = new pg.Client(databaseUrl(adminUrl, name));
  await db.connect();
  cleanup.defer(() => db.end());
  await applyMigrations(
    db,
    readMigrations('supabase/migrations').filter(({ version }) => isIncluded(version)),
  );
  await db.query(`insert into private.api_keys (tenant_id, name, key_hash)
                  select private.create_tenant('Bench'), 'Bench', sha256('key')`);
  return db;
}

await withCleanup(async (cleanup, signal) => {
  const server = await startEmbeddedPostgres();
  cleanup.defer(() => server.stop());
  const before = await createDatabase(cleanup, server.adminUrl, (version) => version < FIRST);
  const after = await createDatabase(cleanup, server.adminUrl, () => true);
  const costs: [Cost, Cost][] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    costs.push([await measure(before), await measure(after)]);
    signal.throwIfAborted();
  }
  // The first round warms up.
  const measured = costs.slice(1);
  const rows = (['creation', 'line'] as const).map((name) => [
    name === 'line' ? 'a line of an import' : 'a creation',
    ...[0, 1].map((n) => toRange(toSpread(measured.map((pair) => (pair[n] as Cost)[name])))),
    toRange(toSpread(measured.map(([one, other]) => other[name] / one[name])), 2),
  ]);
  console.log(toMarkdown(['processor time of Postgres, µs', 'before', 'with changes', 'ratio'], rows));
});
