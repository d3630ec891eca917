import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { call, KEYS } from '../helpers/api.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { type Run, runAdmin, succeed } from '../helpers/run.ts';
import { createDatabase, type Database, loginUrl } from '../helpers/servers.ts';

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const BOSQUE = 'b0000000-0000-4000-8000-000000000000';
const ANA = 'a3000000-0000-4000-8000-000000000001';
const EMAIL = 'aluno001@aurora.example';

let database: Database;
let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  database = await createDatabase();
  const url = loginUrl(database.adminUrl, 'gateway_test');
  store = openPostgres({ url, connections: 2, prepare: true, deadlineMs: 5_000 });
  gateway = await startGateway({ store });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
  await database.drop();
});

const admin = (...args: string[]): Promise<Run> => runAdmin(args, { DATABASE_URL: database.adminUrl });

/** Runs the command on a terminal of its own and types a line. */
function type(line: string, ...args: string[]): { code: number | null; output: string } {
  const command = [process.execPath, 'src/admin/main.ts', ...args.map((arg) => `'${arg}'`)].join(' ');
  const env = { PATH: process.env.PATH, DATABASE_URL: database.adminUrl, TERM: 'dumb' };
  const { status, stdout } = spawnSync('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    env,
    input: `${line}\n`,
    encoding: 'utf8',
  });
  return { code: status, output: stdout };
}

const ask = async (path: string, key = KEYS.aurora) => {
  const { status, body } = await call(path, { url: gateway.url, key });
  return { status, body };
};

describe('a student', () => {
  test('is shown by id and by e-mail, in any case of its letters', async () => {
    const byId = await admin('student', 'data', ANA, '--tenant', AURORA, '--json');
    const byEmail = await admin('student', 'data', EMAIL.toUpperCase(), '--tenant', AURORA);
    const data = JSON.parse(byId.output);
    expect(JSON.parse(byEmail.output)).toEqual(data);
    expect(data).toMatchObject({ alunos: [{ id: ANA, nome: 'Ana Alves', telefone: '+55 11 90000-0001' }] });
    expect(Object.keys(data)).toEqual(['alunos', 'treinos', 'anamneses', 'idempotency_keys']);
    expect(data.treinos.every((row: { aluno_id: string }) => row.aluno_id === ANA)).toBe(true);
  });

  test('that shares an e-mail is named by id', async () => {
    const json = { p_nome: 'Outra Ana', p_email: EMAIL };
    const { body } = await call('/alunos', { url: gateway.url, json });
    const { code, errors } = await admin('student', 'erase', EMAIL, '--tenant', AURORA, '--yes');
    const { id } = body as { id: string };
    expect([code, errors]).toEqual([
      1,
      `${EMAIL} is the email of several alunos\nName one by its id: ${ANA} (Ana Alves), ${id} (Outra Ana)\n`,
    ]);
  });

  test.each([
    ['of another tenant', ANA, BOSQUE],
    ['that does not exist', 'ninguem@aurora.example', AURORA],
  ])('%s is not found', async (_, name, tenant) => {
    const { code, errors } = await admin('student', 'data', name, '--tenant', tenant);
    expect([code, errors]).toEqual([
      1,
      `the tenant has no ${name} in alunos\nName a record by its id or email: npm run admin -- find alunos TEXT --tenant ${tenant}\n`,
    ]);
  });

  test('is erased once its name was typed, and then answered like one that never was', async () => {
    const refused = type('Outra', 'student', 'erase', ANA, '--tenant', AURORA);
    expect(refused.output).toContain('Erases the student Ana Alves and everything that refers to it.');
    expect(refused.output).toContain('That is another name: nothing was changed.');
    expect(refused.code).toBe(1);
    expect(await ask(`/alunos?limit=1&after=${ANA}`)).toMatchObject({ status: 200 });

    const { code, output } = type('Ana Alves', 'student', 'erase', ANA, '--tenant', AURORA);
    expect(output).toContain(`Student ${ANA} was erased: anamneses 1, treinos 2, alunos 1.`);
    expect(code).toBe(0);
    for (const path of [`/alunos?after=ID`, '/treinos?id_aluno=ID', '/anamnese/alunos?id_aluno=ID']) {
      const never = await ask(path.replace('ID', 'f0000000-0000-4000-8000-00000000000f'));
      expect(await ask(path.replace('ID', ANA))).toEqual(never);
    }
  });
});

describe('a key', () => {
  test('is revoked once its name was typed, and then without a question', async () => {
    const issue = await admin('key', 'issue', '--tenant', AURORA, '--name', 'Site', '--json');
    const { prefix } = JSON.parse(succeed(issue));
    expect(type('Outra', 'key', 'revoke', prefix)).toEqual({
      code: 1,
      output: expect.stringContaining(`Revokes the key Site (${prefix}) of Academia Aurora. This cannot be undone.`),
    });
    const done = {
      code: 0,
      output: expect.stringContaining(`Key ${prefix} is revoked: requests with it are refused.`),
    };
    expect(type('Site', 'key', 'revoke', prefix)).toEqual(done);
    expect(await admin('key', 'revoke', prefix)).toMatchObject(done);
  });
});

describe('a tenant', () => {
  test('is not deleted where nobody can be asked', async () => {
    const { code, errors } = await admin('tenant', 'delete', BOSQUE);
    expect([code, errors]).toEqual([2, 'Expected --yes, because there is no terminal to ask on.\nSee --help.\n']);
    expect(await ask('/alunos', KEYS.bosque)).toMatchObject({ status: 200 });
  });

  test('is deleted with --yes, and its key is unknown', async () => {
    const output = succeed(await admin('tenant', 'delete', BOSQUE, '--yes', '--json'));
    expect(JSON.parse(output)).toMatchObject({ deleted: { alunos: 5, api_keys: 1, treinos: 5 } });
    expect(await ask('/alunos', KEYS.bosque)).toEqual({ status: 401, body: { error: 'API Key inválida' } });
    expect(await ask('/alunos?limit=1')).toMatchObject({ status: 200 });
  });
});
