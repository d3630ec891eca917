import { expect, test } from 'vitest';
import { decode, findDelimiter, readRecords } from '../../src/admin/csv.ts';

type Options = { readonly encoding?: string; readonly delimiter?: string };

function read(content: string | Uint8Array, { encoding = 'utf-8', delimiter }: Options = {}) {
  const text = decode('file', typeof content === 'string' ? Buffer.from(content) : content, encoding);
  return readRecords('file', text, delimiter ?? findDelimiter(text));
}

test('a file that is too large for a text is refused', () => {
  expect(() => read(new Uint8Array(2 ** 29))).toThrow('file is larger than 512 MB: split it');
});

const utf16 = Buffer.from('\ufeffnome\temail\r\nJosé\tj@x.example\r\n', 'utf16le');

test.each([
  ['nome;endereço (rua, número, bairro);email', ';'],
  ['nome,"endereço; número",email', ','],
  ['nome,obs; nota', ';'],
  ['nome,obs; nota,email', ','],
  ['nome,"a; b', ','],
  ['nome', ','],
  ['\nnome;email', ';'],
  ['"Nome\ncompleto";email', ';'],
  ['Nome;Altura 5";email\na,"b,c"', ';'],
])('the delimiter of %s is %s', (header, delimiter) => {
  expect(findDelimiter(`${header}\n`)).toBe(delimiter);
});

test.each<[string, string | Uint8Array, Options, number, string?]>([
  ['a byte order mark', '\ufeffnome,email\nJosé,j@x.example\n', {}, 2],
  ['a byte order mark before a quote', '\ufeff"nome","email"\n"José","j@x.example"\n', {}, 2],
  ['semicolons', 'nome;email\nPrado, José;j@x.example\n', {}, 2, 'Prado, José'],
  ['tabs', 'nome\temail\nJosé\tj@x.example\n', {}, 2],
  ['another delimiter', 'nome|email\nJosé|j@x.example\n', { delimiter: '|' }, 2],
  ['CRLF', 'nome,email\r\nJosé,j@x.example\r\n', {}, 2],
  ['CR', 'nome,email\rJosé,j@x.example\r', {}, 2],
  ['CRLF below a header with LF', 'nome,email\nJosé,j@x.example\r\n', {}, 2],
  ['blank lines', '\nnome,email\n\nJosé,j@x.example\n\n\n', {}, 4],
  ['empty rows', 'nome,email\n,\n" ",\nJosé,j@x.example\n,', {}, 4],
  ['breaks, quotes and delimiters in quotes', 'nome,email\n"J ""Zé"",\n",j@x.example', {}, 2, 'J "Zé",\n'],
  [
    'windows-1252',
    Buffer.from('nome,email\nJos\xe9 \x80,j@x.example', 'latin1'),
    { encoding: 'windows-1252' },
    2,
    'José €',
  ],
  [
    'a byte order mark, which counts more than an option',
    '\ufeffnome,email\nJosé,j@x.example\n',
    { encoding: 'windows-1252' },
    2,
  ],
  ['a declared delimiter', 'sep=;\r\nnome;email\r\nJosé;j@x.example\r\n', {}, 3],
  ['a declared delimiter in quotes', '"sep=|"\nnome|email\nJosé|j@x.example\n', {}, 3],
  ['a declared delimiter and an option', 'sep=;\nnome,email\nJosé,j@x.example\n', { delimiter: ',' }, 3],
  ['UTF-16 that says so itself', utf16, {}, 2],
  ['UTF-16', utf16.subarray(2), { encoding: 'utf-16le' }, 2],
])('a file may have %s', (_what, content, options, line, nome = 'José') => {
  const [header, ...records] = read(content, options);
  expect(header).toMatchObject({ cells: ['nome', 'email'] });
  expect(records).toEqual([{ line, cells: [nome, 'j@x.example'] }]);
});

test.each(['\n', '\r\n', '\r'])('a record has the number of the line that it begins on, with %j', (end) => {
  const lines = ['nome,email', '"Ana', '', 'Maria",ana', '', '"Bia', 'Luz","bia', '', '"', 'Caio,caio'];
  expect(read(lines.join(end)).map(({ line }) => line)).toEqual([1, 2, 6, 10]);
});

const MALFORMED: Readonly<Record<string, string>> = {
  '"Bi"a,bia@x.example': 'a value continues after its closing quote; write a quote within a value twice',
  'Bi"a,bia@x.example': 'a quote is in a value that is not quoted; quote the value and write the quote twice',
  '"Bia,bia@x.example': 'a quote is not closed',
};

test.each(Object.entries(MALFORMED))('malformed quotes are refused: %s', (line, problem) => {
  expect(() => read(`nome,email\n"Eva\nLuz",eva\n${line}\nCaio,caio\n`)).toThrow(`file, line 4: ${problem}`);
});

const latin1 = (text: string) => Buffer.from(text, 'latin1');
const AS_UTF8 =
  'Save the file as UTF-8, in Excel as "CSV UTF-8", or name its encoding: --encoding windows-1252 is that of Excel\'s other CSV, except MS-DOS.';
const AS_CSV =
  'Save its sheet as CSV: in Excel "File, Save As, CSV UTF-8 (Comma delimited)", in Portuguese "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".';

test.each<[string, Buffer, string, string, encoding?: string]>([
  ['in another encoding', latin1('nome,email\nJos\xe9,j@x\n'), ', line 2: not utf-8; nothing was imported', AS_UTF8],
  [
    'in another encoding, far from its beginning',
    latin1(`nome,email\r\n${'Ana Alves,ana@x.example\r\n'.repeat(9_000)}\xe9,`),
    ', line 9002: not utf-8; nothing was imported',
    AS_UTF8,
  ],
  ['cut at its end', latin1('nome,email\nJos\xc3'), ', line 2: not utf-8; nothing was imported', AS_UTF8],
  [
    'UTF-8, whatever --encoding says',
    Buffer.from('nome,email\nAndré,a@x.example\n'),
    ' is UTF-8, and not windows-1252: nothing was imported',
    'Leave out --encoding.',
    'windows-1252',
  ],
  [
    'of MS-DOS',
    latin1('nome,email\nJo\xc6o,j@x\n\x90RICA,e@x\n'),
    ', line 3: not windows-1252; nothing was imported',
    AS_CSV,
    'windows-1252',
  ],
  ...[latin1('PK\u0003\u0004\u0014\0\u0006\0'), latin1('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1')].map(
    (bytes) => ['a workbook', bytes, ' is a workbook (.xlsx, .xls or .ods): nothing was imported', AS_CSV] as never,
  ),
])('a file that is %s is refused with the solution', (_what, content, error, hint, encoding = 'utf-8') => {
  expect(() => read(content, { encoding })).toThrow(
    expect.objectContaining({ report: { error: `file${error}`, hint } }),
  );
});
