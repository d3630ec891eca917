import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { DocumentError } from '../../src/openapi/document.ts';
import { compileKept } from '../../src/openapi/kept-document.ts';

const root = mkdtempSync(join(tmpdir(), 'kept-'));
const text = readFileSync('openapi.yaml', 'utf8');
let count = 0;

afterAll(() => rmSync(root, { recursive: true }));

/** A document with what is appended to it, and the file that it is kept in. */
function place(more = '') {
  count += 1;
  const file = join(root, `${count}.yaml`);
  writeFileSync(file, text + more);
  return { file, keptIn: join(root, `${count}`, 'document.json') };
}

const titleOf = async ({ file, keptIn }: ReturnType<typeof place>) =>
  (await compileKept(file, keptIn)).document.info.title;

function editKept(keptIn: string, change: (json: string) => string): void {
  writeFileSync(keptIn, change(readFileSync(keptIn, 'utf8')));
}

describe('a document that is kept', () => {
  test('compiles to the same as the one that was read', async () => {
    const { file, keptIn } = place();
    const [read, kept] = [await compileKept(file, keptIn), await compileKept(file, keptIn)];
    expect(kept.document).toEqual(read.document);
    expect([...kept.operations]).toEqual([...read.operations]);
    const codes = [read, kept].map(({ validators }) =>
      [...validators.values()].map((all) => all.map((validate) => String(validate))),
    );
    expect(codes[1]).toEqual(codes[0]);
  });

  test('stands for the text that it was read from, and for no other', async () => {
    const at = place();
    const title = await titleOf(at);
    editKept(at.keptIn, (json) => json.replace(`"title":"${title}"`, '"title":"Guardado"'));
    expect(await titleOf(at)).toBe('Guardado');
    writeFileSync(at.file, `${text}# \n`);
    expect([await titleOf(at), await titleOf(at)]).toEqual([title, title]);
    expect(readFileSync(at.keptIn, 'utf8')).not.toContain('Guardado');
  });

  test.each([
    ['cut off', (json: string) => json.slice(0, 1_000)],
    ['empty', () => ''],
    ['null', () => 'null'],
  ])('is read anew where the file is %s', async (_what, change) => {
    const at = place();
    const title = await titleOf(at);
    editKept(at.keptIn, change);
    expect(await titleOf(at)).toBe(title);
    expect(JSON.parse(readFileSync(at.keptIn, 'utf8')).document.info.title).toBe(title);
  });

  test.each([
    ['no YAML', '\n  - a: b\n c'],
    ['no OpenAPI', '\nservices: []\n'],
  ])('is never %s', async (_what, more) => {
    const { file, keptIn } = place(more);
    for (const _time of [1, 2]) await expect(compileKept(file, keptIn)).rejects.toThrow(DocumentError);
    expect(existsSync(keptIn)).toBe(false);
  });

  test('says nothing that JSON cannot say', async () => {
    const at = place('\nx-most: .inf\n');
    for (const _time of [1, 2]) {
      expect((await compileKept(at.file, at.keptIn)).document).toMatchObject({ 'x-most': Number.POSITIVE_INFINITY });
    }
    expect(existsSync(at.keptIn)).toBe(false);
  });

  test('is not needed: where it cannot be written it is read each time', async () => {
    const { file } = place();
    expect(await titleOf({ file, keptIn: join(file, 'document.json') })).toBe(await titleOf(place()));
  });
});
