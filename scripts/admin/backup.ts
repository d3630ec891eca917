// Backups of the embedded store: a tar.gz of its database's folder, as Postgres's own online backup copies it
// (PostgreSQL's manual, "Making a Base Backup Using the Low Level API"). The store may serve meanwhile.

import { createWriteStream, existsSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { extract, Header } from 'tar';
import type { StoreConfig } from '../../src/config.ts';
import { fsyncPath, lockFolder, putInPlace } from '../../src/store/embedded/folder.ts';
import { openPGlite } from '../../src/store/embedded/pglite.ts';
import { BACKUP } from '../../src/store/embedded/sessions.ts';
import { applyMigrations, readMigrations } from '../../src/store/migrations.ts';
import { type EmbeddedConfig, type OpenFolder, openFolder } from '../database.ts';
import { toPath } from '../path.ts';
import { CommandError } from './errors.ts';
import type { Output } from './output.ts';
import { createProgress, type Progress } from './progress.ts';
import { MIGRATIONS } from './store.ts';

const BLOCK = 512;
const CHUNK = 2 ** 20;
const WAL = 'pg_wal';
/** Names the process that has the folder open. */
const NOT_COPIED = 'postmaster.pid';
/** Where a restore begins to read the WAL, and in which file. */
const FIRST_WAL = /^START WAL LOCATION: (\S+) \(file (\w+)\)$/m;

/** Writes a backup of the store. It replaces no file, and after a failure it leaves none. */
export async function backUp(config: StoreConfig, name: string): Promise<Output> {
  const { dataDir, ...embedded } = readEmbedded(config);
  const file = toPath(name);
  if (!existsSync(join(dataDir, 'postgres'))) throw new CommandError({ error: `There is no store in ${dataDir}` });
  if (existsSync(file)) throw new CommandError({ error: `There is ${file} already: nothing was backed up` });
  const part = `${file}.part`;
  const store = await openFolder({ dataDir, ...embedded }, BACKUP);
  try {
    const output = createWriteStream(part, { mode: 0o600 });
    await pipeline(pack(store, join(dataDir, 'postgres')), createGzip(), output);
    await fsyncPath(part);
    await rename(part, file);
    await fsyncPath(dirname(file));
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  } finally {
    await store.close();
  }
  const { size } = await stat(file);
  return { json: { file, bytes: size }, text: `Backed up ${dataDir} to ${name}, ${toMegabytes(size)}.` };
}

/** Restores a backup, and brings it up to date. With `replace` it takes the place of the store that is there. */
export async function restore(config: StoreConfig, name: string, { replace = false }): Promise<Output> {
  const { dataDir } = readEmbedded(config);
  if (!existsSync(toPath(name))) throw new CommandError({ error: `There is no file ${name}` });
  const unlock = lockFolder(dataDir, console.error);
  const folder = join(dataDir, 'postgres');
  const aside = `${folder}.new`;
  try {
    if (existsSync(folder) && !replace) {
      const hint = 'Set DATA_DIR to a new folder, or replace that store for good with --replace.';
      throw new CommandError({ error: `There is a store in ${dataDir} already: nothing was restored`, hint });
    }
    await rm(aside, { recursive: true, force: true });
    await mkdir(aside, { mode: 0o700 });
    unpack(toPath(name), aside);
    const db = await openPGlite(aside, { fsync: false });
    const applied = await applyMigrations(db, readMigrations(MIGRATIONS)).finally(() => db.close());
    await putInPlace(aside, folder);
    const migrations = applied.length > 0 ? `, and applied ${applied.length} new migrations` : '';
    return {
      json: { dataDir, migrations: applied.map(({ version }) => version) },
      text: `Restored ${name} to ${dataDir}${migrations}.\nKeys that were revoked since the backup work again: revoke them before you start the gateway.`,
    };
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  } finally {
    unlock();
  }
}

function readEmbedded(config: StoreConfig): EmbeddedConfig & { dataDir: string } {
  if (config.kind !== 'embedded') {
    const hint = 'Back up Postgres and Supabase with pg_dump: see docs/backup.md.';
    throw new CommandError({ error: 'This is for the embedded store, and DATABASE_URL or SUPABASE_URL is set', hint });
  }
  const { dataDir } = config;
  if (!dataDir) throw new CommandError({ error: 'DATA_DIR=:memory: keeps no store: set it to the folder of a store' });
  return { ...config, dataDir };
}

/** The archive of a folder that changes: Postgres repairs the copy by the WAL, which therefore comes last. */
async function* pack({ query }: OpenFolder, folder: string): AsyncGenerator<Buffer> {
  const progress = createProgress((bytes) => `Backed up ${toMegabytes(bytes)}`);
  const begun = await queryText(query, `select pg_backup_start('npm run admin -- backup', true)::text as text`);
  yield* packFiles(folder, (path) => path !== WAL && !path.startsWith(`${WAL}/`) && path !== NOT_COPIED, progress);
  const label = await queryText(query, 'select labelfile as text from pg_backup_stop(false)');
  const [, start, wal = ''] = FIRST_WAL.exec(label) ?? [];
  // Another backup has ended this one, or somebody's checkpoint has thrown away what it needs.
  if (start !== begun || !existsSync(join(folder, WAL, wal))) {
    throw new CommandError({ error: 'The backup was disturbed by another backup or a checkpoint: run it again' });
  }
  yield* packEntry('backup_label', [Buffer.from(label)], Buffer.byteLength(label));
  yield* packFiles(folder, (path) => path === WAL || path.startsWith(`${WAL}/`), progress);
  // The end of an archive.
  yield Buffer.alloc(2 * BLOCK);
  progress.end();
}

async function queryText(query: OpenFolder['query'], sql: string): Promise<string> {
  const { rows } = await query(sql);
  return (rows as { text: string }[])[0]?.text ?? '';
}

async function* packFiles(
  folder: string,
  isWanted: (path: string) => boolean,
  progress: Progress,
): AsyncGenerator<Buffer> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    const source = join(entry.parentPath, entry.name);
    const path = source.slice(folder.length + 1);
    if (!isWanted(path)) continue;
    if (entry.isDirectory()) {
      yield toHeader(path, 0, 'Directory');
      continue;
    }
    const file = await open(source).catch((error) => {
      // Postgres has deleted it since, as the WAL says.
      if (error.code !== 'ENOENT') throw error;
    });
    if (!file) continue;
    try {
      const { size } = await file.stat();
      yield* packEntry(path, readChunks(file), size);
      progress.add(size);
    } finally {
      await file.close();
    }
  }
}

async function* readChunks(file: Awaited<ReturnType<typeof open>>): AsyncGenerator<Buffer> {
  for (;;) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(CHUNK), 0, CHUNK);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** A file of the size that the header tells, even if it grows or shrinks meanwhile. */
async function* packEntry(
  path: string,
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
  size: number,
): AsyncGenerator<Buffer> {
  yield toHeader(path, size, 'File');
  let missing = size;
  for await (const chunk of chunks) {
    yield chunk.subarray(0, missing);
    missing -= Math.min(missing, chunk.length);
    if (missing === 0) break;
  }
  yield Buffer.alloc(missing + ((BLOCK - (size % BLOCK)) % BLOCK));
}

function toHeader(path: string, size: number, type: 'File' | 'Directory'): Buffer {
  const header = new Header({ path, size, type, mode: type === 'File' ? 0o600 : 0o700, mtime: new Date() });
  header.encode();
  return header.block as Buffer;
}

/** Unpacks an archive, whose blocks have checksums, as has the whole. */
function unpack(file: string, folder: string): void {
  const progress = createProgress((bytes) => `Unpacked ${toMegabytes(bytes)}`);
  const onReadEntry = ({ size }: { size: number }) => progress.add(size);
  try {
    // Otherwise it would go on writing behind an error.
    extract({ file, cwd: folder, strict: true, sync: true, onReadEntry });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code?.startsWith('E')) throw error;
    throw new CommandError({ error: `${file} is damaged, or no backup: ${message}` });
  }
  progress.end();
  if (!existsSync(join(folder, 'backup_label'))) throw new CommandError({ error: `${file} is no backup of a store` });
}

function toMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
