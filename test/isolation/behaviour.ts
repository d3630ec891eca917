import { hash } from 'node:crypto';
import { toHttpError } from '../../src/errors.ts';
import type { PgError } from '../../src/store/sqlstate.ts';
import type { Call, Result } from '../../src/store/store.ts';
import { STUDENT } from '../helpers/api.ts';
import { type Db, rows } from '../helpers/database.ts';
import { type Check, column, differences } from './check.ts';
import { openWithinTransaction, tried } from './in-process-store.ts';
import { Model, type ModelAnswer } from './model.ts';
import { ALL_WALLS, removeRowSecurity } from './removal.ts';
import { type Request, toCall } from './request.ts';
import { CALLS, SAMPLE } from './sample.ts';
import { loadWorld, ownOf } from './world.ts';

const NEVER = new AbortController().signal;

/** What the functions do, in a world that is always the same. */
export const behaviourChecks: readonly Check[] = [
  ...ALL_WALLS.map(answersWith),
  { name: 'row security allows only rows of the verified tenant, and none without a tenant', find: findRows },
  { name: 'the use of a key is recorded once a minute, for that key only, when a call succeeds', find: findUses },
  {
    name: 'the changes of a tenant are recorded with their key, and shown to the keys of the tenant alone',
    find: findChanges,
  },
  { name: 'the calls of a key are counted once, for that key only, which alone reads them', find: findUsage },
];

/** Every answer is the model's. The first that is not is told alone: others may only follow from it. */
function answersWith({ walls, remove }: (typeof ALL_WALLS)[number]): Check {
  const find = (db: Db) =>
    inSample(db, async () => {
      await remove(db);
      const store = openWithinTransaction(db);
      const model = new Model(SAMPLE);
      for (const request of CALLS) {
        const result = await store.call(toCall(request), NEVER);
        const wrong = model.judge(request, toAnswer(request, result));
        if (wrong !== undefined) return [wrong];
      }
      return [];
    });
  return { name: `with ${walls} every answer has only data of the key's tenant`, find };
}

function toAnswer(request: Request, result: Result): ModelAnswer {
  if ('json' in result) return { status: request.body ? 201 : 200, body: JSON.parse(result.json) };
  const { status, error } = toHttpError(result.failure);
  return { status, body: { error } };
}

const DAY = '2030-01-01';

/** Records a batch of calls of keys, the first of its writer. */
function toRecord(called: readonly { readonly key: string; readonly class?: string; readonly calls?: number }[]): Call {
  const batch = called.map(({ key, class: status = '2xx', calls = 1 }) => {
    return { key: hash('sha256', key), day: DAY, operation: 'listarAlunos', class: status, calls };
  });
  const p_rows = { json: JSON.stringify(batch) };
  const args = { p_writer: OWN ?? '', p_sequence: 1, p_day: DAY, p_keep_days: 400, p_rows };
  return { function: 'record_usage', args, returns: 'rows', readOnly: false };
}

/** Keys of the sample with the time since their last use, how a call of them ends, and whether this use is recorded. */
const USES = [
  { key: 'a', last: null, class: '2xx', recorded: true },
  { key: 'b', last: '2 minutes', class: '2xx', recorded: true },
  { key: 'a-lasting', last: '30 seconds', class: '2xx', recorded: false },
  { key: 'a-reads-gyms', last: null, class: '4xx', recorded: false },
  { key: 'a-may-nothing', last: '2 minutes', class: '429', recorded: false },
  { key: 'unknown', last: null, class: '2xx', recorded: false },
];

async function findUses(db: Db): Promise<string[]> {
  return inSample(db, async () => {
    for (const { key, last } of USES) {
      await db.query('update private.api_keys set last_used_at = now() - $2::interval where name = $1', [key, last]);
    }
    await db.exec('create temporary table before on commit drop as select id, last_used_at from private.api_keys');
    await openWithinTransaction(db).call(toRecord(USES), NEVER);
    const changed = await column(
      db,
      `select name from private.api_keys k join before b using (id) where k.last_used_at is distinct from b.last_used_at`,
    );
    const recorded = USES.flatMap(({ key, recorded }) => (recorded ? [key] : []));
    return differences(changed, recorded);
  });
}

/** Keys of the sample with the calls that a batch has of them, the count that the gateway is told, and what they read. */
const CALLED = [
  { key: 'a', calls: 1, counted: 1, read: [1] },
  { key: 'a-lasting', calls: 2, counted: 2, read: [2] },
  { key: 'b', calls: 3, counted: 3, read: [3] },
  { key: 'a-reads-gyms', calls: 4, counted: 4, read: 'API Key sem permissão para consultar_uso' },
  { key: 'a-inactive', calls: 5, counted: 5, read: 'API Key inativa' },
  { key: 'unknown', calls: 6, counted: undefined, read: 'API Key inválida' },
];

async function findUsage(db: Db): Promise<string[]> {
  return inSample(db, async () => {
    await db.exec(`update private.tenants set limits = '{"per_day": 9}'`);
    const store = openWithinTransaction(db);
    const findings: string[] = [];
    for (let times = 0; times < 2; times += 1) {
      const result = await store.call(toRecord(CALLED), NEVER);
      const rows: { key: string; today: number }[] = 'json' in result ? JSON.parse(result.json) : [];
      for (const { key, counted } of CALLED) {
        const today = rows.find((row) => row.key === hash('sha256', key))?.today;
        findings.push(...differences([`${key} ${today}`], [`${key} ${counted}`]));
      }
    }
    for (const { key, read } of CALLED) {
      const found = await ask(db, 'consultar_uso', { p_api_key: key });
      const calls = Array.isArray(found) ? found.map(({ chamadas }) => chamadas) : found;
      findings.push(
        ...differences([`${key} reads ${JSON.stringify(calls)}`], [`${key} reads ${JSON.stringify(read)}`]),
      );
      if (!Array.isArray(found) || found.length === 0) continue;
      const after = await ask(db, 'consultar_uso', { p_api_key: key, p_after: found[0].id });
      findings.push(...differences([JSON.stringify(after)], ['[]']));
    }
    return findings;
  });
}

/** With the functions alone. */
async function findChanges(db: Db): Promise<string[]> {
  return inSample(db, async () => {
    await removeRowSecurity(db);
    const created = new Map<string, string>();
    for (const key of ['a', 'b']) {
      const { id } = await ask(db, 'criar_aluno', { p_api_key: key, ...STUDENT }, 'row');
      created.set(key, `alunos ${id}`);
    }
    const findings: string[] = [];
    let foreign = '';
    for (const [index, key] of ['a', 'b'].entries()) {
      const { tenants: _tenants, api_keys: _keys, ...tables } = ownOf(SAMPLE, SAMPLE.tenants[index]?.id ?? '');
      const records = Object.entries(tables).flatMap(([table, rows]) => rows.map(({ id }) => `${table} ${id}`));
      const changes = await ask(db, 'listar_alteracoes', { p_api_key: key });
      if (!Array.isArray(changes)) return [`the changes of ${key} are ${JSON.stringify(changes)}`];
      const told = changes.map(({ recurso, registro_id }) => `${recurso} ${registro_id}`);
      findings.push(...differences(told, [...records, created.get(key) ?? '']));
      foreign = changes[0]?.id;
      const students = await ask(db, 'listar_alteracoes', { p_api_key: key, p_recurso: 'alunos' });
      findings.push(...differences([`${students.length}`], [`${tables.alunos.length + 1}`]));
    }
    const refused = JSON.stringify(await ask(db, 'listar_alteracoes', { p_api_key: 'a', p_after: foreign }));
    if (!refused.includes('must be the id of a change'))
      findings.push(`a change of another tenant is a place: ${refused}`);
    const unpermitted = await ask(db, 'listar_alteracoes', { p_api_key: 'a-reads-gyms' });
    findings.push(...differences([unpermitted], ['API Key sem permissão para listar_alteracoes']));
    const changed = await column(
      db,
      `select format('%s %s %s', k.name, c.resource, array_to_string(c.records, ' '))
         from private.changes c join private.api_keys k on k.tenant_id = c.tenant_id and k.id = c.key
        where k.name in ('a', 'b')`,
    );
    const expected = [...created].map(([key, record]) => `${key} ${record}`);
    return [...findings, ...differences(changed, expected)];
  });
}

/** The rows or the row that a function gives, or the text of its failure. */
// biome-ignore lint/suspicious/noExplicitAny: it is of as many types as there are functions
async function ask(db: Db, name: string, args: Call['args'], returns: 'row' | 'rows' = 'rows'): Promise<any> {
  const call: Call = { function: name, args, returns, readOnly: returns === 'rows' };
  const result = await openWithinTransaction(db).call(call, NEVER);
  return 'json' in result ? JSON.parse(result.json) : toHttpError(result.failure).error;
}

const [OWN, OTHER] = SAMPLE.tenants.map(({ id }) => id);

const CHANGE = 'update private.idempotency_keys set created_at = now() returning tenant_id';

/** Rows of another tenant than the one that was verified. */
const FOREIGN_ROWS = [
  `insert into private.alunos (tenant_id, nome, email) values ('${OTHER}', 'Ana', 'ana@example.com')`,
  `insert into private.idempotency_keys (tenant_id, key, request_hash) values ('${OTHER}', 'l', sha256(''))`,
];

/** What the owner of the published functions can do by queries that name no tenant. */
async function findRows(db: Db): Promise<string[]> {
  return inSample(db, async () => {
    await db.exec(`insert into private.idempotency_keys (tenant_id, key, request_hash)
                   values ('${OWN}', 'k', sha256('')), ('${OTHER}', 'k', sha256(''))`);
    const tables = await column(
      db,
      `select oid::regclass::text from pg_class
        where relnamespace = 'private'::regnamespace and has_table_privilege('gateway_functions', oid, 'select')`,
    );
    // The sample has rows of the tables that the model knows.
    const filled: string[] = [];
    for (const name of tables) {
      if ((await rows(db, `select from ${name} where tenant_id = '${OWN}' limit 1`)).length > 0) filled.push(name);
    }
    const findings: string[] = [];
    const expect = async (tenant: string | undefined, sql: string, expected: string) => {
      const found = await resultOf(db, tenant, sql);
      if (found !== expected) findings.push(`for "${tenant}" ${sql} gives ${found} and not ${expected}`);
    };
    for (const sql of [...filled.map((name) => `select distinct tenant_id from ${name}`), CHANGE]) {
      await expect(OWN, sql, JSON.stringify([{ tenant_id: OWN }]));
      await expect('', sql, '[]');
    }
    for (const sql of FOREIGN_ROWS) await expect(OWN, sql, 'an error with code 42501');
    return findings;
  });
}

/** The rows that a statement gives where this tenant was verified, or the code that it fails with. */
async function resultOf(db: Db, tenant: string | undefined, sql: string): Promise<string> {
  const found = tried(db, async () => {
    await db.exec(`set local role gateway_functions; set local wellness.tenant_id = '${tenant}'`);
    return JSON.stringify(await rows(db, sql));
  });
  return found.catch((error: PgError) => `an error with code ${error.code}`);
}

/** Does something in the world of the sample, and takes it all back. */
function inSample<T>(db: Db, work: () => Promise<T>): Promise<T> {
  return tried(db, async () => {
    await db.exec(`set local timezone = 'UTC'`);
    await loadWorld(db, SAMPLE);
    return work();
  });
}
