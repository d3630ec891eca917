// The documents of running gateways, which a migration must not break.

import { basename } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import type pg from 'pg';
import { OperatorError } from '../src/errors.ts';
import { type CompiledDocument, compile } from '../src/openapi/compile.ts';
import { describeDifference, findDrift } from '../src/openapi/drift.ts';
import { DESCRIPTION } from '../src/store/catalog.ts';
import { type Migration, MigrationError } from '../src/store/migrations.ts';

/**
 * Compares the documents with the database now, and returns the check of a migration in its transaction: it throws MigrationError if
 * requests of a document would fail that succeed now.
 */
export type WatchDocuments = (db: pg.Client) => Promise<(migration: Migration) => Promise<void>>;

/** Timeout of fetching a document, in ms. */
const FETCH_MS = 10_000;

/** Reads the documents of the gateways at these URLs. Throws OperatorError if one cannot be read. */
export async function readServed(urls: readonly string[]): Promise<WatchDocuments> {
  const documents = await Promise.all(urls.map(async (url) => ({ url, document: await readDocument(url) })));
  const findBroken = async (db: pg.Client) => {
    const { rows } = await db.query(DESCRIPTION.text);
    const functions = JSON.parse(rows[0].json);
    return documents.flatMap(({ url, document }) =>
      findDrift(document.operations, functions)
        .filter(({ isAddition, isSupposed }) => !isAddition && !isSupposed)
        .map((difference) => `${url}: ${describeDifference(difference)}`),
    );
  };
  return async (db) => {
    const before = new Set(await findBroken(db));
    return async ({ file }) => {
      const broken = (await findBroken(db)).filter((line) => !before.has(line));
      if (broken.length === 0) return;
      throw new MigrationError(
        `${basename(file)}: is not applied, because it breaks a gateway that runs:\n${broken.join('\n')}\n` +
          'Add beside what it uses, and drop that when no gateway uses it any more (docs/deployment.md, Upgrade)',
      );
    };
  };
}

async function readDocument(url: string): Promise<CompiledDocument> {
  try {
    const answer = await fetch(new URL('openapi.json', url.replace(/\/*$/, '/')), {
      signal: AbortSignal.timeout(FETCH_MS),
    });
    if (!answer.ok) throw new Error(`${answer.status} for /openapi.json, which needs DOCS=on`);
    return await compile((await answer.json()) as OpenAPIV3.Document);
  } catch (error) {
    const { message, cause } = error as Error;
    const reason = cause instanceof Error ? cause.message : message;
    throw new OperatorError(`The gateway at ${url} does not give its document: ${reason}`, { cause: error });
  }
}
