import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, inject, test } from 'vitest';
import { openEmbedded } from '../../src/store/embedded/store.ts';
import { copyDataDir, MIGRATIONS } from '../helpers/gateway.ts';
import { GatewayProcess, killAll, startProcess } from '../helpers/process.ts';
import { isPresent } from '../helpers/requirement.ts';
import { waitFor } from '../helpers/wait-for.ts';

const root = mkdtempSync(join(tmpdir(), 'folder-'));

afterEach(killAll);

afterAll(() => rmSync(root, { recursive: true }));

const newPath = () => join(mkdtempSync(join(root, 'data-')), 'store');
const open = (dataDir: string, onWarning: (text: string) => void = () => {}) =>
  openEmbedded({ dataDir, migrationsDir: MIGRATIONS, statementLimitMs: 5_000, onWarning });

/** The paths of a folder and everything in it that others than the owner have permissions on. */
function findOpen(folder: string): string[] {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
  expect(paths.length).toBeGreaterThan(900);
  return [folder, ...paths].filter((path) => !lstatSync(path).isSocket() && (lstatSync(path).mode & 0o077) !== 0);
}

describe('a data folder', () => {
  test("that is new is its owner's alone, with everything in it, also while it is written to", async () => {
    const dataDir = newPath();
    const gateway = await startProcess({ DATA_DIR: dataDir }, { launcher: ['sh', '-c', 'umask 0; exec "$@"', 'sh'] });
    const init = { method: 'POST', headers: { 'X-Api-Key': 'wms_demo_aurora' } };
    const body = JSON.stringify({ p_nome: 'Ana', p_email: 'ana@aurora.example' });
    expect((await fetch(`${gateway.origin}/v1/alunos`, { ...init, body })).status).toBe(201);
    expect(findOpen(dataDir)).toEqual([]);
    expect(await gateway.stop()).toBe(0);
    expect(findOpen(dataDir)).toEqual([]);
  });

  test('of an earlier version, which everybody could read, is closed with a warning, once', async () => {
    const dataDir = copyDataDir(inject('dataDir'));
    chmodSync(dataDir, 0o755);
    chmodSync(join(dataDir, 'postgres'), 0o755);
    chmodSync(join(dataDir, 'postgres/global/pg_control'), 0o666);
    const warnings: string[] = [];
    for (let start = 0; start < 2; start += 1) {
      const store = await open(dataDir, (text) => warnings.push(text));
      await store.close();
      expect(findOpen(dataDir)).toEqual([]);
    }
    expect(warnings).toEqual([
      `Other users of this machine could read ${dataDir}: its permissions are now its owner's alone`,
    ]);
  });

  const isRoot = isPresent(
    process.getuid?.() === 0,
    'This user is not root: a test of folders of other users cannot run',
  );

  test.runIf(isRoot)('of another user is refused, and left as it is', async () => {
    const dataDir = newPath();
    mkdirSync(dataDir);
    chownSync(dataDir, 12_345, 12_345);
    await expect(open(dataDir)).rejects.toThrow(
      `${dataDir} belongs to user 12345, and this process runs as user 0: run it as user 12345, or set DATA_DIR to a folder that does not exist yet, such as ${dataDir}/store`,
    );
    expect(readdirSync(dataDir)).toEqual([]);
  });

  test.each([
    [
      'in a folder that does not exist',
      '/nowhere/data',
      /^\/nowhere\/data cannot be used: ENOENT.*; create \/nowhere first, or set DATA_DIR to another/,
    ],
    ['that is a file', '/etc/hostname', /^\/etc\/hostname cannot be used: ENOTDIR/],
  ])('%s is refused', async (_what, dataDir, message) => {
    await expect(open(dataDir)).rejects.toThrow(message);
  });
});

/** Runs a command with a disk of its own at a folder. */
const withDisk = (folder: string, options: string, script = ':') => {
  const mounted = `mount -t tmpfs -o ${options} tmpfs ${folder} && ${script} && exec "$@"`;
  return ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', mounted, 'sh'];
};

const canMount = isPresent(
  spawnSync(withDisk(root, 'size=8k')[0] ?? '', [...withDisk(root, 'size=8k').slice(1), 'true']).status === 0,
  'User namespaces cannot mount: the tests of full and of read-only disks cannot run',
);

describe.skipIf(!canMount)('a disk', () => {
  const disk = join(root, 'disk');
  const dataDir = join(disk, 'store');
  mkdirSync(disk);

  test('that cannot be written to ends the start at once, with one line', async () => {
    const gateway = new GatewayProcess({ DATA_DIR: dataDir }, { launcher: withDisk(disk, 'ro') });
    expect(await gateway.ended).toBe(1);
    expect([gateway.output(), gateway.errors()]).toEqual([
      '',
      `${dataDir} cannot be used: EROFS: read-only file system, mkdir '${dataDir}'\n`,
    ]);
  });

  test('without space for a new store ends the start with the reason', async () => {
    const gateway = new GatewayProcess({ DATA_DIR: dataDir }, { launcher: withDisk(disk, 'size=2m') });
    expect(await gateway.ended).toBe(1);
    expect(gateway.errors()).toBe(
      `Postgres cannot use ${dataDir}/postgres.new: ENOSPC: no space left on device, write\n`,
    );
  });

  test('that fills up loses nothing acknowledged, and the gateway goes on as soon as there is space', async () => {
    const template = copyDataDir(inject('dataDir'));
    // Less is left than the next segment of the WAL takes.
    const prepare = `cp -a ${template} ${dataDir} && head -c 30000000 /dev/zero > ${disk}/ballast`;
    const gateway = await startProcess({ DATA_DIR: dataDir }, { launcher: withDisk(disk, 'size=80m', prepare) });
    const headers = { 'X-Api-Key': 'wms_demo_aurora' };
    const url = `${gateway.origin}/v1/alunos`;
    const create = async (nome: string) => {
      const body = JSON.stringify({ p_nome: nome, p_email: `${'x'.repeat(200)}@aurora.example` });
      const answer = await fetch(url, { method: 'POST', headers, body });
      return { status: answer.status, body: await answer.json() };
    };

    const acknowledged: unknown[] = [];
    let failed = 0;
    while (failed < 3) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) => create(`Cheio ${acknowledged.length + n}`)),
      );
      for (const { status, body } of answers) {
        if (status === 201) acknowledged.push(body);
        else expect({ status, body }).toMatchObject({ status: 502, body: { error: /^Data store/ } });
      }
      failed += answers.filter(({ status }) => status === 502).length;
    }
    expect(acknowledged.length).toBeGreaterThan(0);
    expect(gateway.output()).toMatch(/No space left on device|no space left on device/);

    // The test is outside of the namespace that has the disk.
    rmSync(`/proc/${gateway.child.pid}/root${disk}/ballast`);
    await waitFor(async () => expect(await create('Depois')).toMatchObject({ status: 201 }));
    const all: unknown[] = [];
    for (let after = ''; ; ) {
      const answer = await fetch(`${url}?nome=Cheio&limit=1000${after}`, { headers });
      const page = (await answer.json()) as { id: string }[];
      all.push(...page);
      if (page.length < 1_000) break;
      after = `&after=${page.at(-1)?.id}`;
    }
    expect(all).toEqual(expect.arrayContaining(acknowledged));
  });
});
