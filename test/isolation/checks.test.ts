import { afterAll, beforeAll, expect, test } from 'vitest';
import { as, type Db, openDatabase } from '../helpers/database.ts';
import { behaviourChecks } from './behaviour.ts';
import { catalogChecks } from './catalog.ts';

let db: Db;

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(() => db.close());

const HELP =
  'see supabase/README.md, "Add a table": private.isolate makes the walls of a table, private.publish opens a function';

test.each([...catalogChecks, ...behaviourChecks])('$name', async ({ name, find }) => {
  expect(await as(db, 'postgres', () => find(db)), `it does not hold that ${name}; ${HELP}`).toEqual([]);
});
