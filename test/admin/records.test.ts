import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fail, type Run, runAdmin, succeed } from '../helpers/run.ts';
import { createDatabase, type Database } from '../helpers/servers.ts';

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const BOSQUE = 'b0000000-0000-4000-8000-000000000000';
const ANA = 'a3000000-0000-4000-8000-000000000001';
const EMAIL = 'aluno001@aurora.example';
const CENTRO = 'a1000000-0000-4000-8000-000000000001';
const BOSQUE_GYM = 'b1000000-0000-4000-8000-000000000001';

let database: Database;

beforeAll(async () => {
  database = await createDatabase();
});

afterAll(async () => {
  await database.drop();
});

const admin = (...args: string[]): Promise<Run> => runAdmin(args, { DATABASE_URL: database.adminUrl });
const ofAurora = (...args: string[]) => admin(...args, '--tenant', AURORA);
const rows = (sql: string) => database.query<Record<string, unknown>>(sql);
const others = () =>
  rows(`select * from private.alunos where tenant_id <> '${AURORA}' or id <> '${ANA}' order by tenant_id, id`);

/** A command that succeeds, and its output for scripts. */
const json = async (...args: string[]) => JSON.parse(succeed(await ofAurora(...args, '--json')));

const refusal = async (...args: string[]) => fail(await ofAurora(...args, '--json'));

describe('find', () => {
  test('lists the records with a text in any column, ignoring capitals and accents', async () => {
    expect(await ofAurora('find', 'alunos', 'ÁNA ALVES')).toEqual({
      code: 0,
      output: [
        'ID                                    NOME       EMAIL                    ATIVO',
        `${ANA}  Ana Alves  ${EMAIL}  true`,
        '',
      ].join('\n'),
      errors: '',
    });
    expect(await json('find', 'alunos', '90000-0001')).toMatchObject([{ id: ANA, telefone: '+55 11 90000-0001' }]);
    expect(await json('find', 'alunos', ANA)).toMatchObject([{ id: ANA }]);
    expect(await json('find', 'personais', 'bruno@')).toMatchObject([{ email: 'bruno@aurora.example' }]);
  });

  test('says that there are more, or none, and finds nothing of another tenant', async () => {
    const { output } = await ofAurora('find', 'alunos', 'aurora.example', '--limit', '2');
    expect(output).toMatch(/^(?:.*\n){3}There are more: --limit 20\n$/);
    expect(await ofAurora('find', 'alunos', '%')).toMatchObject({
      output: `None of the tenant's alunos has "%".\n`,
      code: 0,
    });
    expect(await json('find', 'alunos', 'bosque.example')).toEqual([]);
    expect(await refusal('find', 'aluno', 'x')).toMatchObject({ code: 1, error: 'There is no resource aluno' });
  });
});

describe('show', () => {
  test('prints a record by e-mail or id, with the names of those that it refers to', async () => {
    const output = succeed(await ofAurora('show', 'alunos', EMAIL.toUpperCase()));
    expect(output).toContain(`id               ${ANA}\nnome             Ana Alves\n`);
    expect(output).toMatch(/^academia_id {6}\S{36} \(Aurora \w+\)$/m);
    const record = await json('show', 'alunos', ANA);
    expect(Object.keys(record)).toEqual(
      'id nome email telefone sexo data_nascimento academia_id modalidade personal_id ativo criado_em'.split(' '),
    );
    expect(record).toMatchObject({ id: ANA, nome: 'Ana Alves', ativo: true });
  });
});

describe('update', () => {
  test('changes columns of one record as an import writes them, and shows what has changed', async () => {
    const before = await others();
    const set = [
      'Telefone=9',
      'Data de Nascimento=1/5/1985',
      'academia=AURORA centro',
      'email=ana@nova.example',
      'sexo=',
    ];
    expect(await ofAurora('update', 'alunos', EMAIL, '--set', ...set)).toEqual({
      code: 0,
      output: expect.stringMatching(
        new RegExp(
          `^Changed Ana Alves \\(${ANA}\\)\nemail: +${EMAIL} → ana@nova.example\ntelefone: +\\+55 11 90000-0001 → 9\n`,
        ),
      ),
      errors: '',
    });
    expect(await json('show', 'alunos', ANA)).toMatchObject({
      email: 'ana@nova.example',
      telefone: '9',
      data_nascimento: '1985-05-01',
      academia_id: CENTRO,
      sexo: null,
    });
    expect(await ofAurora('update', 'alunos', ANA, '--set', 'telefone=9')).toMatchObject({
      output: 'Nothing changed.\n',
    });
    expect(await json('update', 'alunos', ANA, '--set', `email=${EMAIL}`)).toEqual({
      id: ANA,
      changed: { email: { from: 'ana@nova.example', to: EMAIL } },
    });
    expect(await others()).toEqual(before);
  });

  test('knows and changes no record of another tenant', async () => {
    const before = await rows('select * from private.alunos order by tenant_id, id');
    expect(await admin('update', 'alunos', ANA, '--tenant', BOSQUE, '--set', 'telefone=1')).toMatchObject({
      ...{ code: 1, errors: expect.stringContaining(`the tenant has no ${ANA} in alunos\n`) },
    });
    expect(await rows('select * from private.alunos order by tenant_id, id')).toEqual(before);
  });

  test('says all that is wrong, and changes nothing', async () => {
    const before = await json('show', 'alunos', ANA);
    const set = ['email=ana', 'ativo=talvez', `academia=${BOSQUE_GYM}`, 'nome=', 'telefone=1'];
    expect(await refusal('update', 'alunos', ANA, '--set', ...set)).toEqual({
      code: 1,
      error: [
        'email must match format "email"',
        'ativo must be true or false, or sim or não',
        'nome is required',
        "academia_id must be the id or the nome of one of the tenant's academias",
      ].join('\n'),
      hint: 'Nothing was changed.',
    });
    expect(await refusal('update', 'anamnese_secoes', 'x', '--set', 'ordem=1')).toMatchObject({
      code: 1,
      error: 'the tenant has no x in anamnese_secoes',
    });
    expect(await json('show', 'alunos', ANA)).toEqual(before);
  });

  test.each([
    ['a column that there is not', ['--set', 'idade=3'], /^alunos has no column "idade": expected one of nome, /],
    ['the id', ['--set', 'id=3'], /^alunos has no column "id"/],
    ['no value', ['--set', 'nome'], /Expected COLUMN=VALUE/],
    ['nothing to set', [], /required option '--set/],
  ])('refuses %s with 2', async (_what, args, message) => {
    expect(await refusal('update', 'alunos', ANA, ...args)).toMatchObject({
      code: 2,
      error: expect.stringMatching(message),
    });
  });
});

describe('deactivate', () => {
  test('sets ativo to false for a student or a trainer, and update sets it back', async () => {
    expect(await json('deactivate', 'personais', 'bruno@aurora.example')).toMatchObject({
      changed: { ativo: { from: true, to: false } },
    });
    expect(await ofAurora('deactivate', 'alunos', EMAIL)).toEqual({
      code: 0,
      output: `Changed Ana Alves (${ANA})\nativo:  true → false\n`,
      errors: '',
    });
    expect(await json('update', 'alunos', EMAIL, '--set', 'ativo=sim')).toMatchObject({
      changed: { ativo: { from: false, to: true } },
    });
  });

  test('refuses a table without that column', async () => {
    const [form] = await rows(`select id from private.anamneses where tenant_id = '${AURORA}' limit 1`);
    expect(await refusal('deactivate', 'anamneses', String(form?.id))).toMatchObject({
      code: 2,
      error: expect.stringMatching(/^anamneses has no column "ativo"/),
    });
  });
});
