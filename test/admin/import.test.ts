import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { readTitles } from '../../src/admin/columns.ts';
import { createWriter } from '../../src/admin/lines.ts';
import { readTables, type Table } from '../../src/admin/tables.ts';
import { ANA, AURORA, BOSQUE, BOSQUE_GYM, useAdmin } from '../helpers/admin.ts';
import { createTable } from '../helpers/database.ts';
import { type Run, runCommand, succeed } from '../helpers/run.ts';
import { asAdmin, createDatabase } from '../helpers/servers.ts';
import { waitForBlocked } from '../helpers/wait-for.ts';

const BAD_EMAIL = 'must match format "email"';
const AGAIN =
  'Correct them and import the file again: all lines are imported, or none. --problems FILE writes the lines of one file, with what is wrong with each.';
const EXISTING =
  'If the file was imported before: --skip-existing leaves out the lines whose records exist, --update corrects these, and --allow-duplicates creates others.';

const root = mkdtempSync(join(tmpdir(), 'import-'));
const file = join(root, 'alunos.csv');
const { admin, database, json, rows } = useAdmin();
/** A tenant without gyms, new for each test. */
let tenant: string;

beforeEach(async () => {
  const [created] = await rows('select private.create_tenant($1) as id', ['Nova']);
  tenant = String(created?.id);
});

/** The tenant's rows with these columns, oldest first. */
const read = (columns = 'nome, email', table = 'alunos') =>
  rows(`select ${columns} from private.${table} where tenant_id = $1 order by criado_em, id`, [tenant]);

type Content = string | readonly string[] | Buffer;

function importInto(resource: string, content: Content, ...args: string[]): Promise<Run> {
  writeFileSync(file, Buffer.isBuffer(content) ? content : [content].flat().join('\n'));
  return admin(['import', resource, file, '--tenant', tenant, ...args]);
}

const importing = (content: Content, ...args: string[]) => importInto('alunos', content, ...args);

const created = (count: number, resource = 'alunos'): Run => ({
  code: 0,
  output: `Created: ${resource} ${count}.\n`,
  errors: '',
});

/** The result of an import that fails with these lines on standard error. */
const failed = (...lines: string[]): Run => ({ code: 1, output: '', errors: `${lines.join('\n')}\n` });

/** The result for a file of this many lines, some of which have these problems. */
const refused = (total: number, ...problems: string[]): Run => {
  const bad = new Set(problems.map((problem) => problem.replace(/:.*/, '')));
  return failed(...problems, `Nothing was imported from ${file}; bad lines: ${bad.size} of ${total}`, AGAIN);
};
/** The same result, when some of the records exist already. */
const exists = (total: number, ...problems: string[]): Run => {
  const { errors, ...run } = refused(total, ...problems);
  return { ...run, errors: `${errors}${EXISTING}\n` };
};

test('a file may have thousands of lines, and come through standard input', async () => {
  const lines = Array.from({ length: 2_000 }, (_, index) => `Aluno ${index},aluno${index}@x.example`);
  const args = ['import', 'alunos', '-', '--tenant', tenant, '--json'];
  const options = { env: { DATABASE_URL: database().adminUrl }, input: ['nome,email', ...lines].join('\n') };
  expect(succeed(await runCommand('src/admin/main.ts', args, options))).toBe('{"created":{"alunos":2000}}\n');
  expect((await read()).map(({ nome }) => nome)).toEqual(lines.map((line) => line.split(',')[0]));
});

test('in an empty table a line without a value does not repeat one with it, thousands of lines before', async () => {
  const others = Array.from({ length: 5_000 }, (_, index) => `Outra,${index},sim`);
  const lines = ['titulo,ordem,ativo', 'Hábitos,1,sim', ...others, 'Hábitos,1,'];
  expect(await importInto('anamnese_secoes', lines)).toEqual(created(5_002, 'anamnese_secoes'));
});

describe('bad lines', () => {
  test('are reported as JSON to scripts, and with the values of references to people; nothing is imported', async () => {
    const lines = ['email,nome,Unidade', 'ana,Ana,', 'bia@x.example', 'eva@x.example,Eva,Norte'];
    const { code, output, errors } = await importing(lines, '--json');
    expect({ code, output }).toEqual({ code: 1, output: '' });
    const message = "none of the tenant's academias has this id or nome";
    expect(JSON.parse(errors)).toEqual({
      error: `Nothing was imported from ${file}; bad lines: 3 of 3`,
      hint: AGAIN,
      lines: [
        { line: 2, field: 'email', value: 'ana', message: BAD_EMAIL },
        { line: 3, field: null, value: null, message: 'does not fit the header (values: 1, columns: 3)' },
        { line: 4, field: 'Unidade', value: 'Norte', message },
      ],
    });
    const others = ['nome,email,academia_id', `Ana,ana@x.example,${BOSQUE_GYM}`, 'Bia,bia@x.example,aurora'];
    expect(await importing(others)).toEqual(
      refused(2, `line 2: academia_id "${BOSQUE_GYM}": ${message}`, `line 3: academia_id "aurora": ${message}`),
    );
    expect(await read()).toEqual([]);
  });

  test('are written with their problems to a file, which can be imported once it is corrected', async () => {
    const problems = join(root, 'corrigir.csv');
    const again = `${problems} has all lines, with what is wrong with each: correct it, and import it with: npm run admin -- import alunos ${problems} --tenant ${tenant}`;
    const lines = ['nome;email', 'Ana;ana@x.example', 'Bia', '"Eva; a nova";eva'];
    const { code, errors } = await importing(lines, '--problems', problems);
    expect([code, errors.trim().split('\n').at(-1)]).toEqual([1, again]);
    expect(statSync(problems).mode & 0o777).toBe(0o600);
    const text = readFileSync(problems, 'utf8');
    expect(text.split('\r\n')).toEqual([
      '\ufeffnome;email;Problems (left out)',
      'Ana;ana@x.example;',
      'Bia;;"Correct this line, then delete this text; does not fit the header (values: 1, columns: 2)"',
      `"Eva; a nova";eva;"email ""eva"": must match format ""email"""`,
      '',
    ]);
    const half = text.replace('eva;', 'eva@x.example;');
    const second = await importing(half, '--problems', problems);
    expect(second).toMatchObject({ code: 1, errors: `There is ${problems} already: name a new file\n` });
    const nowhere = await importing('nome', '--problems', join(root, 'none', 'x.csv'));
    expect(nowhere).toEqual(failed(`There is no folder ${join(root, 'none')}`));
    rmSync(problems);
    await importing(half, '--problems', problems);
    expect(readFileSync(problems, 'utf8')).toContain('\r\nBia;;"Correct this line, then delete this text"\r\n');
    expect(readFileSync(problems, 'utf8')).toContain(`\r\n"Eva; a nova";eva@x.example;\r\n`);
    expect(await importing(half.replace(/Bia;;.*/, 'Bia;bia@x.example;'))).toEqual(created(3));
    // A client can give a student this name, and an export with it has to be imported.
    expect(await importing('nome,email\n"Correct this line, then delete this text",ida@x.example')).toEqual(created(1));
    expect(await importInto('all', '', '--problems', problems)).toMatchObject({ code: 2 });
  });

  test('are reported with the command that imports this file, with its options and in UTF-8', async () => {
    const problems = join(root, 'a corrigir.csv');
    const options = ['--map', 'Fone 2=telefone', '--ignore-unknown', '--update'];
    const file_ = Buffer.from('nome|email|Fone 2\nJos\xe9|x|1\n', 'latin1');
    const all = ['--problems', problems, '--encoding', 'windows-1252', '--delimiter', '|', ...options];
    const { errors } = await importing(file_, ...all);
    expect(errors).toContain(
      `: npm run admin -- import alunos '${problems}' --tenant ${tenant} --map 'Fone 2=telefone' --ignore-unknown --update\n`,
    );
    expect(readFileSync(problems, 'utf8')).toContain('\r\nJosé,x,1,');
  });

  test('include those that a trigger refuses', async () => {
    await rows(`${createTable('pregos', 'nome text not null')}
      create function private.refuse() returns trigger language plpgsql as $$
      begin
        if new.nome = 'torto' then raise exception 'bent nails are not taken'; end if;
        if new.nome = 'mole' then raise sqlstate 'PT422' using message = 'must be hard', detail = 'nome'; end if;
        return new;
      end $$;
      create trigger refuse before insert or update on private.pregos for each row execute function private.refuse()`);
    expect(await importInto('pregos', ['nome', 'reto', 'torto', 'mole'])).toEqual(
      refused(3, 'line 3: bent nails are not taken', 'line 4: nome "mole": must be hard'),
    );
    const problems = join(root, 'pregos.csv');
    await importInto('pregos', ['nome', 'reto', 'torto'], '--problems', problems);
    expect(readFileSync(problems, 'utf8')).toMatch(/\r\nreto.\r\ntorto.bent nails are not taken\r\n$/);
    await rows('drop table private.pregos; drop function private.refuse');
  });

  test('that break a rule of the document or of SQL undo the thousands before them', async ({ onTestFinished }) => {
    const good = Array.from({ length: 2_600 }, (_, index) => `${index},${index},`);
    await rows('alter table private.anamnese_secoes add constraint sql_only check (ordem <> 9999)');
    onTestFinished(async () => void (await rows('alter table private.anamnese_secoes drop constraint sql_only')));
    const lines = [...good, '1,9999,', ...good.map((line) => `a${line}`), '1,1,ontem'];
    expect(await importInto('anamnese_secoes', ['titulo,ordem,ativo', ...lines])).toEqual(
      refused(
        5202,
        'line 2602: ordem "9999": must satisfy (ordem <> 9999)',
        'line 5203: ativo "ontem": must be true or false, sim or não, or ativo or inativo',
      ),
    );
    expect(await rows('select from private.anamnese_secoes where tenant_id = $1', [tenant])).toEqual([]);
  });
});

describe('a file', () => {
  test('that does not exist, or is a folder or a device, is refused', async () => {
    const none = join(root, 'none.csv');
    const open = (path: string) => admin(['import', 'alunos', path, '--tenant', tenant]);
    expect(await open(none)).toEqual(failed(`There is no file ${none}`));
    for (const path of [root, '/dev/zero'])
      expect(await open(path)).toEqual(failed(`${path} is a folder, a device or a pipe, and no file`));
  });

  test('with a header alone is reported to have no lines', async () => {
    const output = `${file} has no line below its header: nothing was imported.\n`;
    for (const args of [[], ['--dry-run']]) {
      expect(succeed(await importing('nome,email\n', ...args))).toBe(output);
    }
  });
});

const SHEET = [
  'Nome completo;E-mail;Data de Nascimento;Telefone celular;Situação;Mensalidade;;',
  'Ana Prado; ana@x.example ;1/5/1985;11 98888-0001;Ativo;R$ 1.234,56;;',
  ';;;;;;;',
  'Rui Luz ;rui@x.example;31/12/1990 00:00:00;;Não;R$ 99,90;;',
  'Bia Sá;bia@x.example;;;VERDADEIRO;;;',
].join('\r\n');

test("a dry run shows a gym's spreadsheet with every bad line, and the import does what it showed", async () => {
  const preview = [
    'COLUMN OF alunos.csv  BECOMES          LINE 2         LINE 4         LINE 5',
    'Nome completo         nome             Ana Prado      Rui Luz        Bia Sá',
    'E-mail                email            ana@x.example  rui@x.example  bia@x.example',
    'Data de Nascimento    data_nascimento  1985-05-01     1990-12-31',
    'Telefone celular      telefone         11 98888-0001',
    'Situação              ativo            true           false          true',
    'Mensalidade           (left out)       R$ 1.234,56    R$ 99,90',
    '                      (left out)',
    '                      (left out)',
    '',
  ];
  const good = 'Nothing is wrong, and nothing was changed. Without --dry-run: Created: alunos 3.';
  expect(succeed(await importing(SHEET, '--ignore-unknown', '--dry-run'))).toBe([...preview, good, ''].join('\n'));
  expect(await importing(`${SHEET}\r\nEva;eva;;;talvez;;;`, '--ignore-unknown', '--dry-run')).toEqual(
    failed(
      ...preview,
      `line 6: E-mail "eva": ${BAD_EMAIL}`,
      'line 6: Situação "talvez": must be true or false, sim or não, or ativo or inativo',
      `Nothing was imported from ${file}; bad lines: 1 of 4`,
      AGAIN,
    ),
  );
  expect(JSON.parse((await importInto('academias', 'nome\nCentro', '--dry-run', '--json')).output)).toEqual({
    wouldCreate: { academias: 1 },
    preview: [{ file, lines: [2], columns: [{ title: 'nome', column: 'nome', values: ['Centro'] }] }],
  });
  expect([await read(), await read('nome', 'academias')]).toEqual([[], []]);

  expect(await importing(SHEET, '--ignore-unknown')).toEqual(created(3));
  expect((await read('nome, email, data_nascimento::text, telefone, ativo')).map((row) => Object.values(row))).toEqual([
    ['Ana Prado', 'ana@x.example', '1985-05-01', '11 98888-0001', true],
    ['Rui Luz', 'rui@x.example', '1990-12-31', null, false],
    ['Bia Sá', 'bia@x.example', null, null, true],
  ]);
});

test('a time without a zone is in TIME_ZONE, with the daylight saving time of its date', async () => {
  const readTime = async () => (await read(`to_json(criado_em at time zone 'UTC') as utc`))[0]?.utc;
  // The clocks went from 0:00 to 1:00.
  expect(await importing('nome,email,criado_em\nAna,ana@x.example,04/11/2018')).toEqual(created(1));
  expect(await readTime()).toBe('2018-11-04T03:00:00');
  const env = { DATABASE_URL: database().adminUrl, TIME_ZONE: 'Asia/Tokyo' };
  const set = ['--set', 'Data de cadastro=01/12/2018 9:00'];
  succeed(await admin(['update', 'alunos', 'ana@x.example', '--tenant', tenant, ...set], env));
  expect(await readTime()).toBe('2018-12-01T00:00:00');
});

describe('a file that was imported before', () => {
  const FILE = 'nome,email,telefone\nAna,Ana@x.example,1\nBia,bia@x.example,2\n';
  const phones = () => read('nome, telefone');
  const message = "is that of one of the tenant's alunos";

  test('is noticed, with the solutions', async () => {
    expect(await importing(FILE)).toEqual(created(2));
    expect(await importing('nome,email\nNova,nova@x.example\nANA,ana@X.example\nEva,\n')).toEqual(
      exists(3, `line 3: email "ana@X.example": ${message}`, 'line 4: email is required'),
    );
    expect(await read()).toHaveLength(2);
  });

  test('is noticed while that import still runs', async () => {
    await asAdmin(database().adminUrl, async (db) => {
      const table = (await readTables(db)).find(({ name }) => name === 'alunos') as Table;
      const { headers } = readTitles(['nome', 'email'], table);
      const writer = createWriter(db, table, headers, { tenant, timeZone: 'UTC' });
      await db.query('begin');
      await writer.write([writer.read(2, ['Ana', 'ana@x.example'])]);
      const second = importing(FILE);
      await waitForBlocked(database().adminUrl, 1);
      await db.query('commit');
      expect((await second).errors).toMatch(`line 2: email "Ana@x.example": ${message}\n`);
    });
    expect(await read()).toEqual([{ nome: 'Ana', email: 'ana@x.example' }]);
  });

  test('is imported again with --allow-duplicates, and in part with --skip-existing', async () => {
    expect(await importing(FILE)).toEqual(created(2));
    const skipping = await importing(`${FILE}Caio,caio@x.example,3\n`, '--skip-existing');
    expect(succeed(skipping)).toBe('Created: alunos 1.\nSkipped: alunos 2.\n');
    expect(await importing(FILE, '--allow-duplicates')).toEqual(created(2));
    expect((await phones()).map(({ telefone }) => telefone)).toEqual(['1', '2', '3', '1', '2']);
  });

  test('corrects records with --update, and an empty value leaves what is there', async () => {
    expect(await importing(FILE)).toEqual(created(2));
    const update = 'email,Celular,nome\nANA@x.example,9,\nbia@x.example,,Beatriz\ncaio@x.example,3,Caio\n';
    const wouldCreate = expect.stringContaining('{"wouldCreate":{"alunos":1},"wouldUpdate":{"alunos":2},');
    expect(await importing(update, '--update', '--dry-run', '--json')).toMatchObject({ code: 0, output: wouldCreate });
    const output = '{"created":{"alunos":1},"updated":{"alunos":2},"unchanged":{"alunos":0}}\n';
    expect(succeed(await importing(update, '--update', '--json'))).toBe(output);
    const changes = () => rows('select kind, records from private.changes where tenant_id = $1 order by id', [tenant]);
    const before = await changes();
    const same = 'Created: alunos 0.\nUpdated: alunos 1.\nUnchanged: alunos 2.\n';
    expect(succeed(await importing(update.replace(',9,', ',8,'), '--update'))).toBe(same);
    expect(await importing(update.replace(',3,', ',4,'), '--update')).toMatchObject({ code: 0 });
    expect((await changes()).slice(before.length)).toMatchObject([
      { records: { length: 1 } },
      { records: { length: 2 } },
    ]);
    expect(await phones()).toEqual([
      { nome: 'Ana', telefone: '9' },
      { nome: 'Beatriz', telefone: '2' },
      { nome: 'Caio', telefone: '4' },
    ]);
  });

  test('is refused as an update if it does not identify a record, or breaks a rule', async () => {
    const file_ = 'nome,email\nAna,a@x.example\nEva,a@x.example\nBia,bia@x.example\n';
    expect(await importing(file_, '--allow-duplicates')).toEqual(created(3));
    const long = '9'.repeat(41);
    expect(await importing(`email,telefone\na@x.example,1\nbia@x.example,${long}\n`, '--update')).toEqual(
      refused(
        2,
        'line 2: email "a@x.example": is the email of several alunos: give the id',
        `line 3: telefone "${long}": must NOT have more than 40 characters`,
      ),
    );
    const forms = ['aluno,status', 'a@x.example,nova'];
    expect((await importInto('anamneses', forms)).errors).toMatch(
      /^line 2: aluno "a@x.example": is the email of several alunos: give the id\n/,
    );
  });

  test('gives no record the e-mail of another one or of another line', async () => {
    const ids = [1, 2, 3, 4].map((n) => `a3000000-0000-4000-8000-00000000010${n}`);
    const people = ids.map((id, n) => `${id},Ana,a${n}@x.example\n`);
    expect(await importing(`id,nome,email\n${people.join('')}`)).toEqual(created(4));
    const others = `id,email\n${ids[0]},A3@x.example\n${ids[1]},new@x.example\n${ids[2]},New@x.example\n`;
    expect(await importing(others, '--update')).toEqual(
      refused(
        3,
        `line 2: email "A3@x.example": is that of one of the tenant's alunos`,
        'line 4: email "New@x.example": is also that of line 3',
      ),
    );
    const shortened = `id,telefone\n${ids[0]},"5,51199E+12"\n`;
    expect((await importing(shortened, '--update')).errors).toContain('is a number that Excel has shortened');
    expect(await importing(`id,email,nome\n,new@x.example,Bia\n${ids[0]},NEW@x.example,\n`, '--update')).toEqual(
      refused(2, 'line 3: email "NEW@x.example": is also that of line 2'),
    );
    const exchanged = `id,email\n${ids[0]},a1@x.example\n${ids[1]},a0@x.example\n`;
    expect(await importing(exchanged, '--update')).toMatchObject({ code: 0, errors: '' });
  });

  test('leaves no blanks around texts, by which nobody would find a record', async () => {
    expect(await importInto('academias', ['nome', 'Sul \u00a0'])).toMatchObject({ code: 0 });
    expect(await importing('nome,email,unidade\nLia,lia@x.example,Sul\n')).toEqual(created(1));
    expect(await importInto('academias', ['nome', 'Sul Ipê'])).toMatchObject({ code: 0 });
    expect(await importing('nome,email,unidade\nLeo,leo@x.example,Sul\u00a0Ipê\n')).toEqual(created(1));
  });

  test('updates no record twice, named by its id and by its e-mail', async () => {
    const id = 'a3000000-0000-4000-8000-000000000120';
    expect(await importing(`id,nome,email\n${id},Ana,a@x.example\n`)).toEqual(created(1));
    const twice = `id,email,telefone\n,A@x.example,1\n${id},,2\n`;
    expect(await importing(twice, '--update')).toEqual(refused(2, `line 3: id "${id}": is also that of line 2`));
  });

  test('is corrected although its records share an e-mail, each by its id', async () => {
    const ids = [1, 2].map((n) => `a3000000-0000-4000-8000-00000000011${n}`);
    const shared = `id,nome,email\n${ids.map((id) => `${id},Ana,a@x.example\n`).join('')}`;
    expect(await importing(shared)).toEqual(created(2));
    expect(await importing(shared, '--update')).toMatchObject({ code: 0, errors: '' });
  });

  test('is noticed by the name of a gym, or by all columns of records without a name', async () => {
    const gyms = 'nome\nCentro\nPraia\ncentro\n';
    expect(await importInto('academias', gyms)).toEqual(refused(3, 'line 4: nome "centro": is also that of line 2'));
    const twice = `id,titulo,ordem\n${ANA},Sono,1\n,sono,1\n,Sono,2\n`;
    expect(await importInto('anamnese_secoes', twice)).toEqual(refused(3, 'line 3: is the same as line 2'));
    const content = 'titulo,ordem,ativo\nHábitos,1,\nDores,2,sim\n';
    expect((await importInto('anamnese_secoes', content)).code).toBe(0);
    const again = 'titulo,ordem,ativo\nHábitos,2,sim\nhábitos,1,\nDores,2,não\nDores,2,N\n';
    expect(await importInto('anamnese_secoes', again)).toEqual(
      exists(4, "line 3: is the same as one of the tenant's anamnese_secoes", 'line 5: is the same as line 4'),
    );
    const skipped = await importInto('anamnese_secoes', `${content}Sono,3,\n`, '--skip-existing', '--json');
    expect(skipped.output).toBe('{"created":{"anamnese_secoes":1},"skipped":{"anamnese_secoes":2}}\n');
  });
});

test('a relative path begins where npm was called', async ({ onTestFinished }) => {
  writeFileSync(file, 'nome,email\nAna,ana@x.example\n');
  vi.stubEnv('INIT_CWD', root);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await admin(['import', 'alunos', 'alunos.csv', '--tenant', tenant])).toEqual(created(1));
});

describe('the other resources', () => {
  test('are imported with what people have: a gym by its name, students and trainers by e-mail', async () => {
    const files: readonly (readonly [resource: string, ...lines: string[]])[] = [
      ['academias', 'nome,ativo', 'Centro,sim', 'Praia,FALSO'],
      ['personais', 'nome,email,academia', 'Bia Rocha,bia@x.example,CENTRO'],
      ['alunos', 'nome,email,academia,personal', 'Ana,Ana@x.example,praia,BIA@x.example'],
      ['treinos', 'nome,id_aluno,id_personal,data_inicio', 'Treino A,ana@x.example,bia@x.example,01/12/2026'],
      ['anamneses', 'aluno,status,resposta', 'ana@x.example,concluida,"{""peso"": 61.50}"'],
      ['anamnese_secoes', 'titulo,ordem', 'Hábitos,-1'],
    ];
    for (const [resource, ...lines] of files) {
      expect(await importInto(resource, lines)).toEqual(created(lines.length - 1, resource));
    }
    const joined = `
      select g.nome as gym, g.ativo, p.nome as trainer, pg.nome as trains_at, a.nome as student, t.nome as workout,
             t.data_inicio::text as day, f.resposta::text as answers, s.titulo || s.ordem as section
        from private.treinos t
        join private.alunos a on a.id = t.aluno_id
        join private.academias g on g.id = a.academia_id
        join private.personais p on p.id = a.personal_id and p.id = t.personal_id
        join private.academias pg on pg.id = p.academia_id
        join private.anamneses f on f.aluno_id = a.id
        join private.anamnese_secoes s on s.tenant_id = t.tenant_id
       where t.tenant_id = $1`;
    const [row, ...others] = await rows(joined, [tenant]);
    expect([Object.values(row ?? {}), others]).toEqual([
      ['Praia', false, 'Bia Rocha', 'Centro', 'Ana', 'Treino A', '2026-12-01', '{"peso": 61.50}', 'Hábitos-1'],
      [],
    ]);
    const shown = await importInto('personais', ['nome,email,academia', 'Eva,eva@x.example,CENTRO'], '--dry-run');
    expect(shown.output).toMatch(/^academia +academia_id +CENTRO$/m);
  });
});

describe('an export', () => {
  const exporting = (folder: string, from = AURORA) => admin(['export', folder, '--tenant', from]);
  const importAll = (folder: string, to = tenant, env?: Record<string, string>) =>
    admin(['import', 'all', folder, '--tenant', to], env);
  const readFiles = (folder: string) =>
    readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')] as const);
  /** The files of an export that can be imported again. */
  const readData = (folder: string) => readFiles(folder).filter(([name]) => name !== 'usage.csv');

  test('has the usage of the keys, by their ids and names', async () => {
    const folder = join(root, 'usage');
    await exporting(folder, BOSQUE);
    expect(readFileSync(join(folder, 'usage.csv'), 'utf8')).toBe(
      'key_id,name,day,operation,class,calls\r\nb9000000-0000-4000-8000-000000000001,Bosque,2099-01-01,listarTreinos,2xx,40\r\n',
    );
  });

  test('imports again in another database, and gives the same export there, for every tenant', async () => {
    const other = await createDatabase();
    const env = { DATABASE_URL: other.adminUrl };
    try {
      await rows(
        `update private.alunos set nome = $2, telefone = E' "1"\n2;' where tenant_id = $1 and id = (select min(id::text)::uuid from private.alunos where tenant_id = $1)`,
        [AURORA, '=1+1, "x"'],
      );
      await rows(`update private.academias set nome = ' ' where tenant_id = $1`, [BOSQUE]);
      await rows(`update private.anamnese_secoes set titulo = '' where tenant_id = $1`, [BOSQUE]);
      // The last tenant has no data.
      for (const id of [AURORA, BOSQUE, tenant]) {
        const [before, after] = [join(root, `before-${id}`), join(root, `after-${id}`)];
        expect((await exporting(before, id)).code).toBe(0);
        const { id: copy } = await json(['tenant', 'create', 'Nova'], env);
        expect(await importAll(before, copy, env)).toMatchObject({ code: 0, errors: '' });
        // The second export is from a database with another time zone.
        await asAdmin(other.adminUrl, (db) =>
          db.query(
            `do $$ begin execute format('alter database %I set timezone = %L', current_database(), 'Asia/Tokyo'); end $$`,
          ),
        );
        expect((await admin(['export', after, '--tenant', copy], env)).code).toBe(0);
        expect(readData(after)).toEqual(readData(before));
      }
    } finally {
      await other.drop();
    }
  });

  test('imports again with names in capitals', async () => {
    const folder = mkdtempSync(join(root, 'capitals-'));
    writeFileSync(join(folder, 'ALUNOS.CSV'), 'nome,email\nAna,ana@x.example\n');
    writeFileSync(join(folder, 'academias.csv'), 'nome\nCentro\n');
    expect(await importAll(folder)).toMatchObject({ code: 0, output: 'Created: academias 1, alunos 1.\n' });
  });

  /** Exports the tenant's data, imports them for a new tenant, and expects the same rows in a table. */
  async function expectCopy(table: string): Promise<void> {
    const folder = join(root, table);
    expect(await exporting(folder, tenant)).toMatchObject({ code: 0, errors: '' });
    const copy = await json(['tenant', 'create', 'Cópia']);
    expect(await importAll(folder, copy.id)).toMatchObject({ code: 0, errors: '' });
    const read = `select to_jsonb(t) - 'tenant_id' as row from private."${table}" t where tenant_id = $1 order by id`;
    const before = await rows(read, [tenant]);
    expect(before.length).toBeGreaterThan(0);
    expect(await rows(read, [copy.id])).toEqual(before);
  }

  test('of tables with capitals or accents in their names imports again', async () => {
    await rows(createTable('"Contratos"', 'nome text not null') + createTable('"avaliações"', 'nome text not null'));
    expect(await importInto('contratos', ['nome', 'Anual'])).toEqual(created(1, 'Contratos'));
    expect(await importInto('avaliações', ['nome', 'Física'])).toEqual(created(1, 'avaliações'));
    for (const table of ['Contratos', 'avaliações']) await expectCopy(table);
    await rows('drop table private."Contratos", private."avaliações"');
  });

  test('of a table of your own with references to its own rows imports again', async () => {
    await rows(`${createTable('indicacoes', 'numero integer not null, indicada_por uuid')}
      alter table private.indicacoes add foreign key (tenant_id, indicada_por)
        references private.indicacoes (tenant_id, id) deferrable initially deferred`);
    const insert = `
      insert into private.indicacoes (tenant_id, id, numero, indicada_por)
      select $1, lpad(to_hex(n), 32, '0')::uuid, n, lpad(to_hex(case n when 1 then 6000 else n - 1 end), 32, '0')::uuid
        from generate_series(1, 6000) n`;
    await rows(insert, [tenant]);
    await expectCopy('indicacoes');
    const none = '99999999-0000-4000-8000-000000000001';
    const message = "none of the tenant's indicacoes has this id";
    expect(await importInto('indicacoes', ['id,numero,indicada_por', `,1,${none}`, ',2,x'])).toEqual(
      refused(2, `line 2: indicada_por "${none}": ${message}`, `line 3: indicada_por "x": ${message}`),
    );
    await rows('drop table private.indicacoes');
  });

  test('of a table whose default has a dollar and a digit leaves it as it is', async () => {
    await rows(createTable('agulhas', "nome text not null, preco text not null default 'R$20,00'"));
    expect(await importInto('agulhas', ['nome', 'Mensal'])).toEqual(created(1, 'agulhas'));
    const sql = 'select preco from private.agulhas where tenant_id = $1';
    expect(await rows(sql, [tenant])).toEqual([{ preco: 'R$20,00' }]);
    await rows('drop table private.agulhas');
  });

  test('of columns of arrays imports again, whatever the style of dates', async () => {
    const columns = 'valores numeric(10,2)[], dias date[], horas timestamp[], ate timestamptz[], nomes text[]';
    await rows(createTable('janelas', columns));
    await rows(
      `insert into private.janelas (tenant_id, valores, dias, horas, ate, nomes)
       values ($1, '{99.90,1234.50,null}', '{2026-02-03}', '{"2026-02-03 10:00:00.5"}', '{2026-02-03 10:00:00Z}', '{"a,b",null}')`,
      [tenant],
    );
    const style = (text: string) =>
      rows(`do $$ begin execute format('alter database %I set datestyle = ${text}', current_database()); end $$`);
    await style('sql, mdy');
    await expectCopy('janelas');
    await style('iso, mdy');
    await rows('drop table private.janelas');
  });

  test('is for its owner alone, and replaces nothing', async () => {
    const folder = join(root, 'private');
    expect((await exporting(folder, BOSQUE)).code).toBe(0);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'alunos.csv')).mode & 0o777).toBe(0o600);
    const before = readFiles(folder);
    expect(await exporting(folder)).toEqual(failed(`There is ${folder} already: nothing was exported`));
    expect(readFiles(folder)).toEqual(before);
  });

  test('gets its name when it is complete, and leaves nothing after a failure', async () => {
    const folder = mkdtempSync(join(root, 'locked'));
    await asAdmin(database().adminUrl, async (db) => {
      await db.query('begin; lock table private.treinos');
      const exported = exporting(folder);
      await waitForBlocked(database().adminUrl, 1);
      expect([readdirSync(folder), existsSync(`${folder}.part`)]).toEqual([[], true]);
      await rows(`select pg_cancel_backend(pid) from pg_stat_activity
        where cardinality(pg_blocking_pids(pid)) > 0 and datname = current_database()`);
      expect((await exported).code).toBe(1);
    });
    expect([readdirSync(folder), existsSync(`${folder}.part`)]).toEqual([[], false]);
    expect((await exporting(folder)).code).toBe(0);
    // A table that somebody has added has a file too.
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(['alunos.csv', 'treinos.csv', 'usage.csv']));
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  test('with a bad file is not imported in part', async () => {
    const folder = join(root, 'broken');
    await exporting(folder, BOSQUE);
    appendFileSync(join(folder, 'treinos.csv'), 'x,y\n');
    const { code, errors } = await importAll(folder);
    expect(code).toBe(1);
    expect(errors).toContain('does not fit the header (values: 2, columns: 7)');
    expect(await read()).toEqual([]);
    writeFileSync(join(folder, 'notas.csv'), 'a\n');
    expect((await importAll(folder)).errors).toMatch(/^There is no resource notas\n/);
    expect((await importAll(join(root, 'none'))).errors).toMatch(/^There is no folder /);
  });
});
