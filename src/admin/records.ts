// The commands for single records of any table with a tenant's data: find, show, update. None reaches another tenant's rows.

import { InvalidArgumentError } from 'commander';
import { type Database, inTransaction } from '../store/migrations.ts';
import { findColumns } from './columns.ts';
import { queryRows } from './database.ts';
import { type BadLine, CommandError, describeBad } from './errors.ts';
import { type Output, toTable } from './output.ts';
import { type Column, createWriter, findIds, type OfTenant, openTable, type Table, withoutSchema } from './tables.ts';

/** A record: its values by column. */
export type Row = Readonly<Record<string, unknown>>;

type UpdateOptions = OfTenant & { readonly timeZone: string; readonly set: ReadonlyMap<string, string> };

/** What an update shows of a column, in characters. */
const MAX_SHOWN = 60;

/** Lists the records that have a text in any of their columns of text, ignoring capitals and accents. */
export async function findRecords(
  db: Database,
  resource: string,
  text: string,
  { tenant, limit }: OfTenant & { readonly limit: number },
): Promise<Output> {
  const table = await openTable(db, tenant, resource);
  const texts = table.columns.filter(({ type }) => type === 'text');
  const matches = texts.map(
    ({ name }) => `position(private.to_searchable($2) in private.to_searchable(r.${quote(name)})) > 0`,
  );
  const condition = ['r.id = private.to_uuid($2)', ...matches].join(' or ');
  const order = [...listed(table), 'id'];
  const found = await readRows(db, table, condition, order, [tenant, text, limit + 1]);
  const rows = found.slice(0, limit);
  if (rows.length === 0) return { json: [], text: `None of the tenant's ${table.name} has ${JSON.stringify(text)}.` };
  const columns = ['id', ...listed(table), ...table.columns.flatMap(({ name }) => (name === 'ativo' ? [name] : []))];
  const head = columns.map((name) => name.toUpperCase());
  const cells = rows.map((row) => columns.map((name) => toText(row[name])));
  const more = found.length > limit ? `\nThere are more: --limit ${limit * 10}` : '';
  return { json: rows, text: toTable(head, cells) + more };
}

/** Shows a record, with the names of those that it refers to. */
export async function showRecord(db: Database, resource: string, name: string, { tenant }: OfTenant): Promise<Output> {
  const table = await openTable(db, tenant, resource);
  const row = await findRecord(db, table, tenant, name);
  const cells: [string, string][] = [];
  for (const column of table.columns) cells.push([column.name, await describeValue(db, tenant, column, row)]);
  return { json: row, text: toTable([], cells) };
}

/** Changes columns of a record, by their names as in a file to import; an empty value clears one. */
export async function updateRecord(
  db: Database,
  resource: string,
  name: string,
  { set, ...options }: UpdateOptions,
): Promise<Output> {
  const table = await openTable(db, options.tenant, resource);
  const before = await findRecord(db, table, options.tenant, name);
  const headers = readSettings(table, [...set.keys()]);
  const writer = createWriter(db, table, headers, { ...options, isPartial: true });
  const line = Object.assign(writer.read(1, [...set.values()]), { id: String(before.id) });
  for (const [index, { column }] of headers.entries()) {
    if (!line.fields || column.name in line.fields || line.texts[index]?.trim() !== '') continue;
    if (column.required) writer.refuse(line, column.name, 'is required');
    else line.fields[column.name] = null;
  }
  await writer.resolve([line]);
  fail(line.bad);
  const after = await inTransaction(db, async () => {
    fail(await writer.send([line]));
    return findRecord(db, table, options.tenant, line.id);
  });
  const changed = Object.keys(after).filter((name) => toText(before[name]) !== toText(after[name]));
  const shorten = (value: unknown) => toText(value).slice(0, MAX_SHOWN) || '(empty)';
  const lines = changed.map((name) => [`${name}:`, `${shorten(before[name])} → ${shorten(after[name])}`]);
  const values = changed.map((name) => [name, { from: before[name], to: after[name] }]);
  return {
    json: { id: line.id, changed: Object.fromEntries(values) },
    text:
      lines.length > 0 ? `Changed ${nameOf(table, before)} (${line.id})\n${toTable([], lines)}` : 'Nothing changed.',
  };
}

/** Sets `ativo` to false. */
export function deactivateRecord(db: Database, resource: string, name: string, options: Omit<UpdateOptions, 'set'>) {
  return updateRecord(db, resource, name, { ...options, set: new Map([['ativo', 'false']]) });
}

/** Finds a record by its id, or by the e-mail or name that people know it by. */
export async function findRecord(db: Database, table: Table, tenant: string, name: string): Promise<Row> {
  const found = await findIds(db, tenant, [table.name, table.knownBy], [name.trim()]);
  const order = ['criado_em', 'id'].filter((name) => table.columns.some((column) => column.name === name));
  const ids = [...found.values()].flat();
  const [row, ...others] = await readRows(db, table, 'r.id = any ($2::uuid[])', order, [tenant, ids, null]);
  if (!row) {
    throw new CommandError({
      error: `the tenant has no ${name} in ${table.name}`,
      hint: `Name a record by its id${table.knownBy ? ` or ${table.knownBy}` : ''}: npm run admin -- find ${table.name} TEXT --tenant ${tenant}`,
    });
  }
  if (others.length === 0) return row;
  const names = [row, ...others].map((row) => `${row.id} (${nameOf(table, row)})`).join(', ');
  throw new CommandError({
    error: `${name} is the ${table.knownBy} of several ${table.name}`,
    hint: `Name one by its id: ${names}`,
  });
}

/** The text by which people recognize a record. */
export function nameOf(table: Table, row: Row): string {
  return toText(row[listed(table)[0] ?? 'id']);
}

/** The columns of settings. Throws InvalidArgumentError with every mistake. */
function readSettings({ name: resource, columns }: Table, titles: readonly string[]) {
  const settable = columns.filter(({ name }) => name !== 'id');
  const { columns: found, mistakes } = findColumns(titles, settable, {});
  if (mistakes.length > 0) {
    const names = settable.map(({ name }) => name).join(', ');
    throw new InvalidArgumentError(`${resource}: ${mistakes.join('; ')}: expected one of ${names}.`);
  }
  return titles.map((title, index) => ({ title, column: found[index] as Column }));
}

function fail(bad: readonly BadLine[]): void {
  if (bad.length === 0) return;
  throw new CommandError({ error: bad.map((one) => describeBad(one)).join('\n'), hint: 'Nothing was changed.' });
}

/** The tenant, $1, has the rows; $3 is how many, null for all. */
function readRows(
  db: Database,
  { name, columns }: Table,
  condition: string,
  order: readonly string[],
  values: unknown[],
): Promise<Row[]> {
  const list = columns.map((column) => `r.${quote(column.name)}`).join(', ');
  const sql = `select ${list} from private.${name} r where r.tenant_id = $1 and (${condition})
                order by ${order.map(quote).join(', ')} limit $3`;
  return queryRows<Row>(db, sql, values);
}

async function describeValue(db: Database, tenant: string, column: Column, row: Row): Promise<string> {
  const value = toText(row[column.name]);
  const { refers_to: table, known_by: label } = column;
  if (!table || !label || value === '') return value;
  const sql = `select r.${quote(label)} as name from private.${withoutSchema(table)} r where r.tenant_id = $1 and r.id = $2`;
  const [named] = await queryRows<{ name: string }>(db, sql, [tenant, value]);
  return named ? `${value} (${named.name})` : value;
}

/** The columns by which people recognize a record. */
function listed({ columns }: Table): string[] {
  return columns.filter(({ type, required }) => type === 'text' && required).map(({ name }) => name);
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function toText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
