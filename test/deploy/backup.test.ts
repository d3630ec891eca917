import { execFile } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openServer, toUrl } from '../../src/store/embedded/store.ts';
import { applyMigrations, readMigrations, runScript } from '../../src/store/migrations.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { ANA, AURORA, BOSQUE } from '../helpers/admin.ts';
import { type BareDebianPostgres, canTestOnDebian, startBareDebianPostgres } from '../helpers/debian-postgres.ts';
import { copyDataDir, MIGRATIONS, SEED, startConfigured, startGateway } from '../helpers/gateway.ts';
import { readBlocks } from '../helpers/readme.ts';
import { runAdmin, succeed } from '../helpers/run.ts';
import {
  asAdmin,
  databaseUrl,
  loginUrl,
  PASSWORD,
  type PostgresServer,
  runSql,
  startEmbeddedPostgres,
} from '../helpers/servers.ts';
import { readScript, runTap } from '../helpers/tap.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Runs the commands of docs/backup.md as they are there. Only placeholders are replaced.

const readPage = (heading: string, language: string) => readBlocks('docs/backup.md', heading, language);
const [DUMP = ''] = readPage('Dump', 'sh');
const [RESTORE = ''] = readPage('Restore a dump', 'sh');
const [BASE_BACKUP = '', SHOW_ARCHIVED = '', PUT_BACK = ''] = readPage('Point in time', 'sh');
const [BACK_UP = '', PUT_STORE_BACK = ''] = readPage('Embedded store', 'sh');
const [CRON = ''] = readPage('Embedded store', 'crontab');
const [KEEP_ERASURES = '', REPEAT_ERASURES = ''] = readPage('Erasures', 'sh');
const [ARCHIVE = '', RECOVERY = ''] = readPage('Point in time', 'ini');

/** Runs a block in the shell with `set -e`; gives all that it prints. */
async function runBlock(block: string, dump: string, url: string): Promise<string> {
  const script = block
    .replaceAll('wellness.dump', dump)
    .replaceAll('erasures.csv', `${dump}.csv`)
    .replace('=…', `=${PASSWORD}`);
  const env = { ...process.env, DATABASE_URL: url };
  const { stdout, stderr } = await promisify(execFile)('sh', ['-ec', script], { env });
  return stdout + stderr;
}

/** Runs an administrator's command with a limit on the size of the files that it writes, as on a full disk. */
function runLimited(args: string, DATA_DIR: string) {
  const command = `ulimit -f 100; exec "$0" src/admin/main.ts ${args}`;
  return promisify(execFile)('sh', ['-c', command, process.execPath], { env: { DATA_DIR } });
}

/** A new database and the role that owns it, which is not a superuser. */
async function makeDatabase(server: Pick<PostgresServer, 'adminUrl'>, owner: string): Promise<string> {
  await asAdmin(server.adminUrl, async (db) => {
    await db.query(`create role ${owner} login createrole password '${PASSWORD}'`);
    await db.query(`create database ${owner} owner ${owner}`);
  });
  return loginUrl(databaseUrl(server.adminUrl, owner), owner);
}

/** Every row that a role sees, of every table in schema private. */
function readRows(url: string): Promise<Record<string, unknown[]>> {
  return asAdmin(url, async (db) => {
    const { rows: tables } = await db.query(
      `select relname as name from pg_class where relnamespace = 'private'::regnamespace and relkind = 'r' order by 1`,
    );
    const all: Record<string, unknown[]> = {};
    for (const { name } of tables) {
      const { rows } = await db.query(`select to_jsonb(t)::text as row from private.${name} t order by 1`);
      all[name] = rows.map(({ row }) => row);
    }
    return all;
  });
}

/** Keys of which the first in the table refers to the last, as happens once keys are used. A dump has them in two statements. */
const SUCCESSOR_FIRST = `
  insert into private.api_keys (tenant_id, id, name, key_hash, original_id)
  select '${AURORA}', md5(n::text)::uuid, 'Chave ' || n, sha256(n::text::bytea), case n when 1 then md5('1001')::uuid end
    from generate_series(1, 1001) n`;

const createSend = (url: string) => async (path: string, key: string, init?: RequestInit) => {
  const answer = await fetch(`${url}${path}`, { ...init, headers: { ...init?.headers, 'X-Api-Key': key } });
  return { status: answer.status, body: (await answer.json()) as unknown };
};
type Send = ReturnType<typeof createSend>;

async function withGateway<T>(url: string, work: (send: Send) => Promise<T>): Promise<T> {
  const store = openPostgres({ url, connections: 2, deadlineMs: 20_000 });
  const gateway = await startGateway({ store, deadlineMs: 20_000 });
  try {
    return await work(createSend(gateway.url));
  } finally {
    await gateway.close();
    await store.close();
  }
}

/** A creation that a client may repeat. */
const create = (send: Send, key: string, name: string) =>
  send('/alunos', key, {
    method: 'POST',
    headers: { 'Idempotency-Key': name },
    body: JSON.stringify({ p_nome: name, p_email: 'ana@aurora.example' }),
  });

describe.skipIf(!canTestOnDebian('pgtap'))('a Postgres', () => {
  const folder = mkdtempSync(join(tmpdir(), 'backup-'));
  const dump = join(folder, 'wellness.dump');
  let source: BareDebianPostgres;
  let ownerUrl: string;
  let superuserUrl: string;
  let key: string;
  let created: Awaited<ReturnType<typeof create>>;
  let rows: Awaited<ReturnType<typeof readRows>>;
  /** Without the changes that the restore records, one for each record. */
  const withoutNewChanges = (all: typeof rows) => ({
    ...all,
    changes: all.changes?.filter((row) => rows.changes?.includes(row)),
  });

  beforeAll(async () => {
    source = await startBareDebianPostgres();
    ownerUrl = await makeDatabase(source, 'antiga');
    superuserUrl = databaseUrl(source.adminUrl, 'antiga');
    key = await asAdmin(ownerUrl, async (db) => {
      await applyMigrations(db, readMigrations(MIGRATIONS));
      await runScript(db, SEED);
      await db.query(SUCCESSOR_FIRST);
      return (await db.query(`select key from private.issue_key('${AURORA}', 'Site')`)).rows[0].key;
    });
    created = await withGateway(ownerUrl, (send) => create(send, key, 'Antes'));
    expect(created.status).toBe(201);
    rows = await readRows(superuserUrl);
    expect(rows).toMatchObject({
      alunos: { length: 256 },
      api_keys: { length: 1007 },
      idempotency_keys: { length: 1 },
    });
    await runBlock(DUMP, dump, ownerUrl);
  });

  afterAll(async () => {
    await source.stop();
    rmSync(folder, { recursive: true });
  });

  test('gives the role that migrated and a superuser the same dump', async () => {
    const readDump = async (file: string) => {
      const { stdout } = await promisify(execFile)('pg_restore', ['--file=-', file], { maxBuffer: 100_000_000 });
      // The header has a random token.
      return stdout.replace(/^\\(un)?restrict .*$/gm, '');
    };
    const other = join(folder, 'superuser.dump');
    await runBlock(DUMP, other, superuserUrl);
    expect(await readDump(other)).toBe(await readDump(dump));
  });

  describe.each([
    { version: 15, start: startBareDebianPostgres, isLong: false },
    { version: 18, start: startEmbeddedPostgres, isLong: true },
  ])('of version $version', ({ version, start, isLong }) => {
    let target: Pick<PostgresServer, 'adminUrl' | 'stop'>;

    beforeAll(async () => {
      if (!isLong || inject('isLong')) target = await start();
    });

    afterAll(() => target?.stop());

    /** Restores by the page, and asserts all that it promises. */
    async function restore(url: string): Promise<void> {
      const database = new URL(url).pathname.slice(1);
      const superuser = databaseUrl(target.adminUrl, database);
      const output = await runBlock(RESTORE, dump, url);
      expect(output).toContain('openapi.yaml and the database agree on');
      const hints = [...output.matchAll(/hint: As a superuser.*?: (.*)/g)].map(([, sql = '']) => sql);
      await runSql(superuser, hints.join(';'));

      const restored = await readRows(superuser);
      expect(withoutNewChanges(restored)).toEqual(rows);
      const states = await runSql(
        superuser,
        `select bool_and(c.relrowsecurity and c.relforcerowsecurity) as "isForced",
                has_database_privilege('public', current_database(), 'connect') as "everybodyConnects",
                (select s.setconfig from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
                  where d.datname = current_database() and s.setrole = 0) as settings
           from pg_class c
          where c.relnamespace = 'private'::regnamespace and c.relkind = 'r'`,
      );
      const settings = ['log_parameter_max_length=0', 'log_parameter_max_length_on_error=0'];
      expect(states).toEqual([
        { isForced: true, everybodyConnects: false, settings: expect.arrayContaining(settings) },
      ]);

      const [again = ''] = /^pg_restore .*$/m.exec(RESTORE) ?? [];
      await expect(runBlock(again, dump, url)).rejects.toThrow('duplicate key value');
      // Compares what the role sees, and not its own dump: Debian's pg_dump refuses a server of version 18.
      expect(await readRows(url)).toEqual(restored);

      await withGateway(loginUrl(url, 'gateway_login'), async (send) => {
        expect(await send('/alunos?limit=1000', 'wms_demo_bosque')).toMatchObject({ status: 200, body: { length: 5 } });
        expect(await send('/alunos', 'wms_demo_inativa')).toEqual({ status: 401, body: { error: 'API Key inativa' } });
        expect(await create(send, key, 'Antes')).toEqual(created);
        expect(await send('/alunos?nome=Antes', key)).toMatchObject({ status: 200, body: [created.body] });
        expect(await create(send, key, 'Depois')).toMatchObject({ status: 201 });
      });

      // Whoever was erased comes back with the dump, and the list erases them again.
      const admin = async (...args: string[]) => succeed(await runAdmin(args, { DATABASE_URL: url }));
      const { id } = created.body as { id: string };
      await admin('student', 'erase', id, '--tenant', AURORA, '--yes');
      await admin('tenant', 'delete', BOSQUE, '--yes');
      await runBlock(KEEP_ERASURES, dump, url);
      const erasures = JSON.parse(await admin('erasures', '--json'));
      const erased_at = expect.any(String);
      expect(erasures).toEqual([
        { tenant: AURORA, student: id, erased_at },
        { tenant: BOSQUE, student: null, erased_at },
      ]);
      const tables = Object.keys(rows).map((name) => `private.${name}`);
      await runSql(superuser, `truncate ${tables}`);
      await runBlock(again, dump, url);
      expect(withoutNewChanges(await readRows(superuser))).toEqual(rows);
      expect(await runBlock(REPEAT_ERASURES, dump, url)).toContain(
        'Of 2 erased students and tenants 2 had come back, and were erased again.',
      );
      expect(await admin('erasures', '--repeat', `${dump}.csv`)).toContain('0 had come back');
      await withGateway(loginUrl(url, 'gateway_login'), async (send) => {
        expect(await send('/alunos?nome=Antes', key)).toEqual({ status: 200, body: [] });
        expect(await send('/alunos', 'wms_demo_bosque')).toMatchObject({ status: 401 });
      });
      expect(JSON.parse(await admin('erasures', '--json'))).toEqual(erasures);
    }

    test.runIf(isLong === inject('isLong'))('restores a dump by a role that is no superuser', async () => {
      const url = await makeDatabase(target, 'nova');
      await restore(url);
      if (version > 15) return;
      const report = await asAdmin(url, async (db) => {
        await db.query('create schema extensions');
        return runTap(db, readScript('privileges.sql'));
      });
      expect(report.failed).toEqual([]);
    });

    test.runIf(inject('isLong'))('restores a dump by a superuser', async () => {
      await runSql(target.adminUrl, 'create database outra');
      await restore(databaseUrl(target.adminUrl, 'outra'));
    });
  });

  test.runIf(inject('isLong'))('is restored as it was at a moment, with its login and its keys', async () => {
    const toScript = (text: string) =>
      text.replaceAll('/backup', join(source.folder, 'backup')).replaceAll('/var/lib/postgresql/data', 'data');
    const setUp = (settings: string) => source.run('cat >> data/postgresql.conf', { input: toScript(settings) });
    source.run('mkdir -p backup/wal');
    await source.restart(() => setUp(ARCHIVE));
    const env = { SUPERUSER_URL: source.adminUrl };
    source.run(toScript(BASE_BACKUP), { env });
    source.run(SHOW_ARCHIVED, { env });
    const login = `create role gateway_login login noinherit password '${PASSWORD}';
      grant gateway to gateway_login; grant connect on database antiga to gateway_login`;
    await runSql(superuserUrl, login);
    const url = loginUrl(superuserUrl, 'gateway_login');
    const [{ moment } = {}] = await runSql(superuserUrl, 'select clock_timestamp()::text as moment');
    expect(await withGateway(url, (send) => create(send, key, 'Depois'))).toMatchObject({ status: 201 });
    await runSql(ownerUrl, `select private.revoke_key(id) from private.api_keys where name = 'Site'`);
    expect(await withGateway(url, (send) => send('/alunos', key))).toMatchObject({ status: 401 });

    await source.restart(() => {
      source.run(`mv data lost; ${toScript(PUT_BACK)}`);
      setUp(RECOVERY.replace('2026-12-01 12:00:00 UTC', moment));
    });
    await waitFor(async () => {
      const states = await runSql(superuserUrl, 'select pg_is_in_recovery() as recovers');
      expect(states).toEqual([{ recovers: false }]);
    });
    expect(await readRows(superuserUrl)).toEqual(rows);
    await withGateway(url, async (send) => {
      expect(await create(send, key, 'Antes')).toEqual(created);
      expect(await create(send, key, 'Depois')).toMatchObject({ status: 201 });
    });
  });
});

describe.skipIf(inject('isLong'))('an embedded store', () => {
  const root = mkdtempSync(join(tmpdir(), 'backup-'));
  const file = join(root, 'wellness.tar.gz');
  const newFolder = () => join(mkdtempSync(join(root, 'data-')), 'store');
  const open = (dataDir: string, migrationsDir = MIGRATIONS) =>
    openServer({ dataDir, fsync: false }, { migrationsDir });
  const withStore = async <T>(dataDir: string, work: (send: Send) => Promise<T>): Promise<T> => {
    const server = await open(dataDir);
    return withGateway(toUrl(dataDir), work).finally(server.close);
  };
  const runPage = (block: string, DATA_DIR: string) =>
    promisify(execFile)('sh', ['-ec', block.replace('wellness.tar.gz', file)], { env: { ...process.env, DATA_DIR } });

  const refused = (errors: string | RegExp, code = 1) => {
    return { code, output: '', errors: typeof errors === 'string' ? `${errors}\n` : expect.stringMatching(errors) };
  };

  afterAll(() => rmSync(root, { recursive: true }));

  test('is backed up while it serves, and restored with its rows and its keys', async () => {
    const DATA_DIR = copyDataDir(inject('dataDir'));
    const gateway = await startConfigured({ DATA_DIR });
    const send = createSend(gateway.url);
    const before: unknown[] = [];
    let hasBegun = false;
    let isBackedUp = false;
    const load = async () => {
      for (let n = 0; !isBackedUp; n += 1) {
        const created = await create(send, 'wms_demo_aurora', `Antes-${n}`);
        expect(created.status).toBe(201);
        if (!hasBegun) before.push(created.body);
      }
    };
    const loaded = load();
    await waitFor(() => expect(before.length).toBeGreaterThan(10));
    hasBegun = true;
    await runPage(BACK_UP, DATA_DIR);
    isBackedUp = true;
    await loaded;
    const inUse = new RegExp(
      `^${DATA_DIR} is in use by process ${process.pid} on .*\nStop the gateway, restore, and start `,
    );
    expect(await runAdmin(['restore', file, '--replace', '--yes'], { DATA_DIR })).toEqual(refused(inUse));
    await gateway.close();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(root).filter((name) => name.endsWith('.part'))).toEqual([]);

    const restored = newFolder();
    await runPage(PUT_STORE_BACK, restored);
    await withStore(restored, async (sendAgain) => {
      const { body } = await sendAgain('/alunos?nome=Antes&limit=1000', 'wms_demo_aurora');
      expect(body).toEqual(expect.arrayContaining(before));
      expect(await sendAgain('/alunos', 'wms_demo_inativa')).toMatchObject({ status: 401 });
      const again = await create(sendAgain, 'wms_demo_aurora', 'Antes-0');
      expect(before).toContainEqual(again.body);
    });
  });

  test('of an earlier version is restored and migrated', async () => {
    const [DATA_DIR, restored, older] = [newFolder(), newFolder(), newFolder()];
    mkdirSync(older);
    const migrations = readMigrations(MIGRATIONS);
    for (const { file: path } of migrations.slice(0, 6)) copyFileSync(path, join(older, basename(path)));
    await (await open(DATA_DIR, older)).close();
    const backup = join(root, 'older.tar.gz');
    expect(await runAdmin(['backup', backup], { DATA_DIR })).toMatchObject({ code: 0, errors: '' });
    const { code, output } = await runAdmin(['restore', backup, '--json'], { DATA_DIR: restored });
    expect([code, JSON.parse(output)]).toEqual([
      0,
      { dataDir: restored, migrations: migrations.slice(6).map(({ version }) => version) },
    ]);
    await withStore(restored, async (send) => {
      expect(await send('/alunos', 'unknown')).toEqual({ status: 401, body: { error: 'API Key inválida' } });
    });
  });

  test('that exists is replaced on request only, and a backup never', async () => {
    const DATA_DIR = copyDataDir(inject('dataDir'));
    const admin = (...args: string[]) => runAdmin(args, { DATA_DIR });
    const backup = join(root, 'first.tar.gz');
    // A killed backup or another user may have left this file, or a link to another file.
    const other = join(root, 'other');
    writeFileSync(other, 'mine', { mode: 0o666 });
    symlinkSync(other, `${backup}.part`);
    succeed(await admin('backup', backup));
    expect([statSync(backup).mode & 0o777, readFileSync(other, 'utf8')]).toEqual([0o600, 'mine']);
    const before = readFileSync(backup);
    expect(await admin('backup', backup)).toEqual(refused(`There is ${backup} already: name a new file`));
    expect(readFileSync(backup).equals(before)).toBe(true);

    const readKeys = async () => JSON.parse(succeed(await admin('key', 'list', '--json'))) as { id: string }[];
    // While the store serves, a command need not start it.
    const { successor, keys, lost } = await withStore(DATA_DIR, async (send) => {
      expect(await create(send, 'wms_demo_aurora', 'Depois')).toMatchObject({ status: 201 });
      const erased = succeed(await admin('student', 'erase', ANA, '--tenant', AURORA, '--yes'));
      expect(erased).toMatch(/^Student .* was erased: .*\nBackups still have it: for a restore, keep /);
      succeed(await admin('key', 'revoke', 'wms_demo_bos', '--yes'));
      const successor = JSON.parse(succeed(await admin('key', 'rotate', 'wms_demo_lei', '--overlap', '0s', '--json')));
      succeed(await admin('key', 'permit', 'wms_demo_aur', '--permission', 'listar_alunos'));
      succeed(await admin('key', 'limit', 'wms_demo_aur', '--per-day', '1000'));
      succeed(await admin('tenant', 'limit', BOSQUE, '--per-day', '7'));
      const keys = await readKeys();
      const tenant = JSON.parse(succeed(await admin('tenant', 'create', 'Nova', '--json')));
      const lost = JSON.parse(succeed(await admin('key', 'issue', '--tenant', tenant.id, '--name', 'Site', '--json')));
      return { successor, keys, lost };
    });
    expect(await admin('restore', backup)).toEqual(
      refused(/^There is a store in .* already: nothing was restored\n.*--replace/),
    );
    expect(await admin('restore', backup, '--replace')).toEqual(
      refused('Expected --yes, because there is no terminal to ask on.\nSee --help.', 2),
    );
    expect(succeed(await admin('restore', backup, '--replace', '--yes'))).toContain(
      `Of 1 erased students and tenants 1 had come back, and were erased again.\nOf 7 keys 3 had been changed and 1 issued since the backup, and are again as in the replaced store.\nThese are lost, because the backup lacks their tenants: ${lost.prefix}.\n`,
    );
    // The student was erased by mistake, and brought back before the second backup.
    const back = join(root, 'back.csv');
    writeFileSync(back, `id,nome,email\n${ANA},Ana,ana@back.example\n`);
    await withStore(DATA_DIR, async (send) => {
      expect(await readKeys()).toEqual(keys);
      expect(succeed(await admin('tenant', 'limit', BOSQUE))).toMatch(/\b7\b/);
      for (const [key, error] of [
        ['wms_demo_bosque', 'API Key inativa'],
        ['wms_demo_leitura', 'API Key expirada'],
      ] as const) {
        expect(await send('/alunos', key)).toEqual({ status: 401, body: { error } });
      }
      expect(await send('/alunos?nome=Depois', successor.key)).toEqual({ status: 200, body: [] });
      expect(await send('/alunos?nome=Depois', 'wms_demo_aurora')).toEqual({ status: 200, body: [] });
      expect(await send('/alunos?limit=1000', 'wms_demo_aurora')).toMatchObject({ status: 200, body: { length: 249 } });
      succeed(await admin('import', 'alunos', back, '--tenant', AURORA));
      succeed(await admin('backup', join(root, 'second.tar.gz')));
    });
    expect(succeed(await admin('restore', join(root, 'second.tar.gz'), '--replace', '--yes'))).toContain(
      'Of 0 erased students and tenants 0 had come back, and were erased again.\n',
    );
    await withStore(DATA_DIR, async () => {
      expect(succeed(await admin('show', 'alunos', ANA, '--tenant', AURORA))).toContain('ana@back.example');
      succeed(await admin('student', 'erase', ANA, '--tenant', AURORA, '--yes'));
    });
    const again = await admin('restore', join(root, 'second.tar.gz'), '--replace', '--yes', '--json');
    expect(JSON.parse(succeed(again))).toMatchObject({ repeated: [{ student: ANA }], revoked: [], lost: [] });
    const list = join(root, 'erasures.csv');
    const erasures = succeed(await admin('erasures'));
    writeFileSync(list, `\n> wellness-gateway@1.0.0 admin\n> node src/admin/main.ts erasures\n\n${erasures}`);
    // A store that cannot start, such as after a fault of the disk.
    rmSync(join(DATA_DIR, 'database/global'), { recursive: true });
    expect(succeed(await admin('restore', backup, '--replace', '--yes'))).toMatch(
      /\nThe record of erasures in the store that was there cannot be read: .*\nStudents .* are back.* erasures --repeat FILE\n/,
    );
    const latin1 = join(root, 'latin1.csv');
    writeFileSync(latin1, Buffer.from('tenant,student,erased_at\n\xe9,,\n', 'latin1'));
    const unlike = join(root, 'unlike.csv');
    writeFileSync(unlike, 'tenant,student,erased_at\nx,y,z\n');
    const hint = 'Expected what `npm run --silent admin -- erasures > FILE` writes, in UTF-8. Nothing was erased.';
    const undated = join(root, 'undated.csv');
    writeFileSync(undated, `tenant,student,erased_at\n${AURORA},${ANA},2026-13-01T00:00:00+00:00\n`);
    for (const none of [backup, latin1, unlike, undated]) {
      expect(await admin('erasures', '--repeat', none)).toEqual(refused(`${none} is not a list of erasures\n${hint}`));
    }
    expect(await admin('erasures', '--repeat', `${list}.old`)).toEqual(refused(`There is no file ${list}.old`));
    const erased_at = erasures.split(',').at(-1)?.trim();
    expect(JSON.parse(succeed(await admin('erasures', '--repeat', list, '--json')))).toEqual({
      repeated: [{ tenant: AURORA, student: ANA, erased_at }],
    });
    const none = join(root, 'none.tar.gz');
    expect(await admin('restore', none, '--replace', '--yes')).toEqual(refused(`There is no file ${none}`));
    expect(readdirSync(DATA_DIR).sort()).toEqual(['database', 'lock', 'lock.json', 'socket']);
  });

  test('is backed up to a whole file or to none', async () => {
    const DATA_DIR = copyDataDir(inject('dataDir'));
    const gateway = await startConfigured({ DATA_DIR });
    const full = join(root, 'full.tar.gz');
    const stderr = expect.stringContaining(`EFBIG: file too large, write '${full}.part'\n`);
    await expect(runLimited(`backup ${full}`, DATA_DIR)).rejects.toMatchObject({ code: 1, stdout: '', stderr });
    expect(readdirSync(root).filter((name) => name.startsWith('full'))).toEqual([]);
    const nowhere = join(root, 'nowhere');
    expect(await runAdmin(['backup', join(nowhere, 'x.tar.gz')], { DATA_DIR })).toEqual(
      refused(`There is no folder ${nowhere}`),
    );
    const send = createSend(gateway.url);
    expect(await create(send, 'wms_demo_aurora', 'Depois')).toMatchObject({ status: 201 });
    await gateway.close();
  });

  test('is not backed up if its server ends the connection', async () => {
    const DATA_DIR = copyDataDir(inject('dataDir'));
    const server = await open(DATA_DIR);
    const find = (what: string, condition: string) =>
      runSql(toUrl(DATA_DIR, 'postgres'), `select ${what} as found from pg_stat_activity where ${condition}`);
    const [{ found: checkpointer }] = (await find('pid', "backend_type = 'checkpointer'")) as [{ found: number }];
    const lost = join(root, 'lost.tar.gz');
    // The backup waits for a checkpoint.
    process.kill(checkpointer, 'SIGSTOP');
    try {
      const backup = runAdmin(['backup', lost], { DATA_DIR });
      const isWaiting = "backend_type = 'walsender' and wait_event ~ '^Checkpoint'";
      await waitFor(async () => expect(await find('pg_terminate_backend(pid)', isWaiting)).not.toEqual([]));
      expect(await backup).toEqual(refused(/^The connection to the database was lost: .*; check whether .*\n$/));
    } finally {
      process.kill(checkpointer, 'SIGCONT');
    }
    expect(readdirSync(root).filter((name) => name.startsWith('lost'))).toEqual([]);
    await server.close();
  });

  test('is left alone by a damaged backup', async () => {
    const DATA_DIR = copyDataDir(inject('dataDir'));
    const whole = join(root, 'whole.tar.gz');
    expect(await runAdmin(['backup', whole], { DATA_DIR })).toMatchObject({ code: 0 });
    const bytes = readFileSync(whole);
    const flipped = (index: number) => {
      const copy = Buffer.from(bytes);
      copy.writeUInt8(copy.readUInt8(index) ^ 1, index);
      return copy;
    };
    const damaged = join(root, 'damaged.tar.gz');
    const half = Math.floor(bytes.length / 2);
    for (const copy of [flipped(half), flipped(bytes.length - 6), bytes.subarray(0, half), bytes.subarray(0, 0)]) {
      writeFileSync(damaged, copy);
      expect(await runAdmin(['restore', damaged, '--replace', '--yes'], { DATA_DIR })).toEqual(
        refused(new RegExp(`^${damaged} is`)),
      );
    }
    const stderr = expect.stringMatching(/EFBIG: file too large, write '.*\/database[^/]*'\n$/);
    const restoring = runLimited(`restore ${whole} --replace --yes`, DATA_DIR);
    await expect(restoring).rejects.toMatchObject({ code: 1, stdout: '', stderr });
    expect(readdirSync(DATA_DIR).sort()).toEqual(['database', 'lock', 'lock.json', 'socket']);
    await withStore(DATA_DIR, async (send) => {
      expect(await send('/alunos?limit=1', 'wms_demo_aurora')).toMatchObject({ status: 200, body: { length: 1 } });
    });
  });

  test('is kept in its last seven backups by the line for cron', async () => {
    const folder = mkdtempSync(join(root, 'kept-'));
    for (let day = 1; day <= 9; day += 1) {
      const old = join(folder, `wellness-2026-01-0${day}.tar.gz`);
      writeFileSync(old, '');
      utimesSync(old, day, day);
    }
    const line = CRON.replace(/^(\S+ ){5}/, '')
      .replaceAll('\\%', '%')
      .replaceAll('/backup', folder);
    await runPage(line.replace('/srv/wellness', '.'), copyDataDir(inject('dataDir')));
    const kept = readdirSync(folder).sort();
    expect(kept).toHaveLength(7);
    expect(kept[0]).toBe('wellness-2026-01-04.tar.gz');
    expect(statSync(join(folder, kept[6] ?? '')).size).toBeGreaterThan(1_000_000);
  });

  test('is the only store of these commands: Postgres has another tool', async () => {
    const DATABASE_URL = 'postgres://user@127.0.0.1:1/x';
    const hint = 'Back up Postgres and Supabase with pg_dump: see docs/backup.md.';
    for (const command of ['backup', 'restore']) {
      expect(await runAdmin([command, file], { DATABASE_URL })).toEqual(
        refused(`This is for the embedded store, and DATABASE_URL or SUPABASE_URL is set\n${hint}`),
      );
    }
  });
});
