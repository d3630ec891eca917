import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { toValue } from '../../src/admin/columns.ts';
import { openFolder } from '../../src/admin/database.ts';
import type { Column } from '../../src/admin/tables.ts';
import { copyDataDir } from '../helpers/gateway.ts';
import { type Run, type RunOptions, runAdmin, runCommand } from '../helpers/run.ts';
import { asAdmin, createDatabase, type Database } from '../helpers/servers.ts';

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const BOSQUE = 'b0000000-0000-4000-8000-000000000000';
const AURORA_GYM = 'a1000000-0000-4000-8000-000000000001';
const BOSQUE_GYM = 'b1000000-0000-4000-8000-000000000001';
const BAD_DATE = 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY';
const BAD_EMAIL = 'must match format "email"';
const BAD_GYM = "must be the id or the nome of one of the tenant's academias";
const NOT_READ = 'the rest was not read';
const AGAIN = 'Correct them and import the file again: all lines are imported, or none.';
const EXISTING =
  'If the file was imported before: --skip-existing leaves out the lines whose records exist, --update corrects these, and --allow-duplicates creates others.';
const UNKNOWN =
  "Say what a column is with --map 'Its name=column', or leave out what is unknown with --ignore-unknown.";
const COLUMNS =
  'The first line names the columns: id, nome, email, telefone, sexo, data_nascimento, academia_id (an id or nome), modalidade, personal_id (an id or email), ativo, criado_em; required: nome, email.';

const root = mkdtempSync(join(tmpdir(), 'import-'));
const file = join(root, 'alunos.csv');
let database: Database;
/** One that is new for each test, without gyms. */
let tenant: string;

beforeAll(async () => {
  database = await createDatabase();
});

beforeEach(async () => {
  const [created] = await rows('select private.create_tenant($1) as id', ['Nova']);
  tenant = String(created?.id);
});

afterAll(async () => {
  await database.drop();
  rmSync(root, { recursive: true });
});

const rows = (sql: string, values?: unknown[]) => database.query<Record<string, unknown>>(sql, values);

/** What the tenant's students are in these columns, oldest first. */
const students = (columns = 'nome, email') =>
  rows(`select ${columns} from private.alunos where tenant_id = $1 order by criado_em, id`, [tenant]);

/** What `npm run admin -- …` runs; with input in a process of its own. */
async function run(
  args: string[],
  { env = { DATABASE_URL: database.adminUrl }, input }: RunOptions = {},
): Promise<Run> {
  if (input === undefined) return runAdmin(args, env);
  const { errors, ...others } = await runCommand('src/admin/main.ts', args, { env, input });
  return { ...others, errors: errors.replace(/^Store: .*\n/, '') };
}

const admin = (args: string[], options?: RunOptions) => run(['import', 'alunos', ...args], options);

/** Imports a file with this content into a table. */
function importInto(resource: string, content: string | Uint8Array, ...args: string[]): Promise<Run> {
  writeFileSync(file, content);
  return run(['import', resource, file, '--tenant', tenant, ...args]);
}

const importing = (content: string | Uint8Array, ...args: string[]) => importInto('alunos', content, ...args);

const created = (count: number, resource = 'alunos'): Run => ({
  code: 0,
  output: `Created: ${resource} ${count}.\n`,
  errors: '',
});

/** A run that imported nothing, and these are the lines of standard error. */
const failed = (...lines: string[]): Run => ({ code: 1, output: '', errors: `${lines.join('\n')}\n` });

const refused = (summary: string, ...lines: string[]): Run =>
  failed(...lines, `Nothing was imported from ${file}: ${summary}`, AGAIN);

describe('a good file', () => {
  test('becomes students in the order of its lines; an empty value is none', async () => {
    tenant = AURORA;
    const before = (await students()).length;
    const columns = 'nome,email,telefone,sexo,data_nascimento,academia_id,modalidade';
    const full = `Lígia,ligia@x.example,+55 11 98888-0001,feminino,1990-05-17,${AURORA_GYM},pilates`;
    expect(await importing(`${columns}\n${full}\nRui,rui@x.example,,,17/05/1990,,\nBia,bia@x.example,,,,,\n`)).toEqual(
      created(3),
    );
    expect(
      (await students(`${columns.replace('data_nascimento', 'data_nascimento::text')}, ativo`)).slice(before),
    ).toEqual([
      {
        nome: 'Lígia',
        email: 'ligia@x.example',
        telefone: '+55 11 98888-0001',
        sexo: 'feminino',
        data_nascimento: '1990-05-17',
        academia_id: AURORA_GYM,
        modalidade: 'pilates',
        ativo: true,
      },
      expect.objectContaining({ nome: 'Rui', data_nascimento: '1990-05-17', telefone: null, academia_id: null }),
      expect.objectContaining({ nome: 'Bia', data_nascimento: null, modalidade: null }),
    ]);
  });

  test('may have thousands of lines, and come through standard input', async () => {
    const lines = Array.from({ length: 2_000 }, (_, index) => `Aluno ${index},aluno${index}@x.example`);
    const run = await admin(['-', '--tenant', tenant, '--json'], { input: ['nome,email', ...lines].join('\n') });
    expect(run).toEqual({ code: 0, output: '{"created":{"alunos":2000}}\n', errors: '' });
    expect((await students()).map(({ nome }) => nome)).toEqual(lines.map((line) => line.split(',')[0]));
  });

  const JOSÉ = { nome: 'José', email: 'j@x.example' };
  const utf16 = (text: string) => Buffer.from(text, 'utf16le');

  test.each<[string, string | Uint8Array, string[], { nome: string; email: string }]>([
    ['columns in another order, with the prefix', 'p_email,p_nome\nj@x.example,José', [], JOSÉ],
    [
      'names in capitals and with blanks',
      'Nome, E-mail\n'.replace('E-mail', 'EMAIL').concat('José,j@x.example\n'),
      [],
      JOSÉ,
    ],
    ['a byte order mark', '\ufeffnome,email\nJosé,j@x.example\n', [], JOSÉ],
    ['a byte order mark before a quote', '\ufeff"nome","email"\n"José","j@x.example"\n', [], JOSÉ],
    ['semicolons', 'nome;email\nPrado, José;j@x.example\n', [], { ...JOSÉ, nome: 'Prado, José' }],
    ['tabs', 'nome\temail\nJosé\tj@x.example\n', [], JOSÉ],
    ['another delimiter', 'nome|email\nJosé|j@x.example\n', ['--delimiter', '|'], JOSÉ],
    ['CRLF', 'nome,email\r\nJosé,j@x.example\r\n', [], JOSÉ],
    ['CR', 'nome,email\rJosé,j@x.example\r', [], JOSÉ],
    ['CRLF below a header with LF', 'nome,email\nJosé,j@x.example\r\n', [], JOSÉ],
    ['blank lines', '\nnome,email\n\nJosé,j@x.example\n\n\n', [], JOSÉ],
    [
      'lines, quotes and delimiters in quotes',
      'nome,email\n"José ""Zé"",\nPrado",j@x.example',
      [],
      { ...JOSÉ, nome: 'José "Zé",\nPrado' },
    ],
    [
      'windows-1252',
      Buffer.from('nome,email\nJos\xe9 \x80,j@x.example', 'latin1'),
      ['--encoding', 'windows-1252'],
      { ...JOSÉ, nome: 'José €' },
    ],
    ['a declared delimiter', 'sep=;\r\nnome;email\r\nJosé;j@x.example\r\n', [], JOSÉ],
    ['a declared delimiter in quotes', '"sep=|"\nnome|email\nJosé|j@x.example\n', [], JOSÉ],
    ['a declared delimiter and an option', 'sep=;\nnome,email\nJosé,j@x.example\n', ['--delimiter', ','], JOSÉ],
    ['UTF-16 that says so itself', utf16('\ufeffnome\temail\r\nJosé\tj@x.example\r\n'), [], JOSÉ],
    ['UTF-16', utf16('\ufeffnome\temail\r\nJosé\tj@x.example\r\n'), ['--encoding', 'utf-16le'], JOSÉ],
  ])('may have %s', async (_what, content, args, student) => {
    expect(await importing(content, ...args)).toEqual(created(1));
    expect(await students()).toEqual([student]);
  });

  test('may have a letter across the pieces that it is read in', async () => {
    const name = 'é'.repeat(200);
    const lines = Array.from({ length: 400 }, (_, index) => `${'x'.repeat(index % 2)}${name},x@x.example`);
    expect(await importing(`nome,email\n${lines.join('\n')}\n`)).toEqual(created(400));
    expect((await students()).every(({ nome }) => String(nome).endsWith(name))).toBe(true);
  });
});

describe('bad lines', () => {
  test('are all told, by the rules of the document and of SQL, in order, and nothing is imported', async () => {
    const content = [
      'Nome;email;p_data_nascimento;academia_id',
      'Ana;ana@x.example;31/12/1990;',
      ' ;bia@x.example;1990-02-30;',
      `Caio;caio;1990-13-01;${BOSQUE_GYM}`,
      ';;;aurora',
      'Davi;davi@x.example',
      'Ester;ester@x.example;;;;',
      `Fábio;fabio@x.example;hoje;${AURORA_GYM}`,
      'G\0;g@x.example;;',
    ].join('\n');
    expect(await importing(content)).toEqual(
      refused(
        '7 of 8 lines are bad',
        'line 3: Nome must not be blank',
        `line 3: p_data_nascimento ${BAD_DATE}`,
        `line 4: email ${BAD_EMAIL}`,
        `line 4: p_data_nascimento ${BAD_DATE}`,
        `line 4: academia_id ${BAD_GYM}`,
        'line 5: Nome is required',
        'line 5: email is required',
        `line 5: academia_id ${BAD_GYM}`,
        'line 6: has 2 values, but the header has 4 columns',
        'line 7: has 6 values, but the header has 4 columns',
        `line 8: p_data_nascimento ${BAD_DATE}`,
        `line 8: academia_id ${BAD_GYM}`,
        'line 9: Nome must not contain U+0000 or an unpaired surrogate',
      ),
    );
    expect(await students()).toEqual([]);
  });

  test('are counted with a line that declares the delimiter', async () => {
    expect(await importing('sep=;\r\nnome;email\r\nAna;ana\r\nBia;bia\r\n')).toEqual(
      refused('2 of 2 lines are bad', `line 3: email ${BAD_EMAIL}`, `line 4: email ${BAD_EMAIL}`),
    );
  });

  test('are given to scripts as JSON', async () => {
    const { code, output, errors } = await importing('email,nome\nana,Ana\nbia@x.example\n', '--json');
    expect({ code, output }).toEqual({ code: 1, output: '' });
    expect(JSON.parse(errors)).toEqual({
      error: `Nothing was imported from ${file}: 2 of 2 lines are bad`,
      hint: AGAIN,
      lines: [
        { line: 2, field: 'email', message: BAD_EMAIL },
        { line: 3, field: null, message: 'has 1 value, but the header has 2 columns' },
      ],
    });
  });

  test.each([
    ['the document', 'ana', `email ${BAD_EMAIL}`, ''],
    ['SQL', 'ana@x.example', `data_nascimento ${BAD_DATE}`, 'ontem'],
  ])('by the rules of %s undo the thousands before them', async (_whose, email, problem, date) => {
    const good = Array.from({ length: 2_500 }, (_, index) => `Aluno ${index},aluno${index}@x.example,`);
    const lines = [...good, `Ana,${email},${date}`, ...good, `Ana,${email},${date}`];
    expect(await importing(['nome,email,data_nascimento', ...lines].join('\n'))).toEqual(
      refused('2 of 5002 lines are bad', `line 2502: ${problem}`, `line 5003: ${problem}`),
    );
    expect(await students()).toEqual([]);
  });

  test.each(['\n', '\r\n', '\r'])('have the number of the line that they begin on, with %j', async (end) => {
    const lines = ['nome,email', '"Ana', '', 'Maria",ana', '', '"Bia', 'Luz","bia', '', '"', 'Caio,caio'];
    expect(await importing(lines.join(end))).toEqual(
      refused(
        '3 of 3 lines are bad',
        `line 2: email ${BAD_EMAIL}`,
        `line 6: email ${BAD_EMAIL}`,
        `line 10: email ${BAD_EMAIL}`,
      ),
    );
  });

  test.each([
    [
      'a value after its closing quote',
      '"Bi"a,bia@x.example',
      'a value continues after its closing quote; write a quote within a value twice',
    ],
    [
      'a quote within a value',
      'Bi"a,bia@x.example',
      'a quote is in a value that is not quoted; quote the value and write the quote twice',
    ],
    ['a quote that is not closed', '"Bia,bia@x.example', 'a quote is not closed'],
    [
      'one before very many lines',
      `"${'Bia,bia@x.example\n'.repeat(60_000)}`,
      'is longer than 1000000 bytes; a quote may not be closed',
    ],
  ])('end the reading at malformed quotes: %s', async (_what, line, problem) => {
    expect(await importing(`nome,email\nAna,ana\n"Eva\nLuz",eva@x.example\n${line}\nCaio,caio\n`)).toEqual(
      refused('2 of 3 lines are bad', `line 2: email ${BAD_EMAIL}`, `line 5: ${problem}; ${NOT_READ}`),
    );
    expect(await students()).toEqual([]);
  });
});

describe('a file that cannot be read', () => {
  const HINT = 'Save the file as UTF-8, or name its encoding: Excel writes --encoding windows-1252.';

  test.each([
    ['at its beginning', Buffer.from('nome,email\nJos\xe9,j@x.example\n', 'latin1'), 2],
    [
      'far from its beginning',
      Buffer.from(`nome,email\r\n${'Ana Alves,ana@x.example\r\n'.repeat(9_000)}\xe9,`, 'latin1'),
      9_002,
    ],
    ['at its end', Buffer.from('nome,email\nJos\xc3', 'latin1'), 2],
  ])('for bytes of another encoding %s is told with the line and the way out', async (_where, content, line) => {
    expect(await importing(content)).toEqual(failed(`${file}, line ${line}: not utf-8; nothing was imported`, HINT));
    expect(await students()).toEqual([]);
  });

  test.each([
    ['an unknown column', 'nome,email,idade\n', 'unknown column "idade"'],
    ['a repeated column', 'nome,email,p_nome\n', 'columns "nome" and "p_nome" are both nome'],
    ['no column of the e-mail', 'nome,sexo\n', 'column "email" is missing'],
    [
      'all of that',
      'idade,nome,Nome,\n',
      'unknown column "idade"; columns "nome" and "Nome" are both nome; column "email" is missing',
    ],
    [
      'many mistakes',
      'x,'.repeat(1_500),
      `${Array.from({ length: 20 }, () => 'unknown column "x"').join('; ')}; and more`,
    ],
    ['millions of columns', ','.repeat(3_000_000), 'has 3000003 columns: the file may not be CSV'],
    [
      'a long name',
      `${'x'.repeat(500_000)}\n`,
      `unknown column "${'x'.repeat(100)}"; column "nome" is missing; column "email" is missing`,
    ],
    [
      'quotes that are malformed',
      '"nome"x,email\n',
      `a value continues after its closing quote; write a quote within a value twice; ${NOT_READ}`,
    ],
  ])('for %s in its header is told which there are', async (_what, header, problem) => {
    const more = problem.includes('unknown') ? [UNKNOWN] : [];
    expect(await importing(`${header}Ana,ana@x.example,1\n`)).toEqual(
      failed(`${file}, line 1: ${problem}`, COLUMNS, ...more),
    );
  });

  test.each([
    ['.xlsx', Buffer.from('PK\u0003\u0004\u0014\0\u0006\0', 'latin1')],
    ['.xls', Buffer.from('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1', 'latin1')],
  ])('because it is a workbook (%s) is told so, with the way out', async (_what, content) => {
    expect(await importing(content)).toEqual(
      failed(
        `${file} is a workbook (.xlsx, .xls or .ods): nothing was imported`,
        'Save its sheet as CSV: in Excel "File, Save As, CSV UTF-8 (Comma delimited)", in Portuguese "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".',
      ),
    );
  });

  test.each([
    ['nothing', ''],
    ['blank lines alone', '\n\r\n\n'],
    ['a byte order mark alone', '\ufeff'],
  ])('with %s in it is told to be empty', async (_what, content) => {
    expect(await importing(content)).toEqual(failed(`${file} is empty: expected CSV with a header`, COLUMNS));
  });

  test('because there is none, or it is a folder, is told so', async () => {
    const none = join(root, 'none.csv');
    expect(await admin([none, '--tenant', tenant])).toEqual(failed(`There is no file ${none}`));
    expect(await admin([root, '--tenant', tenant])).toEqual(failed(`${root} is a folder: expected a CSV file`));
  });

  test('is not waited for to its end', async () => {
    const args = ['src/admin/main.ts', 'import', 'alunos', '-', '--tenant', tenant];
    const child = spawn(process.execPath, args, { env: { DATABASE_URL: database.adminUrl } });
    child.stdin.write('nome,idade\nAna,33\n');
    expect((await once(child, 'close'))[0]).toBe(1);
  });
});

describe("a gym's spreadsheet", () => {
  const SHEET = [
    'Nome completo;E-mail;Data de Nascimento;Telefone celular;Situação;Mensalidade;;',
    'Ana Prado; ana@x.example ;1/5/1985;11 98888-0001;Ativo;R$ 1.234,56;;',
    ';;;;;;;',
    'Rui Luz;rui@x.example;31/12/1990 00:00:00;;Não;R$ 99,90;;',
    'Bia Sá;bia@x.example;;;VERDADEIRO;;;',
  ].join('\r\n');

  test('has names of columns and values as people write them', async () => {
    expect(await importing(SHEET, '--ignore-unknown')).toEqual(created(3));
    expect(await students('nome, email, data_nascimento::text, telefone, ativo')).toEqual([
      {
        nome: 'Ana Prado',
        email: 'ana@x.example',
        data_nascimento: '1985-05-01',
        telefone: '11 98888-0001',
        ativo: true,
      },
      { nome: 'Rui Luz', email: 'rui@x.example', data_nascimento: '1990-12-31', telefone: null, ativo: false },
      { nome: 'Bia Sá', email: 'bia@x.example', data_nascimento: null, telefone: null, ativo: true },
    ]);
  });

  test('is shown by a dry run: what each column becomes, the first lines, and every bad line', async () => {
    const preview = [
      'COLUMN OF alunos.csv  BECOMES          LINE 2         LINE 4         LINE 5',
      'Nome completo         nome             Ana Prado      Rui Luz        Bia Sá',
      'E-mail                email            ana@x.example  rui@x.example  bia@x.example',
      'Data de Nascimento    data_nascimento  1985-05-01     1990-12-31',
      'Telefone celular      telefone         11 98888-0001',
      'Situação              ativo            true           false          true',
      'Mensalidade           (left out)       R$ 1.234,56    R$ 99,90',
      '                      (left out)',
      '                      (left out)',
      '',
    ];
    const good = 'Nothing is wrong, and nothing was changed. The import would create: alunos 3.';
    expect(await importing(SHEET, '--ignore-unknown', '--dry-run')).toEqual({
      code: 0,
      output: [...preview, good, ''].join('\n'),
      errors: '',
    });
    expect(await importing(`${SHEET}\r\nEva;eva;;;talvez;;;`, '--ignore-unknown', '--dry-run')).toEqual(
      failed(
        ...preview,
        `line 6: E-mail ${BAD_EMAIL}`,
        'line 6: Situação must be true or false, or sim or não',
        `Nothing was imported from ${file}: 1 of 4 lines is bad`,
        AGAIN,
      ),
    );
    expect(await students()).toEqual([]);
  });

  test('has columns that --map names, and a common name gives way to a column that has the name itself', async () => {
    const content = 'Apelido,mail,Contato\nAna,ana@x.example,1\n';
    expect(await importing(content, '--map', 'apelido=nome', '--map', 'MAIL=email')).toEqual(created(1));
    expect(await students('nome, email, telefone')).toEqual([{ nome: 'Ana', email: 'ana@x.example', telefone: '1' }]);
    expect(await importing('nome,email,telefone,Celular\n')).toEqual(
      failed(`${file}, line 1: unknown column "Celular"`, COLUMNS, UNKNOWN),
    );
    expect(await importing('nome,email,x\n', '--map', 'x=idade', 'y=sexo')).toEqual(
      failed(
        `${file}, line 1: --map names "idade", which is no column; --map names "y", which is not in the first line`,
        COLUMNS,
      ),
    );
  });

  test('may have columns without a name, if they are empty', async () => {
    expect(await importing('nome,email,\nAna,ana@x.example,\nBia,bia@x.example,7\n')).toEqual(
      refused('1 of 2 lines is bad', 'line 3: has a value in column 3, which has no name'),
    );
  });
});

describe('values', () => {
  const column = (type: string): Column => ({
    name: 'x',
    type,
    required: false,
    max_length: null,
    refers_to: null,
    known_by: null,
  });

  test.each([
    ['boolean', 'S', 'true'],
    ['boolean', ' Nao ', 'false'],
    ['boolean', '1', 'true'],
    ['boolean', 'FALSO', 'false'],
    ['boolean', 'Inativo', 'false'],
    ['boolean', 'talvez', 'talvez'],
    ['date', '1-5-1985', '1985-05-01'],
    ['date', '1985/5/1', '1985-05-01'],
    ['date', '1985-05-01 00:00:00', '1985-05-01'],
    ['date', '01/05/1985 10:30', '01/05/1985 10:30'],
    ['date', '1/5/85', '1/5/85'],
    ['timestamp with time zone', '1/5/2024', '2024-05-01T00:00:00-03:00'],
    ['timestamp with time zone', '01/05/2024 9:30', '2024-05-01T09:30:00-03:00'],
    ['timestamp with time zone', '2024-05-01T09:30:00.5Z', '2024-05-01T09:30:00.5Z'],
    ['numeric(8,2)', 'R$ 1.234,56', '1234.56'],
    ['numeric(8,2)', '1,234.56', '1234.56'],
    ['numeric(8,2)', '1.234', '1234'],
    ['numeric(8,3)', '1.234', '1.234'],
    ['numeric(8,3)', 'R$\u00a01.234', '1234'],
    ['numeric', '-99,90', '-99.90'],
    ['integer', '1.234.567', '1234567'],
    ['double precision', '1e+20', '1e+20'],
    ['text', ' 1,5 ', ' 1,5 '],
  ])('of type %s may be written %j', (type, text, value) => {
    expect(toValue(text, column(type))).toBe(value);
  });
});

describe('a file that was imported before', () => {
  const FILE = 'nome,email,telefone\nAna,Ana@x.example,1\nBia,bia@x.example,2\n';
  const phones = () => students('nome, telefone');

  test('is noticed, with the ways on', async () => {
    expect(await importing(FILE)).toEqual(created(2));
    const message = "email is that of one of the tenant's alunos";
    expect(await importing('nome,email\nNova,nova@x.example\nANA,ana@X.example\nEva,\n')).toEqual(
      failed(
        `line 3: ${message}`,
        'line 4: email is required',
        `Nothing was imported from ${file}: 2 of 3 lines are bad`,
        AGAIN,
        EXISTING,
      ),
    );
    expect(await importing(FILE)).toEqual(
      failed(
        `line 2: ${message}`,
        `line 3: ${message}`,
        `Nothing was imported from ${file}: 2 of 2 lines are bad`,
        EXISTING,
      ),
    );
    expect(await students()).toHaveLength(2);
  });

  test('has many bad lines in a row told as one', async () => {
    const lines = Array.from({ length: 2_000 }, (_, index) => `Aluno,aluno${index}@x.example`).join('\n');
    expect(await importing(`nome,email\n${lines}`)).toEqual(created(2_000));
    expect(await importing(`nome,email\n${lines}`)).toEqual(
      failed(
        "lines 2 to 2001: email is that of one of the tenant's alunos",
        `Nothing was imported from ${file}: 2000 of 2000 lines are bad`,
        EXISTING,
      ),
    );
    expect(JSON.parse((await importing(`nome,email\n${lines}`, '--json')).errors).lines).toHaveLength(2_000);
  });

  test('is imported again with --allow-duplicates, and in part with --skip-existing', async () => {
    expect(await importing(FILE)).toEqual(created(2));
    expect(await importing(`${FILE}Caio,caio@x.example,3\n`, '--skip-existing')).toEqual({
      ...created(1),
      output: 'Created: alunos 1.\nSkipped: alunos 2.\n',
    });
    expect(await importing(FILE, '--allow-duplicates')).toEqual(created(2));
    expect((await phones()).map(({ telefone }) => telefone)).toEqual(['1', '2', '3', '1', '2']);
  });

  test('corrects records with --update, of this tenant alone, and an empty value leaves what is there', async () => {
    const { id } = (await rows(`select private.create_tenant('Outra') as id`))[0] as { id: string };
    const [mine, other] = [tenant, id];
    for (tenant of [mine, other]) expect(await importing(FILE)).toEqual(created(2));
    tenant = mine;
    const update = 'email,Celular,nome\nANA@x.example,9,\nbia@x.example,,Beatriz\ncaio@x.example,3,Caio\n';
    expect(await importing(update, '--update', '--dry-run', '--json')).toMatchObject({ code: 0 });
    expect(await importing(update, '--update', '--json')).toEqual({
      code: 0,
      output: '{"created":{"alunos":1},"updated":{"alunos":2}}\n',
      errors: '',
    });
    expect(await phones()).toEqual([
      { nome: 'Ana', telefone: '9' },
      { nome: 'Beatriz', telefone: '2' },
      { nome: 'Caio', telefone: '3' },
    ]);
    tenant = other;
    expect(await phones()).toEqual([
      { nome: 'Ana', telefone: '1' },
      { nome: 'Bia', telefone: '2' },
    ]);
  });

  test('is not an update where it does not say which record it is of, or breaks a rule', async () => {
    expect(await importing('nome,email\nAna,a@x.example\nEva,a@x.example\nBia,bia@x.example\n')).toEqual(created(3));
    const long = '9'.repeat(41);
    const update = `email,telefone\na@x.example,1\nbia@x.example,1\nBIA@x.example,2\nnova@x.example,3\n`;
    expect(await importing(update, '--update')).toEqual(
      refused(
        '3 of 4 lines are bad',
        'line 2: email is the email of several alunos: give the id',
        'line 4: email is also that of line 3',
        'line 5: nome is required',
      ),
    );
    const [bia] = await rows('select id from private.alunos where tenant_id = $1 and nome = $2', [tenant, 'Bia']);
    expect(await importing(`id,telefone\n${bia?.id},${long}\n`, '--update')).toEqual(
      refused('1 of 1 lines is bad', 'line 2: telefone must NOT have more than 40 characters'),
    );
    expect(await importing('telefone\n1\n', '--update')).toEqual(failed('--update expects a column id or email'));
  });

  test('is noticed by all its columns where its records have no e-mail or name of their own', async () => {
    const sections = (content: string, ...args: string[]) => importInto('anamnese_secoes', content, ...args);
    const content = 'titulo,ordem,ativo\nHábitos,1,\nDores,2,sim\n';
    expect((await sections(content)).code).toBe(0);
    expect(await sections('titulo,ordem,ativo\nHábitos,2,sim\nhábitos,1,\nDores,2,não\n')).toEqual(
      failed(
        "line 3: is the same as one of the tenant's anamnese_secoes",
        `Nothing was imported from ${file}: 1 of 3 lines is bad`,
        EXISTING,
      ),
    );
    expect((await sections(`${content}Sono,3,\n`, '--skip-existing', '--json')).output).toBe(
      '{"created":{"anamnese_secoes":1},"skipped":{"anamnese_secoes":2}}\n',
    );
  });
});

test('a tenant that there is not is refused, with the command that lists them', async () => {
  tenant = '00000000-0000-4000-8000-000000000000';
  expect(await importing('nome,email\nAna,ana@x.example\n')).toEqual(
    failed(`there is no tenant ${tenant}`, '`npm run admin -- tenant list` has them all.'),
  );
});

test('a relative path begins where npm was called', async ({ onTestFinished }) => {
  writeFileSync(file, 'nome,email\nAna,ana@x.example\n');
  vi.stubEnv('INIT_CWD', root);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await admin(['alunos.csv', '--tenant', tenant])).toEqual(created(1));
});

test('the embedded store takes a file as a whole or not at all', async () => {
  const dataDir = copyDataDir(inject('dataDir'));
  const runLines = (lines: string[]) => {
    writeFileSync(file, ['nome;email;academia_id', ...lines].join('\r\n'));
    return admin([file, '--tenant', AURORA], { env: { DATA_DIR: dataDir } });
  };
  const good = Array.from({ length: 1_500 }, (_, index) => `Novo ${index};novo${index}@x.example;${AURORA_GYM}`);

  expect(await runLines([...good, `Ana;ana;${BOSQUE_GYM}`])).toEqual(
    refused('1 of 1501 lines is bad', `line 1502: email ${BAD_EMAIL}`, `line 1502: academia_id ${BAD_GYM}`),
  );
  expect(await runLines(good)).toEqual(created(1_500));
  const folder = await openFolder({ kind: 'embedded', dataDir, programs: undefined, demoData: false }, 'test');
  const { rows } = await folder.client.query(`select count(*)::integer from private.alunos where nome like 'Novo %'`);
  expect(rows).toEqual([{ count: 1_500 }]);
  await folder.close();
});

describe('the other resources', () => {
  const importLines = (resource: string, lines: readonly string[], ...args: string[]) =>
    importInto(resource, lines.join('\n'), ...args);
  const read = async (columns: string, table: string) =>
    (await rows(`select ${columns} from private.${table} where tenant_id = $1 order by ${columns}`, [tenant])).map(
      (row) => Object.values(row),
    );

  test('are imported with what people have: a gym by its name, students and trainers by e-mail', async () => {
    const files: readonly (readonly [resource: string, ...lines: string[]])[] = [
      ['academias', 'nome,ativo', 'Centro,sim', 'Praia,FALSO'],
      ['personais', 'nome,email,academia', 'Bia Rocha,bia@x.example,CENTRO'],
      ['alunos', 'nome,email,academia,personal', 'Ana,Ana@x.example,praia,BIA@x.example'],
      ['treinos', 'nome,id_aluno,id_personal,data_inicio', 'Treino A,ana@x.example,bia@x.example,01/12/2026'],
      ['anamneses', 'aluno,status,resposta', 'ana@x.example,concluida,"{""peso"": 61.50}"'],
      ['anamnese_secoes', 'titulo,ordem', 'Hábitos,-1'],
    ];
    for (const [resource, ...lines] of files) {
      expect(await importLines(resource, lines)).toEqual(created(lines.length - 1, resource));
    }
    const [[centro, praia], [bia], [ana]] = (await Promise.all(
      ['academias', 'personais', 'alunos'].map(async (table) =>
        (
          await rows(`select id from private.${table} where tenant_id = $1 order by nome`, [tenant])
        ).map(({ id }) => id),
      ),
    )) as [string[], string[], string[]];
    expect(await read('nome, ativo', 'academias')).toEqual([
      ['Centro', true],
      ['Praia', false],
    ]);
    expect(await read('academia_id', 'personais')).toEqual([[centro]]);
    expect(await read('academia_id, personal_id', 'alunos')).toEqual([[praia, bia]]);
    expect(await read('aluno_id, personal_id, data_inicio::text', 'treinos')).toEqual([[ana, bia, '2026-12-01']]);
    expect(await read('aluno_id, resposta::text', 'anamneses')).toEqual([[ana, '{"peso": 61.50}']]);
    expect(await read('titulo, ordem', 'anamnese_secoes')).toEqual([['Hábitos', -1]]);
  });

  test('have every bad line told', async () => {
    tenant = AURORA;
    const lines = [
      'nome,aluno,personal,data_inicio,ativo,criado_em,id',
      'Um,aluno001@aurora.example,bruno@aurora.example,2026-02-30,talvez,ontem,7',
      'Dois,ninguem@aurora.example,aluno@bosque.example,2026-02-28,true,,',
      'Três,aluno001@aurora.example,bruno@aurora.example,2026-02-28,,,a4000000-0000-4000-8000-000000000001',
    ];
    expect(await importLines('treinos', lines)).toEqual(
      failed(
        'line 2: id must match format "uuid"',
        'line 2: ativo must be true or false, or sim or não',
        `line 2: data_inicio ${BAD_DATE}`,
        'line 2: criado_em must be a time, as 2026-12-31T18:00:00Z',
        "line 3: aluno must be the id or the email of one of the tenant's alunos",
        "line 3: personal must be the id or the email of one of the tenant's personais",
        "line 4: id is that of one of the tenant's treinos",
        `Nothing was imported from ${file}: 3 of 3 lines are bad`,
        AGAIN,
        EXISTING,
      ),
    );
  });

  test('have documents and numbers checked', async () => {
    tenant = AURORA;
    const forms = await importLines('anamneses', [
      'aluno_id,status,resposta',
      'a3000000-0000-4000-8000-000000000001,x,{',
      'a3000000-0000-4000-8000-000000000001,x,[]',
      'a3000000-0000-4000-8000-000000000001,x,"{""a"": ""\\u0000""}"',
    ]);
    expect(forms.errors).toContain(
      [
        'line 2: resposta must be JSON',
        "line 3: resposta must satisfy (jsonb_typeof(resposta) = 'object'::text)",
        'line 4: resposta must not contain U+0000 or an unpaired surrogate',
      ].join('\n'),
    );
    const sections = await importLines('anamnese_secoes', ['titulo,ordem', 'a,1.5', 'b,99999999999', 'c,']);
    expect(sections.errors).toContain(
      [
        'line 2: ordem must be an integer',
        'line 3: value "99999999999" is out of range for type integer',
        'line 4: ordem is required',
      ].join('\n'),
    );
  });

  test('with an e-mail that several students have need the id', async () => {
    expect(await importing('nome,email\nAna,a@x.example\nEva,A@x.example\n')).toEqual(created(2));
    const { errors } = await importLines('anamneses', ['aluno,status', 'a@x.example,nova']);
    expect(errors).toContain('line 2: aluno is the email of several alunos: give the id\n');
  });

  test('are named if there is no such one', async () => {
    expect(await importLines('secoes', ['titulo'])).toEqual(
      failed(
        'There is no resource secoes',
        'The resources are academias, personais, alunos, anamnese_secoes, anamneses, treinos.',
      ),
    );
  });

  test('may be checked alone', async () => {
    const lines = ['nome', 'Centro'];
    const args = ['import', 'academias', '-', '--tenant', tenant, '--dry-run'];
    expect(await run(args, { input: lines.join('\n') })).toEqual({
      code: 0,
      output: [
        'COLUMN OF standard input  BECOMES  LINE 2',
        'nome                      nome     Centro',
        '',
        'Nothing is wrong, and nothing was changed. The import would create: academias 1.',
        '',
      ].join('\n'),
      errors: '',
    });
    expect(JSON.parse((await importLines('academias', lines, '--dry-run', '--json')).output)).toEqual({
      wouldCreate: { academias: 1 },
      preview: [{ file, lines: [2], columns: [{ title: 'nome', column: 'nome', values: ['Centro'] }] }],
    });
    expect(await read('nome', 'academias')).toEqual([]);
  });
});

describe('an export', () => {
  const exporting = (folder: string, from = AURORA) => run(['export', folder, '--tenant', from]);
  const COUNTS = 'academias 3, personais 4, alunos 250, anamnese_secoes 8, anamneses 60, treinos 400, usage 3';
  const readFiles = (folder: string) =>
    readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')] as const);
  /** Of what is imported again. */
  const readData = (folder: string) => readFiles(folder).filter(([name]) => name !== 'usage.csv');

  test('has the usage of the keys, by their ids and names', async () => {
    const folder = join(root, 'usage');
    await exporting(folder, BOSQUE);
    expect(readFileSync(join(folder, 'usage.csv'), 'utf8')).toBe(
      'key_id,name,day,operation,class,calls\r\nb9000000-0000-4000-8000-000000000001,Bosque,2099-01-01,listarTreinos,2xx,40\r\n',
    );
  });

  test('imports again in another database, and gives the same export there, for every tenant', async () => {
    const other = await createDatabase();
    const env = { DATABASE_URL: other.adminUrl };
    try {
      await rows(
        `update private.alunos set nome = $2, telefone = E' "1"\n2;' where tenant_id = $1 and id = (select min(id::text)::uuid from private.alunos where tenant_id = $1)`,
        [AURORA, '=1+1, "x"'],
      );
      await rows(`update private.academias set nome = ' ' where tenant_id = $1`, [BOSQUE]);
      await rows(`update private.anamnese_secoes set titulo = '' where tenant_id = $1`, [BOSQUE]);
      // The last one has nothing.
      for (const id of [AURORA, BOSQUE, tenant]) {
        const [before, after] = [join(root, `before-${id}`), join(root, `after-${id}`)];
        expect((await exporting(before, id)).code).toBe(0);
        const { output: created } = await run(['tenant', 'create', 'Nova', '--json'], { env });
        const { id: copy } = JSON.parse(created);
        expect(await run(['import', 'all', before, '--tenant', copy], { env })).toMatchObject({ code: 0, errors: '' });
        // A database for people in another time zone.
        await asAdmin(other.adminUrl, (db) =>
          db.query(
            `do $$ begin execute format('alter database %I set timezone = %L', current_database(), 'Asia/Tokyo'); end $$`,
          ),
        );
        expect((await run(['export', after, '--tenant', copy], { env })).code).toBe(0);
        expect(readData(after)).toEqual(readData(before));
      }
    } finally {
      await other.drop();
    }
  });

  test('is for its owner alone, and replaces nothing', async () => {
    const folder = join(root, 'private');
    expect((await exporting(folder, BOSQUE)).code).toBe(0);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'alunos.csv')).mode & 0o777).toBe(0o600);
    rmSync(join(folder, 'academias.csv'));
    const before = readFiles(folder);
    expect(await exporting(folder)).toEqual(
      failed(`There is ${join(folder, 'personais.csv')} already: nothing was exported`),
    );
    expect(readFiles(folder)).toEqual(before);
  });

  test('with a bad file is not imported in part', async () => {
    const folder = join(root, 'broken');
    await exporting(folder, BOSQUE);
    appendFileSync(join(folder, 'treinos.csv'), 'x,y\n');
    const { code, errors } = await run(['import', 'all', folder, '--tenant', tenant]);
    expect(code).toBe(1);
    expect(errors).toContain('has 2 values, but the header has 7 columns');
    expect(await students()).toEqual([]);
    writeFileSync(join(folder, 'notas.csv'), 'a\n');
    expect((await run(['import', 'all', folder, '--tenant', tenant])).errors).toMatch(/^There is no resource notas\n/);
    expect((await run(['import', 'all', join(root, 'none'), '--tenant', tenant])).errors).toMatch(
      /^There is no folder /,
    );
  });

  test('of the embedded store has the same rows', async () => {
    const env = { DATA_DIR: copyDataDir(inject('dataDir')) };
    const { output } = await run(['export', join(root, 'embedded'), '--tenant', AURORA], { env });
    expect(output).toBe(`Exported to ${join(root, 'embedded')}: ${COUNTS}.\n`);
  });
});
