import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkDrift } from '../../scripts/check-drift.ts';
import { FINDINGS, type Finding } from '../../scripts/function-bodies.ts';
import { operations } from '../helpers/api.ts';
import { canTestOnDebian, type DebianPostgres, startDebianPostgres } from '../helpers/debian-postgres.ts';
import { runCommand } from '../helpers/run.ts';
import { asAdmin, loginUrl, PASSWORD } from '../helpers/servers.ts';

const SCRIPT = resolve('scripts/check-drift.ts');
const AGREES = `openapi.yaml and the database agree on ${operations.length} operations\n`;
const note = (reason: string) => `Note: the bodies of the functions are not checked: ${reason}\n`;

test('a mistake of the document has its file and line', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'check-contract-'));
  const text = readFileSync('openapi.yaml', 'utf8').replace('x-rpc: listar_secoes', 'x-rpc: 5');
  writeFileSync(join(cwd, 'openapi.yaml'), text);
  // The operation begins on the line after its path.
  const line = text.split('\n').indexOf('  /anamnese/secoes:') + 2;
  const mistake = 'GET /anamnese/secoes: x-rpc must name the Postgres function, in lower case; it is 5';
  const errors = `openapi.yaml:${line}: ${mistake}\n`;
  expect(await runCommand(SCRIPT, [], { cwd })).toEqual({ code: 1, output: '', errors });
});

/** Findings that are accepted, and why. */
const ACCEPTED: Readonly<Record<string, string>> = {
  'performance: private.publish(regproc): target type is different type than source type':
    'it reads names of roles into a variable of type text; it runs in migrations alone, some ten times',
  'security: private.import_rows(uuid,regclass,jsonb,boolean): text type variable is not sanitized':
    'the expressions that it puts together are made by format() from quoted names of the catalog',
  'security: private.find_unreadable(regclass,jsonb): text type variable is not sanitized':
    'its text is made by format() from the quoted name and the type of a column',
  'security: private.find_rows(uuid,regclass,text[],jsonb): text type variable is not sanitized':
    'the expressions that it puts together are made by format() from quoted names of the catalog',
  'security: private.find_unchanged(uuid,regclass,jsonb): text type variable is not sanitized':
    'the expressions that it puts together are made by format() from quoted names of the catalog',
  'security: private.student_data(uuid,uuid): text type variable is not sanitized':
    'the conditions of student_rows() are made by format() from quoted names of the catalog',
  'security: private.erase_student(uuid,uuid): text type variable is not sanitized':
    'the conditions of student_rows() are made by format() from quoted names of the catalog',
  'security: private.watch(regclass): text type variable is not sanitized': 'its texts are constants',
  'warning extra: private.next_position(uuid): never read variable "v_locked"': 'an assignment costs less than perform',
  'warning extra: private.find_rows(uuid,regclass,text[],jsonb): OUT variable "line" is maybe unmodified':
    'return query execute sets it',
  'warning extra: private.find_rows(uuid,regclass,text[],jsonb): OUT variable "id" is maybe unmodified':
    'return query execute sets it',
  'warning extra: private.find_unchanged(uuid,regclass,jsonb): OUT variable "line" is maybe unmodified':
    'return query execute sets it',
  'warning extra: private.find_records(uuid,regclass,text,jsonb): OUT variable "value" is maybe unmodified':
    'return query execute sets it',
  'warning extra: private.find_records(uuid,regclass,text,jsonb): OUT variable "id" is maybe unmodified':
    'return query execute sets it',
};

describe.skipIf(!canTestOnDebian('plpgsql_check'))('on Postgres 15', () => {
  let server: DebianPostgres;

  beforeAll(async () => {
    server = await startDebianPostgres();
  });

  afterAll(() => server.stop());

  /** What it prints, and the message with which it fails. */
  const check = async (url: string) => {
    let output = '';
    const print = (line: string) => {
      output += `${line}\n`;
    };
    const error = await checkDrift({ DATABASE_URL: url }, print).catch((error: Error) => error.message);
    return { output, error };
  };

  test('plpgsql_check finds exactly the accepted warnings', async () => {
    const { rows } = await asAdmin(server.superuserUrl, async (admin) => {
      // The other tests begin without the extension.
      await admin.query('begin; create extension plpgsql_check');
      return admin.query<Finding>(FINDINGS);
    });
    const texts = rows.map(({ level, function: name, message }) => `${level}: ${name}: ${message}`);
    expect([...new Set(texts)].sort()).toEqual(Object.keys(ACCEPTED).sort());
  });

  test('a URL without a password is reported as such', async () => {
    const { error } = await check(server.ownerUrl.replace(/:[^:@/]+@/, '@'));
    expect(error).toMatch(
      /: there is no password: write it in DATABASE_URL, PGPASSWORD or a pgpass file with mode 600$/,
    );
  });

  test('a login that may not see the bodies of functions is named', async () => {
    const url = loginUrl(server.ownerUrl, 'um_login');
    await asAdmin(server.superuserUrl, (admin) =>
      admin.query(`create role um_login login noinherit password '${PASSWORD}'; grant gateway to um_login`),
    );
    const reason = 'um_login may not use schema private; use the role that applied the migrations';
    expect(await check(url)).toEqual({ output: note(reason) + AGREES });
  });

  test('a misspelt column in the body of a function is found', async () => {
    const BODY = `as $$ begin perform a.nome\n from private.alunos a; end $$`;
    const define = (body: string) =>
      asAdmin(server.ownerUrl, (admin) =>
        admin.query(`create or replace function private.one() returns void language plpgsql stable ${body}`),
      );
    await define(BODY.replace('a.nome', 'a.nom'));
    const reason = 'as a superuser, run "create extension plpgsql_check"';
    expect(await check(server.ownerUrl)).toEqual({ output: note(reason) + AGREES });

    const error = 'private.one(), line 1: column a.nom does not exist';
    expect(await check(server.superuserUrl)).toEqual({ output: '', error });
    await asAdmin(server.superuserUrl, (admin) => admin.query('create extension plpgsql_check schema extensions'));
    expect(await check(server.ownerUrl)).toEqual({ output: '', error });
    await define(BODY);
    expect(await check(server.ownerUrl)).toEqual({ output: AGREES });
  });
});
