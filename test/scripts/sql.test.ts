import { Console } from 'node:console';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { describe, expect, inject, test } from 'vitest';
import { runSqlFile } from '../../scripts/sql.ts';
import { copyDataDir, startConfigured } from '../helpers/gateway.ts';
import { runCommand, runInProcess, succeed } from '../helpers/run.ts';

const toStream = (print: (text: string) => void) =>
  new Writable({
    write(chunk, _encoding, done) {
      print(String(chunk));
      done();
    },
  });

describe('npm run sql', () => {
  const root = mkdtempSync(join(tmpdir(), 'sql-'));
  const dataDir = copyDataDir(inject('dataDir'));
  const sql = (args: string[], input = '', env: Record<string, string> = { DATA_DIR: dataDir }) =>
    runInProcess(({ print, printError }) => {
      const console = new Console(toStream(print), toStream(printError));
      return runSqlFile(args, { env, console, readInput: () => input });
    });

  test('prints the number of rows of each statement, and rows', async () => {
    const script = `-- Two tenants.
      insert into private.tenants (name) values ('Atlântica'), ('Caatinga');
      create temporary table nothing (id integer);
      update private.tenants set name = 'Cerrado' where name = 'Caatinga';
      delete from nothing;
      select name from private.tenants where name in ('Atlântica', 'Cerrado') order by 1;`;
    writeFileSync(join(root, 'tenants.sql'), script);
    const env = { DATA_DIR: dataDir, INIT_CWD: root };
    const output = succeed(await runCommand('scripts/sql.ts', ['tenants.sql'], { env }));
    expect(output.match(/^.*rows?$/gm)).toEqual(['2 rows', '0 rows', '1 row', '0 rows', '2 rows']);
    expect(output).toContain("'Cerrado'");
  });

  test('prints values as Postgres writes them', async () => {
    const values = `date '2024-05-06' as a, timestamp '2024-05-06 10:00' as b, jsonb '{"x": {"y": {"z": 1}}}' as c,
      interval '1 day' as d, array['e'] as e, 1.50 as f, 7 as g, true as h, null as i`;
    const { output } = await sql(['-'], `select ${values}`);
    const [, , , row = ''] = output.split('\n');
    expect(row.split('│').map((cell) => cell.trim())).toEqual([
      ...['', '0', "'2024-05-06'", "'2024-05-06 10:00:00'", `'{"x": {"y": {"z": 1}}}'`],
      ...["'1 day'", "'{e}'", "'1.50'", '7', 'true', 'null', ''],
    ]);
  });

  test('undoes everything after an error, and shows its line', async () => {
    const insert = `insert into private.tenants (name) values ('Deserto');\nselect nada;`;
    expect(await sql(['-'], insert)).toMatchObject({ code: 1, output: '', errors: expect.stringMatching(/^-:2:8: /) });
    const { output } = await sql(['-'], `select 1 from private.tenants where name = 'Deserto'`);
    expect(output).toBe('0 rows\n');
  });

  test('makes a store that is not there, which it says on standard error', async () => {
    const folder = join(root, 'new');
    const env = { DATA_DIR: folder, DEMO_DATA: 'off' };
    const count = 'select count(*)::integer from private.tenants';
    const { code, output, errors } = await sql(['-'], count, env);
    expect({ code, errors }).toEqual({ code: 0, errors: `Creating a store in ${folder}\n` });
    expect(output).toMatch(/\b0\b.*\n[^\n]*\n1 row\n$/);
  });

  test('works while a gateway serves the store, which shows what it does', async () => {
    const { url, close } = await startConfigured({ DATA_DIR: dataDir });
    const insert = `insert into private.academias (tenant_id, nome)
      values ('a0000000-0000-4000-8000-000000000000', 'Zênite')`;
    expect(succeed(await sql(['-'], insert))).toBe('1 row\n');
    const answer = await fetch(`${url}/academias`, { headers: { 'X-Api-Key': 'wms_demo_aurora' } });
    expect(await answer.json()).toContainEqual(expect.objectContaining({ nome: 'Zênite' }));
    await close();
  });

  test('prints help and refuses wrong usage', async () => {
    const help = await sql(['--help']);
    expect(help).toMatchObject({ code: 0, output: expect.stringMatching(/^Usage: npm run sql -- .*<FILE>/) });
    expect(await sql([])).toMatchObject({ code: 2, errors: "missing required argument 'FILE'\nSee --help.\n" });
    expect(await sql(['none.sql'])).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/none\.sql: ENOENT: .*none\.sql/),
    });
  });

  test('refuses another store', async () => {
    expect(await sql(['-'], '', { DATABASE_URL: 'postgres://u@h/d' })).toEqual({
      ...{ code: 1, output: '' },
      errors: 'This is for the embedded store: unset DATABASE_URL and SUPABASE_URL, or run the SQL with psql\n',
    });
  });
});
