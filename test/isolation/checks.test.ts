import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { as, openDatabase } from '../helpers/database.ts';
import { behaviourChecks } from './behaviour.ts';
import { catalogChecks } from './catalog.ts';

let db: PGlite;

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(() => db.close());

test.each([...catalogChecks, ...behaviourChecks])('$name', async ({ find }) => {
  expect(await as(db, 'postgres', () => find(db))).toEqual([]);
});
