// Finds the row that the example of a creation creates.

import type pg from 'pg';
import type { PgError } from '../../src/store/sqlstate.ts';
import { CHECK_DEFERRED } from '../../src/store/statement.ts';
import type { Subject } from './subject.ts';
import { type Column, RefusedError } from './table.ts';

/** A row of a table of tenants, as JSON. */
export type Row = Readonly<Record<string, unknown>> & { readonly id: string; readonly tenant_id: string };

/** A unique or an exclusion constraint is violated. */
const TAKEN = ['23505', '23P01'];
/** The most rows to try, each in about a millisecond. */
const MAX_TRIES = 1000;
const DAY_MS = 86_400_000;
const RINGS = ['0123456789', 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];

/** Changes values of a row that have to be unique, until Postgres takes it as a new one. Throws RefusedError. */
export async function makeNew(db: pg.Client, subject: Subject, row: Row, all: readonly Row[]): Promise<Row> {
  const { table, names, written } = subject;
  const { uniques } = table;
  let made = row;
  for (let turn = 0; turn <= uniques.length; turn += 1) {
    const refusal = await tryInsert(db, subject, made);
    const violated = uniques.find(({ name }) => name === refusal?.constraint);
    // What else is wrong with the row is told by the answer to the example.
    if (!refusal || !TAKEN.includes(refusal.code ?? '') || !violated) return made;
    const columns = written.filter(({ name }) => violated.columns.includes(name));
    const found = await findChange(db, subject, made, { violated: violated.name, columns, all });
    if (!found) {
      const tables = [...new Set(columns.flatMap(({ reference }) => reference?.table ?? []))].join(' or ');
      const remedy = tables ? `add records to ${tables} in supabase/seed.sql` : 'write the operation by hand';
      throw new RefusedError(
        `the example of ${names.create.operation} needs ${violated.columns.join(' and ')} that no row of private.${table.name} has, and the demo data gives none: ${remedy}`,
      );
    }
    made = found;
  }
  return made;
}

/** The first row that a unique constraint refuses a second time; undefined for none. */
export async function findTaken(db: pg.Client, subject: Subject, all: readonly Row[]): Promise<Row | undefined> {
  for (const row of all) {
    if (TAKEN.includes((await tryInsert(db, subject, row))?.code ?? '')) return row;
  }
  return undefined;
}

/** Changes a row in one of some columns, so that it violates neither their unique constraint nor a check; undefined if none is found. */
async function findChange(
  db: pg.Client,
  subject: Subject,
  row: Row,
  { violated, columns, all }: { violated: string; columns: readonly Column[]; all: readonly Row[] },
): Promise<Row | undefined> {
  // An example keeps its references where another value can change.
  const [references, others] = [columns.filter((one) => one.reference), columns.filter((one) => !one.reference)];
  for (const column of [...others, ...references]) {
    const { name, reference } = column;
    const known = all.map((one) => one[name]);
    const values = reference ? await readIds(db, reference.table, row) : findOthers(column, row[name], known);
    for (const value of values) {
      const changed = { ...row, [name]: value };
      const refusal = await tryInsert(db, subject, changed);
      if (!refusal || (TAKEN.includes(refusal.code ?? '') && refusal.constraint !== violated)) return changed;
    }
  }
  return undefined;
}

/** Inserts a row as a new one, and rolls it back. Gives Postgres's refusal. */
async function tryInsert(db: pg.Client, { table, written }: Subject, row: Row): Promise<PgError | undefined> {
  const columns = ['tenant_id', ...written.map(({ identifier }) => identifier)].join(', ');
  await db.query('savepoint attempt');
  try {
    await db.query(
      `insert into private.${table.name} (${columns})
       select ${columns} from jsonb_populate_record(null::private.${table.name}, $1)`,
      [JSON.stringify(row)],
    );
    await db.query(CHECK_DEFERRED);
    return undefined;
  } catch (error) {
    return error as PgError;
  } finally {
    await db.query('rollback to savepoint attempt');
  }
}

/** Ids of records of the row's tenant. */
async function readIds(db: pg.Client, table: string, row: Row): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from ${table} where tenant_id = $1 order by id limit ${MAX_TRIES}`,
    [row.tenant_id],
  );
  return rows.map(({ id }) => id);
}

/** Other values for a column, of which some may violate a check. */
function findOthers({ schema }: Column, value: unknown, known: readonly unknown[]): unknown[] {
  const steps = Array.from({ length: 50 }, (_, index) => index + 1);
  if (schema.enum) return [...schema.enum];
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
  // The text may have a form of its own, such as a number plate: another digit or letter keeps it.
  const turned = value.split('').map((letter, index) => {
    const ring = RINGS.find((letters) => letters.includes(letter)) ?? '';
    return [...ring].map((other) => value.slice(0, index) + other + value.slice(index + 1));
  });
  return [schema.format === 'email' ? `outro.${value}` : `${value} (outro)`, ...turned.toReversed().flat()];
}
