import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ANA, AURORA, BOSQUE, BOSQUE_GYM, EMAIL, AURORA_GYM as GYM, useAdmin } from '../helpers/admin.ts';
import { createTable } from '../helpers/database.ts';

const folder = mkdtempSync(join(tmpdir(), 'records-'));
const { admin, rows, ...commands } = useAdmin();
const ofAurora = (...args: string[]) => admin([...args, '--tenant', AURORA]);
/** The output of a command that has to succeed. */
const printed = (...args: string[]) => commands.printed(...args, '--tenant', AURORA);
const json = (...args: string[]) => commands.json([...args, '--tenant', AURORA]);
const failure = (...args: string[]) => commands.failure([...args, '--tenant', AURORA]);
/** Writes a file to import, and gives its name. */
function write(content: string): string {
  const file = join(folder, 'lines.csv');
  writeFileSync(file, content);
  return file;
}
const others = () =>
  rows(`select * from private.alunos where tenant_id <> '${AURORA}' or id <> '${ANA}' order by tenant_id, id`);

test("a table may have a column with the name of one in the commands' own SQL", async () => {
  await rows(`${createTable('cores', 'nome text not null, r integer, t integer')}
    insert into private.cores (tenant_id, nome, r, t) values ('${AURORA}', 'Vermelho', 255, 1)`);
  const [{ id }] = await json('find', 'cores', 'vermelho');
  expect(await json('update', 'cores', id, '--set', 'r=254')).toEqual({ id, changed: { r: { from: 255, to: 254 } } });
  expect(await json('show', 'cores', id)).toMatchObject({ id, nome: 'Vermelho', r: 254, t: 1 });
});

test('a number has all its digits', async () => {
  await rows(`${createTable('botoes', 'aluno_id uuid not null, numero bigint not null, saldo numeric, dados jsonb')}
    alter table private.botoes add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id)`);
  const sql = `insert into private.botoes (tenant_id, aluno_id, numero, saldo, dados) values ($1, $2, $3, $4, $5) returning id`;
  const numbers = ['9007199254740993', '0.12345678901234567890', '{"n": 9007199254740995}'];
  const [{ id } = {}] = await rows(sql, [AURORA, ANA, ...numbers]);
  const shown = await printed('show', 'botoes', String(id));
  expect(shown).toMatch(/^numero +9007199254740993\nsaldo +0\.12345678901234567890\ndados +\{"n":9007199254740995\}$/m);
  const fields = '"numero":9007199254740993,"saldo":0.12345678901234567890,"dados":{"n":9007199254740995}';
  expect(await printed('show', 'botoes', String(id), '--json')).toContain(fields);
  expect(await printed('student', 'data', ANA, '--json')).toContain('"numero":9007199254740993');
  expect(await printed('student', 'data', ANA)).toContain('"saldo": 0.12345678901234567890');
  const changed = await printed('update', 'botoes', String(id), '--set', 'numero=9007199254740992');
  expect(changed).toMatch(/^Changed .*\nnumero: +9007199254740993 → 9007199254740992\n$/);
  const back = await printed('update', 'botoes', String(id), '--set', 'numero=9007199254740993', '--json');
  expect(back).toBe(`{"id":"${id}","changed":{"numero":{"from":9007199254740992,"to":9007199254740993}}}\n`);
  await rows('drop table private.botoes');
});

test('a table without ids of records can be imported, but its records cannot be found', async () => {
  await rows(createTable('leituras', '', { id: 'id integer not null' }));
  const file = write('id\n1');
  expect(await ofAurora('import', 'leituras', file)).toMatchObject({ code: 0 });
  const error = 'leituras has no column id of type uuid, by which a record is found';
  for (const args of [['find'], ['show'], ['history'], ['deactivate']]) {
    expect(await failure(...args, 'leituras', '1')).toEqual({ code: 1, error });
  }
  const hint = 'With --allow-duplicates no record is looked for.';
  expect(await failure('import', 'leituras', file)).toEqual({ code: 1, error, hint });
});

test('a column of a domain, a varchar or a time without a zone is read as the type below, and no text is cut', async () => {
  await rows(`
    create domain private.quando as date;
    create domain private.dia as private.quando;
    create domain private.apelido as varchar(5);
    ${createTable('cataventos', 'nome varchar(10) not null, apelido private.apelido, inicio timestamp')}
    alter table private.cataventos add fim timestamptz(0), add dia private.dia, add fecha timetz, add faixas tstzrange[]`);
  const importing = (...lines: string[]) =>
    ofAurora('import', 'cataventos', write(['nome,apelido,inicio,fim,dia', ...lines].join('\n')));
  const bad = await importing('Corrida 10 km,Correr,13/13/2024,ontem,31/02/2024', 'Ioga,,2024-05-01T09:30:00Z,,');
  expect(bad.errors.split('\n').filter((line) => line.startsWith('line '))).toEqual([
    'line 2: nome "Corrida 10 km": must NOT have more than 10 characters',
    'line 2: apelido "Correr": must NOT have more than 5 characters',
    'line 2: inicio "13/13/2024": must be a time without a zone, as 2026-12-31T18:00:00',
    'line 2: fim "ontem": must be a time, as 2026-12-31T18:00:00Z',
    'line 2: dia "31/02/2024": must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY',
    'line 3: inicio "2024-05-01T09:30:00Z": must be a time without a zone, as 2026-12-31T18:00:00',
  ]);
  const good = 'nome,apelido,inicio,fim,dia,fecha,faixas';
  const values = 'Corrida,Dez,03/04/2024 10:00,05/06/2024 12:00,07/08/2024,22:00,"{""[03/04/2024 10:00,)""}"';
  expect((await ofAurora('import', 'cataventos', write(`${good}\n${values}\n`))).code).toBe(0);
  const [{ id }] = await json('find', 'cataventos', 'corrida');
  expect(await json('show', 'cataventos', id)).toMatchObject({
    ...{ nome: 'Corrida', apelido: 'Dez', inicio: '2024-04-03T10:00:00', dia: '2024-08-07', fecha: '22:00:00-03' },
    ...{ fim: expect.stringMatching(/^2024-06-05T15:00:00/), faixas: ['["2024-04-03 13:00:00+00",)'] },
  });
});

test('a column has the default of its domain, and takes no null if that takes none', async () => {
  await rows(`
    create domain private.moeda as text default 'BRL' check (char_length(value) <= 3);
    create domain private.preco as numeric(5, 2) not null default 10;
    create domain private.nota as private.preco;
    create domain private.codigo as text not null check (char_length(value) <= 10);
    ${createTable('agulhas', 'codigo private.codigo, moeda private.moeda, preco private.preco')}
    alter table private.agulhas add nota private.nota, add extra private.preco default 1`);
  const file = write('codigo,moeda,preco,nota,extra\na,,,,\nb,USD,20,30,2\n');
  expect(await ofAurora('import', 'agulhas', file)).toMatchObject({ code: 0, errors: '' });
  const read = 'select codigo, moeda, preco::text, nota::text, extra::text from private.agulhas order by codigo';
  expect((await rows(read)).map((row) => Object.values(row))).toEqual([
    ['a', 'BRL', '10.00', '10.00', '1.00'],
    ['b', 'USD', '20.00', '30.00', '2.00'],
  ]);
  expect((await ofAurora('import', 'agulhas', write('codigo,moeda\n,BRL\n'))).errors).toMatch(
    /^line 2: codigo is required\n/,
  );
  const [{ id }] = await json('find', 'agulhas', 'a');
  const set = ['codigo=', 'preco='];
  expect(await failure('update', 'agulhas', id, '--set', ...set)).toMatchObject({
    error: 'codigo is required\npreco is required',
  });
});

describe('find', () => {
  test('lists the records with a text in any column, ignoring capitals and accents', async () => {
    expect(await printed('find', 'alunos', 'ÁNA ALVES')).toBe(
      [
        'ID                                    NOME       EMAIL                    ATIVO',
        `${ANA}  Ana Alves  ${EMAIL}  true`,
        '',
      ].join('\n'),
    );
    expect(await json('find', 'alunos', '90000-0001')).toMatchObject([{ id: ANA, telefone: '+55 11 90000-0001' }]);
    expect(await json('find', 'alunos', ANA)).toMatchObject([{ id: ANA }]);
    expect(await json('find', 'personais', 'bruno@')).toMatchObject([{ email: 'bruno@aurora.example' }]);
  });

  test('shows every control character of a record as text, and sends none', async () => {
    await rows(`update private.alunos set telefone = E'\\x1b]0;x\\x07\\u009b2J\\r\\u202e' where id = '${ANA}'`);
    const shown = '\\u001b]0;x\\u0007\\u009b2J\\u000d\\u202e';
    expect(await printed('show', 'alunos', ANA)).toContain(`telefone         ${shown}\n`);
    expect((await ofAurora('show', 'alunos', ANA, '--json')).output).not.toMatch(/\p{Cc}(?!$)/u);
    expect(await json('show', 'alunos', ANA)).toMatchObject({ telefone: '\x1b]0;x\x07\x9b2J\r\u202e' });
    expect((await ofAurora('update', 'alunos', ANA, '--set', 'telefone=+55 11 90000-0001')).output).toContain(shown);
    expect((await ofAurora('show', 'alunos', '\x1b[2J')).errors).toMatch(/^the tenant has no \\u001b\[2J in alunos\n/);
  });

  test('says that there are more, or none, and finds nothing of another tenant', async () => {
    const { output } = await ofAurora('find', 'alunos', 'aurora.example', '--limit', '2');
    expect(output).toMatch(/^(?:.*\n){3}There are more: --limit 20\n$/);
    expect(await printed('find', 'alunos', '%')).toBe(`None of the tenant's alunos has "%".\n`);
    expect(await json('find', 'alunos', 'bosque.example')).toEqual([]);
    expect(await failure('find', 'aluno', 'x')).toEqual({
      code: 1,
      error: 'There is no resource aluno',
      hint: expect.stringMatching(/^The resources are (\w+, )*alunos, (\w+, )*treinos(, \w+)*\.$/),
    });
  });
});

describe('a record', () => {
  test.each([
    ['of another tenant', ANA, BOSQUE],
    ['that does not exist', 'ninguem@aurora.example', AURORA],
  ])('%s is not found', async (_, name, tenant) => {
    expect(await commands.failure(['student', 'data', name, '--tenant', tenant])).toEqual({
      code: 1,
      error: `the tenant has no ${name} in alunos`,
      hint: `Name a record by its id or email: npm run admin -- find alunos TEXT --tenant ${tenant}`,
    });
  });

  test('that shares an e-mail is named by id', async () => {
    const sql = `insert into private.alunos (tenant_id, nome, email) values ($1, 'Outra Ana', $2) returning id`;
    const [{ id } = {}] = await rows(sql, [AURORA, EMAIL]);
    expect(await failure('student', 'erase', EMAIL, '--yes')).toEqual({
      code: 1,
      error: `${EMAIL} is the email of several alunos`,
      hint: `Name one by its id: ${ANA} (Ana Alves), ${id} (Outra Ana)`,
    });
    await json('student', 'erase', String(id), '--yes');
  });
});

test('student data is all data about a student, by id and by e-mail in any case of its letters', async () => {
  const data = await json('student', 'data', ANA);
  expect(JSON.parse(await printed('student', 'data', EMAIL.toUpperCase()))).toEqual(data);
  expect(data).toMatchObject({ alunos: [{ id: ANA, nome: 'Ana Alves', telefone: '+55 11 90000-0001' }] });
  expect(Object.keys(data)).toEqual(['alunos', 'changes', 'treinos', 'anamneses', 'idempotency_keys']);
  expect(data.treinos.every((row: { aluno_id: string }) => row.aluno_id === ANA)).toBe(true);
});

test('show prints a record by e-mail or id, with the names of those that it refers to', async () => {
  const { output } = await ofAurora('show', 'alunos', EMAIL.toUpperCase());
  expect(output).toContain(`id               ${ANA}\nnome             Ana Alves\n`);
  expect(output).toMatch(/^academia_id {6}\S{36} \(Aurora \w+\)$/m);
  const record = await json('show', 'alunos', ANA);
  expect(Object.keys(record)).toEqual(
    'id nome email telefone sexo data_nascimento academia_id modalidade personal_id ativo criado_em'.split(' '),
  );
  expect(record).toMatchObject({ id: ANA, nome: 'Ana Alves', ativo: true });
});

describe('update', () => {
  test('changes columns of one record as an import writes them, and shows what has changed', async () => {
    const before = await others();
    const set = [
      'Telefone=9',
      'Data de Nascimento=1/5/1985',
      'Unidade=AURORA centro',
      'email=ana@nova.example',
      'sexo=',
    ];
    expect(await printed('update', 'alunos', EMAIL, '--set', ...set)).toMatch(
      new RegExp(
        `^Changed Ana Alves \\(${ANA}\\)\nemail: +${EMAIL} → ana@nova.example\ntelefone: +\\+55 11 90000-0001 → 9\n`,
      ),
    );
    expect(await json('show', 'alunos', ANA)).toMatchObject({
      email: 'ana@nova.example',
      telefone: '9',
      data_nascimento: '1985-05-01',
      academia_id: GYM,
      sexo: null,
    });
    const history = await json('history', 'alunos', ANA);
    expect(await printed('update', 'alunos', ANA, '--set', 'telefone=9')).toBe('Nothing was changed.\n');
    expect(await json('history', 'alunos', ANA)).toEqual(history);
    expect(await json('update', 'alunos', ANA, '--set', `email=${EMAIL}`)).toEqual({
      id: ANA,
      changed: { email: { from: 'ana@nova.example', to: EMAIL } },
    });
    expect(await others()).toEqual(before);
  });

  test('reports every mistake, and changes nothing', async () => {
    const before = await json('show', 'alunos', ANA);
    const set = ['email=ana', 'ativo=talvez', `academia=${BOSQUE_GYM}`, 'nome=', 'criado_em=', 'telefone=1'];
    expect(await failure('update', 'alunos', ANA, '--set', ...set)).toEqual({
      code: 1,
      error: [
        'email "ana": must match format "email"',
        'ativo "talvez": must be true or false, sim or não, or ativo or inativo',
        'nome is required',
        'criado_em is required',
        `academia "${BOSQUE_GYM}": none of the tenant's academias has this id or nome`,
      ].join('\n'),
      hint: 'Nothing was changed.',
    });
    expect(await failure('update', 'anamnese_secoes', 'x', '--set', 'ordem=1')).toMatchObject({
      code: 1,
      error: 'the tenant has no x in anamnese_secoes',
    });
    expect(await json('show', 'alunos', ANA)).toEqual(before);
  });

  test('gives a record the e-mail or the name of another on request only', async () => {
    const args = ['update', 'alunos', ANA, '--set', 'E-mail=Aluno002@aurora.example'];
    expect(await failure(...args)).toEqual({
      code: 1,
      error: `E-mail "Aluno002@aurora.example": is that of one of the tenant's alunos`,
      hint: 'Nothing was changed. With --allow-duplicates several records may have it.',
    });
    expect(await json(...args, '--allow-duplicates')).toMatchObject({ id: ANA });
    expect(await json('update', 'alunos', ANA, '--set', `email=${EMAIL.toUpperCase()}`)).toMatchObject({ id: ANA });
    expect(await json('update', 'alunos', ANA, '--set', `email=${EMAIL}`)).toMatchObject({ id: ANA });
  });

  test.each([
    ['a column that there is not', ['--set', 'idade=3'], /^alunos: unknown column "idade": expected one of nome, /],
    ['the id', ['--set', 'id=3'], /^alunos: unknown column "id"/],
    [
      'a column twice',
      ['--set', 'p_telefone=3', 'Telefone=4'],
      /^alunos: columns "p_telefone" and "Telefone" are both telefone/,
    ],
    ['no value', ['--set', 'nome'], /Expected COLUMN=VALUE/],
    ['nothing to set', [], /required option '--set/],
  ])('refuses %s with 2', async (_what, args, message) => {
    expect(await failure('update', 'alunos', ANA, ...args)).toMatchObject({
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
    const output = `Changed Ana Alves (${ANA})\nativo:  true → false\n`;
    expect(await printed('deactivate', 'alunos', EMAIL)).toBe(output);
    expect(await json('update', 'alunos', EMAIL, '--set', 'ativo=sim')).toMatchObject({
      changed: { ativo: { from: false, to: true } },
    });
  });

  test('refuses a table without that column', async () => {
    const [form] = await rows(`select id from private.anamneses where tenant_id = '${AURORA}' limit 1`);
    expect(await failure('deactivate', 'anamneses', String(form?.id))).toEqual({
      code: 1,
      error: 'anamneses has no column ativo, which deactivate sets to false',
    });
  });
});

describe('history', () => {
  test('shows who changed a record and when, and nothing of another tenant', async () => {
    expect(await printed('history', 'alunos', ANA)).toMatch(
      /^WHEN +CHANGE +KEY +REQUEST\n2024-02-01T\S+ +criado\n2024-02-02T\S+ +alterado +wms_demo_aur Aurora +demo\n/,
    );
    await ofAurora('update', 'personais', 'bruno@aurora.example', '--set', 'nome=Bruno');
    const history = await json('history', 'personais', 'bruno@aurora.example');
    expect([history.at(0), history.at(-1)]).toMatchObject([
      { kind: 'criado' },
      { kind: 'alterado', key: null, request: null },
    ]);
    expect(await admin(['history', 'alunos', ANA, '--tenant', BOSQUE])).toMatchObject({
      output: `No change of ${ANA} is kept.\n`,
    });
  });

  test('and other commands find a table by its name in any case', async () => {
    await rows(`${createTable('"Fivelas"', 'aluno_id uuid not null, nome text not null')}
      alter table private."Fivelas" add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id)`);
    expect(await ofAurora('import', 'fivelas', write(`aluno,nome\n${EMAIL},Prata`))).toMatchObject({ code: 0 });
    const [{ id }] = await json('find', 'FIVELAS', 'prata');
    expect(await json('history', 'Fivelas', id)).toMatchObject([{ kind: 'criado' }]);
    const { Fivelas, changes } = await json('student', 'data', EMAIL);
    expect([Fivelas, changes]).toMatchObject([
      [{ id }],
      expect.arrayContaining([expect.objectContaining({ resource: 'Fivelas' })]),
    ]);
    await rows('drop table private."Fivelas"');
  });

  test('of a student who was erased shows the erasure alone', async () => {
    const sql = `insert into private.alunos (tenant_id, nome, email) values ($1, 'Ivo', 'ivo@aurora.example') returning id`;
    const [{ id } = {}] = await rows(sql, [AURORA]);
    expect(await json('history', 'alunos', 'ivo@aurora.example')).toMatchObject([{ kind: 'criado' }]);
    await json('student', 'erase', 'ivo@aurora.example', '--yes');
    expect(await json('history', 'alunos', String(id))).toMatchObject([{ kind: 'excluido' }]);
  });
});
