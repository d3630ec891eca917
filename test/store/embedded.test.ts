// The embedded store in real processes: the gateway, the server that it starts, and what happens when either is killed.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { FILES, readConfig } from '../../src/config.ts';
import { OperatorError } from '../../src/errors.ts';
import { NOBODY } from '../../src/store/embedded/folder.ts';
import { openServer, toUrl } from '../../src/store/embedded/store.ts';
import { openStore } from '../../src/store/open.ts';
import { findMistakes, underLoad } from '../helpers/clients.ts';
import { canTestOnDebian } from '../helpers/debian-postgres.ts';
import { copyDataDir, copyMigrations } from '../helpers/gateway.ts';
import { type GatewayProcess, killAll, startProcess } from '../helpers/process.ts';
import { isPresent } from '../helpers/requirement.ts';
import { asAdmin, childrenOf, isRunning, runSql } from '../helpers/servers.ts';
import { waitFor, waitForBlocked } from '../helpers/wait-for.ts';

const root = mkdtempSync(join(tmpdir(), 'embedded-'));
const headers = { 'X-Api-Key': 'wms_demo_aurora' };
const isRoot = process.getuid?.() === 0;
/** Debian's user `daemon`: Postgres refuses a user without a name. */
const OTHER = 1;

afterAll(() => {
  killAll();
  rmSync(root, { recursive: true });
});

const newPath = () => join(mkdtempSync(join(root, 'data-')), 'store');
const newStore = () => copyDataDir(inject('dataDir'));
/** Opens the server of a store; a new one has no tables. */
const open = (dataDir: string) => openServer({ dataDir, fsync: false });

/** The line that refuses a store and ends the start of a gateway. */
async function refusal(dataDir: string, programs?: string): Promise<string> {
  const error = await openServer({ dataDir, programs, fsync: false }).catch((error) => error);
  expect(error).toBeInstanceOf(OperatorError);
  expect(error.message).not.toContain('\n');
  return error.message;
}

/** Opens stores one after the other, and prints for each its folder or why it is refused. */
const OPEN = `import { openServer } from './src/store/embedded/store.ts';
  for (const dataDir of process.argv.slice(1)) {
    const options = { dataDir: dataDir === ':memory:' ? undefined : dataDir, fsync: false };
    console.log(await openServer(options).then((server) => server.dataDir, (error) => error.message));
  }`;

/** Starts another process that opens stores, and returns what it prints. */
async function openElsewhere(
  dataDirs: readonly string[],
  { launcher = [], env = {} }: { launcher?: readonly string[]; env?: Record<string, string> } = {},
): Promise<{ child: ChildProcess; said: string[] }> {
  const node = [process.execPath, '--input-type=module', '--eval', OPEN, ...dataDirs];
  const [command = '', ...args] = [...launcher, ...node];
  const child = spawn(command, args, {
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    said.push(line);
    if (said.length === dataDirs.length) break;
  }
  return { child, said };
}

/** Kills such a process. Its servers end with it. */
async function killElsewhere({ pid = 0 }: ChildProcess): Promise<void> {
  process.kill(pid, 'SIGKILL');
  await waitFor(() => expect(isRunning(pid)).toBe(false));
}

/** The process id of the server; undefined without one. */
function pidOf(dataDir: string): number | undefined {
  const file = join(dataDir, 'database/postmaster.pid');
  return existsSync(file) ? Number.parseInt(readFileSync(file, 'utf8'), 10) : undefined;
}

async function create(origin: string, nome: string): Promise<{ status: number; id?: string }> {
  const body = JSON.stringify({ p_nome: nome, p_email: `${'x'.repeat(200)}@aurora.example` });
  const answer = await fetch(`${origin}/v1/alunos`, { method: 'POST', headers, body });
  return { status: answer.status, ...((await answer.json()) as object) };
}

/** Clients that create students. Every other one may send a creation again. */
const clientsOf = ({ origin }: GatewayProcess, other: 'once' | 'repeated') =>
  (['once', other, 'once', other, 'once', other, 'once', other] as const).map((creates) => ({
    ...{ url: `${origin}/v1`, keys: [headers['X-Api-Key']], lists: [], creates, pauseMs: 0 },
  }));

/** The ids of the students whose names begin so. */
async function readIds(dataDir: string, nome: string): Promise<string[]> {
  const sql = 'select id from private.alunos where nome like $1';
  return (await runSql<{ id: string }>(toUrl(dataDir, 'postgres'), sql, [`${nome}%`])).map(({ id }) => id);
}

describe('a folder', () => {
  test('with an interrupted restore has the store of before, and nothing of the other one', async () => {
    const dataDir = newStore();
    const [database, old, complete] = ['', '.old', '.new'].map((suffix) => join(dataDir, `database${suffix}`));
    spawnSync('mv', [String(database), String(old)]);
    mkdirSync(String(complete));
    await (await open(dataDir)).close();
    mkdirSync(String(old));
    const server = await open(dataDir);
    expect(await readIds(dataDir, '')).toHaveLength(255);
    await server.close();
    expect(readdirSync(dataDir).filter((name) => name.startsWith('database'))).toEqual(['database']);
  });

  test('whose postmaster.pid names another process is used all the same', async () => {
    const dataDir = newStore();
    const lines = [process.pid, join(dataDir, 'database'), 0, 5432, join(dataDir, 'socket'), '', '', 'ready'];
    writeFileSync(join(dataDir, 'database/postmaster.pid'), lines.join('\n'));
    mkdirSync(join(dataDir, 'socket'), { recursive: true });
    writeFileSync(join(dataDir, 'socket/.s.PGSQL.5432.lock'), lines.join('\n'));
    const server = await open(dataDir);
    expect(await readIds(dataDir, '')).toHaveLength(255);
    await server.close();
  });

  test('of a server that has outlived its gateway is taken over', async () => {
    const dataDir = newStore();
    const { child } = await openElsewhere([dataDir]);
    const before = pidOf(dataDir);
    // The shells between them are killed first: they would take the server with them.
    const [keeper = 0] = childrenOf(child.pid);
    for (const pid of [...childrenOf(keeper).filter((pid) => pid !== before), keeper]) process.kill(pid, 'SIGKILL');
    await killElsewhere(child);
    expect(isRunning(before)).toBe(true);
    const shell = spawn('sleep', ['600'], { cwd: join(dataDir, 'database') });
    const second = await open(dataDir);
    expect(shell.kill()).toBe(true);
    expect((await once(shell, 'exit'))[1]).toBe('SIGTERM');
    expect(pidOf(dataDir)).not.toBe(before);
    expect(await readIds(dataDir, '')).toHaveLength(255);
    await second.close();
  });

  test.each([
    [
      'has files of something else',
      'src',
      /^src has files of something else, such as \w+: set DATA_DIR to a new folder/,
    ],
    [
      'lacks its parent',
      '/nowhere/data',
      /^\/nowhere\/data cannot be used: ENOENT.*; create \/nowhere first, or set DATA_DIR/,
    ],
    ['is a file', '/etc/hostname', /^\/etc\/hostname cannot be used: ENOTDIR/],
    ['has a comma in its path', join(root, 'a,b'), /a,b has a comma: set DATA_DIR to one without$/],
    [
      'has too long a path',
      join(root, 'x'.repeat(100)),
      /\d+ bytes too long for a socket in it: set DATA_DIR to a shorter one$/,
    ],
  ])('that %s is refused', async (_what, dataDir, message) => {
    expect(await refusal(dataDir)).toMatch(message);
  });

  test.each<[string, (at: (name: string) => string) => void, string]>([
    [
      'of another version of Postgres',
      (at) => writeFileSync(at('database/PG_VERSION'), '17\n'),
      'Postgres 17 made STORE/database, and the programs have version 18: set POSTGRES_BIN to the programs of Postgres 17',
    ],
    [
      'of version 1',
      (at) => {
        rmSync(at('database'), { recursive: true });
        mkdirSync(at('postgres'));
        writeFileSync(at('lock.json'), '{}');
      },
      'STORE has a store of version 1: set DATA_DIR to a new folder, and copy the store there as docs/stores.md says ("From version 1")',
    ],
    [
      'that is damaged',
      (at) => rmSync(at('database/global/pg_control')),
      'global/pg_control": No such file or directory',
    ],
  ])('%s is refused with the reason, and its files stay', async (_what, change, message) => {
    const dataDir = newStore();
    change((name) => join(dataDir, name));
    const files = readdirSync(dataDir);
    expect(await refusal(dataDir)).toContain(message.replaceAll('STORE', dataDir));
    expect(readdirSync(dataDir)).toEqual(expect.arrayContaining(files));
  });

  test('whose migration fails is free again, and a store that could not be made leaves nothing', async () => {
    const migrationsDir = copyMigrations({ '20991231000000_broken.sql': 'nonsense' });
    const dataDir = newStore();
    const migrate = openServer({ dataDir, fsync: false }, { migrationsDir });
    await expect(migrate).rejects.toThrow(/_broken\.sql:1:1: syntax error at or near "nonsense"/);
    expect(pidOf(dataDir)).toBeUndefined();
    const server = await open(dataDir);
    await server.close();

    // A first start was killed in this folder.
    const empty = newPath();
    mkdirSync(join(empty, 'database.new/base'), { recursive: true });
    const broken = mkdtempSync(join(root, 'migrations-'));
    writeFileSync(join(broken, '20991231000000_broken.sql'), 'nonsense');
    const create = openServer({ dataDir: empty, fsync: false }, { migrationsDir: broken });
    await expect(create).rejects.toThrow('syntax error');
    expect(readdirSync(empty).sort()).toEqual(['lock', 'lock.json', 'socket']);
  });

  test('in a temporary place goes when the gateway is killed', async () => {
    const temporary = mkdtempSync(join(root, 'tmp-'));
    const { child } = await openElsewhere([':memory:'], { env: { TMPDIR: temporary } });
    expect(readdirSync(temporary)).toHaveLength(1);
    await killElsewhere(child);
    await waitFor(() => expect(readdirSync(temporary)).toEqual([]));
  });
});

describe('the user', () => {
  const canSwitch = isPresent(
    isRoot && spawnSync('setpriv', [`--reuid=${OTHER}`, '--clear-groups', 'test', '-r', FILES.document]).status === 0,
    'This is not root, or others cannot read this folder: the tests of other users cannot run',
  );

  test.runIf(isRoot)('of the server is the owner of the folder if root starts it', async () => {
    const dataDir = newPath();
    mkdirSync(dataDir);
    chownSync(dataDir, OTHER, OTHER);
    const server = await open(dataDir);
    expect(statSync(`/proc/${pidOf(dataDir)}`).uid).toBe(OTHER);
    expect(statSync(join(dataDir, 'database')).uid).toBe(OTHER);
    await server.close();
  });

  test.runIf(canSwitch)('of the server is that of the gateway, which needs the folder but no privilege', async () => {
    // Every user can reach it.
    const folder = mkdtempSync('/tmp/embedded-');
    onTestFinished(() => rmSync(folder, { recursive: true }));
    chmodSync(folder, 0o755);
    chownSync(folder, OTHER, OTHER);
    const [foreign, dataDir] = [join(folder, 'foreign'), join(folder, 'store')];
    mkdirSync(foreign, { mode: 0o700 });
    const launcher = ['setpriv', `--reuid=${OTHER}`, `--regid=${OTHER}`, '--clear-groups'];
    const { child, said } = await openElsewhere([foreign, dataDir], { launcher });
    expect(said).toEqual([
      `${foreign} belongs to user 0, and this process runs as user ${OTHER}: run it as user 0, or set DATA_DIR to a folder that does not exist yet, such as ${foreign}/store`,
      dataDir,
    ]);
    expect(readdirSync(foreign)).toEqual([]);
    const look = "import { hasStore } from './src/store/embedded/folder.ts'; hasStore(process.argv[1])";
    const node = [process.execPath, '--input-type=module', '--eval', look, foreign];
    const { stderr } = spawnSync('/usr/bin/env', [...launcher, ...node], { encoding: 'utf8' });
    expect(stderr).toContain(`FolderError: ${foreign} belongs to user 0`);
    const server = pidOf(dataDir);
    expect(statSync(`/proc/${server}`).uid).toBe(OTHER);
    await killElsewhere(child);
    await waitFor(() => expect(isRunning(server)).toBe(false));
  });
});

describe('the programs', () => {
  test.runIf(canTestOnDebian('pgtap'))('may be those of the system, from version 15 on', async () => {
    const dataDir = newPath();
    const server = await openServer({ dataDir, programs: '/usr/lib/postgresql/15/bin', fsync: false });
    expect(await runSql(toUrl(dataDir, 'postgres'), 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(readFileSync(join(dataDir, 'database/PG_VERSION'), 'utf8')).toBe('15\n');
    await server.close();
  });

  test('that are missing end the start with the remedy', async () => {
    expect(await refusal(newPath(), '/nowhere')).toBe(
      'The programs of Postgres in /nowhere cannot run: spawn /nowhere/postgres ENOENT; set POSTGRES_BIN to a folder with initdb and postgres, version 15 or later, or DATABASE_URL to a server that runs',
    );
  });
});

describe('a gateway', () => {
  const dataDir = newPath();
  let gateway: GatewayProcess;

  beforeAll(async () => {
    const launcher = ['sh', '-c', 'umask 0; exec "$@"', 'sh'];
    gateway = await startProcess({ DATA_DIR: dataDir }, { launcher });
  });

  test("makes a folder that is its owner's alone", () => {
    expect([dataDir, join(dataDir, 'socket')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700]);
    if (isRoot) expect(statSync(`/proc/${pidOf(dataDir)}`).uid).toBe(NOBODY);
  });

  test('uses a login that may read nothing by itself', async () => {
    const sql = 'select session_user, pg_has_role(session_user, $1, $2) as may';
    const may = await runSql(toUrl(dataDir), sql, ['pg_read_all_data', 'member']);
    expect(may).toEqual([{ session_user: 'gateway_login', may: false }]);
  });

  test('is alone in its folder: another one is refused with the name of the process that has it', async () => {
    const { pid } = gateway.child;
    const { said } = await openElsewhere([dataDir]);
    expect(said[0]).toMatch(
      new RegExp(
        `^${dataDir} is in use by process ${pid} on \\S+, since 20.*; wait until it ends, or stop it with: kill ${pid}$`,
      ),
    );
    expect(await create(gateway.origin, 'Ana')).toMatchObject({ status: 201 });
  });

  test('replaces a killed shell between it and the server, together with the server', async () => {
    const server = pidOf(dataDir);
    const [keeper = 0] = childrenOf(gateway.child.pid);
    process.kill(keeper, 'SIGKILL');
    await waitFor(async () => {
      expect(pidOf(dataDir)).not.toBe(server);
      expect(await create(gateway.origin, 'Ana')).toMatchObject({ status: 201 });
    });
  });

  test.each([
    ['the server', 'SIGKILL', 'Killed', undefined],
    ['the server', 'SIGKILL', 'Killed', 'SIGSTOP'],
    ['the server', 'SIGTERM', 'exit code 0', undefined],
    ['a session', 'SIGKILL', 'client backend \\(PID \\d+\\) was terminated by signal 9: Killed', undefined],
  ] as const)(
    'starts a server again when %s was ended by %s, and loses nothing acknowledged',
    async (ended, signal, reason, stop) => {
      const [server = 0, from] = [pidOf(dataDir), gateway.output().length];
      // Postgres logs the end of this session with several lines.
      const sleeping = runSql(toUrl(dataDir, 'postgres'), 'do $$ begin perform pg_sleep(600); end $$').catch(() => {});
      const session = await waitFor(async () => {
        const sql = `select pid from pg_stat_activity where wait_event = 'PgSleep'`;
        const [{ pid } = { pid: 0 }] = (await runSql(toUrl(dataDir, 'postgres'), sql)) as { pid: number }[];
        expect(pid).toBeGreaterThan(0);
        return pid;
      });
      // A stopped session does not notice that the server has ended, and keeps its memory and its output.
      if (stop) process.kill(session, stop);
      const clients = await underLoad(clientsOf(gateway, 'repeated'), async () => {
        process.kill(ended === 'a session' ? session : server, signal);
        await waitFor(async () => {
          expect(pidOf(dataDir)).not.toBe(server);
          expect(await create(gateway.origin, 'Depois')).toMatchObject({ status: 201 });
        });
      });
      await sleeping;
      await gateway.printed(new RegExp(`Postgres has ended: ${reason}; it is started again`), from);
      expect(clients.flatMap(({ failures }) => failures.filter(({ status }) => status !== 502))).toEqual([]);
      for (const client of clients.filter(({ options }) => options.creates === 'repeated')) {
        expect(await client.repeat()).toEqual(new Set([201]));
      }
      expect(await findMistakes(clients)).toEqual([]);
    },
  );

  test('that is killed takes the server with it, and loses nothing; the next one adds no demo data', async () => {
    const server = pidOf(dataDir);
    const clients = await underLoad(clientsOf(gateway, 'once'), () => gateway.stop('SIGKILL'));
    await waitFor(() => expect(isRunning(server)).toBe(false));
    gateway = await startProcess({ DATA_DIR: dataDir });
    expect(await findMistakes(clients, `${gateway.origin}/v1`)).toEqual([]);
    expect(await runSql(toUrl(dataDir, 'postgres'), 'select from private.academias')).toHaveLength(4);
  });

  test('that stops lets requests end, then the server', async () => {
    await asAdmin(toUrl(dataDir, 'postgres'), async (admin) => {
      await admin.query('begin; lock table private.alunos');
      const waiting = create(gateway.origin, 'Última');
      await waitForBlocked(toUrl(dataDir, 'postgres'), 1);
      const stopped = gateway.stop();
      await gateway.printed('Stopping');
      await admin.query('commit');
      expect(await waiting).toMatchObject({ status: 201 });
      expect(await stopped).toBe(0);
    });
    expect(pidOf(dataDir)).toBeUndefined();
  });
});

test('several workers have one server, which the primary process starts and stops, here in a temporary place', async () => {
  const temporary = mkdtempSync(join(root, 'tmp-'));
  const env = { DATA_DIR: ':memory:', DEMO_DATA: 'off', WORKERS: '2', METRICS_PORT: '0', TMPDIR: temporary };
  const gateway = await startProcess(env);
  await waitFor(async () => {
    const metrics = await (await fetch(`${gateway.managementOrigin}/metrics`)).text();
    expect(metrics.match(/^gateway_ready\{worker="\d"\} 1$/gm)).toHaveLength(2);
  });
  const [store = '', ...others] = readdirSync(temporary);
  expect(others).toEqual([]);
  const server = pidOf(join(temporary, store));
  expect(isRunning(server)).toBe(true);
  expect(await gateway.stop()).toBe(0);
  expect(isRunning(server)).toBe(false);
  expect(readdirSync(temporary)).toEqual([]);
});

test('a new migration is applied while the store serves, with the warnings of Postgres, and a call is tried until the deadline', async () => {
  const migrations = copyMigrations();
  const warnings: string[] = [];
  const { store, own } = await openStore(
    readConfig({ DATA_DIR: newStore(), DEMO_DATA: 'on', DEADLINE_MS: '3000' }),
    { ...FILES, migrations },
    { info: () => {}, warn: (text) => warnings.push(text) },
  );
  const file = join(migrations, '20991231000000_a.sql');
  writeFileSync(
    file,
    `do $$ begin raise warning 'look' using hint = 'here'; end $$;
     create function public.endless() returns void language sql stable security definer
     set search_path = pg_catalog, pg_temp as 'select pg_sleep(3600)'; select private.publish('public.endless');`,
  );
  expect(await own?.migrate()).toEqual([file]);
  expect(warnings).toEqual(['look\n  hint: here']);
  // The next example and the next save wait for this one.
  const call = { function: 'endless', args: {}, returns: 'nothing', readOnly: true } as const;
  expect(await own?.attempt(call)).toMatchObject({ failure: { kind: 'storeTimeout' } });
  await store.close();
});

/** Runs a command with a disk mounted at a folder for it alone. */
const withDisk = (folder: string, options: string, script = ':') => {
  const mounted = `mount -t tmpfs -o ${options} tmpfs ${folder} && ${script} && exec "$@"`;
  return ['unshare', '--mount', 'sh', '-c', mounted, 'sh'];
};
const [unshare = '', ...probe] = [...withDisk(root, 'size=8k'), 'true'];
const canMount = isPresent(
  spawnSync(unshare, probe).status === 0,
  'This user cannot mount: the tests of full disks cannot run',
);

test.skipIf(!canMount)('a full disk loses nothing acknowledged, and with space the gateway goes on', async () => {
  const disk = join(root, 'disk');
  const dataDir = join(disk, 'store');
  mkdirSync(disk);
  const template = newStore();
  // The rest is less than the next segment of the WAL takes.
  const rest = `$(($(df --output=avail -B1 ${disk} | tail -1) - 10000000))`;
  const prepare = `cp -a ${template} ${dataDir} && head -c ${rest} /dev/zero > ${disk}/ballast`;
  const launcher = withDisk(disk, 'size=110m,mode=755', prepare);
  const gateway = await startProcess({ DATA_DIR: dataDir }, { launcher });
  // The test is outside of the mount namespace that has the disk.
  const inside = `/proc/${gateway.child.pid}/root${disk}`;
  // Fills most of the segment, which would take requests long.
  const size = `16777216 - 300000 - (pg_current_wal_insert_lsn() - '0/0') % 16777216`;
  const fill = `select pg_logical_emit_message(false, '', repeat('x', (${size})::integer))`;
  await runSql(toUrl(join(inside, 'store'), 'postgres'), fill);
  const acknowledged: string[] = [];
  for (let failed = 0; failed < 3; ) {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => create(gateway.origin, `Cheio ${acknowledged.length + n}`)),
    );
    for (const { status, id } of answers) {
      expect([201, 502]).toContain(status);
      if (id) acknowledged.push(id);
    }
    failed += answers.filter(({ status }) => status === 502).length;
  }
  expect(acknowledged.length).toBeGreaterThan(0);
  await gateway.printed(/No space left on device/);

  rmSync(`${inside}/ballast`);
  await waitFor(async () => expect(await create(gateway.origin, 'Depois')).toMatchObject({ status: 201 }));
  expect(await readIds(join(inside, 'store'), 'Cheio')).toEqual(expect.arrayContaining(acknowledged));
  await gateway.stop();
});
