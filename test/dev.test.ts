import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { copyDataDir } from './helpers/gateway.ts';
import { GatewayProcess, startProcess } from './helpers/process.ts';
import { EXAMPLE, isExampleMigration, withExample } from './helpers/readme.ts';

// Runs npm run dev in a copy of the repository, which the tests edit. They build on one another, as an hour of editing does.

const root = mkdtempSync(join(tmpdir(), 'dev-'));
const at = (...path: string[]) => join(root, ...path);
const openapi = at('openapi.yaml');
const migration = (name: string) => at('supabase/migrations', name);
let gateway: GatewayProcess;
let url: string;

beforeAll(async () => {
  for (const path of ['src', 'scripts', 'supabase', 'openapi.yaml', 'package.json']) {
    cpSync(path, at(path), { recursive: true, filter: (file) => !isExampleMigration(file) });
  }
  // Each save compiles the whole document, and tries its examples: two paths are enough.
  editDocument((text) => text.replace(/^ {2}\/(?!treinos:|academias:).*\n(?:(?: {4}.*)?\n)*/gm, ''));
  // Writing the types takes seconds.
  writeFileSync(at('scripts/client-types.ts'), `import { cpSync } from 'node:fs'; cpSync(...process.argv.slice(2));`);
  symlinkSync(resolve('node_modules'), at('node_modules'));
  const env = { DATA_DIR: copyDataDir(inject('dataDir')) };
  gateway = await startProcess(env, { args: ['--watch'], cwd: root, isText: true });
  await gateway.printed('Watching openapi.yaml');
  url = `${gateway.origin}/v1`;
});

afterAll(() => gateway.stop());

/** Edits files and waits until the gateway prints a text; returns what it printed since the edit. */
function saidAfter(edit: () => void, text: string | RegExp): Promise<string> {
  const from = gateway.output().length;
  edit();
  return gateway.printed(text, from);
}

/** saidAfter for a migration that is saved. */
const saidAfterMigration = (name: string, sql: string, text: string | RegExp) =>
  saidAfter(() => writeFileSync(migration(name), sql), text);

const editDocument = (change: (text: string) => string) =>
  writeFileSync(openapi, change(readFileSync(openapi, 'utf8')));
const get = async (path: string) => {
  const answer = await fetch(url + path, { headers: { 'X-Api-Key': 'wms_demo_aurora' } });
  return [answer.status, await answer.json()];
};

describe('the example of the page about operations', () => {
  test('adds the operation to the document: no request fails, and the missing function is reported', async () => {
    let isEditing = true;
    const statuses = new Set<unknown>();
    const clients = Array.from({ length: 4 }, async () => {
      while (isEditing) {
        statuses.add((await get('/academias?limit=1'))[0]);
        // Leaves the processor to the gateway.
        await delay(50);
      }
    });
    const text = await saidAfter(() => editDocument(withExample), /missing|none of/);
    const [, line] =
      /openapi\.yaml:(\d+): contarPersonais → contar_personais: .*there is none of that name/.exec(text) ?? [];
    expect(readFileSync(openapi, 'utf8').split('\n')[Number(line) - 1]).toContain('x-rpc: contar_personais');
    expect((await get('/personais/contagem'))[0]).toBe(502);
    isEditing = false;
    await Promise.all(clients);
    expect(statuses).toEqual(new Set([200]));
  });

  test('adds the function: document and database are reported to agree', async () => {
    const name = '20991231000000_contar_personais.sql';
    const text = await saidAfterMigration(name, EXAMPLE.sql, 'Document and database agree');
    expect(text).toContain(`Applied ${name}`);
    expect(await get(EXAMPLE.target)).toEqual([200, EXAMPLE.answer]);
  });

  test('has the types of the operation', () => {
    expect(readFileSync(at('client/src/openapi.ts'), 'utf8')).toContain('contarPersonais');
  });
});

describe('a document that is saved and', () => {
  let good: string;

  beforeAll(() => {
    good = readFileSync(openapi, 'utf8');
  });

  afterAll(() => saidAfter(() => writeFileSync(openapi, good), 'Document and database agree'));

  test.each([
    ['no YAML', (text: string) => `${text}\n  a: [`, /openapi\.yaml:\d+: /],
    [
      'what the gateway does not do',
      (text: string) => text.replace('x-rpc: listar_treinos', 'x-rpc: A B'),
      /openapi\.yaml:\d+: GET \/treinos: x-rpc must name/,
    ],
  ])('is %s is refused with its line, and the last good one is served', async (_what, change, message) => {
    const edit = () => writeFileSync(openapi, change(good));
    expect(await saidAfter(edit, 'Still serving the last valid document')).toMatch(message);
    expect((await get('/treinos?limit=1'))[0]).toBe(200);
  });

  test('refers to a file in a folder of src/document is read again when that file is there, and saved', async () => {
    const schema = '\n  schemas:\n';
    const divided = good.replace(schema, `${schema}    Nota: { $ref: src/document/partes/nota.yaml }\n`);
    await saidAfter(() => writeFileSync(openapi, divided), /nota\.yaml leads to a file that cannot be read/);
    mkdirSync(at('novo/partes'), { recursive: true });
    writeFileSync(at('novo/partes/nota.yaml'), 'type: string\n');
    await saidAfter(() => renameSync(at('novo'), at('src/document')), 'Document and database agree');
    const edit = () => writeFileSync(at('src/document/partes/nota.yaml'), 'type: texto\n');
    expect(await saidAfter(edit, 'Still serving the last valid document')).toMatch(/partes\/nota\.yaml:1: /);
  });
});

describe('a migration that is saved', () => {
  const replaced = EXAMPLE.sql.replace('create function', 'create or replace function');

  test('and fails, or is empty, is reported or left alone, and is applied when it is corrected', async () => {
    const [file, empty] = [migration('20991231000001_indice.sql'), migration('20991231000002_novo.sql')];
    const sql = 'create index indice_do_teste\n  on private.treino (tenant_id, nome);\n';
    const save = (text: string, other: string) => {
      writeFileSync(empty, other);
      writeFileSync(file, text);
    };
    const text = await saidAfter(() => save(sql, '\n'), 'does not exist');
    expect(text).toContain('20991231000001_indice.sql: relation "private.treino" does not exist (42P01)');
    expect((await get('/treinos?limit=1'))[0]).toBe(200);
    const corrected = sql.replace('treino (', 'treinos (');
    const applied = await saidAfter(() => save(corrected, '\n'), 'Document and database agree');
    expect(applied).toContain('Applied 20991231000001_indice.sql');
    expect(applied).not.toContain('novo');
    await saidAfter(() => save(corrected, 'select 1;'), 'Applied 20991231000002_novo.sql');
  });

  test('and has a mistake in the body of a function is reported with function and line, by an example', async () => {
    const sql = replaced.replace('p.academia_id, count', 'academia_id, count');
    const said = 'contarPersonais fails in the example atLeastTwo';
    const text = await saidAfterMigration('20991231000003_ambigua.sql', sql, said);
    expect(text).toContain('column reference "academia_id" is ambiguous');
    expect(text).toMatch(/PL\/pgSQL function (public\.)?contar_personais\(text,integer\) line \d+/);
  });

  test('and gives another answer than the document is reported with the first value that differs', async () => {
    const said = 'contarPersonais answers the example atLeastTwo with';
    const text = await saidAfterMigration('20991231000004_contagem.sql', replaced.replace('count(*)', '73'), said);
    expect(text).toMatch(
      /with 73 in \/0\/total, where the document has \d+ \(with the demo data as it is now: DATA_DIR=/,
    );
  });

  test('and does not verify the key is reported: a key that nobody has is answered', async () => {
    const sql = replaced.replace(/private\.verify_key\(.*?\)/, 'gen_random_uuid()');
    const text = await saidAfterMigration('20991231000005_sem_chave.sql', sql, /contarPersonais answers .*\n/);
    expect(text).toContain('a key that nobody has: contar_personais must call private.verify_key first');
  });

  test('and lacks a privilege is reported with the grant, also while another operation disagrees', async () => {
    const good = readFileSync(openapi, 'utf8');
    await saidAfter(() => editDocument((text) => text.replace('x-rpc: listar_treinos', 'x-rpc: nada')), '→ nada: ');
    const sql = 'revoke select on private.personais from gateway_functions;';
    const text = await saidAfterMigration('20991231000006_sem_direito.sql', sql, /permission denied .*\n/);
    expect(text).toMatch(
      /fails in the example \w+: permission denied for table personais \(.*\); grant what it lacks of: grant select on/,
    );
    const granted = sql.replace('revoke', 'grant').replace('from', 'to');
    await saidAfterMigration('20991231000007_direito.sql', granted, 'Applied 20991231000007');
    await saidAfter(() => writeFileSync(openapi, good), 'Document and database agree');
  });
});

test('a folder that goes away and comes back, as with a branch, is watched again', async () => {
  const folder = at('supabase/migrations');
  await saidAfter(() => {
    cpSync(folder, at('saved'), { recursive: true });
    rmSync(folder, { recursive: true });
  }, /ENOENT: no such file or directory, .*supabase\/migrations/);
  expect((await get('/treinos?limit=1'))[0]).toBe(200);
  await saidAfter(() => {
    cpSync(at('saved'), folder, { recursive: true });
    writeFileSync(migration('20991231000001_indice.sql'), 'select 1;');
  }, /has changed since it was applied.*change the database by a new migration/s);
});

test('Ctrl-C while the examples are tried logs no warning of the closed store', async () => {
  const from = gateway.output().length;
  await saidAfter(() => editDocument((text) => `${text}\n`), 'Document and database agree');
  expect(await gateway.stop('SIGINT')).toBe(0);
  const [, stopping] = gateway.output().slice(from).split('Stopping after the requests in progress');
  expect(stopping).not.toMatch(/WARN|ERROR/);
});

test('a document that is saved during the start is read again', async () => {
  const starting = new GatewayProcess({ DATA_DIR: at('data') }, { args: ['--watch'], cwd: root, isText: true });
  // By then the document has been read.
  await starting.printed('Creating a store');
  editDocument((text) => `${text}\n`);
  await starting.printed('Serving the saved openapi.yaml');
  await starting.stop();
});
