import { spawnSync } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { FINDINGS, type Finding } from '../../scripts/function-bodies.ts';
import { canTestOnDebian, startDebianPostgres } from '../helpers/debian-postgres.ts';
import { runSql } from '../helpers/servers.ts';

test('npm run check refuses a migration that rewrites a table, or breaks what runs', () => {
  const sql = `alter table private.alunos add column apelido text not null;
    alter table private.alunos alter column telefone set not null;
    alter table private.alunos add foreign key (id) references private.tenants (id);
    alter table private.alunos drop column telefone;
    alter table private.alunos alter column sexo type integer using 1;
    alter table private.alunos rename column sexo to genero;
    create table visitas (id uuid primary key);`;
  const args = ['--config', 'supabase/squawk.toml', '--reporter', 'gcc', '--stdin-filepath', 'x.sql'];
  const { status, stdout } = spawnSync('node_modules/.bin/squawk', args, { input: sql, encoding: 'utf8' });
  expect(status).toBe(1);
  expect(new Set([...stdout.matchAll(/warning: ([\w-]+) /g)].map(([, rule]) => rule))).toEqual(
    new Set([
      'adding-required-field',
      'adding-not-nullable-field',
      'adding-foreign-key-constraint',
      'constraint-missing-not-valid',
      'ban-drop-column',
      'changing-column-type',
      'renaming-column',
      'require-table-schema',
    ]),
  );
});

/** Findings that stay, and why. */
const ACCEPTED: Readonly<Record<string, string>> = {
  'performance: private.publish(regproc): target type is different type than source type':
    'it reads names of roles into a variable of type text; it runs in migrations alone, some ten times',
  'security: private.import_rows(uuid,regclass,jsonb,boolean): text type variable is not sanitized':
    'the expressions that it puts together are made by format() from quoted names of the catalog',
  'security: private.find_rows(uuid,regclass,text[],jsonb): text type variable is not sanitized':
    'the expressions that it puts together are made by format() from quoted names of the catalog',
  'security: private.watch(regclass): text type variable is not sanitized': 'its texts are constants',
  'warning extra: private.next_position(uuid): never read variable "v_locked"': 'an assignment costs less than perform',
  'warning extra: private.find_rows(uuid,regclass,text[],jsonb): OUT variable "line" is maybe unmodified':
    'return query execute sets it',
  'warning extra: private.find_rows(uuid,regclass,text[],jsonb): OUT variable "id" is maybe unmodified':
    'return query execute sets it',
  'warning extra: private.find_records(uuid,regclass,text,jsonb): OUT variable "value" is maybe unmodified':
    'return query execute sets it',
  'warning extra: private.find_records(uuid,regclass,text,jsonb): OUT variable "id" is maybe unmodified':
    'return query execute sets it',
};

test.skipIf(!canTestOnDebian('plpgsql_check'))('plpgsql_check finds exactly the accepted warnings', async () => {
  const server = await startDebianPostgres();
  onTestFinished(() => server.stop());
  await runSql(server.superuserUrl, 'create extension plpgsql_check');
  const findings = await runSql<Finding>(server.superuserUrl, FINDINGS);
  const texts = findings.map(({ level, function: name, message }) => `${level}: ${name}: ${message}`);
  expect([...new Set(texts)].sort()).toEqual(Object.keys(ACCEPTED).sort());
});
