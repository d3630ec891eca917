import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { CommandError, reportError, toTable } from '../../src/admin/terminal.ts';
import { ANA, AURORA, BOSQUE, useAdmin } from '../helpers/admin.ts';

const { admin, database, json, rows } = useAdmin();

/** Runs the command on a terminal of its own and types a line. */
async function type(
  line: string,
  args: readonly string[],
  store: Record<string, string> = { DATABASE_URL: database().adminUrl },
): Promise<{ code: number | null; output: string }> {
  const command = [process.execPath, 'src/admin/main.ts', ...args.map((arg) => `'${arg}'`)].join(' ');
  const env = { PATH: process.env.PATH, ...store, TERM: 'dumb' };
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], { env });
  child.stdin.end(`${line}\n`);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return { code, output };
}

const count = async (table: string, condition: string) =>
  (await rows(`select from private.${table} where ${condition}`)).length;

test('a student is erased once its name was typed', async () => {
  // Control characters are shown as text. People type what they see.
  await rows(`update private.alunos set nome = E'\\x1b[2JAna\\r\\nReis' where id = '${ANA}'`);
  const refused = await type('Outra', ['student', 'erase', ANA, '--tenant', AURORA]);
  expect(refused.output).toContain('Erases the student \\u001b[2JAna');
  expect(refused.output).not.toContain('\x1b[2J');
  expect(refused.output).toContain('That is another name: nothing was changed.');
  expect(refused.code).toBe(1);
  expect(await count('alunos', `id = '${ANA}'`)).toBe(1);

  const { code, output } = await type('\\u001b[2JAna Reis', ['student', 'erase', ANA, '--tenant', AURORA]);
  expect(output).toContain(`Student ${ANA} was erased: anamneses 1, treinos 2, alunos 1.`);
  expect([code, await count('alunos', `id = '${ANA}'`)]).toEqual([0, 0]);
});

test('a key is revoked once its name was typed, and then without a question', async () => {
  const { prefix } = await json(['key', 'issue', '--tenant', AURORA, '--name', 'Site']);
  // Invisible characters are shown, but need not be typed. A letter and its accent may be two characters.
  await rows(`update private.api_keys set name = U&'Si\\200BtE\\0301' where prefix = '${prefix}'`);
  expect(await type('Outra', ['key', 'revoke', prefix])).toEqual({
    code: 1,
    output: expect.stringContaining(
      `Revokes the key Si\\u200btE\u0301 (${prefix}) of Academia Aurora. This cannot be undone.`,
    ),
  });
  const done = { code: 0, output: expect.stringContaining(`Key ${prefix} is revoked: requests with it are refused.`) };
  expect(await type('Sit\u00c9', ['key', 'revoke', prefix])).toEqual(done);
  expect(await admin(['key', 'revoke', prefix])).toMatchObject(done);
});

test('a tenant is not deleted without a terminal to ask on, unless with --yes', async () => {
  const { code, errors } = await admin(['tenant', 'delete', BOSQUE]);
  expect([code, errors]).toEqual([2, 'Expected --yes, because there is no terminal to ask on.\nSee --help.\n']);
  expect(await count('alunos', `tenant_id = '${BOSQUE}'`)).toBe(5);
  expect(await json(['tenant', 'delete', BOSQUE, '--yes'])).toMatchObject({
    deleted: { alunos: 5, api_keys: 1, treinos: 5 },
  });
  expect(await count('tenants', 'true')).toBe(1);
});

test('a store is replaced once the name of its folder was typed', async () => {
  const root = mkdtempSync(join(tmpdir(), 'terminal-'));
  const store = join(root, 'minha');
  mkdirSync(join(store, 'database'), { recursive: true });
  const restore = async (typed: string) => {
    const args = ['restore', import.meta.filename, '--replace'];
    return (await type(typed, args, { DATA_DIR: store })).output;
  };
  const refused = await restore('Outra');
  expect(refused).toMatch(/^Replaces the store in the folder minha \(.*\/minha\) with .* This cannot/m);
  expect(refused).toContain('That is another name: nothing was changed.');
  expect(await restore('minha')).toContain('is damaged, or no backup');
});

test('people see the first hundred bad lines, and scripts all of them', () => {
  const lines = Array.from({ length: 101 }, (_, line) => ({ line, field: 'email', value: 'x', message: 'is wrong' }));
  const failure = new CommandError('Nothing was imported', 'Correct them', { lines });
  const print = (isJson: boolean) => {
    const printed: string[] = [];
    expect(reportError(failure, isJson, (text) => void printed.push(text))).toBe(1);
    return printed.join('');
  };
  expect(print(false)).toMatch(
    /^line 0: email "x": is wrong\n(.*\n){98}line 99: .*\nand more, which --json prints\nNothing was imported\nCorrect them\n$/,
  );
  expect(JSON.parse(print(true)).lines).toHaveLength(101);
});

test('a table may have more rows than a function has arguments', () => {
  const rows = Array.from({ length: 200_000 }, (_, index) => [`${index}`, 'x']);
  expect(toTable(['ID', 'NOME'], rows).split('\n')).toMatchObject({
    length: 200_001,
    0: 'ID      NOME',
    1: '0       x',
  });
});
