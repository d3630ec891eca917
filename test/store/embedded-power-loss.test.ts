import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { amcheck } from '@electric-sql/pglite/contrib/amcheck';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest';
import { openPGlite } from '../../src/store/embedded/pglite.ts';
import { toSocketFolder } from '../../src/store/embedded/socket.ts';
import { copyDataDir } from '../helpers/gateway.ts';
import { createRandom, Disk, type Operation, readOperations } from '../helpers/power-loss.ts';
import { killAll, startProcess } from '../helpers/process.ts';
import { waitFor } from '../helpers/wait-for.ts';

const root = mkdtempSync(join(tmpdir(), 'power-'));
const CLIENTS = 4;
const isLong = inject('isLong');
const [ROUNDS, CUTS, KILLS] = isLong ? [3, 200, 20] : [1, 4, 1];

let postgres: WebAssembly.Module;

beforeAll(async () => {
  const file = new URL('pglite.wasm', import.meta.resolve('@electric-sql/pglite'));
  postgres = await WebAssembly.compile(readFileSync(file));
});

afterEach(killAll);

afterAll(() => rmSync(root, { recursive: true }));

/** A student, and the end of the record when the creation was answered. */
type Acknowledged = { readonly id: string; readonly nome: string; readonly recorded: number };
type Recorded = { readonly operations: Operation[]; readonly acknowledged: Acknowledged[] };

/** Creates a student and the key of idempotency in one transaction. */
async function create(origin: string, nome: string): Promise<{ id: string; nome: string }> {
  const answer = await fetch(`${origin}/v1/alunos`, {
    method: 'POST',
    headers: { 'X-Api-Key': 'wms_demo_aurora', 'Idempotency-Key': nome.replaceAll(' ', '-') },
    body: JSON.stringify({ p_nome: nome, p_email: 'queda@aurora.example' }),
  });
  expect(answer.status).toBe(201);
  return (await answer.json()) as { id: string; nome: string };
}

/**
 * Runs a gateway under load, with checkpoints and new segments of the WAL, and records what it does to its files. An answer is
 * acknowledged at the end that the record has by then.
 */
async function runRecorded(env: Record<string, string> = {}): Promise<Recorded> {
  const dataDir = copyDataDir(inject('dataDir'));
  const record = join(mkdtempSync(join(root, 'record-')), 'operations');
  writeFileSync(record, '');
  const gateway = await startProcess(
    { DATA_DIR: dataDir, RECORD_TO: record, RECORD_FOLDER: join(dataDir, 'postgres'), ...env },
    { nodeArgs: ['--import', './test/helpers/record-writes.ts'] },
  );
  const admin = new pg.Client({ host: toSocketFolder(dataDir), user: 'postgres', database: 'postgres' });
  await admin.connect();
  const acknowledged: Acknowledged[] = [];
  const createOne = async (nome: string) => {
    acknowledged.push({ ...(await create(gateway.origin, nome)), recorded: statSync(record).size });
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; n < 10; n += 1) await createOne(`Queda ${round}-${client}-${n}`);
    });
    await Promise.all(clients);
    await admin.query(`create table private.filler_${round} as
      select repeat(md5(n::text), 20) as text from generate_series(1, 15000) n`);
    await admin.query('checkpoint');
    await admin.query(`drop table private.filler_${round}`);
    await createOne(`Queda ${round}`);
  }
  await admin.end();
  expect(await gateway.stop()).toBe(0);
  return { operations: readOperations(record), acknowledged };
}

/** What the disk has before any recorded operation. */
const createDisk = () => new Disk(join(inject('dataDir'), 'postgres'));

/** Builds what a loss of power may leave, and reads the Postgres that starts on it. */
async function readAfterLoss(disk: Disk, seed: number): Promise<Students> {
  const folder = join(root, `cut-${seed}`);
  disk.loseTo(folder, createRandom(seed));
  return readStudents(folder).finally(() => rmSync(folder, { recursive: true }));
}

/** The names of the created students by their ids, and how many keys of idempotency there are. */
type Students = { readonly names: Map<string, string>; readonly keys: number };

/** Starts Postgres on a folder, checks every table and index, and reads. Throws what is wrong. */
async function readStudents(folder: string): Promise<Students> {
  const db = await openPGlite(folder, { fsync: false, pgliteWasmModule: postgres, extensions: { amcheck } });
  try {
    await db.exec(`
      create extension if not exists amcheck;
      select bt_index_check(c.oid, true) from pg_class c join pg_am a on a.oid = c.relam
       where a.amname = 'btree' and c.relkind = 'i';
      select gin_index_check(c.oid) from pg_class c join pg_am a on a.oid = c.relam
       where a.amname = 'gin' and c.relkind = 'i';`);
    const heaps = await db.query(
      `select c.relname, v.* from pg_class c, verify_heapam(c.oid) v where c.relkind in ('r', 't')`,
    );
    expect(heaps.rows).toEqual([]);
    const { rows } = await db.query<{ id: string; nome: string }>(
      `select id, nome from private.alunos where nome like 'Queda %'`,
    );
    const { rows: keys } = await db.query<{ count: number }>('select count(*)::integer from private.idempotency_keys');
    return { names: new Map(rows.map(({ id, nome }) => [id, nome])), keys: keys[0]?.count ?? 0 };
  } finally {
    await db.close();
  }
}

/** Expects every acknowledged student, and no half of a creation. */
function expectWhole({ names, keys }: Students, safe: readonly Omit<Acknowledged, 'recorded'>[], where: string): void {
  expect(
    safe.filter(({ id, nome }) => names.get(id) !== nome),
    where,
  ).toEqual([]);
  expect(keys, where).toBe(names.size);
}

const TIMEOUT = 1_200_000;

describe('a loss of power', () => {
  test('at any moment loses no acknowledged creation, halves none, and damages nothing', {
    timeout: TIMEOUT,
  }, async () => {
    const { operations, acknowledged } = await runRecorded();
    // One in each of as many equal parts: of what is before or behind an fsync, and of all.
    const fsyncs = operations.flatMap(({ op }, index) => (op === 'fsync' ? [index, index + 1] : []));
    const random = createRandom(37);
    const pick = (part: number, length: number) => Math.floor(((part + random()) * length) / (CUTS / 2));
    const moments = Array.from({ length: CUTS / 2 }, (_, part) => [
      fsyncs[pick(part, fsyncs.length)] ?? 0,
      pick(part, operations.length),
    ])
      .flat()
      .sort((one, other) => one - other);
    const disk = createDisk();
    let done = 0;
    for (const [seed, moment] of moments.entries()) {
      for (const operation of operations.slice(done, moment)) disk.do(operation);
      done = moment;
      const end = operations[moment - 1]?.end ?? 0;
      const safe = acknowledged.filter(({ recorded }) => recorded <= end);
      expectWhole(await readAfterLoss(disk, seed), safe, `operation ${moment} of ${operations.length}, seed ${seed}`);
    }
  });

  test.runIf(isLong)('loses acknowledged creations without fsync, so that the test above can fail', async () => {
    const { operations, acknowledged } = await runRecorded({ FSYNC: 'off' });
    expect(operations.filter(({ op }) => op === 'fsync')).toEqual([]);
    const disk = createDisk();
    for (const operation of operations) disk.do(operation);
    const isLost = (seed: number) =>
      readAfterLoss(disk, seed).then(
        ({ names }) => names.size < acknowledged.length,
        // It does not even start.
        () => true,
      );
    expect(await Promise.all([1, 2, 3].map(isLost))).toContain(true);
  });
});

test('SIGKILL at any moment loses no acknowledged creation, halves none, and leaves no lock', {
  timeout: TIMEOUT,
}, async () => {
  const dataDir = copyDataDir(inject('dataDir'));
  const acknowledged: { id: string; nome: string }[] = [];
  for (let round = 0; round < KILLS; round += 1) {
    const gateway = await startProcess({ DATA_DIR: dataDir });
    let hasEnded = false;
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; !hasEnded; n += 1) {
        const created = await create(gateway.origin, `Queda ${round}-${client}-${n}`).catch(() => undefined);
        if (created) acknowledged.push(created);
      }
    });
    const wanted = acknowledged.length + 20 + Math.floor(createRandom(round)() * 100);
    await waitFor(() => expect(acknowledged.length).toBeGreaterThan(wanted));
    await gateway.stop('SIGKILL');
    hasEnded = true;
    await Promise.all(clients);
  }
  expectWhole(await readStudents(join(dataDir, 'postgres')), acknowledged, 'after the last one');
});
