// Finds changes of openapi.yaml that break clients: npm run contract:diff [-- REVISION]

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import type { OpenAPIV3 } from 'openapi-types';
import { bundle } from '../../src/openapi/bundle.ts';
import { parseText } from '../../src/openapi/document.ts';
import { type Change, findChanges } from './changes.ts';

const DOCUMENT = 'openapi.yaml';
const CHANGELOG = 'CHANGELOG.md';
/** Matches the line of the version, and no other, in package.json. */
const VERSION = '^  "version": ';

const BREAKS = 1;
const FAILED = 2;

const HELP = `
A breaking change is accepted if the changelog's first section contains its line, as code.

Exit codes: 0 no unannounced breaking change; 1 an unannounced breaking change; 2 wrong usage, or nothing to compare with, such as in a
shallow clone.`;

type Surroundings = { readonly folder: string; print(text: string): void; printError(text: string): void };

/** Compares the document of a folder with that of a revision, and returns the exit code. */
export function compareContract(args: readonly string[], { folder, print, printError }: Surroundings): number {
  try {
    const command = new Command('npm run contract:diff --')
      .description('Finds changes of openapi.yaml that break clients.')
      .argument(
        '[REVISION]',
        'compare with this git revision; by default with the commit of the last release, which set the version',
      )
      .addHelpText('after', HELP)
      .exitOverride()
      .configureOutput({ writeOut: print, writeErr: printError })
      .parse(args, { from: 'user' });
    const revision = command.args[0] ?? findRelease(folder);
    const document = readDocument('', (path) => readFileSync(join(folder, path), 'utf8'));
    const released = readDocument(`${revision}:`, (path) =>
      git(folder, 'show', '--end-of-options', `${revision}:./${path}`),
    );
    const changes = findChanges(released, document);
    const breaking = changes.filter(({ isBreaking }) => isBreaking);
    const next = readNextRelease(folder);
    const announced = breaking.filter(({ line }) => next.includes(`\`${line.replace('breaking: ', '')}\``));
    print(toReport(changes, announced, revision));
    return breaking.length > announced.length ? BREAKS : 0;
  } catch (error) {
    const isPrinted = error instanceof CommanderError;
    if (!isPrinted) printError(`${(error as Error).message}\n`);
    return isPrinted && error.exitCode === 0 ? 0 : FAILED;
  }
}

/** The commit of the last release, which set the version in package.json. Throws if there is none, or it may be missing. */
function findRelease(folder: string): string {
  const isShallow = git(folder, 'rev-parse', '--is-shallow-repository').trim() === 'true';
  if (isShallow) throw new Error('A shallow clone may lack the last release: run git fetch --unshallow');
  const commit = git(folder, 'log', '-1', '--format=%h', '-G', VERSION, '--', 'package.json').trim();
  if (commit === '') throw new Error('No commit has set the version in package.json: name a revision');
  return commit;
}

function git(folder: string, ...args: string[]): string {
  try {
    return execFileSync('git', args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string };
    throw new Error(stderr.trim() || message, { cause: error });
  }
}

/** Reads the document, and the other files that it refers to. Messages name a file with `place` before it. */
function readDocument(place: string, read: (path: string) => string): OpenAPIV3.Document {
  const contents = new Map<string, unknown>();
  const open = (path: string): unknown => {
    if (!contents.has(path)) contents.set(path, parseText(read(path), `${place}${path}`));
    return contents.get(path);
  };
  return bundle(DOCUMENT, open).document as unknown as OpenAPIV3.Document;
}

/** The changelog's first section: the next release, with its announced breaking changes. */
function readNextRelease(folder: string): string {
  const file = join(folder, CHANGELOG);
  if (!existsSync(file)) return '';
  return readFileSync(file, 'utf8').split(/^## /m, 2)[1] ?? '';
}

function toReport(changes: readonly Change[], announced: readonly Change[], revision: string): string {
  const lines = changes.map((change) => (announced.includes(change) ? `announced ${change.line}` : change.line));
  const breaking = changes.filter(({ isBreaking }) => isBreaking).length;
  const intended = announced.length > 0 ? ` (${announced.length} announced in ${CHANGELOG})` : '';
  const others = changes.length - breaking;
  const summary = `${DOCUMENT} since ${revision}: ${breaking} breaking${intended}, ${others} other\n`;
  return [...lines, summary].join('\n');
}

if (import.meta.main) {
  // The reader may exit early, as `head` does.
  process.stdout.on('error', () => {});
  const print = (text: string) => process.stdout.write(text);
  const printError = (text: string) => process.stderr.write(text);
  process.exitCode = compareContract(process.argv.slice(2), { folder: '.', print, printError });
}
