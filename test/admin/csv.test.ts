import { describe, expect, test } from 'vitest';
import { decode, readRecords } from '../../src/admin/csv.ts';

type Options = { readonly encoding?: string; readonly delimiter?: string; readonly pieces?: number };

/** The records of a file, which comes in pieces of so many bytes. */
async function read(content: string | Uint8Array, { encoding = 'utf-8', delimiter, pieces = 65_536 }: Options = {}) {
  const bytes = Buffer.from(content as string);
  async function* split() {
    for (let at = 0; at < bytes.length; at += pieces) yield bytes.subarray(at, at + pieces);
  }
  return Array.fromAsync(readRecords(decode('file', split(), encoding), delimiter));
}

const utf16 = Buffer.from('\ufeffnome\temail\r\nJosé\tj@x.example\r\n', 'utf16le');

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
])('a file may have %s', async (_what, content, options, line, nome = 'José') => {
  for (const pieces of [3, 65_536]) {
    const [header, ...records] = await read(content, { ...options, pieces });
    expect(header).toMatchObject({ cells: ['nome', 'email'] });
    expect(records).toEqual([{ line, cells: [nome, 'j@x.example'] }]);
  }
});

test.each(['\n', '\r\n', '\r'])('a record has the number of the line that it begins on, with %j', async (end) => {
  const lines = ['nome,email', '"Ana', '', 'Maria",ana', '', '"Bia', 'Luz","bia', '', '"', 'Caio,caio'];
  for (const pieces of [3, 65_536]) {
    expect((await read(lines.join(end), { pieces })).map(({ line }) => line)).toEqual([1, 2, 6, 10]);
  }
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
])('malformed quotes end the reading: %s', async (_what, line, problem) => {
  expect((await read(`nome,email\n"Eva\nLuz",eva\n${line}\nCaio,caio\n`)).slice(1)).toEqual([
    { line: 2, cells: ['Eva\nLuz', 'eva'] },
    { line: 4, problem: `${problem}; the rest was not read` },
  ]);
});

describe('a file that cannot be read', () => {
  const latin1 = (text: string) => Buffer.from(text, 'latin1');

  test.each([
    ['at its beginning', latin1('nome,email\nJos\xe9,j@x.example\n'), 2],
    ['far from its beginning', latin1(`nome,email\r\n${'Ana Alves,ana@x.example\r\n'.repeat(9_000)}\xe9,`), 9_002],
    ['at its end', latin1('nome,email\nJos\xc3'), 2],
  ])('for bytes of another encoding %s is refused with the line and the solution', async (_where, content, line) => {
    await expect(read(content)).rejects.toMatchObject({
      report: {
        error: `file, line ${line}: not utf-8; nothing was imported`,
        hint: 'Save the file as UTF-8, or name its encoding: Excel writes --encoding windows-1252.',
      },
    });
  });

  test.each([3, 65_536])(
    'because it is UTF-8, whatever --encoding says, is refused in pieces of %i bytes',
    async (pieces) => {
      await expect(read('nome,email\nAndré,a@x.example\n', { encoding: 'windows-1252', pieces })).rejects.toMatchObject(
        {
          report: { error: 'file is UTF-8, and not windows-1252: nothing was imported', hint: 'Leave out --encoding.' },
        },
      );
    },
  );

  test.each([
    ['.xlsx', latin1('PK\u0003\u0004\u0014\0\u0006\0')],
    ['.xls', latin1('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1')],
  ])('because it is a workbook (%s) is refused with the solution', async (_what, content) => {
    await expect(read(content)).rejects.toMatchObject({
      report: {
        error: 'file is a workbook (.xlsx, .xls or .ods): nothing was imported',
        hint: 'Save its sheet as CSV: in Excel "File, Save As, CSV UTF-8 (Comma delimited)", in Portuguese "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".',
      },
    });
  });
});
