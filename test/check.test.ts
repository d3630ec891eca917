import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { checkStart } from '../src/check.ts';
import { readConfig } from '../src/config.ts';
import { lockFolder } from '../src/store/embedded/folder.ts';
import { ADMINISTRATOR } from '../src/store/embedded/server.ts';
import { openServer, toUrl } from '../src/store/embedded/store.ts';
import { operations } from './helpers/api.ts';
import { useDatabase } from './helpers/database.ts';
import { copyDataDir, MIGRATIONS, startConfigured } from './helpers/gateway.ts';
import { canTestPgbouncer, type Pgbouncer, startPgbouncer } from './helpers/pgbouncer.ts';
import { GatewayProcess } from './helpers/process.ts';
import {
  asAdmin,
  createDatabase,
  type Database,
  enableTls,
  findPort,
  hasPostgrest,
  loginUrl,
  PASSWORD,
  type PostgresServer,
  type PostgrestServer,
  startEmbeddedPostgres,
  startPostgrest,
} from './helpers/servers.ts';

const root = mkdtempSync(join(tmpdir(), 'check-'));
const DOCUMENT = ['Configuration  ok', `Document       ok: ${operations.length} operations`];
const [NEWEST = ''] = readdirSync(MIGRATIONS).sort().reverse();
const FORGET = `delete from supabase_migrations.schema_migrations where version = '${NEWEST.split('_')[0]}'`;
const AGREES = 'Contract       ok: document and database agree; npm run check:contract looks into the functions too';
const GOOD = ['Demo data      in this store, with keys that everybody knows', 'The gateway can start.'];
const BAD = 'The gateway would not start, or could not serve.';
const REACHABLE = [expect.stringMatching(/^Demo data {6}HOST=0\.0\.0\.0 is reachable by others/), BAD];
const database = useDatabase();

async function check(env: Record<string, string>): Promise<{ isGood: boolean; lines: string[] }> {
  const lines: string[] = [];
  const isGood = await checkStart(readConfig(env), (line) => lines.push(line));
  // On a busy machine a connection may take long and be replaced, with a warning.
  return { isGood, lines: lines.filter((line) => !/^Warning .* stalled in the step/.test(line)) };
}

describe('a check of the start', () => {
  /** The lines for a store where nothing is wrong, without those of its demo data. */
  const linesOf = (store: string, migrations: unknown) => {
    return [...DOCUMENT, `Store          ${store}`, 'Login          ok', migrations, AGREES];
  };
  /** The lines for an embedded store where nothing is wrong. */
  const goodLines = (dataDir: string) => {
    const migrations = expect.stringMatching(/^Migrations {5}ok: all \d+ are applied$/);
    return [...linesOf(`embedded Postgres, data in ${dataDir}`, migrations), ...GOOD];
  };

  test('passes a correct database, and says what the login may not read', async () => {
    const { host, pathname } = new URL(database.adminUrl);
    const migrations =
      'Migrations     not checked: the login may not read them; npm run migrate -- --dry-run shows them to the role that migrates';
    expect(await check({ DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test') })).toEqual({
      isGood: true,
      lines: [...linesOf(`Postgres at ${host}${pathname}`, migrations), ...GOOD],
    });
  });

  test('names the migrations that are missing, the drift, a risky login, and demo data for everybody', async () => {
    const other = await createDatabase();
    onTestFinished(() => other.drop());
    await other.query(`${FORGET}; drop function public.listar_secoes(text, integer, integer, uuid)`);
    const { isGood, lines } = await check({ DATABASE_URL: other.adminUrl, HOST: '0.0.0.0' });
    expect(isGood).toBe(false);
    expect(lines.slice(3)).toEqual([
      expect.stringMatching(/^Login {10}The login \w+ is a superuser: use one /),
      `Migrations     missing: ${NEWEST}; run npm run migrate`,
      expect.stringMatching(/^Contract {7}openapi\.yaml:\d+: listarSecoes → listar_secoes: /),
      ...REACHABLE,
    ]);
  });

  test('ends while another session has locked the record of migrations', async () => {
    await asAdmin(database.adminUrl, async (admin) => {
      await admin.query('begin; lock table supabase_migrations.schema_migrations in access exclusive mode');
      const { lines } = await check({ DATABASE_URL: database.adminUrl, DEADLINE_MS: '5000' });
      expect(lines).toContain('Migrations     not checked: the store cannot be asked');
      await admin.query('rollback');
    });
  });

  test('creates no embedded store, and passes an existing one', async () => {
    const dataDir = join(root, 'none');
    const migrations = 'Migrations     ok: the start applies all of them to a new store';
    expect(await check({ DATA_DIR: dataDir, HOST: '0.0.0.0' })).toEqual({
      isGood: false,
      lines: [...linesOf(`embedded Postgres, data in ${dataDir}`, migrations), ...REACHABLE],
    });
    expect(existsSync(dataDir)).toBe(false);
    const there = copyDataDir(inject('dataDir'));
    expect(await check({ DATA_DIR: there })).toEqual({ isGood: true, lines: goodLines(there) });
  });

  test('finds the demo data of an embedded store that the start would migrate first', async () => {
    const dataDir = copyDataDir(inject('dataDir'));
    const server = await openServer({ dataDir, fsync: false });
    await asAdmin(toUrl(dataDir, ADMINISTRATOR), (db) => db.query(FORGET)).finally(server.close);
    const { isGood, lines } = await check({ DATA_DIR: dataDir, HOST: '0.0.0.0' });
    expect(isGood).toBe(false);
    expect(lines.slice(4)).toEqual([`Migrations     ok: the start applies ${NEWEST}`, AGREES, ...REACHABLE]);
  });

  test('asks the gateway that serves an embedded store, and names a process that locks one without serving it', async () => {
    const dataDir = copyDataDir(inject('dataDir'));
    const gateway = await startConfigured({ DATA_DIR: dataDir });
    expect(await check({ DATA_DIR: dataDir })).toEqual({ isGood: true, lines: goodLines(dataDir) });
    expect((await fetch(new URL('/readyz', gateway.url))).status).toBe(200);
    await gateway.close();
    const unlock = lockFolder(dataDir);
    expect(await check({ DATA_DIR: dataDir })).toMatchObject({
      isGood: false,
      lines: [...DOCUMENT, expect.stringContaining(`${dataDir} is in use by process ${process.pid}`), BAD],
    });
    unlock();
  });

  test('says that no embedded store can be made below a file', async () => {
    const { isGood, lines } = await check({ DATA_DIR: 'package.json/store' });
    const reason = expect.stringMatching(/^Error {10}.*\/store cannot be used: ENOTDIR/);
    expect([isGood, ...lines]).toEqual([false, ...DOCUMENT, reason, BAD]);
  });

  test('ends npm start with its result, without listening', async () => {
    const url = loginUrl(database.adminUrl, 'gateway_test');
    const gateway = new GatewayProcess({ DATABASE_URL: url, WORKERS: '2' }, { args: ['--check'] });
    expect(await gateway.ended).toBe(0);
    expect(gateway.output()).toMatch(/\nThe gateway can start\.\n$/);
    expect(gateway.output()).not.toContain('Listening');
  });
});

const [, table = ''] = readFileSync('docs/stores.md', 'utf8').split('## What the check says\n');
/** The rows of the page: the mistake, the line that the check prints, and whether the gateway starts. */
const ROWS = [...table.matchAll(/^\| (?!Wrong|---)(.*?) \| `(.*?)` \| (yes|no) \|$/gm)].map(([, ...row]) => row);

// A server of its own has no roles of ours. PgBouncer and PostgREST are in front of the database with the migrations.
describe.skipIf(!canTestPgbouncer() || !hasPostgrest)('the page of the stores has what the check says of', () => {
  const plain = `check_plain_${process.pid}`;
  let bare: PostgresServer;
  let empty: Database;
  let postgrest: PostgrestServer;
  let pooler: Pgbouncer;
  let nobody: number;

  beforeAll(async () => {
    [bare, empty, postgrest, nobody] = await Promise.all([
      startEmbeddedPostgres(),
      createDatabase(),
      startPostgrest(database),
      findPort(),
    ]);
    await asAdmin(bare.adminUrl, enableTls);
    await empty.query('drop schema public cascade; create schema public');
    await database.query(`create role ${plain} login password '${PASSWORD}'`);
    pooler = await startPgbouncer(urlOf(), 'transaction');
  });

  afterAll(async () => {
    await Promise.all([pooler, postgrest, bare].map(({ stop }) => stop()));
    await database.query(`drop owned by ${plain}; drop role ${plain}`);
    await empty.drop();
  });

  const urlOf = (login = 'gateway_test', url = database.adminUrl) => loginUrl(url, login);
  const edited = (change: Partial<URL>, url = urlOf()) => ({ DATABASE_URL: Object.assign(new URL(url), change).href });
  const hosts = (...all: string[]) => ({ DATABASE_URL: urlOf().replace(/@[^/]*/, `@${all}`) });
  const secure = (search: string) => edited({ hostname: 'localhost', search }, bare.adminUrl);

  const WRONG: Readonly<Record<string, () => Record<string, string>>> = {
    '`DATABASE_URL` beside `SUPABASE_URL`': () => ({ DATABASE_URL: urlOf(), ...postgrest.env }),
    'the login or its password': () => edited({ password: 'wrong' }),
    'the login or its password, behind PgBouncer': () => edited({ password: 'wrong' }, pooler.url),
    'the database': () => edited({ pathname: '/nada' }),
    'the host or the port': () => edited({ port: String(nobody) }),
    'all of several hosts': () => hosts(`127.0.0.1:${nobody}`, `localhost:${nobody}`),
    'one of several hosts': () => hosts(`127.0.0.1:${nobody}`, new URL(urlOf()).host),
    'a server without the migrations': () => ({ DATABASE_URL: bare.adminUrl }),
    'a database without the migrations, or the role of `SUPABASE_KEY`': () => ({
      DATABASE_URL: urlOf('gateway_test', empty.adminUrl),
    }),
    'a login that may not become `gateway`': () => ({ DATABASE_URL: urlOf(plain) }),
    'a superuser, or the role that migrates': () => ({ DATABASE_URL: database.adminUrl }),
    'a standby alone, or a login that only reads': () =>
      edited({ search: 'options=-c%20default_transaction_read_only%3Don' }),
    '`sslmode=verify-full` without the authority': () => secure('sslmode=verify-full'),
    '`sslrootcert` of no file': () => secure('sslmode=verify-full&sslrootcert=/none/root.crt'),
    '`sslmode=require` of a server without TLS': () => edited({ search: 'sslmode=require' }),
    '`SUPABASE_KEY`': () => ({ ...postgrest.env, SUPABASE_KEY: 'nada' }),
    '`SUPABASE_REST_PATH`': () => ({ ...postgrest.env, SUPABASE_REST_PATH: '/rest/v1' }),
  };

  test('each row', () => expect(ROWS.map(([what]) => what)).toEqual(Object.keys(WRONG)));

  test.each(ROWS)('%s', async (what = '', says = '', starts) => {
    const { isGood, lines } = await check(WRONG[what]?.() ?? {}).catch((error) => ({
      isGood: false,
      lines: [`${'Error'.padEnd(15)}${error.message}`],
    }));
    const pattern = says.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.+');
    expect(lines.map((line) => line.slice(15))).toContainEqual(expect.stringMatching(new RegExp(`^${pattern}$`)));
    expect(isGood).toBe(starts === 'yes');
  });
});
