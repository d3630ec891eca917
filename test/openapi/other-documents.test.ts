import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, extname } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { readContract } from '../../scripts/conformance/contract.ts';
import { runContract } from '../../scripts/conformance/run.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import type { DatabaseFunction, Store } from '../../src/store/store.ts';
import { compileOnce, openDemoStore, startOwnGateway } from '../helpers/gateway.ts';
import { replay } from '../helpers/http-file.ts';
import { failuresOf } from '../scripts/conformance/checks.ts';

// Documents of others, in the shapes that they write. Each has the SQL that serves it, and a .http file with calls and their answers.
// The contract makes up calls too.

const FOLDER = 'test/documents';
const FILES = globSync(`${FOLDER}/*.{yaml,json}`).sort();

/** The operations that the contract leaves out, and why. */
const CONTRACTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  contacts: { 'contacts.put': 'a contact is put once' },
  everything: { trocarCabide: 'a status that it does not declare' },
  livraria: {
    cadastrarLivro: 'a price that the column cannot hold',
    trocarLivro: 'a conflict that it does not declare',
  },
  tasks: { save_task_api_tasks__task_id__put: 'a task that is there already' },
};

/** The resource without calls in the file, since a peg has another id each time. */
const NOT_CALLED = '/cabides';

/** The differences between a document and the database. */
const DIFFERENCES: Readonly<Record<string, readonly string[]>> = {
  everything: ['criarCabide → criar_cabide: in the document there is no response 410'],
};

const KEY = 'wms_demo_aurora';
let store: Store;
let functions: readonly DatabaseFunction[];

beforeAll(async () => {
  const sql = globSync(`${FOLDER}/*.sql`).map((file) => readFileSync(file, 'utf8'));
  store = await openDemoStore('postgres', { adminUrl: inject('adminUrl') }, { sql: sql.join('\n') });
  const description = await store.describe(new AbortController().signal);
  if ('failure' in description) throw description.failure.cause;
  functions = description.functions;
});

afterAll(() => store.close());

describe.each(FILES.map((file) => [basename(file, extname(file)), file] as const))('%s', (name, file) => {
  const notAsked = CONTRACTS[name] ?? {};
  const callFile = `${FOLDER}/${name}.http`;
  let document: OpenAPIV3.Document;

  beforeAll(async () => {
    document = readDocument(file);
  });

  test('agrees with the database, except for the known differences', async () => {
    const { operations } = await compileOnce(document);
    const differences = (DIFFERENCES[name] ?? []).map((text) => expect.stringContaining(text));
    expect(findDrift(operations, functions).map(describeDifference)).toEqual(differences);
  });

  if (existsSync(callFile)) {
    test('each operation answers its calls as the document says', async () => {
      const { operations } = await compileOnce(document);
      const gateway = await startOwnGateway({ store, document });
      const succeeded = await replay(gateway, document, callFile);
      const called = [...operations.values()].filter(({ path }) => !path.startsWith(NOT_CALLED));
      expect(called.map(({ id }) => id).filter((id) => !succeeded.has(id))).toEqual([]);
    });
  }

  // This is last because it creates records.
  test('keeps its contract', async () => {
    const contract = await readContract(document, compileOnce(document));
    const only = contract.operations.map(({ id }) => id).filter((id) => !(id in notAsked));
    const gateway = await startOwnGateway({ store, document });
    const options = { contract, only, url: gateway.url.replace(/\/$/, ''), key: KEY, seed: 7, runs: 1 };
    const report = await runContract({ ...options, demo: false, readOnly: false, timeoutMs: 20_000 });
    expect(failuresOf(report)).toEqual([]);
    expect(report.requests).toBeGreaterThan(only.length * 10);
  });
});
