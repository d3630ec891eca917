// Finds the row that the example of a creation creates.

import type pg from 'pg';
import type { PgError } from '../../src/store/sqlstate.ts';
import { CHECK_DEFERRED } from '../../src/store/statement.ts';
import { type Subject, toCamel } from './subject.ts';
import { type Column, RefusedError } from './table.ts';

/** A row of a table of tenants, as JSON. */
export type Row = Readonly<Record<string, unknown>> & { readonly id: string; readonly tenant_id: string };

/** The maximum number of referred records to try; each takes about a millisecond. */
const MAX_TRIES = 1000;
const DAY_MS = 86_400_000;
const RINGS = ['0123456789', 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];

/** Changes unique values of a row until Postgres accepts it as a new one. Throws RefusedError. */
export async function makeNew(db: pg.Client, subject: Subject, row: Row, all: readonly Row[]): Promise<Row> {
  const { table, names, written } = subject;
  let made = row;
  for (let turn = 0; turn <= table.uniques.length; turn += 1) {
    const { taken } = await tryInsert(db, subject, made);
    const violated = table.uniques.find(({ name }) => name === taken);
    // The answer to the example tells what else is wrong with the row.
    if (!violated) return made;
    const columns = written.filter(({ name }) => violated.columns.includes(name));
    let found: Row | undefined;
    for await (const changed of changeOne(db, made, columns, all)) {
      const next = await tryInsert(db, subject, changed);
      if (!next.refusal || (next.taken && next.taken !== taken)) {
        found = changed;
        break;
      }
    }
    if (!found) {
      const tables = [...new Set(columns.flatMap(({ reference }) => reference?.target ?? []))].join(' or ');
      const remedy = tables ? `add records to ${tables} in supabase/seed.sql` : 'write the operation by hand';
      throw new RefusedError(
        `the example of ${toCamel(names.create)} needs ${violated.columns.join(' and ')} that no row of private.${table.name} has, and the demo data gives none: ${remedy}`,
      );
    }
    made = found;
  }
  return made;
}

/** Finds the first row that a unique constraint refuses a second time; undefined for none. */
export async function findTaken(db: pg.Client, subject: Subject, all: readonly Row[]): Promise<Row | undefined> {
  for (const row of all) {
    if ((await tryInsert(db, subject, row)).taken) return row;
  }
  return undefined;
}

/** Yields the row with another value in one of these columns. Some values may violate a check. */
async function* changeOne(
  db: pg.Client,
  row: Row,
  columns: readonly Column[],
  all: readonly Row[],
): AsyncGenerator<Row> {
  for (const { name, schema, reference } of columns) {
    const known = all.map((one) => one[name]);
    for (const value of reference ? [] : findOthers(schema, row[name], known)) yield { ...row, [name]: value };
  }
  // References come last: an example keeps them if another value can change.
  for (const { name, reference } of columns) {
    if (!reference) continue;
    const ids = `select id from ${reference.target} where tenant_id = $1 order by id limit ${MAX_TRIES}`;
    const { rows } = await db.query<{ id: string }>(ids, [row.tenant_id]);
    for (const { id } of rows) yield { ...row, [name]: id };
  }
}

/** Inserts a row as a new one, and rolls it back. Returns Postgres's refusal, and the unique or exclusion constraint that it violates. */
async function tryInsert(db: pg.Client, { table, written }: Subject, row: Row) {
  const columns = ['tenant_id', ...written.map(({ identifier }) => identifier)].join(', ');
  const sql = `insert into private.${table.name} (${columns})
               select ${columns} from jsonb_populate_record(null::private.${table.name}, $1)`;
  const refusal = await attempt(db, sql, [JSON.stringify(row)]);
  return { refusal, taken: /^23(505|P01)$/.test(refusal?.code ?? '') ? refusal?.constraint : undefined };
}

/** Runs a statement and the checks deferred to its commit, and rolls it back. Returns Postgres's refusal. */
export async function attempt(db: pg.Client, sql: string, values: unknown[]): Promise<PgError | undefined> {
  await db.query('savepoint attempt');
  try {
    await db.query(sql, values);
    await db.query(CHECK_DEFERRED);
    return undefined;
  } catch (error) {
    return error as PgError;
  } finally {
    await db.query('rollback to savepoint attempt');
  }
}

/** Proposes other values for a column. */
function findOthers(schema: Column['schema'], value: unknown, known: readonly unknown[]): readonly unknown[] {
  const steps = Array.from({ length: 50 }, (_, index) => index + 1);
  if (schema.enum) return schema.enum;
  if (typeof value === 'boolean') return [!value];
  if (typeof value === 'number') {
    const step = Math.max(1, schema.multipleOf ?? 1);
    const numbers = known.filter((one) => typeof one === 'number');
    return [Math.max(...numbers) + step, Math.min(...numbers) - step, ...steps.map((count) => value + count * step)];
  }
  if (typeof value !== 'string') return [];
  if (schema.format?.startsWith('date')) {
    const start = Date.parse(value.slice(0, 10));
    // A date may be infinity.
    if (Number.isNaN(start)) return [];
    return steps.map((count) => new Date(start + count * DAY_MS).toISOString().slice(0, 10) + value.slice(10));
  }
  // The text may have a format, such as that of a number plate, which another digit or letter keeps.
  const turned = value.split('').map((letter, index) => {
    const ring = RINGS.find((letters) => letters.includes(letter)) ?? '';
    return [...ring].map((other) => value.slice(0, index) + other + value.slice(index + 1));
  });
  return [schema.format === 'email' ? `outro.${value}` : `${value} (outro)`, ...turned.toReversed().flat()];
}
