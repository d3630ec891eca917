// The import of students: every line passes the rules of the document and those of SQL, or none is created.

import { type Connection, inTransaction } from '../../src/store/migrations.ts';
import type { CsvRecord } from './csv.ts';
import { type BadLine, Refusal } from './errors.ts';
import type { Column } from './header.ts';
import { toCount } from './output.ts';
import type { Rules } from './rules.ts';

/** Lines that SQL is given at once. */
const BATCH = 1_000;

/** What is imported: a file's name, the columns of its header, and the records below it. */
export type AlunoFile = {
  readonly name: string;
  readonly columns: readonly Column[];
  readonly records: AsyncIterable<CsvRecord>;
};

/** A line of the file: the fields that are good, unless none can be read, and what is wrong. */
type Line = { readonly line: number; readonly fields: Record<string, string> | undefined; readonly bad: BadLine[] };

/**
 * Creates a student in the tenant from each record, and gives how many; or none at all: throws Refusal with every bad
 * line, in order.
 */
export function importAlunos(
  db: Connection,
  tenant: string,
  { name, columns, records }: AlunoFile,
  rules: Rules,
): Promise<number> {
  return inTransaction(db, async () => {
    await db.query('select private.require_tenant($1)', [tenant]);
    const bad: BadLine[] = [];
    let total = 0;
    for await (const batch of inBatches(records)) {
      const lines = batch.map((record) => checkRecord(record, columns, rules));
      bad.push(...lines.flatMap((line) => line.bad));
      bad.push(...(await send(db, tenant, lines, columns, bad.length > 0)));
      total += batch.length;
    }
    if (total === 0) throw new Refusal({ error: `${name} has a header and no line below it: nothing was imported` });
    if (bad.length > 0) throw refuse(name, bad, total);
    return total;
  });
}

function checkRecord(record: CsvRecord, columns: readonly Column[], rules: Rules): Line {
  const { line } = record;
  const unusable = (message: string) => ({ line, fields: undefined, bad: [{ line, field: null, message }] });
  if ('problem' in record) return unusable(record.problem);
  const { cells } = record;
  if (cells.length !== columns.length) {
    return unusable(`has ${toCount(cells.length, 'value')}, and the header has ${toCount(columns.length, 'column')}`);
  }
  const pairs = columns.map(({ field }, index) => [field, cells[index] ?? ''] as const);
  const fields = Object.fromEntries(pairs.filter(([, text]) => text !== ''));
  const errors = Object.entries(rules.check(fields));
  const bad = errors.flatMap(([field, messages]) =>
    messages.map((message) => ({ line, field: nameOf(field, columns), message })),
  );
  for (const [field] of errors) delete fields[field];
  return { line, fields, bad };
}

/** Gives a batch to SQL, which creates all of it unless one is bad; or only checks it. */
async function send(
  db: Connection,
  tenant: string,
  lines: readonly Line[],
  columns: readonly Column[],
  isCheck: boolean,
): Promise<BadLine[]> {
  const good = lines.flatMap(({ line, fields }) => (fields ? [{ line, ...fields }] : []));
  const { rows } = await db.query('select line, field, message from private.import_alunos($1, $2::json, $3)', [
    tenant,
    JSON.stringify(good),
    String(isCheck),
  ]);
  const bad = rows as (BadLine & { field: string })[];
  return bad.map(({ line, field, message }) => ({ line, field: nameOf(field, columns), message }));
}

function nameOf(field: string, columns: readonly Column[]): string {
  return columns.find((column) => column.field === field)?.name ?? field;
}

async function* inBatches<T>(items: AsyncIterable<T>): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

function refuse(name: string, bad: readonly BadLine[], total: number): Refusal {
  const count = new Set(bad.map(({ line }) => line)).size;
  return new Refusal({
    error: `Nothing was imported from ${name}: ${count} of ${total} lines ${count === 1 ? 'is' : 'are'} bad`,
    hint: 'Correct them and import the file again: an import is of all lines or of none.',
    // The rules of SQL are checked after those of the document.
    lines: bad.toSorted((one, other) => one.line - other.line),
  });
}
