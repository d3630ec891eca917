import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

/** Runs a program with this content of .env, and with B set to `own`; gives the variables A and B. */
async function readVariables(content: string | Buffer): Promise<unknown> {
  const cwd = mkdtempSync(join(tmpdir(), 'env-'));
  writeFileSync(join(cwd, '.env'), content);
  const program = 'console.log(JSON.stringify([process.env.A, process.env.B]))';
  const args = ['--import', resolve('scripts/env.ts'), '--eval', program];
  const run = await promisify(execFile)(process.execPath, args, { cwd, env: { B: 'own' } });
  return JSON.parse(run.stdout);
}

test.each([
  ['comments, blank lines and another variable', '# c\n\n  # c: d\r\n \r\nB=2\nA=1 # c\n', '1'],
  ['export', 'export A = 1\n', '1'],
  ['a value in quotes, of several lines', 'A="x\ny: \'z\n" c: d\n\nexport C=`\nz`\n', "x\ny: 'z\n"],
  ['a quote that is not closed', 'A="x\n', '"x'],
  ['a value with a colon, and an empty one', 'C=\nA=postgres://x:y@z/?a=b', 'postgres://x:y@z/?a=b'],
])('.env may have %s; the environment takes precedence', async (_what, content, value) => {
  expect(await readVariables(content)).toEqual([value, 'own']);
});

test.each([
  ['a byte order mark', '\ufeffA=1\n', 1],
  ['UTF-16', Buffer.from('\ufeffA=1\n', 'utf16le'), 1],
  ['a line without =', '#\nC="\nx"\nA 1\n', 4],
  ['a line of YAML', 'C=1\nA: postgres://x/?a=b\n', 2],
])('.env with %s is refused with the line', async (_what, content, line) => {
  const stderr = `.env, line ${line}: expected NAME=value, in UTF-8 without a byte order mark\n`;
  await expect(readVariables(content)).rejects.toMatchObject({ code: 1, stdout: '', stderr });
});
