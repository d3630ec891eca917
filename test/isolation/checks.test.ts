import { expect, test } from 'vitest';
import { as, useConnection } from '../helpers/database.ts';
import { catalogChecks } from './catalog.ts';

const db = useConnection();

const HELP =
  'see supabase/README.md, "Add a table": private.isolate makes the walls of a table, private.publish opens a function';

test.each(catalogChecks)('$name', async ({ name, find }) => {
  expect(await as(db, 'postgres', () => find(db)), `it does not hold that ${name}; ${HELP}`).toEqual([]);
});
