// Finds changes of openapi.yaml that break clients: npm run contract:diff [-- REVISION]

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import type { OpenAPIV3 } from 'openapi-types';
import { parse } from 'yaml';
import { type Change, findChanges } from './changes.ts';

const DOCUMENT = 'openapi.yaml';
const CHANGELOG = 'CHANGELOG.md';
const RELEASES = 'v*';

const BREAKS = 1;
const FAILED = 2;

function run(revision = findRelease()): void {
  if (revision === undefined) {
    console.log(`No release to compare with: no tag ${RELEASES} is an ancestor of HEAD`);
    return;
  }
  const changes = findChanges(readRevision(revision), readDocument(readFileSync(DOCUMENT, 'utf8'), DOCUMENT));
  const breaking = changes.filter(({ isBreaking }) => isBreaking);
  const next = readNextRelease();
  const announced = breaking.filter(({ line }) => next.includes(`\`${line.replace('breaking: ', '')}\``));
  report(changes, announced, revision);
  if (breaking.length > announced.length) process.exitCode = BREAKS;
}

/** The last release; undefined before the first. Throws outside of a repository. */
function findRelease(): string | undefined {
  git('rev-parse', '--git-dir');
  try {
    return git('describe', '--tags', '--match', RELEASES, '--abbrev=0').trim();
  } catch {
    return undefined;
  }
}

function readRevision(revision: string): OpenAPIV3.Document {
  const commit = findCommit(revision);
  return readDocument(git('show', `${commit}:./${DOCUMENT}`), `${revision}:${DOCUMENT}`);
}

function findCommit(revision: string): string {
  try {
    return git('rev-parse', '--verify', '--end-of-options', `${revision}^{commit}`).trim();
  } catch (error) {
    throw new Error(`${revision} is not a revision of this repository: ${(error as Error).message}`);
  }
}

function git(...args: string[]): string {
  try {
    return execFileSync('git', args, { encoding: 'utf8', stdio: 'pipe' });
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string };
    throw new Error(stderr.trim() || message, { cause: error });
  }
}

function readDocument(text: string, name: string): OpenAPIV3.Document {
  try {
    return parse(text);
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`, { cause: error });
  }
}

/** The changelog's first section, of the next release, which lists intended breaking changes. */
function readNextRelease(): string {
  if (!existsSync(CHANGELOG)) return '';
  return readFileSync(CHANGELOG, 'utf8').split(/^## /m, 2)[1] ?? '';
}

function report(changes: readonly Change[], announced: readonly Change[], revision: string): void {
  for (const change of changes) console.log(announced.includes(change) ? `announced ${change.line}` : change.line);
  const breaking = changes.filter(({ isBreaking }) => isBreaking).length;
  const intended = announced.length > 0 ? ` (${announced.length} announced in ${CHANGELOG})` : '';
  console.log(`${DOCUMENT} since ${revision}: ${breaking} breaking${intended}, ${changes.length - breaking} other`);
}

const command = new Command('npm run contract:diff --')
  .description('Finds changes of openapi.yaml that break clients.')
  .argument('[REVISION]', 'compare with this git revision; by default with the last release')
  .addHelpText(
    'after',
    `
A breaking change is accepted if the changelog's first section has its line, as code.

Exit codes: 0 nothing breaks unannounced; 1 something does; 2 wrong usage, or nothing to compare.`,
  )
  .exitOverride()
  .action(run);

try {
  command.parse();
} catch (error) {
  const isPrinted = error instanceof CommanderError;
  if (!isPrinted) console.error((error as Error).message);
  process.exitCode = isPrinted && error.exitCode === 0 ? 0 : FAILED;
}
