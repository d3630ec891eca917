import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { readContract } from '../../scripts/conformance/operations.ts';
import { runContract } from '../../scripts/conformance/run.ts';
import { compileFile } from '../../src/openapi/compile.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import type { Store } from '../../src/store/store.ts';
import { openDemoStore, startGateway } from '../helpers/gateway.ts';

// Documents that are not ours: one of OpenAPI 3.0 in the shape of another's, and one of 3.1 with everything that there may be.

/** The operations that the contract does not ask: why, and in what they differ from the database. */
const DOCUMENTS: [name: string, notAsked: Record<string, string>, differences: string[]][] = [
  ['petstore', {}, []],
  [
    'everything',
    {
      eco: 'arrays that may be empty, and their items not',
      receber: 'a body that may be left out',
      renumerar: 'a body that there is none of',
      trocarCabide: 'a status that it does not declare',
    },
    ['criarCabide → criar_cabide: in the document there is no response 410'],
  ],
];

describe.each(DOCUMENTS)('%s', (name, notAsked, differences) => {
  const file = `test/documents/${name}.yaml`;
  let store: Store;

  beforeAll(async () => {
    const sql = readFileSync(`test/documents/${name}.sql`, 'utf8');
    store = await openDemoStore('postgres', { adminUrl: inject('adminUrl') }, { sql });
  });

  afterAll(() => store.close());

  test('agrees with the database where it is meant to', async () => {
    const { operations } = await compileFile(file);
    const description = await store.describe(new AbortController().signal);
    if ('failure' in description) throw description.failure.cause;
    expect(findDrift(operations, description.functions).map(describeDifference)).toEqual(
      differences.map((text) => expect.stringContaining(text)),
    );
  });

  test('is served as it says', async () => {
    const document = await readDocument(file);
    const contract = await readContract(document);
    const only = contract.operations.map(({ id }) => id).filter((id) => !(id in notAsked));
    const gateway = await startGateway({ store, document });
    const options = { contract, only, url: gateway.url.replace(/\/$/, ''), key: 'wms_demo_aurora', seed: 7, runs: 3 };
    const report = await runContract({ ...options, demo: false, readOnly: false, timeoutMs: 20_000 });
    await gateway.close();
    const failed = report.sections.flatMap(({ title, outcomes }) =>
      outcomes.filter(({ result }) => result === 'failed').map((outcome) => ({ title, ...outcome })),
    );
    expect(failed).toEqual([]);
    expect(report.requests).toBeGreaterThan(only.length * 10);
  });
});
