// The schema on a cluster: how it comes there, and that both walls stand.

import { hash, randomUUID } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import {
  applyMigrations,
  distribute,
  MigrationError,
  readDistribution,
  readMigrations,
  runScript,
  splitStatements,
} from '../../src/store/migrations.ts';
import { inspectMigrations } from '../../src/store/open.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Call, Store } from '../../src/store/store.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { addCitus, addCitusNode, copyCitusDatabase, createCitusDatabase, dropCitusDatabase } from '../helpers/citus.ts';
import { useDatabase } from '../helpers/database.ts';
import { copyMigrations, MIGRATIONS } from '../helpers/gateway.ts';
import { runAdmin } from '../helpers/run.ts';
import { asAdmin, type Database, databaseUrl, fillDatabase, loginUrl, runSql } from '../helpers/servers.ts';

const never = new AbortController().signal;
const KEY = 'wms_demo_aurora';
const OTHER_KEY = 'wms_demo_bosque';

const list = (name: string, key = KEY, args: Call['args'] = {}): Call => ({
  ...listCall({ p_api_key: key, p_limit: 1_000, ...args }),
  function: name,
});

async function ask<T = { id: string }[]>(store: Store, call: Call): Promise<T> {
  const result = await store.call(call, never);
  if ('failure' in result) throw new Error(JSON.stringify(result.failure));
  return JSON.parse(result.json);
}

/** Does something with the store of each node. */
async function onEachNode(database: Database, work: (store: Store, node: string) => Promise<void>): Promise<void> {
  for (const node of inject('nodes')) {
    const url = loginUrl(databaseUrl(node, database.name), 'gateway_test');
    const store = openPostgres({ url, connections: 2, deadlineMs: 20_000 });
    try {
      await work(store, node);
    } finally {
      await store.close();
    }
  }
}

const LISTS = ['academias', 'personais', 'alunos', 'treinos', 'anamneses', 'secoes'].map((name) => `listar_${name}`);

/** The number of the demo data's rows in each list, of both tenants. */
async function countAll(store: Store): Promise<number[]> {
  const counts: number[] = [];
  for (const key of [KEY, OTHER_KEY]) {
    for (const name of LISTS) counts.push((await ask(store, list(name, key))).length);
  }
  return counts;
}

const COUNTS = [3, 4, 250, 400, 50, 6, 1, 1, 5, 5, 2, 3];

describe('a distributed database', () => {
  const database = useDatabase({ create: () => copyCitusDatabase(inject('nodes')) });

  const asOwner = <T>(work: Parameters<typeof asAdmin<T>>[1]) => asAdmin(database.adminUrl, work);

  test('has the tables of tenants by tenant, and the others on every node', async () => {
    const rows = await database.query(
      `select replace(table_name::text, 'private.', '') as name, citus_table_type as type, distribution_column as by,
              dense_rank() over (order by colocation_id) as "group"
         from citus_tables order by 2, 1`,
    );
    const reference = ['api_keys', 'erasures', 'tenants', 'usage_writers'];
    const distributed = 'academias alunos anamnese_secoes anamneses idempotency_keys personais treinos usage'.split(
      ' ',
    );
    // Tables that somebody has added are those of tenants.
    const added = rows.map(({ name }) => name).filter((name) => ![...distributed, ...reference].includes(name));
    expect(rows).toEqual([
      ...[...distributed, ...added].sort().map((name) => ({ name, type: 'distributed', by: 'tenant_id', group: '2' })),
      ...reference.map((name) => ({ name, type: 'reference', by: '<none>', group: '1' })),
    ]);
  });

  test('has the record of its migrations on the coordinator, which a check asked of a worker says', async () => {
    const found: unknown[] = [];
    await onEachNode(database, async (_store, node) => {
      const config = readConfig({ DATABASE_URL: databaseUrl(node, database.name) });
      found.push(await inspectMigrations(config, MIGRATIONS));
    });
    const unknown = { unknown: 'the coordinator of Citus has their record' };
    expect(found).toEqual([{ applied: readMigrations(MIGRATIONS).length }, ...found.slice(1).map(() => unknown)]);
    expect(found.length).toBeGreaterThan(1);
  });

  test('makes a creation once, on whatever nodes it is asked for', async () => {
    const answers: unknown[] = [];
    await onEachNode(database, async (store) => {
      answers.push(await ask(store, createCall({ p_idempotency_key: 'one' })));
      answers.push(await ask(store, createCall({ p_idempotency_key: 'one' })));
    });
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  });

  test('adds the calls of a key up, on whatever nodes they are recorded', async () => {
    const call = { key: hash('sha256', KEY), day: '2030-01-01', operation: 'listarAlunos', class: '2xx', calls: 1 };
    const batch = { p_day: call.day, p_keep_days: 400, p_rows: { json: JSON.stringify([call]) } };
    let count = 0;
    await onEachNode(database, async (store) => {
      count += 1;
      const args = { p_writer: randomUUID(), p_sequence: 1, ...batch };
      await ask(store, { function: 'record_usage', args, returns: 'rows', readOnly: false });
      // Deletes what has expired.
      const empty = { ...args, p_rows: { json: '[]' } };
      await ask(store, { function: 'record_usage', args: empty, returns: 'rows', readOnly: false });
      expect(await ask(store, list('consultar_uso', KEY, { p_limit: 1 }))).toMatchObject([{ chamadas: count }]);
    });
    expect(count).toBeGreaterThan(1);
  });

  test.each([
    ...LISTS.map((name) => list(name)),
    list('listar_alunos', KEY, { p_nome: 'ana' }),
    list('listar_alteracoes', KEY, { p_recurso: 'alunos' }),
    createCall({}),
  ])('takes no more memory with each call of $function', async ({ function: name, args }) => {
    const names = Object.keys(args).map((argument, n) => `${argument} => $${n + 1}`);
    const statement = { name, text: `select * from public.${name}(${names})`, values: Object.values(args) };
    const repeat = async (db: pg.Client, times: number) => {
      for (let n = 0; n < times; n += 1) {
        await db.query('begin');
        await db.query(statement);
        await db.query('commit');
      }
      const { rows } = await db.query('select sum(used_bytes)::integer as bytes from pg_backend_memory_contexts');
      return rows[0].bytes;
    };
    for (const node of inject('nodes').slice(0, 2)) {
      const grown = await asAdmin(databaseUrl(node, database.name), async (db) => {
        const before = await repeat(db, 10);
        return (await repeat(db, 15)) - before;
      });
      // A plan takes some 90 kB.
      expect(grown).toBeLessThan(1_000_000);
    }
  });

  test('gives an error and no empty list where the tenant is lost on the way', async () => {
    // As a store would that does not open a transaction.
    const call = `select * from public.listar_alunos('${KEY}')`;
    let failures = 0;
    for (const node of inject('nodes')) {
      const url = loginUrl(databaseUrl(node, database.name), 'gateway_test');
      await asAdmin(url, async (db) => {
        await db.query('set role gateway');
        // A node finds its own rows without asking another one.
        const count = await db.query(call).then(
          ({ rowCount }) => rowCount,
          () => undefined,
        );
        expect(count === undefined || count === 100).toBe(true);
        if (count === undefined) failures += 1;
      });
    }
    expect(failures).toBeGreaterThanOrEqual(1);
  });

  test('lets an administrator write who is a member of the owners', async () => {
    await asOwner(async (db) => {
      await db.query(`do $$ begin create role other_admin login; exception when duplicate_object then null; end $$`);
      await db.query('grant gateway_functions to other_admin');
      await db.query('grant usage on schema private to other_admin');
      await db.query(`grant connect on database ${database.name} to other_admin`);
      await db.query('grant all on private.academias to other_admin');
      await db.query('create policy other on private.academias to other_admin using (true)');
      await db.query('set role other_admin');
      const { rows } = await db.query(`select count(*)::integer as n from private.academias`);
      expect(rows).toEqual([{ n: 4 }]);
    });
  });

  test('says the line of a statement that fails', async () => {
    const sql = `create table private.a (id integer primary key);\n-- One; two.\nselect 'é;' from private.b;`;
    const run = asOwner((db) => runScript(db, { file: 'bad.sql', sql }));
    await expect(run).rejects.toThrow(MigrationError);
    await expect(run).rejects.toThrow('bad.sql:3:18: relation "private.b" does not exist');
  });
});

describe('a distributed database that is changed', () => {
  const copy = useDatabase({ create: () => copyCitusDatabase(inject('nodes')) });

  test('imports what it exported, and tells every bad line', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'citus-export-'));
    const admin = (...args: string[]) => runAdmin([...args, '--json'], { DATABASE_URL: copy.adminUrl });
    const export_ = await admin('export', folder, '--tenant', 'a0000000-0000-4000-8000-000000000000');
    const { id } = JSON.parse((await admin('tenant', 'create', 'Nova')).output);
    const { usage, ...exported } = JSON.parse(export_.output).exported;
    expect([exported, usage]).toEqual([expect.objectContaining({ alunos: 250, treinos: 400 }), 3]);
    expect(JSON.parse((await admin('import', 'all', folder, '--tenant', id)).output)).toEqual({ created: exported });

    const file = join(folder, 'planos.csv');
    writeFileSync(
      file,
      `nome,email,telefone,academia\nAna,a@x.example,1,Aurora Centro\nBia,b@x.example,${'9'.repeat(41)},\n`,
    );
    const { errors } = await admin('import', 'alunos', file, '--tenant', id);
    const message = 'must NOT have more than 40 characters';
    expect(JSON.parse(errors).lines).toEqual([{ line: 3, field: 'telefone', value: '9'.repeat(41), message }]);
    writeFileSync(file, 'nome,email,telefone\nAna,ALUNO001@aurora.example,9\n');
    for (const [option, done] of [
      ['--update', 'updated'],
      ['--update', 'unchanged'],
      ['--skip-existing', 'skipped'],
    ] as const) {
      const { output } = await admin('import', 'alunos', file, '--tenant', id, option);
      expect(JSON.parse(output)).toMatchObject({ created: { alunos: 0 }, [done]: { alunos: 1 } });
    }
    writeFileSync(file, 'titulo,ordem,ativo\nSono,9,\n');
    for (const created of [1, 0]) {
      const { output } = await admin('import', 'anamnese_secoes', file, '--tenant', id, '--skip-existing');
      expect(JSON.parse(output)).toMatchObject({ created: { anamnese_secoes: created } });
    }
    expect(await admin('import', 'anamnese_secoes', file, '--tenant', id)).toMatchObject({ code: 1 });
    const secoes = "delete from private.anamnese_secoes where titulo = 'Sono'";
    await copy.query(secoes);
    writeFileSync(file, 'id,nome\na1000000-0000-4000-8000-000000000001,Dupla\n');
    const again = await admin('import', 'academias', file, '--tenant', id, '--allow-duplicates');
    expect(JSON.parse(again.errors).lines).toMatchObject([
      { line: 2, field: null, message: expect.stringContaining('violates unique constraint') },
    ]);
    expect(JSON.parse((await admin('export', join(folder, 'again'), '--tenant', id)).output)).toEqual({
      exported: { ...exported, usage: 0 },
    });
  });

  test('takes a migration that grants on a table, changes it and publishes a function, as one server does', async () => {
    const folder = copyMigrations({
      '20991231000000_ativar.sql': `grant update (ativo) on private.alunos to gateway_functions;
       alter table private.alunos add column nota integer;
       create function public.ativar_aluno(p_api_key text, p_id uuid) returns table (ativo boolean)
       language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
       declare
         v_tenant constant uuid := private.verify_key(p_api_key, 'ativar_aluno');
       begin
         return query
           update private.alunos a set ativo = true where a.tenant_id = v_tenant and a.id = p_id returning a.ativo;
       end $$;
       select private.publish('public.ativar_aluno');`,
    });
    await asAdmin(copy.adminUrl, async (db) => {
      expect(await applyMigrations(db, readMigrations(folder))).toMatchObject([{ name: 'ativar' }]);
      await distribute(db);
    });
    const args = { p_api_key: KEY, p_id: 'a3000000-0000-4000-8000-000000000001' };
    const call: Call = { function: 'ativar_aluno', args, returns: 'row', readOnly: false };
    await onEachNode(copy, async (store) => expect(await ask(store, call)).toEqual({ ativo: true }));
  });

  test('deletes a student and a tenant on the nodes that have them', async () => {
    await asAdmin(copy.adminUrl, async (db) => {
      const student = ['a0000000-0000-4000-8000-000000000000', 'a3000000-0000-4000-8000-000000000001'];
      const sql = `
        create table private.pregos (
          tenant_id uuid not null references private.tenants (id), id uuid not null default gen_random_uuid(),
          treino_id uuid not null, depois_de uuid, primary key (tenant_id, id)
        );
        select private.isolate('private.pregos');
        alter table private.pregos add foreign key (tenant_id, depois_de) references private.pregos (tenant_id, id);
        alter table private.pregos add foreign key (tenant_id, treino_id) references private.treinos (tenant_id, id);`;
      await runScript(db, { file: 'pregos.sql', sql });
      await distribute(db);
      await db.query('insert into private.pregos (tenant_id, treino_id) select tenant_id, id from private.treinos');
      // Another student's exercise follows one of this student's.
      await db.query(
        `insert into private.pregos (tenant_id, treino_id, depois_de)
         select t.tenant_id, t.id, e.id
           from private.treinos t
           join private.pregos e on e.tenant_id = t.tenant_id
           join private.treinos f on f.tenant_id = t.tenant_id and f.id = e.treino_id
          where t.tenant_id = $1 and t.aluno_id <> $2 and f.aluno_id = $2
          limit 1`,
        student,
      );
      const { rows } = await db.query('select private.student_data($1, $2) as data', student);
      expect(rows[0].data).toMatchObject({ alunos: [{ nome: 'Ana Alves' }], treinos: [{}, {}], pregos: [{}, {}] });
      await db.query('select private.erase_student($1, $2)', student);
      const [tenant, id] = student;
      const erased_at = '2026-01-01T00:00:00Z';
      const erasures = [
        { tenant, student: id, erased_at },
        { tenant, student: id?.replace(/1$/, '2'), erased_at },
        { tenant: 'b0000000-0000-4000-8000-000000000000', student: null, erased_at },
      ];
      const repeated = await db.query('select student from private.repeat_erasures($1)', [JSON.stringify(erasures)]);
      expect(repeated.rows).toEqual(erasures.slice(1).map(({ student }) => ({ student })));
    });
    await onEachNode(copy, async (store) => {
      expect(await ask(store, list('listar_alunos'))).toHaveLength(248);
      await expect(ask(store, list('listar_alunos', OTHER_KEY))).rejects.toThrow('API Key inválida');
    });
  });

  // Each node may log the statements that others send, with their text: log_parameter_max_length does not apply to it.
  test('no statement between nodes contains an API key', async () => {
    await asAdmin(copy.adminUrl, async (admin) => {
      const sent: string[] = [];
      admin.on('notice', ({ message, detail }) => sent.push(`${message} ${detail}`));
      await admin.query('set client_min_messages = notice; set citus.log_remote_commands = on');
      const { rows: tenants } = await admin.query(`select private.create_tenant('Academia') as id`);
      const issue = `select id, key from private.issue_key($1, 'Teste')`;
      const { rows: issued } = await admin.query(issue, [tenants[0].id]);
      const { rows: rotated } = await admin.query('select key from private.rotate_key($1)', [issued[0].id]);
      const key = rotated[0].key;
      await admin.query('begin');
      await admin.query('select * from public.criar_aluno($1, $2, $3)', [key, 'Ana', 'ana@academia.example']);
      await admin.query('select * from public.listar_alunos($1)', [key]);
      await admin.query('select * from public.consultar_uso($1)', [key]);
      await admin.query('commit');

      for (const part of ['INSERT INTO private.api_keys', 'UPDATE private.api_keys', 'INSERT INTO private.alunos']) {
        expect(sent.filter((text) => text.includes(part))).not.toEqual([]);
      }
      for (const secret of [issued[0].key, key]) expect(sent.filter((text) => text.includes(secret))).toEqual([]);
    });
  });
});

describe('Citus in a database with rows', () => {
  const [coordinator = '', worker = '', added = ''] = inject('nodes');
  const database = useDatabase({
    create: () =>
      createCitusDatabase([coordinator, worker], async (adminUrl, addCitus) => {
        await asAdmin(adminUrl, fillDatabase);
        await addCitus();
      }),
  });

  afterAll(() => dropCitusDatabase(added, database.name));

  test('whose functions are closed is refused, with the remedy', async () => {
    const OPEN = 'alter default privileges grant execute on functions to public';
    // The migrations keep PUBLIC from executing new functions, and Citus's own have to be open to it.
    await expect(asAdmin(database.adminUrl, distribute)).rejects.toMatchObject({ hint: expect.stringContaining(OPEN) });
    const urls = [coordinator, worker].map((node) => databaseUrl(node, database.name));
    for (const url of urls) await runSql(url, 'drop extension citus cascade');
    await database.query(OPEN);
    await addCitus(urls);
    await database.query('alter default privileges revoke execute on functions from public');
  });

  test('gets the schema and the rows by the next migration, all of it or nothing', async () => {
    await asAdmin(database.adminUrl, async (db) => {
      expect(await applyMigrations(db, readMigrations(MIGRATIONS))).toEqual([]);
      expect(await readDistribution(db)).toContain(`select create_reference_table('private.tenants')`);
      // Half-way it fails, and nothing has happened.
      await db.query(`create function private.fails() returns event_trigger language plpgsql as $$
        begin if exists (select from pg_dist_partition where logicalrelid = 'private.treinos'::regclass) then
          raise 'in the middle'; end if; end; $$`);
      await db.query('create event trigger half on ddl_command_end execute function private.fails()');
      await expect(distribute(db)).rejects.toThrow('in the middle');
      const { rows } = await db.query('select count(*)::integer as n from citus_tables');
      expect(rows).toEqual([{ n: 0 }]);
      await db.query('drop event trigger half');
      await db.query('drop function private.fails()');
      expect(await distribute(db)).not.toEqual([]);
      expect(await distribute(db)).toEqual([]);
    });
  });

  test('has the privileges on a node that is added after the next migration, and every row on every node', async () => {
    const readPrivileges = (node: string) =>
      asAdmin(databaseUrl(node, database.name), async (db) => {
        const { rows } = await db.query(
          `select format('%s %s', p.oid::regprocedure, p.proacl) as privileges
             from pg_proc p
             join pg_namespace n on n.oid = p.pronamespace
            where n.nspname in ('public', 'private')
              and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
           union all
           select unnest(d.datacl)::text from pg_database d where d.datname = current_database()
            order by 1`,
        );
        return rows.map(({ privileges }) => privileges);
      });
    const ofFunctions = (privileges: readonly string[]) => privileges.filter((text) => text.includes('('));
    const expected = await readPrivileges(coordinator);
    expect(ofFunctions(expected).length).toBeGreaterThan(40);
    // Those of the database were granted before Citus came.
    expect(ofFunctions(await readPrivileges(worker))).toEqual(ofFunctions(expected));
    await addCitusNode(database, added);
    expect(await readPrivileges(added)).not.toEqual(expected);
    await asAdmin(database.adminUrl, distribute);
    expect(await readPrivileges(added)).toEqual(expected);
    expect(await asAdmin(database.adminUrl, readDistribution)).toEqual([]);
    await onEachNode(database, async (store) => expect(await countAll(store)).toEqual(COUNTS));
  });
});

test('a script is split where its statements end', () => {
  const statements = [
    `create function f() returns text language sql as $$ select ';'; $$;`,
    `\nselect 'a;''b', e'c\\';d', "e;f" -- g;h\n /* i;j */ , $k$;$$;$k$, a$b;`,
    `\nselect 1`,
  ];
  expect(splitStatements(`${statements.join('')}\n-- The end;\n`).map(({ sql }) => sql)).toEqual([
    ...statements.slice(0, 2),
    `${statements[2]}\n-- The end;\n`,
  ]);
  expect(splitStatements('select 1;; -- nothing\n')).toHaveLength(1);
});
