// Backups of the embedded store: a base backup of Postgres (PostgreSQL's manual, "Streaming Replication Protocol", BASE_BACKUP) as a
// tar.gz. The gateway can serve the store during a backup.

import { once } from 'node:events';
import { createWriteStream, existsSync, mkdirSync } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import pg from 'pg';
import { extract } from 'tar';
import { FILES, type StoreConfig } from '../config.ts';
import { messageOf } from '../errors.ts';
import { FolderInUse, hasStore, syncPath } from '../store/embedded/folder.ts';
import { ServerError } from '../store/embedded/server.ts';
import { restoreStore } from '../store/embedded/store.ts';
import { readMigrations } from '../store/migrations.ts';
import { type EmbeddedConfig, reachServer } from '../store/open.ts';
import { toFile, toNewPath } from './arguments.ts';
import { failWith, queryRow } from './database.ts';
import { describeRepeated, type Erasure, findNew, readErasures, repeatErasures } from './erasures.ts';
import { t, translate } from './language.ts';
import { CommandError, type Confirmed, confirm, createProgress, type Output, withPath } from './terminal.ts';

/** The first byte of a message with archive data. */
const ARCHIVE = 'd'.charCodeAt(0);
/** The end of a tar archive, which the server does not send. */
const END = Buffer.alloc(1_024);

const IN_USE = 'Stop the gateway, restore, and start it again; or set DATA_DIR to a new folder. Nothing was restored.';
const KEYS =
  'Keys that were issued since the backup are lost, those that were revoked work again, and all have the permissions, limits and expiries of that time: correct them before you start the gateway.';
const READ_KEYS = `
  select jsonb_agg(to_jsonb(k)) as keys, (select jsonb_agg(to_jsonb(t)) from private.tenants t) as tenants
    from private.api_keys k`;
const LIMIT_TENANTS = `
  update private.tenants t set limits = o.limits from jsonb_populate_recordset(null::private.tenants, $1) o where o.id = t.id`;
/** The columns of a key that administrators change. */
const STATE = ['active', 'expires_at', 'permissions', 'limits', 'rotated_at', 'expires_unrotated_at', 'successor'];
const columnsOf = (name: string) => STATE.map((column) => `${name}.${column}`).join(', ');
/** The values of the replaced store win, but a revoked key stays revoked even if that store is older than the backup. */
const LATEST = columnsOf('o').replace('o.active', 'least(k.active,o.active)');
const CHANGE_KEYS = `
  update private.api_keys k set (${STATE.join(', ')}) = (${LATEST})
    from jsonb_populate_recordset(null::private.api_keys, $1) o
   where o.id = k.id and (${columnsOf('k')}) is distinct from (${LATEST})
  returning k.prefix, k.active and coalesce(k.expires_at > now(), true) as "isActive"`;
/** The columns to copy of a key that the backup lacks. Other columns, such as those of later migrations, get their defaults. */
const ALL = ['tenant_id', 'id', 'name', 'key_hash', 'prefix', 'created_at', 'last_used_at', 'original_id', ...STATE];
const ADD_KEYS = `
  with o as (
    select * from jsonb_populate_recordset(null::private.api_keys, $1)
  ), added as (
    insert into private.api_keys (${ALL.join(', ')})
    select ${ALL.join(', ')} from o where o.tenant_id in (select t.id from private.tenants t)
    on conflict do nothing
    returning id
  )
  select coalesce(o.prefix, o.id::text) as prefix, o.id in (select a.id from added a) as "isKept"
    from o
   where not exists (select from private.api_keys k where k.id = o.id)`;
const COME_BACK =
  'Students and tenants that were erased since the backup are back. Erase them again before you start the gateway, with a list that was kept: npm run admin -- erasures --repeat FILE';
const VERSION_1 = 'A backup of version 1 is restored by version 1.';

/** Writes a backup of the store to a new file, and removes the file after a failure. */
export async function backUp(config: StoreConfig, name: string): Promise<Output> {
  const { dataDir, ...embedded } = readEmbedded(config);
  if (!hasStore(dataDir)) throw new CommandError(t`There is no store in ${dataDir}`);
  const file = toNewPath(name);
  const part = `${file}.part`;
  const server = await reachServer({ dataDir, ...embedded });
  try {
    const archive = new PassThrough();
    // An existing file may belong to another user, or be a symbolic link.
    await rm(part, { force: true });
    const output = createWriteStream(part, { mode: 0o600, flags: 'wx' });
    await Promise.all([streamBackup(server.url, archive), pipeline(archive, createGzip(), output)]);
    await syncPath(part);
    await rename(part, file);
    await syncPath(dirname(file));
  } catch (error) {
    await rm(part, { force: true });
    throw withPath(error, part);
  } finally {
    await server.close();
  }
  const { size } = await stat(file);
  return { json: { file, bytes: size }, text: t`Backed up ${dataDir} to ${name}, ${toMegabytes(size)}.` };
}

/** The data of the replaced store that a restore must not undo: its erasures, and the state of its keys and tenants. */
type Preserved = {
  readonly erasures: readonly Erasure[];
  readonly keys: readonly object[];
  readonly tenants: readonly object[];
};
type ChangedKey = { readonly prefix: string | null; readonly isActive: boolean };
type AddedKey = { readonly prefix: string; readonly isKept: boolean };

type RestoreOptions = Confirmed & { readonly replace?: boolean };

/** Restores a backup and applies new migrations. `replace` allows it to replace an existing store. */
export async function restore(config: StoreConfig, name: string, options: RestoreOptions): Promise<Output> {
  const embedded = readEmbedded(config);
  const { dataDir } = embedded;
  // tar needs the size of the file, and a pipe has none.
  const file = toFile(name, false);
  if (hasStore(dataDir)) {
    const hint = 'Set DATA_DIR to a new folder, or stop the gateway and replace that store for good with --replace.';
    if (!options.replace) throw new CommandError(t`There is a store in ${dataDir} already: nothing was restored`, hint);
    const folder = basename(resolve(dataDir));
    await confirm(t`Replaces the store in the folder ${folder} (${dataDir}) with ${name}.`, folder, options);
  }
  let repeated: readonly Erasure[] | undefined;
  let revoked: readonly { readonly prefix: string | null }[] | undefined;
  let lost: readonly { readonly prefix: string }[] | undefined;
  let erasures = translate(COME_BACK);
  let keys = translate(KEYS);
  const applied = await restoreStore<Preserved>(
    { ...embedded, onWarning: console.error },
    {
      migrationsDir: FILES.migrations,
      unpack: (folder) => unpack(file, folder),
      read: async (db) => {
        const { keys, tenants } = await queryRow<Partial<Preserved>>(db, READ_KEYS, []);
        return { erasures: await readErasures(db), keys: keys ?? [], tenants: tenants ?? [] };
      },
      write: async (db, read) => {
        if (read?.status === 'rejected') {
          const problem = messageOf(read.reason);
          erasures = `${t`The record of erasures in the store that was there cannot be read: ${problem}`}\n${erasures}`;
        }
        if (read?.status !== 'fulfilled') return;
        const since = await findNew(db, read.value.erasures);
        repeated = await repeatErasures(db, since);
        erasures = describeRepeated(repeated, since);
        await db.query(LIMIT_TENANTS, [JSON.stringify(read.value.tenants)]);
        const latest = JSON.stringify(read.value.keys);
        const { rows } = await db.query(CHANGE_KEYS, [latest]);
        revoked = (rows as ChangedKey[]).flatMap(({ prefix, isActive }) => (isActive ? [] : [{ prefix }]));
        const { rows: added } = await db.query(ADD_KEYS, [latest]);
        lost = (added as AddedKey[]).flatMap(({ prefix, isKept }) => (isKept ? [] : [{ prefix }]));
        const issued = added.length - lost.length;
        keys = t`Of ${read.value.keys.length} keys ${rows.length} had been changed and ${issued} issued since the backup, and are again as in the replaced store.`;
        const names = lost.map(({ prefix }) => prefix).join(', ');
        if (names) keys += `\n${t`These are lost, because the backup lacks their tenants: ${names}.`}`;
      },
    },
  ).catch((error) => {
    if (error instanceof FolderInUse) throw new CommandError(error.message, IN_USE);
    if (error instanceof ServerError) throw new CommandError(error.message, VERSION_1);
    throw error;
  });
  const restored = t`Restored ${name} to ${dataDir}. New migrations: ${applied.length}.`;
  const versions = readMigrations(FILES.migrations).filter(({ file }) => applied.includes(file));
  return {
    json: { dataDir, migrations: versions.map(({ version }) => version), repeated, revoked, lost },
    text: [restored, erasures, keys].join('\n'),
  };
}

function readEmbedded(config: StoreConfig): EmbeddedConfig & { dataDir: string } {
  if (config.kind !== 'embedded') {
    const hint = 'Back up Postgres and Supabase with pg_dump: see docs/backup.md.';
    throw new CommandError('This is for the embedded store, and DATABASE_URL or SUPABASE_URL is set', hint);
  }
  const { dataDir } = config;
  if (!dataDir) throw new CommandError('DATA_DIR=:memory: keeps no store: set it to the folder of a store');
  return { ...config, dataDir };
}

/** Streams a base backup, with the WAL that it needs. */
async function streamBackup(url: string, archive: PassThrough): Promise<void> {
  const client = new pg.Client({ connectionString: url, replication: 'true' } as pg.ClientConfig);
  client.on('error', () => {});
  await client.connect();
  const { stream } = client.connection;
  // A failed write, such as on a full disk, stops the server from sending more.
  archive.once('close', () => archive.writableFinished || stream.destroy());
  const progress = createProgress((bytes) => t`Backed up ${toMegabytes(bytes)}`);
  const query = new pg.Query(`BASE_BACKUP (label 'wellness', checkpoint 'fast', wal true, manifest 'no')`);
  Object.assign(query, {
    handleCopyData: ({ chunk }: { chunk: Buffer }) => {
      if (chunk[0] !== ARCHIVE) return;
      progress.add(chunk.length - 1);
      // Copied, because pg reuses its buffer. After a pause pg still delivers what it has read.
      if (archive.write(Buffer.from(chunk.subarray(1))) || stream.isPaused()) return;
      stream.pause();
      archive.once('drain', () => stream.resume());
    },
  });
  try {
    client.query(query);
    await once(query, 'end').catch(failWith);
    archive.end(END);
  } catch (error) {
    archive.destroy(error as Error);
    throw error;
  } finally {
    progress.end();
    await client.end();
  }
}

/** Unpacks an archive. tar and gzip verify its checksums. */
function unpack(file: string, folder: string): void {
  const progress = createProgress((bytes) => t`Unpacked ${toMegabytes(bytes)}`);
  const onReadEntry = ({ size }: { size: number }) => progress.add(size);
  try {
    // Synchronous: otherwise tar would continue to write after an error.
    mkdirSync(folder, { mode: 0o700 });
    extract({ file, cwd: folder, strict: true, sync: true, preserveOwner: false, onReadEntry });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code?.startsWith('E')) throw withPath(error, folder);
    throw new CommandError(t`${file} is damaged, or no backup: ${message}`);
  } finally {
    progress.end();
  }
  if (!existsSync(join(folder, 'backup_label'))) throw new CommandError(t`${file} is not a backup of a store`);
}

function toMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
