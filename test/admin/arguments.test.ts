// The arguments of commands and their help, which need no store.

import { describe, expect, test } from 'vitest';
import { readWhen } from '../../src/admin/arguments.ts';
import { AURORA } from '../helpers/admin.ts';
import { fail, runAdmin, succeed } from '../helpers/run.ts';

describe('wrong usage ends with 2 and says what was expected:', () => {
  const issueWith = (...args: string[]) => ['key', 'issue', '--tenant', AURORA, '--name', 'x', ...args];
  const A_TIME = 'Expected a duration from now (90d, 12h), a date (its start in UTC), a time';

  test.each([
    ['a command that there is not', ['kye'], "unknown command 'kye'\n(Did you mean key?)"],
    ['an option that there is not', ['key', 'list', '--all'], "unknown option '--all'"],
    ['a tenant that is no id', ['key', 'list', '--tenant', 'Aurora'], "Expected a tenant's id"],
    ['no tenant', ['key', 'issue', '--name', 'x'], "required option '--tenant <ID>' not specified"],
    ['a blank name', ['tenant', 'create', ' '], 'Expected a name of 1 to 255 characters that is not blank'],
    ['a name that is too long', ['tenant', 'create', 'é'.repeat(256)], 'Expected a name of 1 to 255 characters'],
    ['a number without a unit', issueWith('--expires', '90'), A_TIME],
    ['a day that does not exist', issueWith('--expires', '2099-02-30'), A_TIME],
    ['a time in the year 10000', issueWith('--expires', '9999-12-31T23:59-12:00'), A_TIME],
    ['a time without a zone', issueWith('--expires', '2099-02-20T12:00'), A_TIME],
    ['a time that has passed', issueWith('--expires', '2020-01-01'), 'Expected a time that has not passed'],
    ['an environment', issueWith('--environment', 'Live'), 'Expected 1 to 10 letters of a-z'],
    ['a negative overlap', ['key', 'rotate', 'x', '--overlap=-1h'], 'Expected a duration'],
    ['no permission', ['key', 'permit', 'x'], 'Expected --permission FUNCTION or --all'],
    ['no limit and a limit', ['key', 'limit', 'x', '--none', '--per-day', '1'], 'cannot be used with option'],
    ['a limit of 0', ['key', 'limit', 'x', '--per-day', '0'], 'Expected an integer from 1 to 999999999999'],
    ['days before any calendar', ['key', 'usage', '--days', '10000'], 'Expected an integer from 1 to 9999'],
    ['some and all', ['key', 'permit', 'x', '--all', '--permission', 'y'], 'cannot be used with option'],
    ['a column twice', ['update', 'alunos', 'x', '--tenant', AURORA, '--set', 'a=1', 'a=2'], 'Expected a once'],
    ['an encoding', ['import', 'alunos', 'x', '--tenant', AURORA, '--encoding', 'ebcdic'], 'Expected an encoding'],
    ['a delimiter', ['import', 'alunos', 'x', '--tenant', AURORA, '--delimiter', ';;'], 'Expected one character'],
  ])('%s', async (_what, args, message) => {
    const { code, error, hint } = fail(await runAdmin([...args, '--json'], {}));
    expect({ code, hint }).toEqual({ code: 2, hint: expect.stringMatching(/See --help\.$/) });
    expect(error).toContain(message);
  });

  test('no command at all, with the help', async () => {
    const run = await runAdmin(['key'], {});
    expect(run).toMatchObject({ code: 2, output: '' });
    expect(run.errors).toMatch(/^Usage: npm run admin -- key /);
  });
});

test.each([
  ...['', 'tenant', 'tenant usage', 'tenant limit', 'key', 'key rotate', 'key usage', 'key limit'],
  ...['import', 'export', 'find', 'show', 'update', 'deactivate', 'backup', 'copy'],
])('the help of "%s" shows the usage and the exit codes, and examples of a command', async (name) => {
  const output = succeed(await runAdmin([...name.split(' ').filter(Boolean), '--help'], {}));
  expect(output).toMatch(new RegExp(`^Usage: npm run admin -- ${name}`));
  expect(output).toContain('Exit codes: 0 done; 1 refused or failed');
  const isCommand = !output.includes('Commands:');
  if (isCommand) expect(output).toMatch(new RegExp(`^Examples?:\n {2}npm run admin -- ${name} `, 'm'));
});

test.each([
  ['2099-12-31', '2099-12-31T00:00:00.000Z'],
  ['2099-12-31T18:30-03:00', '2099-12-31T21:30:00.000Z'],
  ['never', 'infinity'],
])('%s is a time', (text, time) => {
  expect(readWhen(text)).toBe(time);
});

test('a duration is a time from now', () => {
  const before = Date.now();
  const from = Date.parse(readWhen('90d')) - 90 * 24 * 3_600_000;
  expect(from).toBeGreaterThanOrEqual(before);
  expect(from).toBeLessThanOrEqual(Date.now());
});
