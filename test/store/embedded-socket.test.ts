import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { serialize } from 'pg-protocol';
import { afterAll, afterEach, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { BACKUP } from '../../src/store/embedded/sessions.ts';
import { toSocketFolder } from '../../src/store/embedded/socket.ts';
import { type EmbeddedOptions, type EmbeddedStore, openEmbedded } from '../../src/store/embedded/store.ts';
import type { Call } from '../../src/store/store.ts';
import { copyDataDir, MIGRATIONS, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { killAll, startProcess } from '../helpers/process.ts';
import { isPresent } from '../helpers/requirement.ts';
import { runCommand } from '../helpers/run.ts';
import { waitFor } from '../helpers/wait-for.ts';

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const LIMIT_MS = 3_000;
/** Long enough for everything that comes to its end. */
const PATIENT_MS = 60_000;

const hasPsql = isPresent(
  Number(/\d+/.exec(spawnSync('psql', ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[0] ?? 0) >= 15,
  'psql 15 or later is not installed: its tests of the embedded store cannot run',
);

/** Shows whose settings the gateway's calls have. */
const WHO = `create function public.who() returns table (who text, zone text, path text, memory text, read_only text)
  language sql volatile as $$
    select current_user, current_setting('TimeZone'), current_setting('search_path'), current_setting('work_mem'),
           current_setting('default_transaction_read_only') $$;
grant execute on function public.who() to gateway;
create function public.slow(p_seconds float8) returns table (ok boolean)
  language sql stable security definer set search_path = pg_catalog, pg_temp
  as $$ select true from pg_sleep(p_seconds) $$;
select private.publish('public.slow');`;

const root = mkdtempSync(join(tmpdir(), 'socket-'));
const migrationsDir = join(root, 'migrations');
const never = new AbortController().signal;
let dataDir: string;
let store: EmbeddedStore;
/** Its calls wait for less time than a statement may take. */
let hasty: TestGateway;
let patient: TestGateway;

beforeAll(async () => {
  cpSync(MIGRATIONS, migrationsDir, { recursive: true });
  writeFileSync(join(migrationsDir, '20991231000000_who.sql'), WHO);
  dataDir = copyDataDir(inject('dataDir'));
  store = await open({ dataDir });
  hasty = await startGateway({ store, deadlineMs: 400 });
  patient = await startGateway({ store, deadlineMs: PATIENT_MS });
});

afterEach(killAll);

afterAll(async () => {
  await hasty.close();
  await patient.close();
  await store.close();
  rmSync(root, { recursive: true });
});

function open(options: Partial<EmbeddedOptions>): Promise<EmbeddedStore> {
  return openEmbedded({ migrationsDir, statementLimitMs: LIMIT_MS, ...options });
}

async function connect(config: pg.ClientConfig = {}, folder = dataDir): Promise<pg.Client> {
  const client = new pg.Client({ host: toSocketFolder(folder), user: 'postgres', database: 'postgres', ...config });
  client.on('error', () => {});
  onTestFinished(() => client.end().catch(() => {}));
  await client.connect();
  return client;
}

/** The only column of the only row. */
async function value(client: pg.Client, sql: string): Promise<unknown> {
  const { rows } = await client.query({ text: sql, rowMode: 'array' });
  return rows[0]?.[0];
}

/** How many students have a name, as the gateway answers. */
async function count(nome: string, { url }: TestGateway = patient): Promise<number> {
  const answer = await fetch(`${url}/alunos?nome=${nome}`, { headers: { 'X-Api-Key': 'wms_demo_aurora' } });
  const students = await answer.json();
  return Array.isArray(students) ? students.length : answer.status;
}

const insert = (nome: string) =>
  `insert into private.alunos (tenant_id, nome, email) values ('${AURORA}', '${nome}', 'a@b.co')`;

const callOf = (name: string, args: Call['args'] = {}): Call => ({
  function: name,
  args,
  returns: 'rows',
  readOnly: true,
});

/** The answer to bytes on a connection of their own, as text, once the store has closed it. */
async function send(...parts: Uint8Array[]): Promise<string> {
  const socket = createConnection(join(toSocketFolder(dataDir), '.s.PGSQL.5432'));
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.write(Buffer.concat(parts));
  await once(socket, 'close');
  return Buffer.concat(chunks).toString('latin1');
}

/** The code of the error that an action ends in. */
async function codeOf(action: Promise<unknown>): Promise<unknown> {
  return action.then(
    () => undefined,
    ({ code }) => code,
  );
}

test('makes one backup at a time, and the next one after a backup whose client was lost', async () => {
  const begin = `select pg_backup_start('test', true) is null`;
  const one = await connect({ application_name: BACKUP });
  expect(await value(one, begin)).toBe(false);
  await expect(connect({ application_name: BACKUP })).rejects.toMatchObject({
    code: '55000',
    message: 'another backup is being made',
  });
  expect(await count('Nobody')).toBe(0);
  one.connection.stream.destroy();
  await waitFor(async () => {
    const next = await connect({ application_name: BACKUP });
    expect(await value(next, begin)).toBe(false);
    expect(await value(next, `select labelfile like 'START WAL%' from pg_backup_stop(false)`)).toBe(true);
  });
});

describe('the socket', () => {
  test('is in a folder that only its owner can open', () => {
    expect(statSync(toSocketFolder(dataDir)).mode & 0o777).toBe(0o700);
  });

  test('that the system does not allow is a warning, and the store serves', async () => {
    const long = join(root, 'x'.repeat(110));
    renameSync(copyDataDir(inject('dataDir')), long);
    const warnings: string[] = [];
    const other = await open({ dataDir: long, onWarning: (text) => warnings.push(text) });
    expect(warnings).toEqual([
      expect.stringMatching(/^npm run admin, npm run sql and psql cannot work while the gateway runs: .*EINVAL/),
    ]);
    expect(await other.check(never)).toBeUndefined();
    await other.close();
  });

  test('is closed with the store, which undoes a transaction and waits for nobody', async () => {
    const folder = copyDataDir(inject('dataDir'));
    const first = await open({ dataDir: folder });
    const [idle, busy] = [await connect({}, folder), await connect({}, folder)];
    await busy.query('begin');
    await busy.query(insert('Aberta'));
    const lost = Promise.all([once(idle, 'error'), once(busy, 'error')]);
    await first.close();
    expect(await lost).toMatchObject([[{ code: '57P01' }], [{ code: '57P01' }]]);
    expect(existsSync(toSocketFolder(folder))).toBe(false);

    const second = await open({ dataDir: folder });
    const again = await connect({}, folder);
    expect(await value(again, `select count(*)::integer from private.alunos where nome = 'Aberta'`)).toBe(0);
    await second.close();
  });
});

describe('a transaction', () => {
  test('makes calls wait: they end by their deadline, or go on after it, and see only what is committed', async () => {
    const client = await connect();
    await client.query('begin');
    await client.query(insert('Espera'));
    expect(await count('Espera', hasty)).toBe(502);
    const waiting = [count('Espera'), count('Espera')];
    await client.query(`${insert('Espera')}; select pg_sleep(0.2)`);
    await client.query('commit');
    expect(await Promise.all(waiting)).toEqual([2, 2]);

    await client.query('begin');
    await client.query(insert('Desfeita'));
    const undone = count('Desfeita');
    await client.query('rollback');
    expect(await undone).toBe(0);
  });

  test('that has failed keeps its turn until its rollback', async () => {
    const client = await connect();
    await client.query('begin');
    expect(await codeOf(client.query('select nada'))).toBe('42703');
    const waiting = count('Espera');
    expect(await codeOf(client.query('select 1'))).toBe('25P02');
    await client.query('rollback');
    expect(await waiting).toBe(2);
  });

  test('that is idle too long is undone, and the client is told', async () => {
    const folder = copyDataDir(inject('dataDir'));
    const other = await open({ dataDir: folder, idleTransactionMs: 200 });
    const gateway = await startGateway({ store: other, deadlineMs: PATIENT_MS });
    const client = await connect({}, folder);
    await client.query('begin');
    const lost = once(client, 'error');
    await client.query(insert('Parada'));
    expect(await count('Parada', gateway)).toBe(0);
    expect(await lost).toMatchObject([{ code: '25P03', severity: 'FATAL' }]);
    // Outside of a transaction a session may be idle.
    const patientClient = await connect({}, folder);
    await patientClient.query('select pg_sleep(0.3)');
    expect(await value(patientClient, 'select 1')).toBe(1);
    await gateway.close();
    await other.close();
  });

  test('of a client that is lost is undone at once', async () => {
    const client = await connect();
    await client.query('begin');
    await client.query(insert('Perdida'));
    client.connection.stream.destroy();
    expect(await count('Perdida')).toBe(0);
  });

  test('of a client that is lost while a COPY begins is undone', async () => {
    const client = await connect();
    await client.query('begin');
    await client.query(insert('Perdida'));
    client.connection.stream.end(serialize.query('copy private.alunos from stdin'));
    expect(await count('Perdida')).toBe(0);
  });

  test('of messages without a Sync keeps its turn, and is undone with its client', async () => {
    const socket = createConnection(join(toSocketFolder(dataDir), '.s.PGSQL.5432'));
    const parse = serialize.parse({ text: insert('Sem Sync') });
    const start = serialize.startup({ user: 'postgres', database: 'postgres' });
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
    });
    socket.write(Buffer.concat([start, parse, serialize.bind({}), serialize.execute({}), serialize.flush()]));
    await waitFor(() => expect(answer).toContain('INSERT 0 1'));
    expect(await count('Sem Sync', hasty)).toBe(502);
    const waiting = count('Sem Sync');
    socket.destroy();
    expect(await waiting).toBe(0);
  });
});

describe('a statement', () => {
  test('may take longer than a call, and calls go on after it', async () => {
    const client = await connect();
    const slow = client.query(`select pg_sleep(${(LIMIT_MS + 500) / 1_000})`);
    expect(await count('Espera', hasty)).toBe(502);
    const waiting = count('Espera');
    await slow;
    expect(await waiting).toBe(2);
    // The session is still the same, so the thread is.
    expect(await value(client, 'select 1')).toBe(1);
  });

  test('that is cancelled ends with its thread, and calls go on', async () => {
    const client = await connect();
    const slow = codeOf(client.query('select pg_sleep(3600)'));
    expect(await count('Espera', hasty)).toBe(502);
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
    expect(await send(serialize.cancel(processID, secretKey + 1))).toBe('');
    expect(await count('Espera', hasty)).toBe(502);
    expect(await send(serialize.cancel(processID, secretKey))).toBe('');
    expect(await slow).toBe('57P01');
    expect(await count('Espera')).toBe(2);
  });

  test('of a client that is lost is ended when it has taken as long as a call may', async () => {
    const client = await connect();
    client.query('select pg_sleep(3600)').catch(() => {});
    expect(await count('Espera', hasty)).toBe(502);
    client.connection.stream.destroy();
    expect(await count('Espera')).toBe(2);
  });

  test('after which Postgres is beyond help ends the thread, and calls go on', async () => {
    const client = await connect();
    const failed = codeOf(client.query(`set client_encoding = 'LATIN1'; select 'é'`));
    expect(await count('Espera')).toBe(2);
    expect(await failed).toBe('57P01');
  });
});

describe('a session', () => {
  test('is over when a slow call ends the thread', async () => {
    const client = await connect();
    expect(await store.call(callOf('slow', { p_seconds: 3600 }), never)).toMatchObject({
      failure: { kind: 'storeTimeout' },
    });
    expect(await codeOf(client.query('select 1'))).toBe('57P02');
    expect(await value(await connect(), 'select 1')).toBe(1);
  });

  test('has its own settings, and the gateway its own', async () => {
    const gateway = async () => {
      const result = await store.call(callOf('who'), never);
      return 'json' in result ? JSON.parse(result.json) : result;
    };
    const settings = [{ who: 'gateway', zone: 'UTC', path: 'public', memory: '4MB', read_only: 'off' }];
    expect(await gateway()).toEqual(settings);

    const who = 'select who, zone, path, memory, read_only from public.who()';
    const [one, other] = [await connect(), await connect()];
    await one.query(`set timezone = 'America/Recife'; set search_path = private, "$user"; set work_mem = '9MB'`);
    await one.query('set default_transaction_read_only = on');
    await other.query(`set work_mem = '7MB'; set role gateway`);
    const ones = [
      { who: 'postgres', zone: 'America/Recife', path: 'private, "$user"', memory: '9MB', read_only: 'on' },
    ];
    const others = [{ who: 'gateway', zone: 'UTC', path: 'public', memory: '7MB', read_only: 'off' }];
    for (let round = 0; round < 2; round += 1) {
      expect((await one.query(who)).rows).toEqual(ones);
      expect(await gateway()).toEqual(settings);
      expect((await other.query(who)).rows).toEqual(others);
      expect((await one.query(who)).rows).toEqual(ones);
      expect(await codeOf(other.query('select * from private.tenants'))).toBe('42501');
    }
    await other.query('set session authorization gateway');
    await gateway();
    expect(await codeOf(other.query('set role gateway_functions'))).toBe('42501');
    expect((await one.query(who)).rows).toEqual(ones);
    expect(await gateway()).toEqual(settings);
  });

  test('of a role has the rights of the role', async () => {
    const client = await connect({ user: 'gateway' });
    expect(await value(client, 'select current_user::text')).toBe('gateway');
    expect(await codeOf(client.query('select * from private.tenants'))).toBe('42501');
    expect(await codeOf(connect({ user: 'nobody' }))).toBe('22023');
  });

  test('keeps its prepared statements and temporary tables until another session has a turn', async () => {
    const one = await connect();
    const prepared = { name: 'p', text: 'select nome from t' };
    await one.query(`create temporary table t as select 'Um' as nome`);
    expect((await one.query(prepared)).rows).toEqual([{ nome: 'Um' }]);
    expect(await count('Espera')).toBe(2);
    expect((await one.query(prepared)).rows).toEqual([{ nome: 'Um' }]);

    const other = await connect();
    expect((await other.query({ name: 'p', text: 'select 2 as n' })).rows).toEqual([{ n: 2 }]);
    expect(await codeOf(other.query('select * from t'))).toBe('42P01');
    expect(await codeOf(one.query(prepared))).toBe('26000');
  });

  test('cannot spoil the prepared statements of the gateway', async () => {
    const client = await connect();
    expect(await count('Espera')).toBe(2);
    await client.query('discard all');
    await client.query(`prepare gateway_0 as select 'not yours'; prepare gateway_1 as select 'not yours'`);
    expect(await count('Espera')).toBe(2);
    await client.query('deallocate all');
    expect(await count('Espera')).toBe(2);
  });
});

describe('a client that breaks the protocol is refused, and others are served:', () => {
  const start = serialize.startup({ user: 'postgres', database: 'postgres' });
  const bytes = (...values: number[]) => {
    const buffer = Buffer.alloc(values.length * 4);
    values.forEach((one, index) => void buffer.writeInt32BE(one, index * 4));
    return buffer;
  };
  /** The first message, with names and values. */
  const startOf = (version: number, ...words: string[]) => {
    const body = Buffer.from([...words, '', ''].join('\0'));
    return Buffer.concat([bytes(body.length + 8, version), body]);
  };
  const messageOf = (type: string, length: number) => Buffer.concat([Buffer.from(type), bytes(length)]);

  test.each([
    ['another version', [bytes(8, 2 << 16)], '0A000'],
    ['a start that is too long', [bytes(2 ** 30, 3 << 16)], '08P01'],
    ['a start that is too short', [bytes(4)], '08P01'],
    ['no user', [bytes(8, 3 << 16)], '28000'],
    ['another database', [serialize.startup({ user: 'postgres', database: 'nada' })], '3D000'],
    ['options', [serialize.startup({ user: 'postgres', database: 'postgres', options: '-c work_mem=7MB' })], '0A000'],
    ['an encoding without a conversion', [startOf(3 << 16, 'user', 'postgres', 'client_encoding', 'LATIN1')], '22023'],
    [
      'a setting that does not exist',
      [serialize.startup({ user: 'postgres', database: 'postgres', nada: '1' })],
      '42704',
    ],
    ['a message of another type', [start, messageOf('p', 6), Buffer.alloc(2)], '08P01'],
    ['a message that is too short', [start, messageOf('Q', 3)], '08P01'],
    ['a message that is too long', [start, messageOf('Q', 2 ** 31 - 1)], '54000'],
  ])('%s', async (_what, parts, code) => {
    expect(await send(...parts)).toContain(`\0C${code}\0`);
    expect(await count('Espera')).toBe(2);
  });

  test('a message with a malformed body is only an error', async () => {
    const answer = await send(
      start,
      messageOf('B', 6),
      Buffer.alloc(2, 1),
      serialize.sync(),
      serialize.query('select 7'),
      serialize.end(),
    );
    expect(answer).toContain('\0C08P01\0');
    expect(answer).toContain('SELECT 1');
  });

  test('an option of the protocol that Postgres does not know is named', async () => {
    const later = startOf((3 << 16) + 2, 'user', 'postgres', 'database', 'postgres', '_pq_.nada', '1');
    expect(await send(later, serialize.end())).toMatch(/^v[^R]*_pq_\.nada\0R/);
  });
});

describe('COPY FROM STDIN', () => {
  test('by the extended protocol, or among other statements, is an error', async () => {
    const client = await connect();
    await client.query('create temporary table t (n integer)');
    const extended = { text: 'copy t from stdin', queryMode: 'extended' } as pg.QueryConfig;
    expect(await codeOf(client.query(extended))).toBe('57014');
    expect(await codeOf(client.query('insert into t values (1); copy t from stdin'))).toBe('57014');
    expect(await value(client, 'select count(*)::integer from t')).toBe(0);
    // pg has no data for it.
    expect(await codeOf(client.query('copy t from stdin'))).toBe('57014');
    expect(await value(client, 'select 1')).toBe(1);
  });
});

describe.skipIf(!hasPsql)('psql', () => {
  async function psql(input: string, args: string[] = []): Promise<{ output: string; errors: string }> {
    const all = ['--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '--host', toSocketFolder(dataDir), ...args];
    const run = promisify(execFile)('psql', [...all, '--username', 'postgres'], { env: { PATH: process.env.PATH } });
    run.child.stdin?.end(input);
    const { stdout, stderr } = await run;
    return { output: stdout, errors: stderr };
  }

  test('runs queries, errors and transactions, and describes tables', async () => {
    const { output, errors } = await psql(`
      select 'é' || 1;
      select nada;
      begin;
      ${insert('Psql')};
      rollback;
      select count(*) from private.alunos where nome = 'Psql';
      \\d private.tenants
    `);
    expect(errors).toContain('column "nada" does not exist');
    expect(output).toMatch(/^é1\n0\n/);
    expect(output).toContain('id|uuid||not null|gen_random_uuid()');
  });

  test('copies from files and to files, also in a transaction', async () => {
    const file = join(root, 'copy.csv');
    writeFileSync(file, 'um;1\ndois;2\n');
    const copy = `\\copy t from '${file}' with (format csv, delimiter ';')`;
    const { output, errors } = await psql(`
      create temporary table t (nome text, n integer);
      ${copy}
      begin;
      ${copy}
      select count(*) from t;
      rollback;
      /* a comment; and another */ copy t from stdin;
tres\t3
\\.
      begin;
      insert into t values ('quatro', 4);
      copy t from stdin;
cinco\tcinco
\\.
      select 1;
      rollback;
      copy nada from stdin;
\\.
      \\copy t to '${file}'
      select * from t order by n;
    `);
    expect(output).toBe('4\num|1\ndois|2\ntres|3\n');
    expect(errors.split('\n').filter((line) => line.startsWith('ERROR'))).toEqual([
      expect.stringContaining('invalid input syntax for type integer: "cinco"'),
      expect.stringContaining('current transaction is aborted'),
      expect.stringContaining('relation "nada" does not exist'),
    ]);
  });
});

describe('the commands', () => {
  const sql = (DATA_DIR: string, input: string) => runCommand('scripts/sql.ts', ['-'], { env: { DATA_DIR }, input });

  test('work beside a gateway, also after one that was killed', async () => {
    const DATA_DIR = copyDataDir(inject('dataDir'));
    const killed = await startProcess({ DATA_DIR });
    await killed.stop('SIGKILL');
    expect(existsSync(toSocketFolder(DATA_DIR))).toBe(true);
    // The folder's lock is free, so that the socket is not used.
    expect(await sql(DATA_DIR, 'select 1')).toMatchObject({ code: 0 });

    const gateway = await startProcess({ DATA_DIR });
    const issue = ['key', 'issue', '--tenant', AURORA, '--name', 'Site', '--json'];
    const { key } = JSON.parse((await runCommand('scripts/admin/main.ts', issue, { env: { DATA_DIR } })).output);
    const answer = await fetch(`${gateway.origin}/v1/alunos?limit=1`, { headers: { 'X-Api-Key': key } });
    expect(answer.status).toBe(200);
    expect(await gateway.stop()).toBe(0);
    expect(existsSync(toSocketFolder(DATA_DIR))).toBe(false);
  });

  test('print the same as without a gateway', async () => {
    const script = `
      select id, nome, ativo, criado_em, criado_em::date as dia, tenant_id, array['a', 'b'] as textos, 9007199254740993 as grande,
             1.50 as numero, 1.5::float8 as real, null as nada, '{"a": [1]}'::jsonb as json, '1 day'::interval as dura
        from private.alunos order by criado_em, id limit 2;
      create temporary table t as select 1 as n;
      insert into t values (2), (3) returning n;
      update t set n = n + 1;
      delete from t;`;
    const other = copyDataDir(inject('dataDir'));
    const alone = await sql(other, script);
    expect(alone).toMatchObject({ code: 0, errors: '' });
    expect(await sql(dataDir, script)).toEqual(alone);

    const wrong = 'select 1;\nselect nada;';
    const aloneWrong = await sql(other, wrong);
    expect(aloneWrong).toMatchObject({ code: 1, errors: expect.stringMatching(/^-:2:8: /) });
    expect(await sql(dataDir, wrong)).toEqual(aloneWrong);
  });
});
