import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { checkStart } from '../src/check.ts';
import { readConfig } from '../src/config.ts';
import { lockFolder } from '../src/store/embedded/folder.ts';
import { operations } from './helpers/api.ts';
import { copyDataDir, MIGRATIONS } from './helpers/gateway.ts';
import { GatewayProcess, startProcess } from './helpers/process.ts';
import { createDatabase, type Database, findPort, loginUrl } from './helpers/servers.ts';

const root = mkdtempSync(join(tmpdir(), 'check-'));
const DOCUMENT = ['Configuration  ok', `Document       ok: ${operations.length} operations`];
const [NEWEST = ''] = readdirSync(MIGRATIONS).sort().reverse();
const AGREES = 'Contract       ok: document and database agree';
const GOOD = 'The gateway can start.';
const BAD = 'The gateway would not start, or could not serve.';
const DEMO = 'Demo data      in this store, with keys that everybody knows';
let database: Database;

beforeAll(async () => {
  database = await createDatabase();
});

afterAll(async () => {
  await database.drop();
  rmSync(root, { recursive: true });
});

async function check(env: Record<string, string>): Promise<{ isGood: boolean; lines: string[] }> {
  const lines: string[] = [];
  return { isGood: await checkStart(readConfig(env), (line) => lines.push(line)), lines };
}

describe('a check of the start', () => {
  test('is good for a database that is as it should be, and says what the login may not read', async () => {
    const { host, pathname } = new URL(database.adminUrl);
    expect(await check({ DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test') })).toEqual({
      isGood: true,
      lines: [
        ...DOCUMENT,
        `Store          Postgres at ${host}${pathname}`,
        'Login          ok',
        'Migrations     not checked: the login may not read them; npm run migrate -- --dry-run shows them to the role that migrates',
        AGREES,
        DEMO,
        GOOD,
      ],
    });
  });

  test('names the migrations that are missing, the drift, a risky login, and demo data for everybody', async () => {
    const other = await createDatabase();
    onTestFinished(() => other.drop());
    await other.query(`delete from supabase_migrations.schema_migrations where version = '${NEWEST.split('_')[0]}';
        drop function public.listar_secoes(text, integer, integer, uuid)`);
    const { isGood, lines } = await check({ DATABASE_URL: other.adminUrl, HOST: '0.0.0.0' });
    expect(isGood).toBe(false);
    expect(lines.slice(3)).toEqual([
      expect.stringMatching(/^Login {10}The login \w+ is a superuser: use one /),
      `Migrations     missing: ${NEWEST}; run npm run migrate`,
      expect.stringMatching(/^Contract {7}openapi\.yaml:\d+: listarSecoes → listar_secoes: /),
      expect.stringMatching(/^Demo data {6}HOST=0\.0\.0\.0 is reachable by others/),
      BAD,
    ]);
  });

  test('tells a refused login from no answer', async () => {
    const url = new URL(loginUrl(database.adminUrl, 'gateway_test'));
    url.password = 'wrong';
    const refused = await check({ DATABASE_URL: url.href });
    expect([refused.isGood, ...refused.lines.slice(3)]).toEqual([
      false,
      'Login          The store refuses the login: password authentication failed for user "gateway_test"',
      BAD,
    ]);
    const port = await findPort();
    const none = await check({ DATABASE_URL: `postgres://u:secret@127.0.0.1:${port}/x` });
    expect([none.isGood, ...none.lines.slice(3)]).toEqual([
      false,
      `Login          The store does not answer: connect ECONNREFUSED 127.0.0.1:${port}`,
      BAD,
    ]);
  });

  test('makes no embedded store, and leaves one as it is', async () => {
    const dataDir = join(root, 'none');
    expect(await check({ DATA_DIR: dataDir })).toEqual({
      isGood: true,
      lines: [
        ...DOCUMENT,
        `Store          embedded Postgres, data in ${dataDir}`,
        'Login          ok',
        'Migrations     ok: the start applies all of them to a new store',
        AGREES,
        GOOD,
      ],
    });
    expect(existsSync(dataDir)).toBe(false);
    const there = copyDataDir(inject('dataDir'));
    expect((await check({ DATA_DIR: there })).lines.slice(4)).toEqual([
      expect.stringMatching(/^Migrations {5}ok: all \d+ are applied$/),
      AGREES,
      DEMO,
      GOOD,
    ]);
  });

  test('asks the gateway that serves an embedded store, and names a process that has it and does not serve it', async () => {
    const dataDir = copyDataDir(inject('dataDir'));
    const gateway = await startProcess({ DATA_DIR: dataDir });
    expect(await check({ DATA_DIR: dataDir })).toEqual({
      isGood: true,
      lines: [
        ...DOCUMENT,
        `Store          embedded Postgres, data in ${dataDir}`,
        'Login          ok',
        expect.stringMatching(/^Migrations {5}ok: all \d+ are applied$/),
        AGREES,
        DEMO,
        GOOD,
      ],
    });
    expect((await fetch(`${gateway.origin}/readyz`)).status).toBe(200);
    await gateway.stop();
    const unlock = lockFolder(dataDir);
    expect(await check({ DATA_DIR: dataDir })).toMatchObject({
      isGood: false,
      lines: [...DOCUMENT, expect.stringContaining(`${dataDir} is in use by process ${process.pid}`), BAD],
    });
    unlock();
  });

  test('says where no embedded store can be made', async () => {
    const orphan = join(root, 'missing', 'store');
    expect(await check({ DATA_DIR: orphan })).toEqual({
      isGood: false,
      lines: [
        ...DOCUMENT,
        expect.stringMatching(
          /^Error {10}.*\/missing\/store cannot be used: .*; create .*\/missing first, or set DATA_DIR/,
        ),
        BAD,
      ],
    });
    expect(await check({ DATA_DIR: 'src' })).toMatchObject({
      isGood: false,
      lines: [...DOCUMENT, expect.stringMatching(/^Error {10}src has files of something else/), BAD],
    });
  });

  test('ends npm start with its result, without listening', async () => {
    const url = loginUrl(database.adminUrl, 'gateway_test');
    const gateway = new GatewayProcess({ DATABASE_URL: url, WORKERS: '2' }, { args: ['--check'] });
    expect(await gateway.ended).toBe(0);
    expect(gateway.output()).toMatch(/\nThe gateway can start\.\n$/);
    expect(gateway.output()).not.toContain('Listening');
    const wrong = new GatewayProcess({ DATABASE_URL: `${url}#` }, { args: ['--check'] });
    expect(await wrong.ended).toBe(1);
    expect(wrong.errors()).toMatch(/^DATABASE_URL=\(not shown\): expected @ # /);
  });
});
