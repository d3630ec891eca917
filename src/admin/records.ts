// The commands for single records of any table with a tenant's data: find, show, update. None reaches another tenant's rows.

import { InvalidArgumentError } from 'commander';
import { type Database, inTransaction } from '../store/migrations.ts';
import { createCheck, type Fields, findColumn, toValue } from './columns.ts';
import { type BadLine, CommandError } from './errors.ts';
import { type Output, toTable } from './output.ts';
import { createFinder } from './references.ts';
import { queryRows } from './store.ts';
import { type Column, findTable, readTables, type Table, withoutSchema } from './tables.ts';

/** A tenant, and a table of its data. */
export type Place = { readonly tenant: string; readonly resource: string };

/** A record, and the text by which people recognize it. */
export type Found = { readonly id: string; readonly name: string };

type Row = Readonly<Record<string, unknown>>;

/** What an update shows of a column, in characters. */
const MAX_SHOWN = 60;

/** Lists the records that have a text in any of their columns of text, ignoring capitals and accents. */
export async function findRecords(db: Database, place: Place, text: string, limit: number): Promise<Output> {
  const table = await openTable(db, place);
  const texts = table.columns.filter(({ type }) => type === 'text');
  const matches = texts.map(
    ({ name }) => `position(private.to_searchable($2) in private.to_searchable(r.${quote(name)})) > 0`,
  );
  const found = await queryRows<Row>(
    db,
    `select ${list(table.columns)} from private.${table.name} r
      where r.tenant_id = $1 and (r.id = private.to_uuid($2) ${matches.map((match) => `or ${match}`).join(' ')})
      order by ${[...listed(table).map(quote), 'r.id'].join(', ')} limit $3`,
    [place.tenant, text, limit + 1],
  );
  const rows = found.slice(0, limit);
  if (rows.length === 0) return { json: [], text: `None of the tenant's ${table.name} has ${JSON.stringify(text)}.` };
  const columns = ['id', ...listed(table), ...table.columns.flatMap(({ name }) => (name === 'ativo' ? [name] : []))];
  const cells = rows.map((row) => columns.map((name) => toText(row[name])));
  const more = found.length > limit ? `\nThere are more: --limit ${limit * 10}` : '';
  return {
    json: rows,
    text:
      toTable(
        columns.map((name) => name.toUpperCase()),
        cells,
      ) + more,
  };
}

/** Shows a record, with the names of those that it refers to. */
export async function showRecord(db: Database, place: Place, name: string): Promise<Output> {
  const table = await openTable(db, place);
  const { id } = await findRecord(db, table, place.tenant, name);
  const row = await readRow(db, table, place.tenant, id);
  const cells: [string, string][] = [];
  for (const column of table.columns) cells.push([column.name, await describeValue(db, place.tenant, column, row)]);
  return { json: row, text: toTable([], cells) };
}

/** Changes columns of a record; an empty value clears one. */
export async function updateRecord(
  db: Database,
  place: Place,
  name: string,
  settings: ReadonlyMap<string, string>,
): Promise<Output> {
  const table = await openTable(db, place);
  const record = await findRecord(db, table, place.tenant, name);
  const fields = await readFields(db, table, place.tenant, settings);
  const [before, after] = await inTransaction(db, async () => {
    const before = await readRow(db, table, place.tenant, record.id);
    const sql = 'select * from private.import_rows($1, $2::text::regclass, $3, true)';
    const line = JSON.stringify([{ line: 1, id: record.id, fields }]);
    fail(await queryRows<BadLine>(db, sql, [place.tenant, `private.${table.name}`, line]));
    return [before, await readRow(db, table, place.tenant, record.id)];
  });
  const changed = Object.keys(after).filter((name) => toText(before[name]) !== toText(after[name]));
  const shorten = (value: unknown) => toText(value).slice(0, MAX_SHOWN) || '(empty)';
  const lines = changed.map((name) => [`${name}:`, `${shorten(before[name])} → ${shorten(after[name])}`]);
  return {
    json: {
      id: record.id,
      changed: Object.fromEntries(changed.map((name) => [name, { from: before[name], to: after[name] }])),
    },
    text: changed.length > 0 ? `Changed ${record.name} (${record.id})\n${toTable([], lines)}` : 'Nothing changed.',
  };
}

/** Finds a record by its id, or by the e-mail or name that people know it by. */
export async function findRecord(db: Database, table: Table, tenant: string, name: string): Promise<Found> {
  const [label = 'id'] = listed(table);
  const sql = `
    select r.id, r.${quote(label)}::text as name
      from private.${table.name} r
     where r.tenant_id = $1 and r.id = any ($2::uuid[])
     order by ${['criado_em', 'id'].filter((name) => table.columns.some((column) => column.name === name)).join(', ')}`;
  const ids = await queryRows<{ id: string }>(
    db,
    'select distinct id from private.find_records($1, $2::text::regclass, $3, $4)',
    [tenant, `private.${table.name}`, table.knownBy ?? null, JSON.stringify([name.trim()])],
  );
  const [found, ...others] = await queryRows<Found>(db, sql, [tenant, ids.map(({ id }) => id)]);
  if (!found) {
    throw new CommandError({
      error: `the tenant has no ${name} in ${table.name}`,
      hint: `Name a record by its id${table.knownBy ? ` or ${table.knownBy}` : ''}: npm run admin -- find ${table.name} TEXT --tenant ${tenant}`,
    });
  }
  if (others.length === 0) return found;
  const names = [found, ...others].map(({ id, name }) => `${id} (${name})`).join(', ');
  throw new CommandError({
    error: `${name} is the ${table.knownBy} of several ${table.name}`,
    hint: `Name one by its id: ${names}`,
  });
}

/** Opens a table of a tenant. */
export async function openTable(db: Database, { tenant, resource }: Place): Promise<Table> {
  await db.query('select private.require_tenant($1)', [tenant]);
  return findTable(await readTables(db), resource);
}

/** The fields to set, as Postgres takes them; null for one to clear. Throws with every mistake. */
async function readFields(
  db: Database,
  { name: resource, columns }: Table,
  tenant: string,
  settings: ReadonlyMap<string, string>,
): Promise<Record<string, string | null>> {
  const settable = columns.filter(({ name }) => name !== 'id');
  const set = [...settings].map(([title, text]) => {
    const column = findColumn(settable, title);
    if (column) return { title: column.name, column, text: toValue(text, column) };
    const names = settable.map(({ name }) => name).join(', ');
    throw new InvalidArgumentError(`${resource} has no column ${JSON.stringify(title)}: expected one of ${names}.`);
  });
  const fields: Fields = Object.fromEntries(
    set.filter(({ text }) => text !== '').map(({ title, text }) => [title, text]),
  );
  const bad = Object.entries(createCheck(columns, { isPartial: true })(fields)).flatMap(([field, messages]) =>
    messages.map((message) => ({ line: 1, field, message })),
  );
  const cleared = set.filter(({ text }) => text === '').map(({ column }) => column);
  bad.push(
    ...cleared.filter(({ required }) => required).map(({ name }) => ({ line: 1, field: name, message: 'is required' })),
  );
  await createFinder(db, tenant)([{ line: 1, fields, bad }], set);
  fail(bad);
  return { ...fields, ...Object.fromEntries(cleared.map(({ name }) => [name, null])) };
}

function fail(bad: readonly BadLine[]): void {
  if (bad.length === 0) return;
  const error = bad.map(({ field, message }) => `${field === null ? '' : `${field} `}${message}`).join('\n');
  throw new CommandError({ error, hint: 'Nothing was changed.' });
}

async function readRow(db: Database, { name, columns }: Table, tenant: string, id: string): Promise<Row> {
  const sql = `select ${list(columns)} from private.${name} r where r.tenant_id = $1 and r.id = $2`;
  const [row] = await queryRows<Row>(db, sql, [tenant, id]);
  return row ?? {};
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

function list(columns: readonly Column[]): string {
  return columns.map(({ name }) => `r.${quote(name)}`).join(', ');
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function toText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
