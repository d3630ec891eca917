// The bare server with `pg`'s pool, and the gateway's own statements, which return rows as JSON.

import pg from 'pg';
import { createStatementWriter } from '../../../src/store/statement.ts';
import { KeyRefused, serve } from './bare.ts';
import { openPool, query } from './pool.ts';

const writeStatement = createStatementWriter();
/** Statements by function: all requests of a case have the same arguments. */
const texts = new Map<string, string>();
// JSON from the database stays text.
const pool = openPool(() => (text) => text);

serve(async (call) => {
  const { function: name, args, returns } = call;
  const text = texts.get(name) ?? writeStatement(call, returns).text;
  texts.set(name, text);
  const config = { name, text, values: Object.values(args), rowMode: 'array' };
  const [row] = await query<string[]>(pool, config).catch((error) => {
    throw error instanceof pg.DatabaseError && error.code === 'PT401' ? new KeyRefused(error.message) : error;
  });
  return row?.[0] ?? '';
});
