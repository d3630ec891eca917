import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

test('npm run check refuses a migration that rewrites a table, or breaks what runs', () => {
  const sql = `alter table private.alunos add column apelido text not null;
    alter table private.alunos alter column telefone set not null;
    alter table private.alunos add foreign key (id) references private.tenants (id);
    alter table private.alunos drop column telefone;
    alter table private.alunos alter column sexo type integer using 1;
    alter table private.alunos rename column sexo to genero;
    create domain private.nota as smallint check (value < 10);
    create table private.fivelas (id uuid primary key, etiquetas varchar(40)[]);
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
