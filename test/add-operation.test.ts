import { execFile } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MIGRATIONS } from './helpers/gateway.ts';
import { readNodeArgs, startProcess } from './helpers/process.ts';
import { CHANGE, readTable } from './helpers/readme.ts';

// Adds operations to a copy of the project by YAML and SQL alone, as people do. No test has to change.

const PATH = `${resolve('node_modules/.bin')}:${process.env.PATH}`;
const TABLE = readTable('cofre', 'd');

/** Tests of every operation of the document, and of every table and function of the database. */
const SUITES = [
  'test/isolation/any-operation.test.ts',
  'test/isolation/checks.test.ts',
  'test/openapi/document.test.ts',
  'test/client/msw.test.ts',
  'test/http/mcp.test.ts',
  'test/http/exchanges.test.ts',
  'test/sql/pgtap.test.ts',
  'test/sql/database-readme.test.ts',
  'test/sql/agreement.test.ts',
  'test/scripts/conformance.test.ts',
];

/** The titles of those tests that are about one operation or about none: another operation cannot change their result. */
const OTHERS = 'the command |a gateway with a bound |.* privileges.sql reports';

const root = mkdtempSync(join(tmpdir(), 'readme-'));
const env = { PATH, HOME: process.env.HOME };
const at = (...path: string[]) => join(root, ...path);
const append = (file: string, text: string) => appendFileSync(at(file), text);
const migrate = (name: string, sql: string) => writeFileSync(at(MIGRATIONS, name), sql);
const operationsFile = at(MIGRATIONS, '20991229000001_operations_of_cofres.sql');

/** Replaces a text in a file. Fails if the text is not there. */
function edit(file: string, from: string | RegExp, to: string): void {
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace(from, to));
  expect(readFileSync(file, 'utf8'), String(from)).not.toBe(text);
}

/** The function of GET /treinos from the last migration, with one more filter. */
function filterByName(): string {
  const files = globSync(`${MIGRATIONS}/*.sql`).sort();
  const sql = files.map((file) => readFileSync(file, 'utf8')).join('');
  const start = sql.lastIndexOf('function public.listar_treinos(\n');
  const [, body = '', types = '', rest = ''] =
    /^(.*?\$\$;\n)comment on \S+ \S+\(([^)]*)\) is(.*?;\n)/s.exec(sql.slice(start)) ?? [];
  const filtered = body
    .replace('p_after uuid', 'p_nome text default null,\n  p_after uuid')
    .replace('p_ativo is null and', 'p_ativo is null and p_nome is null and')
    .replace(
      /\(p_ativo is null or (\w)\..*\n/g,
      (line, alias) => `${line} and (p_nome is null or ${alias}.nome = p_nome)\n`,
    );
  const signature = types.replace(/uuid$/, 'text, uuid');
  return `-- Workouts of a name.
create index treinos_by_nome on private.treinos (tenant_id, nome, criado_em, id);
drop function public.listar_treinos(${types});
create ${filtered}comment on function public.listar_treinos(${signature}) is${rest}select private.publish('public.listar_treinos');
`;
}

/** Correct changes, with which every test passes. The last one runs the commands of the README. */
const CHANGES: Readonly<Record<string, () => Promise<void> | void>> = {
  'a filter of GET /treinos': () => {
    migrate('20991228000000_treinos_by_nome.sql', filterByName());
    const parameter = `
        - name: nome
          in: query
          description: Only workouts of this name
          schema: { type: string, maxLength: 255 }
          examples: { startingFrom: { value: Força B } }`;
    edit(at('openapi.yaml'), /x-filter: \{ property: data_inicio, .*\n.*\n +startingFrom: .*/, `$&${parameter}`);
  },
  'a column': () => {
    migrate(
      '20991228000001_nascimento.sql',
      '-- A birthday.\nalter table private.personais add column nascimento date;\n',
    );
    edit(at('docs/administration.md'), /^\| `personais` .*(?= \|$)/m, '$&, `nascimento`');
  },
  'a table': () => {
    const table = readTable('estante', 'e');
    migrate('20991228000002_estantes.sql', table.sql);
    append('supabase/seed.sql', table.rows);
  },
  "the page's change of a state": async () => {
    migrate('20991228000003_concluir_treino.sql', CHANGE.sql);
    await expectSuccess(CHANGE.command);
    edit(at('openapi.yaml'), /examples: \{ raised409: .* \}(?=\n)/, CHANGE.examples);
  },
  "the README's example": async () => {
    migrate('20991229000000_cofres.sql', TABLE.sql);
    append('supabase/seed.sql', TABLE.rows);
    const [add, generate, ...rest] = TABLE.commands;
    expect([add, generate]).toEqual(['npm run operation -- all cofres', 'npm run generate']);
    expect(rest).toEqual(['npm run check', 'npm start']);
    await expectSuccess(`${add} && ${generate}`);
  },
};

/** Runs a command in the copy; gives the exit code and the output. */
async function run(command: string): Promise<{ code: number | undefined; output: string }> {
  const ran = await promisify(execFile)('sh', ['-c', command], { cwd: root, env, maxBuffer: 2 ** 26 }).then(
    (output) => ({ code: 0, ...output }),
    (error: { code?: number; stdout: string; stderr: string }) => error,
  );
  return { code: ran.code, output: ran.stdout + ran.stderr };
}

const testsOf = (files: readonly string[]) => `vitest run --project postgres -t '^(?!${OTHERS})' ${files.join(' ')}`;

async function expectSuccess(command: string): Promise<string> {
  const { code, output } = await run(command);
  expect(code, output).toBe(0);
  return output;
}

beforeAll(async () => {
  const skipped = /^(node_modules|\.git|dist|\.data.*|.*\.tgz)$/;
  cpSync('.', root, { recursive: true, filter: (file) => !skipped.test(basename(file)) });
  symlinkSync(resolve('node_modules'), at('node_modules'));
  for (const change of Object.values(CHANGES)) await change();
});

afterAll(() => rmSync(root, { recursive: true }));

// Concurrent, since each of them waits part of the time.
test.concurrent('every check accepts the changes', async () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));
  // No file whose format is checked has changed.
  const checks = scripts.check.replace(' check:format', '');
  expect(checks).not.toBe(scripts.check);
  await expectSuccess(checks);
});

test.concurrent('the tests of every operation and table pass, and none was touched', () =>
  expectSuccess(testsOf(SUITES)));

test.concurrent('the tests of one operation pass, and compare document and database', async () => {
  const output = await expectSuccess('npm run test:operation -- listarCofres');
  // A file without a test that is named after the operation would be skipped.
  expect(stripVTControlCharacters(output)).toMatch(/Test Files +2 passed \(2\)/);
  expect(output).toMatch(/openapi.yaml and the database agree on \d+ operations/);
});

test('the operations are served', async () => {
  const gateway = await startProcess({}, { cwd: root, nodeArgs: readNodeArgs(root) });
  const [, url = ''] = /Listening on ([^\s"]+)/.exec(await gateway.printed('Store: ')) ?? [];
  const curl = TABLE.curl.replace('http://127.0.0.1:3000/v1', url);
  expect(curl).not.toBe(TABLE.curl);
  const { stdout } = await promisify(execFile)('sh', ['-c', `${curl} --silent`]);
  expect(JSON.parse(stdout)).toMatchObject({
    academia_id: 'a1000000-0000-4000-8000-000000000002',
    numero: 7,
    apelido: null,
    ativo: true,
  });
  await gateway.stop();
});

// .ci/run leaves this out: it has just run npm test.
test('npm test passes, and no test was touched', () => expectSuccess('npm test'), 3_600_000);

/** A mistake in each operation but one, and what the tests report. */
const MISTAKES: readonly [what: string, file: string, from: string | RegExp, to: string, sentence: string][] = [
  [
    'a function that verifies no key',
    operationsFile,
    "private.verify_key(p_api_key, 'atualizar_cofre')",
    "'a0000000-0000-4000-8000-000000000000'",
    "public.atualizar_cofre has to begin with private.verify_key(p_api_key, 'atualizar_cofre')",
  ],
  [
    'a query without the tenant',
    operationsFile,
    /where t\.tenant_id = v_tenant(?=\s+and \(p_academia_id)/,
    'where v_tenant is not null',
    'listar_cofres shows rows of another tenant in the example',
  ],
  [
    'an id of another tenant that is accepted',
    operationsFile,
    /r\.tenant_id = v_tenant and (?=r\.id)/,
    '',
    'criar_cofre accepts ',
  ],
  [
    'a success without an example',
    at('openapi.yaml'),
    /(operationId: obterCofre\n[\s\S]*?)examples:\n +found:\n +value:\n( +\w+: .*\n){6}/,
    '$1examples: {}\n',
    'obterCofre has no example of its success: add one to its response',
  ],
];

test('the tests report mistakes in added operations: no verification, no tenant, no row security, no example', async () => {
  for (const [, file, from, to] of MISTAKES) edit(file, from, to);
  const other = readTable('gaveta', 'c').sql;
  const open = other.replace("select private.isolate('private.gavetas');", '');
  expect(open).not.toBe(other);
  writeFileSync(at(MIGRATIONS, '20991230000000_gavetas.sql'), open);

  const { output } = await run(testsOf(['test/isolation/any-operation.test.ts', 'test/isolation/checks.test.ts']));
  for (const [what, , , , sentence] of MISTAKES) expect(output, what).toContain(sentence);
  const one = await run('npm run test:operation -- listarCofres');
  expect(one.code).toBe(1);
  expect(one.output).toContain('listar_cofres shows rows of another tenant in the example');
  const WALL = 'it does not hold that row security holds on every table, for its owner too';
  expect(output).toContain(`${WALL}; see supabase/README.md, "Add a table"`);
});
