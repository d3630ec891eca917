// Postgres alone: prepared statements through `pg`.

import { serveLoop } from './loop.ts';
import { openPool, queryJson } from './pool.ts';

const pool = openPool(() => (text) => text);

serveLoop((statement) => queryJson(pool, statement));
