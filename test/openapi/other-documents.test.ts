import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { readContract } from '../../scripts/conformance/operations.ts';
import { runContract } from '../../scripts/conformance/run.ts';
import { compileFile } from '../../src/openapi/compile.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import type { Store } from '../../src/store/store.ts';
import { openDemoStore, startGateway } from '../helpers/gateway.ts';

// Documents in the shape of those that others have published. Each says at its top what had to be changed.

const NAMES = ['petstore', 'museum', 'bookings', 'issues', 'shop'];

let store: Store;

beforeAll(async () => {
  const sql = readFileSync('test/documents/documents.sql', 'utf8');
  store = await openDemoStore('postgres', { adminUrl: inject('adminUrl') }, { sql });
});

afterAll(() => store.close());

describe.each(NAMES)('%s', (name) => {
  const file = `test/documents/${name}.yaml`;

  test('agrees with the database', async () => {
    const { operations } = await compileFile(file);
    const description = await store.describe(new AbortController().signal);
    if ('failure' in description) throw description.failure.cause;
    expect(findDrift(operations, description.functions).map(describeDifference)).toEqual([]);
  });

  test('is served as it says', async () => {
    const document = await readDocument(file);
    const contract = await readContract(document);
    const gateway = await startGateway({ store, document });
    const options = { contract, url: gateway.url.replace(/\/$/, ''), key: 'wms_demo_aurora', seed: 7, runs: 3 };
    const report = await runContract({ ...options, demo: false, readOnly: false, timeoutMs: 20_000 });
    await gateway.close();
    const failed = report.sections.flatMap(({ title, outcomes }) =>
      outcomes.filter(({ result }) => result === 'failed').map((outcome) => ({ title, ...outcome })),
    );
    expect(failed).toEqual([]);
    expect(report.requests).toBeGreaterThan(contract.operations.length * 10);
  });
});
