import { expect, test } from 'vitest';
import { readMapping } from '../../src/admin/arguments.ts';
import { checkValue, inZone, readTitles, toValue } from '../../src/admin/columns.ts';
import { type ImportOptions, importSource } from '../../src/admin/import.ts';
import type { Column } from '../../src/admin/tables.ts';
import { CommandError, describeBad } from '../../src/admin/terminal.ts';

const TIME = 'timestamp with time zone';
const column = (name: string, type = 'text', more: Partial<Column> = {}): Column => ({
  ...{ name, type, required: false, takes_null: true, max_length: null, refers_to: null, known_by: null },
  ...more,
});
const COLUMNS = [
  column('id', 'uuid'),
  column('nome', 'text', { required: true, max_length: 255 }),
  column('email', 'text', { required: true }),
  column('telefone'),
  column('data_nascimento', 'date'),
  column('academia_id', 'uuid', { refers_to: 'private.academias', known_by: 'nome' }),
  column('resposta', 'jsonb'),
  column('ordem', 'integer'),
  column('ativo', 'boolean'),
  column('criado_em', TIME),
];
const HINT =
  'The first line names the columns: id, nome (required), email (required), telefone, data_nascimento, academia_id (an id or nome), resposta, ordem, ativo, criado_em.';
const UNKNOWN =
  "Say what a column is with --map 'Its name=column', or leave out what is unknown with --ignore-unknown.";

/** Imports a file into an empty table that accepts everything. Returns the lines that are sent to it, or the problems. */
async function importing(content: string, options: Partial<ImportOptions> = {}) {
  const sent: unknown[] = [];
  const query = async (sql: string, values: unknown[] = []) => {
    if (sql.includes('import_rows')) sent.push(...JSON.parse(String(values[2])));
    return { rows: [{ json: '[]' }] };
  };
  const [table, source] = [
    { name: 'alunos', columns: COLUMNS, knownBy: 'email' },
    { table: 'alunos', name: 'file', read: async () => Buffer.from(content) },
  ];
  const all = { tenant: 'tenant', timeZone: 'America/Sao_Paulo', encoding: 'utf-8', ...options };
  try {
    await importSource({ query }, table, source, all);
    return sent;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const { error: summary, hint, lines = [] } = error.report;
    return [...lines.map((bad) => `line ${bad.line}: ${describeBad(bad)}`), summary, hint];
  }
}

const toLine = (problem: string) => problem.replace(/:.*/, '');
/** The report on a file of this many lines, some of which have these problems. */
const refused = (total: number, ...problems: string[]) => [
  ...problems,
  `Nothing was imported from file; bad lines: ${new Set(problems.map(toLine)).size} of ${total}`,
  `${problems.some((one) => one.endsWith('"uuid"')) ? "--map 'id=' leaves out the ids of other software.\n" : ''}Correct them and import the file again: all lines are imported, or none. --problems FILE writes the lines of one file, with what is wrong with each.`,
];

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
  [TIME, '1/5/2024', '2024-05-01T00:00:00'],
  [TIME, '01/05/2024 9:30', '2024-05-01T09:30:00'],
  [TIME, '01/05/2024 9:30:15.250', '2024-05-01T09:30:15.250'],
  [TIME, '2024-05-01T09:30:00.5Z', '2024-05-01T09:30:00.5Z'],
  ['timestamp(0) with time zone', '01/05/2024 9:30', '2024-05-01T09:30:00'],
  ['timestamp without time zone', '01/05/2024 9:30', '2024-05-01T09:30:00'],
  ['timestamp(3) without time zone', '1/5/2024', '2024-05-01T00:00:00'],
  ['numeric(8,2)', 'R$ 1.234,56', '1234.56'],
  ['numeric(8,2)', '1,234.56', '1234.56'],
  ['numeric(8,2)', '1.234', '1234'],
  ['numeric(8,3)', '1.234', '1.234'],
  ['numeric(8,3)', 'R$\u00a01.234', '1234'],
  ['numeric', '-99,90', '-99.90'],
  ['integer', '1.234.567', '1234567'],
  ['integer', '1,234,567', '1234567'],
  ['numeric', '1234,5', '1234.5'],
  ['numeric', '1,234,567.5', '1234567.5'],
  ['numeric', '1,5E+3', '1500'],
  // Not a number: checkValue refuses it.
  ['numeric', '99.9,00', '99.9,00'],
  ['numeric', '1,2.3', '1,2.3'],
  ['numeric', '1234.567,8', '1234.567,8'],
  ['integer', '1,2,3', '1,2,3'],
  ['double precision', '1e+20', '100000000000000000000'],
  ['integer', '1,2E+2', '120'],
  ['numeric(8,2)', '1,5E-3', '0.0015'],
  ['text', 'Jose\u0301 ', 'Jos\u00e9'],
  ['text', ' 1,5 ', '1,5'],
  ['text', 'UNIDADE\u00a0IP\u00ca\u2003', 'UNIDADE IP\u00ca'],
  ['text', '\ufeffUnidade\u200b\u2060 \u200e\u202aIP\u00ca\u2069\u200b', 'Unidade IP\u00ca'],
  ['text', '\u{1f468}\u200d\u{1f469}', '\u{1f468}\u200d\u{1f469}'],
  ['date', '01/05/1985\u00a000:00', '1985-05-01'],
  ['numeric(10,2)[]', '{1.50,2.00}', '{1.50,2.00}'],
])('a value of type %s may be written %j', (type, text, value) => {
  expect(toValue(text, column('x', type))).toBe(value);
});

test.each([
  ['2018-12-01T09:30:00.25', '2018-12-01T09:30:00.25 America/Sao_Paulo'],
  ['2018-12-01T09:30:00Z', '2018-12-01T09:30:00Z'],
  ['2018-12-01T09:30:00-03:00', '2018-12-01T09:30:00-03:00'],
])('the time %s is %s for Postgres', (text, value) => {
  expect(checkValue(text, column('x', TIME))).toBeUndefined();
  expect(inZone(text, column('x', TIME), 'America/Sao_Paulo')).toBe(value);
  expect(inZone(text, column('x'), 'America/Sao_Paulo')).toBe(text);
});

const BAD_TIME = 'must be a time, as 2026-12-31T18:00:00Z';
const BAD_LOCAL_TIME = 'must be a time without a zone, as 2026-12-31T18:00:00';

test.each([
  // The API returns times in UTC, with a year of four digits.
  [TIME, '9999-12-31T23:59:59', BAD_TIME],
  [TIME, '9999-12-31T23:59:59-03:00', BAD_TIME],
  [TIME, '9999-12-31T23:59:59Z', undefined],
  [TIME, '9999-12-30T23:59:59', undefined],
  [TIME, '0001-01-01T00:00:00+14:00', BAD_TIME],
  [TIME, '0001-01-01T00:00:00Z', undefined],
  [TIME, '0000-12-31T23:59:59Z', BAD_TIME],
  ['timestamp without time zone', '2024-05-01T09:30:00', undefined],
  ['timestamp without time zone', '2024-05-01T09:30:00Z', BAD_LOCAL_TIME],
  ['timestamp without time zone', '05/13/2024', BAD_LOCAL_TIME],
  ['numeric(8,2)', '10.239', 'must be multiple of 0.01'],
  ['text', '5,51199E+12', 'is a number that Excel has shortened: format its column as text'],
  ['text', '#N/D', 'is what a spreadsheet shows in place of a value: correct the cell, or leave it empty'],
  ['text', '#VALOR!', 'is what a spreadsheet shows in place of a value: correct the cell, or leave it empty'],
  ['text', '#####', 'is what a spreadsheet shows in place of a value: correct the cell, or leave it empty'],
  ['numeric(8,2)', '10.2300', undefined],
  ['numeric(8,0)', '-0.5', 'must be multiple of 1'],
  ['numeric', '10.239', undefined],
  ['double precision', '0.1', undefined],
  ['json', '{"a": 1}', undefined],
  ['json', '{', 'must be JSON'],
  ['numeric', '99.9,00', 'must be a number, as 1234.56 or 1.234,56'],
  ['integer', '1.23,456', 'must be an integer'],
  ['smallint', '-32768', undefined],
  ['smallint', '32768', 'must be from -32768 to 32767'],
  ['bigint', '-9223372036854775809', 'must be from -9223372036854775808 to 9223372036854775807'],
  ['numeric(20,2)', '999999999999999999.99', undefined],
  ['numeric(4,1)', '-1000', 'must be from -999.9 to 999.9'],
  ['numeric(4,0)', '10000', 'must be from -9999 to 9999'],
  ['numeric(2,3)', '0.099', undefined],
  ['numeric', '99999999999999999999', undefined],
])('%s takes %s: %s', (type, text, message) => {
  const problem = checkValue(text, column('x', type));
  expect(typeof problem === 'object' ? problem.en : problem).toBe(message);
});

const namesIn = (name: string, ...titles: string[]) =>
  readTitles(titles, { name, columns: COLUMNS }).headers.map(({ column }) => column?.name);
const namesOf = (...titles: string[]) => namesIn('alunos', ...titles);

test('a column is known by its names in the table, the interface and spreadsheets, in any spelling', () => {
  expect(namesOf('p_email', 'NOME')).toEqual(['email', 'nome']);
  expect(namesOf('Nome completo', 'E-mail', 'Data de Nascimento', 'Telefone celular', 'Situação')).toEqual(
    'nome email data_nascimento telefone ativo'.split(' '),
  );
  expect(namesOf('academia')).toEqual(['academia_id']);
  expect(namesOf('ID Academia')).toEqual(['academia_id']);
  expect(namesOf('Unidade', '')).toEqual(['academia_id', undefined]);
  // A common name yields to a column with exactly this name.
  expect(namesOf('Celular', 'telefone')).toEqual([undefined, 'telefone']);
  // The names of a person's columns are not names of a gym's or a workout's.
  expect(namesOf('Nome do aluno', 'E-mail do aluno', 'Aluno desde')).toEqual(['nome', 'email', 'criado_em']);
  expect(namesIn('treinos', 'Nome do aluno', 'E-mail do aluno', 'Aluno desde')).toEqual(Array(3).fill(undefined));
  expect([...namesIn('academias', 'Aluno'), ...namesIn('personais', 'Professor')]).toEqual([undefined, 'nome']);
});

test('--map names columns, and --ignore-unknown leaves out others', async () => {
  const map = new Map(Object.entries({ apelido: 'nome', MAIL: 'email' }));
  expect(await importing('Apelido,mail,Idade\nAna,ana@x.example,1\n', { map, ignoreUnknown: true })).toEqual([
    { line: 2, fields: { nome: 'Ana', email: 'ana@x.example' } },
  ]);
  expect(await importing('ID,nome,email\n7,Ana,ana@x.example\n', { map: readMapping('ID=') })).toEqual([
    { line: 2, fields: { nome: 'Ana', email: 'ana@x.example' } },
  ]);
  const wrong = new Map(Object.entries({ x: 'idade', y: 'sexo' }));
  expect(await importing('nome,email,x\n', { map: wrong })).toEqual([
    'file, line 1: --map names "idade", which is not a column; --map names "y", which is not in the first line',
    HINT,
  ]);
});

/** Headers that are refused, and the message for each. */
const BAD_HEADERS: Readonly<Record<string, string>> = {
  'nome,email,idade\n': 'unknown column "idade"',
  'nome,email,p_nome\n': 'columns "nome" and "p_nome" are both nome',
  'nome,ativo\n': 'column "email" is missing',
  'idade,nome,Nome,\n': 'unknown column "idade"; columns "nome" and "Nome" are both nome; column "email" is missing',
  ['x,'.repeat(1_500)]: `${Array.from({ length: 20 }, () => 'unknown column "x"').join('; ')}; and more`,
  [','.repeat(1_000_000)]: 'has 1000003 columns: the file may not be CSV',
  [`${'x'.repeat(500_000)}\n`]: `unknown column "${'x'.repeat(100)}"; column "nome" is missing; column "email" is missing`,
};

test.each(Object.entries(BAD_HEADERS))(
  'the header %.30s is refused with a list of the columns',
  async (header, problem) => {
    const more = problem.includes('unknown') ? `\n${UNKNOWN}` : '';
    expect(await importing(`${header}Ana,ana@x.example,1\n`)).toEqual([`file, line 1: ${problem}`, HINT + more]);
  },
);

test.each([
  ['nothing', ''],
  ['blank lines alone', '\n\r\n\n'],
  ['a byte order mark alone', '\ufeff'],
])('a file with %s in it is refused as empty', async (_what, content) => {
  expect(await importing(content)).toEqual(['file is empty: expected CSV with a header', HINT]);
});

test('every bad line is reported, with the value, by the title of its column', async () => {
  const content = [
    'sep=;',
    'Nome;email;p_data_nascimento;resposta;ordem;Situação;criado_em;id;',
    'Ana;ana@x.example;31/12/1990;{};1;;;;',
    ' ;bia@x.example;1990-02-30;{;1.5;talvez;ontem;;',
    `Caio;caio;1990-13-01;"{""a"": ""\\u0000""}";;;31/02/2018 10:00;7;`,
    ';;;;1;;;;',
    'Davi',
    `Ester;ester@x.example;;;;;;;;`,
    'Fábio;f@x.example;;;;;;;7',
    `G\0;${'g'.repeat(80)};;;;;;;`,
  ].join('\n');
  const BAD_DATE = 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY';
  const BAD_EMAIL = 'must match format "email"';
  expect(await importing(content)).toEqual(
    refused(
      8,
      'line 4: Nome is required',
      `line 4: p_data_nascimento "1990-02-30": ${BAD_DATE}`,
      'line 4: resposta "{": must be JSON',
      'line 4: ordem "1.5": must be an integer',
      'line 4: Situação "talvez": must be true or false, sim or não, or ativo or inativo',
      `line 4: criado_em "ontem": ${BAD_TIME}`,
      `line 5: email "caio": ${BAD_EMAIL}`,
      `line 5: p_data_nascimento "1990-13-01": ${BAD_DATE}`,
      'line 5: resposta "{\\"a\\": \\"\\\\u0000\\"}": must not contain U+0000 or an unpaired surrogate',
      `line 5: criado_em "31/02/2018 10:00": ${BAD_TIME}`,
      'line 5: id "7": must match format "uuid"',
      'line 6: Nome is required',
      'line 6: email is required',
      'line 7: does not fit the header (values: 1, columns: 9)',
      'line 8: does not fit the header (values: 10, columns: 9)',
      'line 9: has a value in column 9, which has no name',
      'line 10: Nome "G\\u0000": must not contain U+0000 or an unpaired surrogate',
      `line 10: email "${'g'.repeat(59)}…": ${BAD_EMAIL}`,
    ),
  );
});

test('two lines with the same e-mail or id, in upper or lower case, are refused without --allow-duplicates', async () => {
  const content = 'nome,email\nAna,ana@x.example\nBia,\nEva,ANA@x.example\nIvo,ana@X.example\n';
  const again = (line: number, text: string) => `line ${line}: email "${text}": is also that of line 2`;
  const problems = ['line 3: email is required', again(4, 'ANA@x.example'), again(5, 'ana@X.example')];
  expect(await importing(content)).toEqual(refused(4, ...problems));
  expect(await importing(content, { skipExisting: true })).toEqual(refused(4, ...problems));
  expect(await importing(content.replace('Bia,\n', ''), { allowDuplicates: true })).toHaveLength(3);
  const id = 'A3000000-0000-4000-8000-000000000001';
  const ids = [
    `${id},Ana,ana@x.example`,
    `,Eva,e@x.example`,
    `${id.toLowerCase()},Eva,e@x.example`,
    `,Eva,e@x.example`,
  ];
  expect(await importing(`id,nome,email\n${ids.join('\n')}\n`)).toEqual(
    refused(
      4,
      `line 4: id "${id.toLowerCase()}": is also that of line 2`,
      'line 4: email "e@x.example": is also that of line 3',
      'line 5: email "e@x.example": is also that of line 3',
    ),
  );
  const twins = ['A,a@x.example', 'B,A@x.example'];
  for (const names of [twins, twins.toReversed()]) {
    const problem = `line 3: email "${names[1]?.slice(2)}": is also that of line 2`;
    for (const lines of [`${id},${names[0]}\n,${names[1]}`, `,${names[0]}\n${id},${names[1]}`]) {
      expect(await importing(`id,nome,email\n${lines}\n`)).toEqual(refused(2, problem));
    }
  }
});

test('an update names existing records, by id or e-mail', async () => {
  const id = 'a3000000-0000-4000-8000-000000000001';
  const options = { update: true };
  const none = `line 2: id "${id}": none of the tenant's alunos has this id`;
  expect(await importing(`id,nome,email\n${id},Ana,a@x.example\n`, options)).toEqual(refused(1, none));
  expect(await importing(`id,telefone\n${id},1\n`, options)).toEqual(refused(1, none));
  expect(await importing('email,telefone\na@x.example,1\n', options)).toEqual(
    refused(1, `line 2: email "a@x.example": none of the tenant's alunos has this email`),
  );
  expect(await importing('telefone\n1\n', options)).toEqual(['--update expects a column id or email', undefined]);
});
