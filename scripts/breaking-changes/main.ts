// Which changes of openapi.yaml since a git revision break clients: npm run contract:diff [-- REVISION]
// It fails for a breaking change whose line does not stand in the changelog, below "Unreleased".

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { parse } from 'yaml';
import { type Change, findChanges } from './changes.ts';

const USAGE = 'Usage: npm run contract:diff [-- REVISION]';
const DOCUMENT = 'openapi.yaml';
const CHANGELOG = 'CHANGELOG.md';
const RELEASES = 'v*';

const BREAKS = 1;
const FAILED = 2;

function main(args: string[]): void {
  const revision = readArguments(args) ?? findRelease();
  if (revision === undefined) {
    console.log(`No release to compare with: no tag ${RELEASES} is an ancestor of HEAD`);
    return;
  }
  const changes = findChanges(readRevision(revision), readDocument(readFileSync(DOCUMENT, 'utf8'), DOCUMENT));
  const breaking = changes.filter(({ isBreaking }) => isBreaking);
  const unreleased = readUnreleased();
  const announced = breaking.filter(({ line }) => unreleased.includes(`\`${line.replace('breaking: ', '')}\``));
  report(changes, announced, revision);
  if (breaking.length > announced.length) process.exitCode = BREAKS;
}

function readArguments(args: string[]): string | undefined {
  try {
    const [revision, ...others] = parseArgs({ args, allowPositionals: true }).positionals;
    if (others.length === 0 && revision !== '') return revision;
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${USAGE}`);
  }
  throw new Error(`Expected one revision\n${USAGE}`);
}

/** The last release; undefined where there is none. Throws where there is no repository. */
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
    throw new Error(`${revision} is no revision of this repository: ${(error as Error).message}`);
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

/** What the changelog says of the next release. A breaking change is intended where its line stands there. */
function readUnreleased(): string {
  if (!existsSync(CHANGELOG)) return '';
  return /^## Unreleased$(.*?)^## /ms.exec(`${readFileSync(CHANGELOG, 'utf8')}\n## `)?.[1] ?? '';
}

function report(changes: readonly Change[], announced: readonly Change[], revision: string): void {
  for (const change of changes) console.log(announced.includes(change) ? `announced ${change.line}` : change.line);
  const breaking = changes.filter(({ isBreaking }) => isBreaking).length;
  const intended = announced.length > 0 ? ` (${announced.length} announced in ${CHANGELOG})` : '';
  console.log(`${DOCUMENT} since ${revision}: ${breaking} breaking${intended}, ${changes.length - breaking} other`);
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = FAILED;
}
