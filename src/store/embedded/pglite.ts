// PGlite on a folder, as Postgres itself would keep it: committed rows are on the disk, and only the owner can read them.

import { fdatasyncSync, mkdirSync } from 'node:fs';
import { PGlite, type PGliteOptions } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';

/** Options of PGlite, and whether a commit waits until it is on the disk. */
export type FolderOptions = PGliteOptions & { readonly fsync: boolean };

const NO_FSYNC = '-F';

/** Opens the Postgres in a folder, and creates it if there is none; without a folder, one in memory. */
export async function openPGlite(folder: string | undefined, { fsync, ...options }: FolderOptions): Promise<PGlite> {
  const startParams = [
    ...PGlite.defaultStartParams.filter((param) => param !== NO_FSYNC),
    // PGlite keeps the whole cache in memory from the start, and the system caches the files too. With 300,000 students half
    // of the default is about as fast; a quarter makes long lists a third slower.
    ...['-c', 'shared_buffers=64MB'],
    // The default, fdatasync, does nothing in PGlite.
    ...(fsync ? ['-c', 'wal_sync_method=fsync'] : [NO_FSYNC]),
  ];
  if (!folder) return PGlite.create({ ...options, startParams });
  // PGlite would make it for everybody.
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const fs = new PrivateFiles(folder);
  try {
    return await PGlite.create({ ...options, fs, startParams });
  } catch (error) {
    // Such as a full disk, of which PGlite says nothing.
    const { message } = fs.lastError ?? (error as Error);
    throw new Error(`Postgres cannot use ${folder}: ${message}`, { cause: error });
  }
}

/** A stream and a node of Emscripten's file system that stands for a file of Node's. */
type Stream = { readonly nfd: number };
type Attributes = { mode?: number };
type NodeFiles = {
  readonly node_ops: {
    mknod(parent: unknown, name: string, mode: number, device: number): unknown;
    setattr(node: unknown, attributes: Attributes): void;
  };
  readonly stream_ops: { fsync?(stream: Stream): number };
  tryFSOperation<T>(operation: () => T): T;
  convertNodeCode(error: NodeJS.ErrnoException): number;
};

/** The only permissions that a file or folder may have: its owner's. */
const OWNER = ~0o077;

/** Emscripten's NODEFS forgets fsync, and its files are for everybody. */
class PrivateFiles extends NodeFS {
  /** The system's last error other than that of a missing file. */
  lastError: Error | undefined;

  override async init(...args: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(...args);
    const preRun = emscriptenOpts.preRun ?? [];
    preRun.push((module) => {
      const files = module.NODEFS as unknown as NodeFiles;
      const { node_ops, stream_ops, convertNodeCode } = files;
      const { mknod, setattr } = node_ops;
      files.convertNodeCode = (error) => {
        if (error.code !== 'ENOENT') this.lastError = error;
        return convertNodeCode(error);
      };
      stream_ops.fsync = ({ nfd }) => {
        // It waits for a file's size too, and for a folder's names.
        files.tryFSOperation(() => fdatasyncSync(nfd));
        return 0;
      };
      node_ops.mknod = (parent, name, mode, device) => mknod(parent, name, mode & OWNER, device);
      node_ops.setattr = (node, { mode, ...others }) =>
        setattr(node, mode === undefined ? others : { ...others, mode: mode & OWNER });
    });
    return { emscriptenOpts: { ...emscriptenOpts, preRun } };
  }
}
