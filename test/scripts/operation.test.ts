import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { readContract } from '../../scripts/conformance/contract.ts';
import { runContract } from '../../scripts/conformance/run.ts';
import { writeFunction, writeGrants } from '../../scripts/operation/functions.ts';
import { addOperations } from '../../scripts/operation/main.ts';
import { type Kind, readSubject } from '../../scripts/operation/subject.ts';
import { readTable } from '../../scripts/operation/table.ts';
import { allowNull } from '../../scripts/operation/yaml.ts';
import { readConfig } from '../../src/config.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { document, KEYS } from '../helpers/api.ts';
import { as, createTable, type Db, openDatabase } from '../helpers/database.ts';
import { MIGRATIONS, SEED, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { readTable as readReadmeTable } from '../helpers/readme.ts';
import { type Run, runInProcess, succeed } from '../helpers/run.ts';
import { createDatabase, type Database, loginUrl } from '../helpers/servers.ts';
import { failuresOf } from './conformance/checks.ts';

// npm run operation, on a copy of the document, the migrations and the demo data with the README's table.

const AURORA = 'a0000000-0000-4000-8000-000000000000';
const CENTRO = 'a1000000-0000-4000-8000-000000000001';
/** The id of a row in SQL: those of a table differ in their ends. */
const idOf = (begin: string, end = 'n') => `('${begin}000000-0000-4000-8000-' || lpad((${end})::text, 12, '0'))::uuid`;

/** A table of every type that the command knows, with demo data. */
const LESSONS = `
create type private.nivel as enum ('básico', 'avançado');
create type public.turno as enum ('manhã', 'noite');
create domain private.periodo as public.turno not null;
create domain private.porcentagem as numeric(5, 2) check (value >= 0 and value <= 100);
${createTable(
  'rolhas',
  `
  titulo varchar(80) not null check (titulo <> ''),
  sala text not null default 'A' check (sala in ('A', 'B')),
  nivel private.nivel not null,
  turno private.periodo not null default 'manhã',
  vagas smallint not null check (vagas > 0 and vagas <= 50),
  numero bigint,
  preco numeric(8, 2) not null check (preco > 0),
  pontos numeric(5, -2),
  desconto private.porcentagem,
  "order" integer,
  etiquetas varchar(40)[] check (cardinality(etiquetas) <= 3),
  notas text[],
  extras jsonb check (octet_length(extras::text) <= 100),
  duracao integer generated always as (vagas * 10) stored constraint rolhas_duracao check (duracao <= 400),
  rendimento numeric(4, 2) generated always as (round(preco / vagas, 2)) stored,
  etiqueta text generated always as ('R' || serie) stored check (char_length(etiqueta) <= 20),
  fator double precision check (fator >= 0 and fator < 10),
  serie integer generated always as identity,
  fim timestamptz not null,
  constraint rolhas_fim check (fim > inicio),
  peso double precision check (peso between 0 and 500),
  inicio timestamptz not null,
  dia date not null default current_date,
  hora time,
  abre time default '08:00',
  fecha time default '22:00',
  constraint rolhas_fecha check (fecha > abre),
  email text check (char_length(email) < 100)`,
)}
create index rolhas_in_order on private.rolhas (tenant_id, inicio, id);
create index rolhas_by_sala on private.rolhas (tenant_id, sala, inicio, id);
create index rolhas_by_turno on private.rolhas (tenant_id, turno, inicio, id);
`;
const LESSON_ROWS = `
insert into private.rolhas (tenant_id, id, titulo, nivel, vagas, numero, preco, peso, inicio, fim, dia, hora, email)
select '${AURORA}', ${idOf('a8')}, 'Aula ' || n, 'básico', n, n, n + 0.5, n, timestamptz '2024-05-01' + n * interval '1 day', timestamptz '2024-05-01' + n * interval '25 hours',
       '2024-05-01', '08:30', 'rolha' || n || '@aurora.example'
  from generate_series(1, 5) n;
`;

/** A table without operations, and one that refers to it. */
const PLANS = `
${createTable('pregos', 'nome varchar(40) not null')}
${createTable('carimbos', 'prego_id uuid not null, prego_anterior_id uuid')}
alter table private.carimbos add foreign key (tenant_id, prego_id) references private.pregos (tenant_id, id),
  add foreign key (tenant_id, prego_anterior_id) references private.pregos (tenant_id, id);
create table private.copias (dono uuid, carimbo_id uuid,
  foreign key (dono, carimbo_id) references private.carimbos (tenant_id, id) on update set null);
`;
const PLAN_ROWS = `
insert into private.pregos (tenant_id, id, nome)
select '${AURORA}', ${idOf('a9')}, 'Prego ' || n from generate_series(1, 2) n;
insert into private.carimbos (tenant_id, id, prego_id)
values ('${AURORA}', 'aa000000-0000-4000-8000-000000000001', 'a9000000-0000-4000-8000-000000000001');
`;

/** Texts and numbers with the bounds and patterns of their checks. */
const CODES = `
create domain private.cnpj as text check (char_length(value) = 14);
create domain private.letra as text check (value in ('a', 'b', 'c'));
create domain private.situacao as text not null default 'nova' check (char_length(value) <= 10);
${createTable(
  'cadastros',
  `
  cpf text not null check (cpf ~ '^[0-9]{11}$'),
  cnpj private.cnpj,
  situacao private.situacao,
  cep varchar(20) check (cep ~ '^\\d{5}-?\\d{3}$'),
  placa text check (placa is null or placa ~ '^[A-Z0-9]+$' and length(placa) < 8),
  apelido varchar(50) check (char_length(apelido) > 2 and trim(apelido) <> ''),
  sigla varchar(9) check (sigla ~ '^(A|B)::[0-9]?$'),
  "desc" text check ("desc" ~ '^[a-z]{2}$'),
  saldo numeric(10, 2) not null default 0::numeric(10, 2),
  senha text default md5('Aluno') check (char_length(senha) <= 32),
  media numeric(3, 1) check (media > -1.5 and media < 1000),
  metros smallint check (metros between 0 and 50000),
  grau numeric(6, 2) check (grau > 5) check (grau >= 10),
  letra private.letra check (letra in ('a', 'b', 'd')) check (letra <> ''),
  fase varchar(20) not null default 'novo' check (fase in ('novo', 'a]b', 'd''e')),
  canal varchar(9) check (canal in ('web')),
  tudo varchar(9) check (tudo in ('a', null)),
  cortado varchar(9) check (cortado::varchar(1) in ('a')),
  degrau bigint check (degrau in (1, 3, -4)),
  fracao double precision check (fracao in (0.5, 1)),
  caso smallint check (case when caso > 1 and caso > 5 and caso > 2 then true else caso < 9 end),
  rua text check ((rua is null or rua <> '') and length(rua) <= 40),
  tipo varchar(9) check (tipo <> any (array['', 'a'])),
  modo smallint check (not (modo > 1 and modo > 2) and (modo > 1) = (modo > 2)),
  unique (tenant_id, cnpj)`,
)}
${createTable(
  'tampas',
  `
  quantidade integer not null,
  text varchar(9),
  preco numeric(6, 2) not null,
  codigo text generated always as ('text' || (quantidade)::text) stored check (char_length(codigo) <= 20),
  media numeric(8, 2) generated always as (preco / 2) stored check (media < 5000),
  dobro bigint generated always as (quantidade::bigint * 2) stored check (abs(dobro) < 9) check (dobro between -8 and 8),
  razao double precision generated always as (preco / quantidade) stored check (razao > 0 and razao <= 9)`,
)}
`;
const CODE_ROWS = `
insert into private.cadastros (tenant_id, id, cpf, cnpj)
select '${AURORA}', ${idOf('ab')}, '12345678901', case n when 3 then '12345678000199' end
  from generate_series(1, 3) n;
`;

/** Tables whose new rows need other values: a join table that is unique over its references, texts of a form, and dates. */
const UNIQUES = `
create domain private.placa as text check (value ~ '^[A-Z]{3}[0-9]$');
${createTable(
  'argolas',
  `
  aluno_id uuid not null,
  prego_id uuid not null,
  placa private.placa not null,
  codigo varchar(2) not null check (codigo ~ '^(A|B)[0-9]$'),
  dia date not null,
  preco numeric(5, -2) not null,
  nome varchar(20) not null,
  texto varchar(2000),
  periodo private.periodo default 'manhã' not null,
  unique (tenant_id, aluno_id, prego_id),
  unique (tenant_id, placa),
  unique (tenant_id, codigo),
  unique (tenant_id, dia),
  unique (tenant_id, preco)`,
)}
create index argolas_in_order on private.argolas (tenant_id, periodo, id);
create unique index argolas_nome on private.argolas (tenant_id, lower(nome));
create unique index argolas_texto on private.argolas (tenant_id, md5(texto));
${createTable('pinhas', 'prego_id uuid not null, unique (tenant_id, prego_id)')}
${createTable('cascas', 'casca_anterior_id uuid, atualizado_em timestamptz not null default now()')}
comment on table private.cascas is 'Steps: those of a tenant';
comment on column private.cascas.casca_anterior_id is E'The step before:\\n- none: null';
create function private.tocar() returns trigger language plpgsql set search_path = pg_catalog, pg_temp
as $$ begin new.atualizado_em = clock_timestamp(); return new; end; $$;
create trigger tocar before update on private.cascas for each row execute function private.tocar();
${createTable(
  'ramos',
  'ramo_anterior_id uuid, numero integer not null check (numero between 1 and 100), unique (tenant_id, numero)',
)}
alter table private.ramos add foreign key (tenant_id, ramo_anterior_id) references private.ramos (tenant_id, id);
${createTable('apelidos', 'apelido varchar(10), unique (tenant_id, apelido)')}
${createTable('prazos', 'inicio date not null default current_date, fim date, constraint prazos_fim check (fim > inicio)')}
${createTable('fivelas', 'desde date not null default current_date')}
${createTable('vigas')}
${createTable('tabuas', 'viga_id uuid')}
${createTable('farpas', 'tabua_id uuid')}
alter table private.tabuas add foreign key (tenant_id, viga_id) references private.vigas (tenant_id, id) on delete cascade;
alter table private.farpas add constraint farpas_tabua foreign key (tenant_id, tabua_id) references private.tabuas (tenant_id, id);
${createTable('selos', 'nome varchar(9), atualizado_em timestamptz')}
create trigger tocar before update on private.selos for each row execute function private.tocar();
alter table private.cascas add foreign key (tenant_id, casca_anterior_id) references private.cascas (tenant_id, id)
  deferrable initially deferred;
alter table private.argolas add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id),
  add foreign key (tenant_id, prego_id) references private.pregos (tenant_id, id);
alter table private.pinhas add foreign key (tenant_id, prego_id) references private.pregos (tenant_id, id);
`;
const UNIQUE_ROWS = `
insert into private.argolas (tenant_id, id, aluno_id, prego_id, placa, codigo, dia, preco, nome)
select '${AURORA}', ${idOf('ac')}, ${idOf('a3', '(n + 1) / 2')}, ${idOf('a9', '1 + n % 2')},
       'ABC' || n, 'A' || n, date '2024-01-01' + n, n * 100, 'Argola ' || n
  from generate_series(1, 4) n;
insert into private.ramos (tenant_id, id, numero, ramo_anterior_id)
select '${AURORA}', ${idOf('ba')}, 96 + n,
       case when n > 1 then 'ba000000-0000-4000-8000-000000000001'::uuid end
  from generate_series(1, 4) n;
insert into private.pinhas (tenant_id, id, prego_id)
select '${AURORA}', ${idOf('ad')}, ${idOf('a9')} from generate_series(1, 2) n;
insert into private.vigas (tenant_id, id)
select '${AURORA}', ${idOf('bb')} from generate_series(1, 5) n;
insert into private.tabuas (tenant_id, id, viga_id)
select '${AURORA}', ${idOf('bc')}, ${idOf('bb', '6 - n')} from generate_series(1, 2) n;
insert into private.farpas (tenant_id, tabua_id) values ('${AURORA}', 'bc000000-0000-4000-8000-000000000001');
insert into private.selos (tenant_id, id, nome)
select '${AURORA}', ${idOf('bd')}, 'Selo ' || n from generate_series(1, 3) n;
insert into private.apelidos (tenant_id, id) values ('${AURORA}', 'af000000-0000-4000-8000-000000000001');
insert into private.fivelas (tenant_id, id) values ('${AURORA}', 'a7000000-0000-4000-8000-000000000001');
insert into private.prazos (tenant_id, id, inicio, fim)
values ('${AURORA}', 'a5000000-0000-4000-8000-000000000009', '2024-04-01', '2024-05-01');
insert into private.cascas (tenant_id, id, atualizado_em, casca_anterior_id)
select '${AURORA}', ${idOf('ae')}, '2024-01-01',
       case n when 6 then 'ae000000-0000-4000-8000-000000000005'::uuid end
  from generate_series(1, 6) n;
`;

/** Tables that the command refuses, each with the reason. */
const REFUSED = [
  createTable('textos', 'texto text'),
  createTable('abertos', '', { isOpen: true }),
  createTable('numerados', '', { id: 'id integer not null' }),
  `create table private.soltos (tenant_id uuid not null references private.tenants (id), nome text primary key check (length(nome) < 9));
   select private.isolate('private.soltos');`,
  createTable(
    'pares',
    'numero integer not null constraint pares_par check (numero % 2 = 0), criado_em timestamptz not null default now()',
  ),
  createTable('fitas', 'nivel private.nivel not null, criado_em timestamptz not null default now()'),
  'create index fitas_in_order on private.fitas (tenant_id, criado_em, id);',
  'create index fitas_by_nivel on private.fitas (tenant_id, nivel, criado_em, id);',
  createTable('varios', 'v_tenant integer, dados jsonb'),
  createTable('mel'),
  createTable(
    'pesos',
    `peso double precision, "order" numeric, pesos numeric[], centavos bigint,
    total bigint generated always as (centavos * 100) stored,
    longo bigint generated always as (centavos * 100) stored check (longo between 0 and 1e16),
    emissao date, limite date generated always as (emissao + 30) stored check (limite between '2000-01-01' and '2100-01-01'),
    vencimento date generated always as (emissao + 30) stored check (vencimento < 'infinity' and vencimento > '2000-01-01')`,
  ),
  createTable('nomes', '"group" varchar(2000), hora time(0), fator real check (fator between 0 and 9)'),
  'create index nomes_by_group on private.nomes (tenant_id, "group") where "group" is not null;',
  'create domain private.momento as timestamptz(0); alter table private.nomes add fim private.momento;',
  createTable('sinos') + createTable('tijolos', 'sino_id uuid'),
  'alter table private.tijolos add foreign key (tenant_id, sino_id) references private.sinos (tenant_id, id) on delete set null;',
  createTable('"Pinos"'),
  createTable('botoes', 'codigo varchar(9) unique, cor varchar(9), texto text, exclude (cor with =)'),
  'alter table private.botoes add foreign key (tenant_id) references private.tenants (id) on delete set null;',
  createTable('vinculos', 'aberto_id uuid'),
  'alter table private.vinculos add foreign key (tenant_id, aberto_id) references private.abertos (tenant_id, id);',
].join('');

const TABLE = readReadmeTable('gaveta', 'c');
const folder = mkdtempSync(join(tmpdir(), 'operation-'));
const files = {
  document: join(folder, 'openapi.yaml'),
  migrations: join(folder, 'migrations'),
  seed: join(folder, 'seed.sql'),
};

/** A database with the tables, which the command makes otherwise; that takes seconds. */
let database: Database;

const run = (...args: string[]) => runOn(files.document, ...args);
const runOn = (document: string, ...args: string[]) =>
  runInProcess((printing) =>
    addOperations(args, { files: { ...files, document, database: database.adminUrl }, ...printing }),
  );

/** A run that was refused. */
const refused = (errors: unknown) => ({ code: 1, output: '', errors });

/** The document that a command writes, of which nothing is kept. */
async function write(...args: string[]): Promise<OpenAPIV3.Document> {
  const text = readFileSync(files.document, 'utf8');
  const ran = await run(...args);
  const written = readDocument(files.document);
  writeFileSync(files.document, text);
  succeed(ran);
  return written;
}

const readFiles = () => [readFileSync(files.document, 'utf8'), ...readdirSync(files.migrations).sort()];

/** What the command wrote, with what the files were before. */
let before: string[];
let written: Run[];
let db: Db;
let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  mkdirSync(files.migrations);
  cpSync(MIGRATIONS, files.migrations, { recursive: true });
  cpSync('openapi.yaml', files.document);
  cpSync(SEED.file, files.seed);
  writeFileSync(join(files.migrations, '20991230000000_gavetas.sql'), TABLE.sql);
  const [schema, demo] = [LESSONS + PLANS + CODES + UNIQUES, LESSON_ROWS + PLAN_ROWS + CODE_ROWS + UNIQUE_ROWS];
  writeFileSync(join(files.migrations, '20991230000001_rolhas.sql'), schema);
  appendFileSync(files.seed, TABLE.rows + demo);
  database = await createDatabase();
  db = await openDatabase(database);
  await db.exec(TABLE.sql + TABLE.rows + schema + demo + REFUSED);
  before = readFiles();
  const made = await runInProcess((printing) => addOperations(['all', 'gavetas'], { files, ...printing }));
  written = [made, await run('all', 'rolhas', '--object', 'extras')];
  const isWritten = (name: string) => name.includes('_operations_of_') && !existsSync(join(MIGRATIONS, name));
  for (const name of readdirSync(files.migrations).filter(isWritten)) {
    await db.exec(readFileSync(join(files.migrations, name), 'utf8'));
  }
  const log = { info: () => {}, warn: console.warn };
  const DATABASE_URL = loginUrl(database.adminUrl, 'gateway_test');
  ({ store } = await openStore(readConfig({ DATABASE_URL }), files, log));
  gateway = await startGateway({ store, document: readDocument(files.document) });
});

afterAll(async () => {
  await gateway?.close();
  await store?.close();
  await db?.close();
});

const LESSON = {
  ...{ titulo: 'Ioga', nivel: 'básico', vagas: 10, preco: 12.5 },
  ...{ inicio: '2026-01-01T10:00:00Z', fim: '2026-01-01T11:00:00Z' },
};

async function send(method: string, path: string, json: unknown) {
  const headers = { 'X-Api-Key': KEYS.aurora };
  const answer = await fetch(gateway.url + path, { method, headers, body: JSON.stringify(json) });
  return { status: answer.status, body: (await answer.json()) as { readonly id: string } };
}

describe('what it writes', () => {
  test('is added to the document, whose other lines stay as they are, and to a new migration', () => {
    // The migration first: an operation without its function would stop the gateway.
    const wrote = /^Wrote \S+\.sql and \S+openapi\.yaml\. Next: /;
    const expected = { code: 0, errors: '', output: expect.stringMatching(wrote) };
    expect(written).toEqual([expected, expected]);
    const [text = '', ...migrations] = readFiles();
    const lines = text.split('\n');
    let place = 0;
    const lost = before[0]?.split('\n').filter((line) => {
      const found = lines.indexOf(line, place);
      if (found >= 0) place = found + 1;
      return found < 0;
    });
    expect(lost).toEqual([]);
    // What is computed from the fields alone is not generated.
    expect(text).toContain('x-generated: [id, dia]');
    expect(migrations.filter((name) => !before.includes(name))).toEqual([
      '20991230000002_operations_of_gavetas.sql',
      '20991230000003_operations_of_rolhas.sql',
    ]);
  });

  test('keeps the contract, with the demo data, and between tenants', async () => {
    const contract = await readContract(readDocument(files.document));
    const only = contract.operations.filter(({ path }) => /^\/(rolhas|gavetas)/.test(path)).map(({ id }) => id);
    expect(only).toHaveLength(10);
    expect(contract.operations.find(({ id }) => id === 'criarGaveta')).toHaveProperty('location');
    const keys = { key: KEYS.aurora, otherKey: KEYS.bosque };
    const options = { contract, only, url: gateway.url.replace(/\/$/, ''), ...keys, seed: 7, runs: 1 };
    const report = await runContract({ ...options, demo: true, readOnly: false, timeoutMs: 20_000 });
    expect(failuresOf(report)).toEqual([]);
    // And not by a change of a record of the demo data.
    expect(new Set(report.created.map(({ by }) => by))).toEqual(new Set(['POST /rolhas', 'POST /gavetas']));
  });

  test('refuses a reference to a record of another tenant like one to none', async () => {
    const error = { academia_id: ['must be the id of a record of the tenant'] };
    for (const academia_id of ['b1000000-0000-4000-8000-000000000001', 'ffffffff-ffff-4fff-8fff-ffffffffffff']) {
      expect(await send('POST', '/gavetas', { academia_id, numero: 5 })).toEqual({ status: 422, body: { error } });
    }
  });

  test('has the bounds and the values of the columns', () => {
    const { components = {} } = readDocument(files.document);
    const { NovaRolha, Rolha } = components.schemas as Record<string, OpenAPIV3.SchemaObject>;
    expect(NovaRolha).toMatchObject({
      required: ['titulo', 'nivel', 'vagas', 'preco', 'fim', 'inicio'],
      properties: {
        titulo: { minLength: 1, maxLength: 80 },
        sala: { enum: ['A', 'B'] },
        nivel: { enum: ['básico', 'avançado'] },
        turno: { enum: ['manhã', 'noite'] },
        vagas: { type: 'integer', minimum: 1, maximum: 50 },
        numero: { type: 'integer', format: 'int64', maximum: 2 ** 53 - 1, nullable: true },
        preco: { minimum: 0, exclusiveMinimum: true, multipleOf: 0.01 },
        pontos: { maximum: 9_999_900, multipleOf: 100 },
        desconto: { minimum: 0, maximum: 100 },
        fator: { minimum: 0, maximum: 10, exclusiveMaximum: true },
        etiquetas: { type: 'array', maxItems: 3, items: { maxLength: 40 } },
        notas: { maxItems: 100, items: { maxLength: 255 } },
        extras: { type: 'object' },
        hora: { format: 'time-local' },
      },
    });
    const computed = ['duracao', 'rendimento'];
    for (const name of ['id', ...computed]) expect(NovaRolha?.properties).not.toHaveProperty(name);
    for (const name of computed) expect(Rolha?.properties?.[name]).toMatchObject({ readOnly: true });
    expect(Rolha?.properties).not.toHaveProperty('serie');
  });

  test('has columns of every kind', async () => {
    const lists = { etiquetas: ['a', 'b'], notas: ['', 'ç'.repeat(255)] };
    const more = { ...lists, order: 3, extras: { cor: 'azul' }, pontos: 300, desconto: 12.5 };
    const created = await send('POST', '/rolhas', { ...LESSON, ...more });
    expect(created).toMatchObject({ status: 201, body: { ...more, duracao: 100 } });
    const change = { order: null, etiquetas: [] };
    expect(await send('PATCH', `/rolhas/${created.body.id}`, change)).toMatchObject({
      status: 200,
      body: { ...more, ...change },
    });
  });

  test('says what a check says that no schema can', async () => {
    const create = (change: object) => send('POST', '/rolhas', { ...LESSON, ...change });
    const refuses = (error: object) => ({ status: 422, body: { error } });
    const violates = (name: string, text: string) => refuses({ [name]: [`must satisfy ${text}`] });
    expect(await create({ preco: 100_000 })).toEqual(refuses({ vagas: ['must be a value that can be computed with'] }));
    expect(await create({ vagas: 41 })).toEqual(violates('vagas', 'duracao <= 400'));
    expect(await create({ fim: LESSON.inicio })).toEqual(violates('fim', 'fim > inicio'));
    const { body } = await create({});
    const change = (json: object) => send('PATCH', `/rolhas/${body.id}`, json);
    expect(await change({ fim: '2020-01-01T00:00:00Z' })).toEqual(violates('fim', 'fim > inicio'));
    const extras = { texto: 'x'.repeat(100) };
    expect(await change({ extras })).toEqual(violates('extras', 'octet_length(extras) <= 100'));
  });

  test('has the lengths and the patterns of texts, and the bounds of numbers', async () => {
    const { columns, otherChecks } = await readTable(db, 'cadastros');
    expect(Object.fromEntries(columns.map(({ name, schema }) => [name, schema]))).toEqual({
      id: { type: 'string', format: 'uuid', maxLength: 36 },
      cpf: { type: 'string', maxLength: 11, pattern: '^[0-9]{11}$' },
      cnpj: { type: 'string', minLength: 14, maxLength: 14 },
      situacao: { type: 'string', maxLength: 10 },
      cep: { type: 'string', maxLength: 9 },
      placa: { type: 'string', maxLength: 7, pattern: '^[A-Z0-9]+$' },
      apelido: { type: 'string', minLength: 3, maxLength: 50 },
      sigla: { type: 'string', maxLength: 9 },
      desc: { type: 'string', maxLength: 2, pattern: '^[a-z]{2}$' },
      saldo: { type: 'number', multipleOf: 0.01, minimum: -99999999.99, maximum: 99999999.99 },
      senha: { type: 'string', maxLength: 32 },
      media: { type: 'number', multipleOf: 0.1, exclusiveMinimum: -1.5, maximum: 99.9 },
      metros: { type: 'integer', format: 'int32', minimum: 0, maximum: 32767 },
      grau: { type: 'number', multipleOf: 0.01, minimum: 10, maximum: 9999.99 },
      letra: { type: 'string', enum: ['a', 'b'], minLength: 1 },
      fase: { type: 'string', enum: ['novo', 'a]b', "d'e"] },
      canal: { type: 'string', enum: ['web'] },
      tudo: { type: 'string', maxLength: 9 },
      cortado: { type: 'string', maxLength: 9 },
      degrau: { type: 'integer', format: 'int64', enum: [1, 3, -4], minimum: -4, maximum: 3 },
      fracao: { type: 'number', enum: [0.5, 1], minimum: 0.5, maximum: 1 },
      caso: { type: 'integer', format: 'int32', minimum: -32768, maximum: 32767 },
      rua: { type: 'string', minLength: 1, maxLength: 40 },
      tipo: { type: 'string', maxLength: 9 },
      modo: { type: 'integer', format: 'int32', minimum: -32768, maximum: 32767 },
    });
    // Those whose default is computed.
    expect(columns.filter(({ isGenerated }) => isGenerated).map(({ name }) => name)).toEqual(['id', 'senha']);
    // What a schema says only in part.
    expect(otherChecks.map(({ text }) => text).sort()).toEqual([
      'CASE WHEN caso > 1 AND caso > 5 AND caso > 2 THEN true ELSE caso < 9 END',
      'NOT (modo > 1 AND modo > 2) AND (modo > 1) = (modo > 2)',
      "cep ~ '^\\d{5}-?\\d{3}$'",
      "char_length(apelido) > 2 AND TRIM(BOTH FROM apelido) <> ''",
      "cortado::character varying(1) = 'a'",
      "sigla ~ '^(A|B)::[0-9]?$'",
      "tipo <> ANY (ARRAY['', 'a'])",
      "tudo = ANY (ARRAY['a', NULL])",
    ]);
    // Only the third row has a value of its unique column.
    const output = succeed(await run('create', 'cadastros', '--dry-run'));
    expect(output).toContain("cpf: { type: string, maxLength: 11, pattern: '^[0-9]{11}$' }");
    expect(output).toContain('cpf: { type: string, maxLength: 11 }');
    // A column of a domain that is not null.
    expect(output).toContain('situacao: { type: string, maxLength: 10 }');
  });

  test('says what columns are computed from', async () => {
    const { otherChecks } = await readTable(db, 'tampas');
    expect(otherChecks.map(({ columns, text }) => [columns.toSorted().join(), text]).sort()).toEqual([
      ['codigo,quantidade', 'char_length(codigo) <= 20'],
      ['codigo,quantidade', 'codigo can be computed'],
      ['dobro,quantidade', 'abs(dobro) < 9'],
      ['dobro,quantidade', "dobro >= '-8' AND dobro <= 8"],
      ['dobro,quantidade', 'dobro can be computed'],
      ['media,preco', 'media < 5000'],
      ['media,preco', 'media can be computed'],
      ['preco,quantidade,razao', 'razao > 0 AND razao <= 9'],
      ['preco,quantidade,razao', 'razao can be computed'],
    ]);
  });

  const WRITTEN: Readonly<Record<string, readonly [operation: string, ...texts: string[]]>> = {
    'an example of a creation that no unique constraint refuses': [
      'create argolas',
      `
created:
value:
aluno_id: a3000000-0000-4000-8000-000000000003
prego_id: a9000000-0000-4000-8000-000000000002
placa: ABC0
codigo: A0
dia: '2024-01-06'
preco: 500
nome: Argola 1 (outro)
`,
      'argolas_nome: another record has this nome\n',
    ],
    'an example of a deletion that a reference refuses at the commit, and one of another row': [
      'delete cascas',
      ...['\ninUse:', 'deleted: { value: ae000000-0000-4000-8000-000000000004 }'],
    ],
    'an example of a deletion that a reference to what is deleted with the record refuses': [
      'delete vigas',
      ...['deleted: { value: bb000000-0000-4000-8000-000000000004 }', 'farpas_tabua: there are farpas of this record'],
      'path: { id: bb000000-0000-4000-8000-000000000005 }',
    ],
    'an example of a deletion of one of several rows that refer to another': [
      'delete ramos',
      'deleted: { value: ba000000-0000-4000-8000-000000000004 }',
    ],
    'an example of a creation with a number under those that reach the maximum': ['create ramos', 'numero: 96 }'],
    'a list in the order of a domain over an enumerated type': [
      'list argolas',
      ...['v_after public.turno;', '(t.periodo::public.turno, t.id) > (v_after, p_after)', '\nafterRecord:'],
    ],
    'the comments of columns, and the columns that a trigger sets as generated': [
      'update cascas',
      "description: 'Steps: those'",
      'description: |-\nThe step before:\n- none: null\n',
      'x-generated: [atualizado_em]',
    ],
    'the grant of the select on the tables that a new row refers to': [
      'create carimbos',
      `
grant select, insert (tenant_id, prego_id, prego_anterior_id) on private.carimbos to gateway_functions;
grant select on private.pregos to gateway_functions;
`,
    ],
  };

  test.each([
    ['parcelas smallint check (100 / parcelas > 1)', 'parcelas', { parcelas: 0 }],
    ['nome varchar(9), selo varchar(4) generated always as (nome) stored', 'nome', { nome: 'Prego' }],
    ['a bigint, b boolean generated always as (a * a > 9) stored', 'a', { a: 2 ** 52 }],
    [
      `prazo integer, fim date generated always as (date '2000-01-01' + prazo) stored check (fim > '1900-01-01' and fim < '2100-01-01')`,
      'prazo',
      { prazo: 2 ** 31 - 1 },
    ],
    [
      'de date, ate date, exclude using gist (tenant_id with =, daterange(de, ate) with &&)',
      'de',
      { de: '2024-01-02', ate: '2024-01-01' },
    ],
    ['codigo varchar(9) check (codigo::numeric > 0)', 'codigo', { codigo: 'x' }],
  ])('refuses what cannot be computed with %s', async (columns, detail, body) => {
    await as(db, 'postgres', async () => {
      await db.exec(`create extension btree_gist; ${createTable('moldes', columns)}`);
      const subject = readSubject(document, await readTable(db, 'moldes'), { kinds: ['create'] }, 'p_api_key');
      await db.exec(writeGrants(subject) + writeFunction(subject, 'create'));
      const created = db.query('select * from public.criar_molde($1, $2)', [KEYS.aurora, body]);
      const message = 'must be a value that can be computed with';
      await expect(created).rejects.toMatchObject({ code: 'PT422', detail, message });
    });
  });

  test.each(Object.entries(WRITTEN))('has %s', async (_what, [operation, ...texts]) => {
    const output = succeed(await run(...operation.split(' '), '--dry-run')).replace(/^\d+: */gm, '');
    for (const text of texts) expect(output).toContain(text);
  });

  test.each([
    ['3.0.3', { type: 'string', nullable: true, enum: ['a', null] }],
    ['3.1.0', { type: ['string', 'null'], enum: ['a', null] }],
  ])('lets an enum of OpenAPI %s be null', (version, schema) => {
    expect(allowNull({ type: 'string', enum: ['a'] }, version)).toEqual(schema);
  });

  test('gives the key to the argument that the header of the document names', async () => {
    const other = join(folder, 'other-key.yaml');
    writeFileSync(other, readFileSync(files.document, 'utf8').replace('name: X-Api-Key', 'name: X-Chave'));
    const output = succeed(await runOn(other, 'get', 'carimbos', '--dry-run'));
    expect(output).toContain('create function public.obter_carimbo(p_chave text, p_id uuid)');
  });

  test('grants no select that a read does not need', async () => {
    expect(succeed(await run('get', 'carimbos', '--dry-run'))).not.toContain('on private.pregos to');
  });
});

describe('the operation of a function that exists', () => {
  const createFunction = (head: string, returns: string, work: string) => `
create function public.${head} returns ${returns}
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$ begin perform private.verify_key(p_api_key, '${head.replace(/\(.*/, '')}'); ${work}; end; $$;`;
  const FUNCTION = `
create function public.contar_gavetas(p_api_key text, p_academia_id uuid, p_minimo integer default 0, p_cor text default null)
returns table (academia_id uuid, total integer, apelido text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'contar_gavetas');
begin
  if p_minimo > 100 then
    -- Not sqlstate 'PT404' using message = 'none'.
    raise sqlstate 'PT409' using message='that''s too many';
  end if;
  if p_minimo = 100 then raise sqlstate 'PT403' using message = p_cor; end if;
  return query
    select g.academia_id, count(*)::integer, min(g.apelido)
      from private.gavetas g
     where g.tenant_id = v_tenant and g.academia_id = p_academia_id
     group by g.academia_id
    having count(*) >= p_minimo;
end;
$$;
comment on function public.contar_gavetas(text, uuid, integer, text) is 'The lockers of a gym';
select private.publish('public.contar_gavetas');
${createFunction('recusar(p_api_key text)', 'integer', `raise exception 'no' using errcode = 'PT4' || '18'`)}
select private.publish('public.recusar');
${createFunction('sem_prefixo(p_api_key text, minimo integer)', 'integer', 'return minimo')}
${createFunction('listar_turnos(p_api_key text)', 'public.turno[]', 'return enum_range(null::public.turno)')}
${createFunction('juntar(p_api_key text, p_tempo interval, variadic p_nomes text[])', 'integer', 'return 1')}
`;
  const path = '/academias/{academia_id}/gavetas';
  const example = ['--path', path, '--with', `academia_id=${CENTRO}`, '--with', 'minimo=1'];
  beforeAll(() => db.exec(FUNCTION));

  test('has its arguments, columns and errors, and is served', async () => {
    const written = await write('from', 'contar_gavetas', ...example);
    const operation = written.paths[path]?.get as OpenAPIV3.OperationObject;
    expect(operation).toMatchObject({ operationId: 'contarGavetas', description: 'The lockers of a gym.' });
    const parameters = operation.parameters as OpenAPIV3.ParameterObject[];
    expect(parameters.map(({ name, in: place, required, schema }) => ({ name, place, required, schema }))).toEqual([
      { name: 'academia_id', place: 'path', required: true, schema: { type: 'string', format: 'uuid', maxLength: 36 } },
      {
        ...{ name: 'minimo', place: 'query', required: undefined },
        schema: { type: 'integer', format: 'int32', minimum: -2147483648, maximum: 2147483647 },
      },
      { name: 'cor', place: 'query', required: undefined, schema: { type: 'string', maxLength: 255 } },
    ]);
    const {
      200: success,
      403: other,
      404: none,
      409: raised,
    } = operation.responses as Record<string, OpenAPIV3.ResponseObject>;
    expect(raised).toMatchObject({ description: "that's too many" });
    expect(other).toMatchObject({ description: 'Refused' });
    expect(none).toMatchObject({ description: /no such record/ });
    expect(success?.content?.['application/json']).toMatchObject({
      schema: {
        type: 'array',
        items: {
          required: ['academia_id', 'total', 'apelido'],
          properties: { total: { type: 'integer' }, apelido: { type: 'string', maxLength: 255, nullable: true } },
        },
      },
      examples: { example: { value: [{ academia_id: CENTRO, total: expect.any(Number) }] } },
    });
  });

  test.each([
    ['jsonb', "select '[1]'::jsonb", {}, [1]],
    ['jsonb', "select '{}'::jsonb", { type: 'object' }, {}],
    // A list of texts is no page.
    ['text[]', "select array['a']", { type: 'array', items: { type: 'string' } }, ['a']],
    [
      'table (peso real, nada date, lista jsonb, mapa jsonb, tempo interval, linha private.cascas)',
      "select 1.5::real, null::date, '[1]'::jsonb, '{}'::jsonb, interval '1 day', null::private.cascas",
      {
        ...{ type: 'array', maxItems: 1000 },
        items: {
          ...{ type: 'object', required: ['peso', 'nada', 'lista', 'mapa', 'tempo', 'linha'] },
          properties: {
            peso: { type: 'number' },
            nada: { type: 'string', nullable: true },
            lista: {},
            mapa: { type: 'object' },
            tempo: { type: 'string', maxLength: 255 },
            linha: { type: 'object', nullable: true },
          },
        },
      },
      [{ peso: 1.5, nada: null, lista: [1], mapa: {}, tempo: '1 day', linha: null }],
    ],
    [
      // One record is no page, although the function has the arguments of pages.
      'table (id uuid, hora timestamptz, um integer) rows 1',
      'select gen_random_uuid(), now(), 1',
      { type: 'object' },
      { um: 1 },
      ['id', 'hora'],
    ],
  ])('describes %s as the example shows it', async (type, query, schema, value, generated?: string[]) => {
    const head =
      'mostrar(p_api_key text, p_fator real default 1, p_limit integer default 9, p_offset integer default 0)';
    const work = `return ${type.startsWith('table') ? `query ${query}` : `(${query})`}`;
    await db.exec(`${createFunction(head, type, work)} select private.publish('public.mostrar')`);
    const written = await write('from', 'mostrar', '--with', 'fator=1.5').finally(() =>
      db.exec('drop function public.mostrar'),
    );
    expect(written.paths['/mostrar']?.get?.responses['200']).toMatchObject({
      content: {
        'application/json': {
          schema,
          examples: { example: { value, ...(generated && { 'x-generated': generated }) } },
        },
      },
    });
  });

  test('is added to any document that has the shared components and a key', async () => {
    const other = join(folder, 'other.yaml');
    const add = (text: string) => {
      writeFileSync(other, text);
      return runOn(other, 'from', 'contar_gavetas', ...example);
    };
    const text = readFileSync('test/documents/petstore.yaml', 'utf8');
    expect(await add(text)).toEqual(
      refused(
        'every operation refers to components that the document lacks: responses NotModified, BadRequest, BadBody, RefusedKey, RequestTimeout, BodyTooLarge, InvalidRequest, TooManyRequests, HeadersTooLarge, StoreFailure; headers RateLimit, RateLimit-Policy, Access-Control-Allow-Origin, Idempotent-Replayed: copy them, and what they refer to, from the openapi.yaml that comes with the gateway\n',
      ),
    );
    // The gateway's own schema Error has no map of fields, which a default answer may have.
    const { components, ...petstore } = parse(text.replaceAll(/\bError\b/g, 'AnyError'));
    const { responses, headers, schemas } = document.components ?? {};
    const shared = { ...components, responses, headers, schemas: { ...components.schemas, ...schemas } };
    expect(await add(stringify({ ...petstore, components: shared }))).toEqual(
      refused(
        'the examples need an API key of the demo data: add x-example to the key in components.securitySchemes, such as x-example: wms_demo_aurora\n',
      ),
    );
    shared.securitySchemes.apiKey['x-example'] = 'wms_demo_aurora';
    // The other files that a document refers to are read too, but the main file has the components.
    const { Error: error, ...others } = shared.schemas;
    writeFileSync(join(folder, 'errors.yaml'), stringify({ Error: error }));
    const split = stringify({ ...petstore, components: { ...shared, schemas: others } });
    const lacking = /^every operation refers to components that the document lacks: schemas Error: copy/;
    expect(await add(split.replaceAll('#/components/schemas/Error', 'errors.yaml#/Error'))).toEqual(
      refused(expect.stringMatching(lacking)),
    );
    shared.schemas.Error = { $ref: 'errors.yaml#/Error' };
    // The lines end as those of the document do.
    succeed(await add(stringify({ ...petstore, components: shared }).replaceAll('\n', '\r\n')));
    expect(readFileSync(other, 'utf8')).not.toMatch(/(?<!\r)\n/);
    const written = readDocument(other);
    expect(written.paths[path]?.get).toMatchObject({ operationId: 'contarGavetas', tags: ['Academias'] });
    expect(written.tags).toEqual([{ name: 'Academias', description: 'Academias' }]);
  });

  const REASONS: Readonly<Record<string, RegExp>> = {
    nada: /^there is no function public\.nada: /,
    contar_gavetas: /^an example needs a value of each argument without a default: add --with academia_id=VALUE$/m,
    'contar_gavetas --with academia=x': /^--with academia: public\.contar_gavetas has no such input: expected/,
    'contar_gavetas --with academia_id=x':
      /^the example is no valid request: give other values with --with NAME=VALUE, a list as JSON$/m,
    criar_gaveta: /^p_body of public\.criar_gaveta is jsonb, and only you know what is in it/,
    sem_prefixo: /^minimo of public\.sem_prefixo must begin with p_: rename it in a migration$/m,
    juntar:
      /^p_nomes of public\.juntar is variadic text\[\], which cannot be given by name: declare it without variadic\n$/,
    listar_turnos:
      /^the answer of public\.listar_turnos is turno\[\], and only you know what is in it: write the operation by hand$/m,
    recusar:
      /^the example gets a 502: recusar declares no response 418, .*: no; correct the function in its migration$/m,
    'listar_alunos --path /alunos': /^the document has GET \/alunos already: listarAlunos; give another/,
  };

  test.each(Object.entries(REASONS))('is refused for %s', async (args, reason) => {
    expect(await run('from', ...args.split(' '))).toEqual(refused(expect.stringMatching(reason)));
  });
});

describe('a run that writes nothing', () => {
  test('shows what it would write with --dry-run', async () => {
    const files = readFiles();
    const output = succeed(await run('get', 'alunos', '--dry-run'));
    expect(output).toContain('operationId: obterAluno');
    expect(output).toContain('create function public.obter_aluno(p_api_key text, p_id uuid)');
    expect(output).toMatch(/Nothing was written\.\n$/);
    expect(readFiles()).toEqual(files);
  });

  const ROW = 'in supabase/seed.sql, of the tenant of wms_demo_aurora';
  test.each([
    [
      'update selos',
      'atualizarSelo would answer its example changed with another atualizado_em than it sends, as a trigger may set it: let its default call a function, such as now(), or write the operations without it\n',
    ],
    [
      'delete academias',
      `an example needs a row of private.academias ${ROW}, besides the first three, which no example shows yet and no other record refers to\n`,
    ],
    [
      'create pinhas',
      'the example of criarPinha needs prego_id that no row of private.pinhas has, and the demo data gives none: add records to private.pregos in supabase/seed.sql\n',
    ],
    [
      'create prazos',
      'criarPrazo would answer its example created with 422, and not 201: {"fim":["must satisfy fim > inicio"]}; the example has the values of the first row of the table in the demo data, and the default of the moment where a column has one\n',
    ],
    [
      'create apelidos',
      `an example needs a row of private.apelidos ${ROW}, that apelidos_tenant_id_apelido_key keeps from being repeated: without null in the columns of that\n`,
    ],
  ])('says why %s has no example, and exits with 1', async (operation, errors) => {
    const files = readFiles();
    expect(await run(...operation.split(' '))).toEqual(refused(errors));
    expect(readFiles()).toEqual(files);
  });

  test.each([
    [{ objects: ['nada'] }, '--object nada: private.anamneses has no such column of JSON'],
    [{ objects: ['status'] }, '--object status: private.anamneses has no such column of JSON'],
    [{ singular: "x'y" }, "x'y cannot be in the name of a function: use a-z, 0-9 and _"],
  ])('refuses %j', async (options, reason) => {
    const table = await readTable(db, 'anamneses');
    expect(() => readSubject(document, table, { kinds: ['get'], ...options }, 'p_api_key')).toThrow(reason);
  });

  test.each([
    ['anamneses', "Anamneses of a tenant's students", 'anamnese', 'an anamnese'],
    ['despesas', "Expenses of a tenant's gyms", undefined, 'an expense'],
    ['turmas', "Classes of a tenant's gyms", undefined, 'a class'],
  ])('names a record of %s, "%s"', async (name, comment, singular, one) => {
    const table = { ...(await readTable(db, 'pregos')), name, comment };
    expect(readSubject(document, table, { kinds: ['delete'], singular }, 'p_api_key').noun.one).toBe(one);
  });

  test('refuses demo data whose examples would not hold at the next start', async () => {
    const seed = readFileSync(files.seed, 'utf8');
    appendFileSync(
      files.seed,
      `insert into private.anamnese_secoes (tenant_id, titulo, ordem) values ('${AURORA}', 'Nova', 9);`,
    );
    const refusals = [await run('get', 'anamnese_secoes'), await run('get', 'fivelas')];
    writeFileSync(files.seed, seed);
    // Those of private.fivelas have the date of the day.
    const reasons = ['anamnese_secoes', 'fivelas'].map(
      (table) =>
        `the rows of private.${table} in supabase/seed.sql differ each time: give id, criado_em and what else is generated as constants, which no trigger replaces\n`,
    );
    expect(refusals).toEqual(reasons.map(refused));
  });

  const REASONS: Readonly<Record<string, RegExp>> = {
    'list fitas':
      /^nivel of private\.fitas would be a filter of type private\.nivel, .*: create the type in schema public$/,
    'get nada': /^there is no table private\.nada: expected one of .*academias, alunos, /,
    'list alunos':
      /^the document has GET \/alunos already: listarAlunos\nthe document has an operation with the function listar_alunos already$/,
    'get treinos': /^the schema Treino has id_aluno, and private\.treinos has no such column: write the operation by/,
    'get anamneses':
      /^resposta of private\.anamneses is jsonb, and only you know what is in it: if every value is an object, add --object resposta, or/,
    'get textos': /^texto of private\.textos has no limit: add a constraint in a migration/,
    'get abertos':
      /^private\.abertos has no row security: add select private\.isolate\('private\.abertos'\); to its migration/,
    'get numerados':
      /^the primary key of private\.numerados is not \(tenant_id, id\) with a uuid, which .* rename column id to numero; .* key \(tenant_id, id\), add unique \(tenant_id, numero\)$/,
    'get soltos':
      /^the primary key of private\.soltos is not .* key \(tenant_id, id\), add unique \(tenant_id, nome\); select private\.watch\('private\.soltos'\)$/m,
    'list varios': /^v_tenant of .* rename the column\ndados of .* --object dados/,
    'list pares': /^no index has private\.pares in the order of a list: create one in a migration, such as create/,
    'create vinculos': /^private\.abertos has no row security: add select private\.isolate\('private\.abertos'\);/,
    'get botoes':
      /^botoes_codigo_key of private\.botoes is unique without tenant_id, and so tells what another tenant .*\nbotoes_cor_excl .*\nbotoes_tenant_id_fkey1 .* would clear tenant_id too, .* without the action\ntexto of private\.botoes has no limit/,
    'get pesos':
      /^peso of private\.pesos has no bounds, .* check \(peso between 0 and 500\)\norder .* \("order" between .*\npesos .* numeric\(8, 2\)\[\]\ntotal .* \(total between 0 and 500\)\nlongo .* or too wide ones: .*\nvencimento .* check \(vencimento between '2000-01-01' and '2100-01-01'\)$/,
    'create nomes':
      /^group of private\.nomes is in an index, which .* 2000 .* check \(char_length\("group"\) <= 600\), or .*\nhora of .* is time\(0\) .* type time without time zone\nfator .* is real, .* type double precision\nfim .* is private\.momento, .* type timestamp with time zone$/,
    'create tijolos':
      /^tijolos_tenant_id_sino_id_fkey of private\.tijolos would clear tenant_id too, .* set null \(sino_id\)$/,
    'delete sinos': /^tijolos_tenant_id_sino_id_fkey of private\.tijolos would clear tenant_id too, /,
    'get Pinos': /^Pinos cannot be in the name of a function: use a-z, 0-9 and _$/,
    'get mel': /^the singular of mel is unknown: give it with --singular$/,
  };

  test.each(Object.entries(REASONS))('refuses %s with the reason', async (operation, reason) => {
    const [kind, table = ''] = operation.split(' ') as [Kind, string];
    const plan = async () => readSubject(document, await readTable(db, table), { kinds: [kind] }, 'p_api_key');
    await expect(plan()).rejects.toThrow(reason);
  });

  test.each([
    [['drop', 'alunos'], /Allowed choices are list, get, create, update, delete, all, from\.\nSee --help\.\n$/],
    [['get', 'alunos', '--path', '/foo'], '--path is not an option of get\nSee --help.\n'],
    [['from', 'criar_aluno', '--object', 'x'], '--object is not an option of from\nSee --help.\n'],
    [['from', 'criar_aluno', '--with', 'p_nome'], /Expected NAME=VALUE, as in 'minimo=2'\.\nSee --help\.\n$/],
  ])('says what is wrong with %j, and exits with 2', async (args, line) => {
    expect(await run(...args)).toEqual({ code: 2, output: '', errors: expect.stringMatching(line) });
  });
});
