// The record of erasures: the ids of erased students and deleted tenants. A restored backup brings them back; the record of the
// replaced store, or a list that was kept elsewhere, says whom to erase again.

import { readFileSync } from 'node:fs';
import { formats } from '../openapi/formats.ts';
import type { Database } from '../store/migrations.ts';
import { toFile, UUID } from './arguments.ts';
import { decode, readRecords, toCsv } from './csv.ts';
import { queryRows } from './database.ts';
import { t } from './language.ts';
import { CommandError, type Output } from './terminal.ts';

/** An erased student, or a deleted tenant if `student` is null. */
export type Erasure = { readonly tenant: string; readonly student: string | null; readonly erased_at: string };

const COLUMNS = ['tenant', 'student', 'erased_at'] as const;
const isTime = formats['date-time'] as (text: string) => boolean;

/** Lists the erasures as CSV, or repeats those of such a list. */
export async function listErasures(db: Database, { repeat }: { readonly repeat?: string }): Promise<Output> {
  if (repeat !== undefined) {
    const list = readList(repeat);
    const repeated = await repeatErasures(db, list);
    return { json: { repeated }, text: describeRepeated(repeated, list) };
  }
  const erasures = await readErasures(db);
  const lines = [COLUMNS, ...erasures.map((erasure) => COLUMNS.map((column) => erasure[column]))];
  return { json: erasures, text: toCsv(lines).trimEnd() };
}

/** The erasures of a store, oldest first. */
export function readErasures(db: Database): Promise<Erasure[]> {
  return queryRows(db, 'select tenant, student, erased_at from private.erasures order by erased_at, tenant, student');
}

/** Finds all deleted tenants, and the students whose latest erasure is not recorded: they may have come back after an earlier one. */
export function findNew(db: Database, erasures: readonly Erasure[]): Promise<Erasure[]> {
  const sql = `
    select e.tenant, e.student, e.erased_at
      from jsonb_populate_recordset(null::private.erasures, $1) e
     where not exists (
       select from private.erasures k where k.tenant = e.tenant and k.student = e.student and k.erased_at >= e.erased_at
     )`;
  return queryRows(db, sql, [JSON.stringify(erasures)]);
}

/** Erases again whoever has come back, and returns them. Records all erasures. */
export function repeatErasures(db: Database, erasures: readonly Erasure[]): Promise<Erasure[]> {
  const sql = 'select tenant, student, erased_at from private.repeat_erasures($1)';
  return queryRows(db, sql, [JSON.stringify(erasures)]);
}

export function describeRepeated(repeated: readonly Erasure[], all: readonly Erasure[]): string {
  return t`Of ${all.length} erased students and tenants ${repeated.length} had come back, and were erased again.`;
}

function readList(name: string): Erasure[] {
  const file = toFile(name);
  let cells: (readonly string[])[] = [];
  try {
    cells = readRecords(name, decode(name, readFileSync(file), 'utf-8'), ',').map((record) => record.cells);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
  }
  // Without --silent npm prints its own lines first.
  const head = cells.findIndex((texts) => `${texts}` === `${COLUMNS}`);
  const lines = cells.slice(head + 1);
  if (head < 0 || !lines.every(isErasure)) {
    const hint = 'Expected what `npm run --silent admin -- erasures > FILE` writes, in UTF-8. Nothing was erased.';
    throw new CommandError(t`${name} is not a list of erasures`, hint);
  }
  return lines.map(([tenant = '', student = '', erased_at = '']) => ({ tenant, student: student || null, erased_at }));
}

/** Whether a line has what Postgres takes: its own error would name neither the file nor the line. */
function isErasure([tenant = '', student = '', time = '', ...more]: readonly string[]): boolean {
  return UUID.test(tenant) && (student === '' || UUID.test(student)) && isTime(time) && more.length === 0;
}
