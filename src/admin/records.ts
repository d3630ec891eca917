// The commands for single records of any table with a tenant's data, and for all data about a student.

import { type Command, InvalidArgumentError } from 'commander';
import pg from 'pg';
import { type Database, inTransaction } from '../store/migrations.ts';
import { readInteger, readName, readSetting, UUID } from './arguments.ts';
import { type Header, readTitles, withPlainBlanks } from './columns.ts';
import { addOfTenant, type Run, YES } from './command.ts';
import { queryRow, queryRows } from './database.ts';
import { t, translate } from './language.ts';
import { createWriter, type Line } from './lines.ts';
import {
  type Column,
  findIds,
  findTable,
  idAnd,
  type OfTenant,
  readTables,
  requireId,
  type Table,
  toIdentifier,
  withoutSchema,
} from './tables.ts';
import { CommandError, type Confirmed, confirm, describeBad, listCounts, type Output, toTable } from './terminal.ts';

/** A record: its values by column. */
type Row = Readonly<Record<string, unknown>>;
/** The number of rows deleted from a table. */
type Deleted = { readonly name: string; readonly deleted: number };
type UpdateOptions = OfTenant & {
  readonly timeZone: string;
  readonly set: ReadonlyMap<string, string>;
  readonly allowDuplicates?: boolean;
};

/** A change of a record; the key and the request are null if an administrator made it. */
type Change = {
  readonly at: string;
  readonly kind: string;
  readonly key_id: string | null;
  readonly key: string | null;
  readonly request: string | null;
};

const HISTORY = `
  select c.occurred_at as at, c.kind, c.key as key_id, nullif(concat_ws(' ', k.prefix, k.name), '') as key, c.request
    from private.changes c
    left join private.api_keys k on k.tenant_id = c.tenant_id and k.id = c.key
   where c.tenant_id = $1 and c.resource = $2 and $3 = any (c.records)
   order by c.id`;

/** The maximum length of a value that an update shows. */
const MAX_SHOWN = 60;

const KEEP =
  'Backups still have it: for a restore, keep the list of `npm run --silent admin -- erasures > FILE` outside of the store.';

const TAKEN = 'Nothing was changed. With --allow-duplicates several records may have it.';

/** Adds the commands for records and students. */
export function addRecordCommands(program: Command, run: Run<Database>): void {
  const student = program.command('student').description('show and erase what the store has of one student');
  const ana = 'ana@minha.example --tenant ID';
  addOfTenant(student, 'data <STUDENT>', 'print all data about a student as JSON', ana).action(run(showStudent));
  addOfTenant(student, 'erase <STUDENT>', 'delete all data about a student', ana)
    .option(...YES)
    .action(run(eraseStudent));
  const find = 'list the records that have a text, such as a part of a name';
  addOfTenant(program, 'find <RESOURCE>', find, 'alunos prado --tenant ID')
    .argument('<TEXT>', 'ignoring capitals and accents; or an id', readName)
    .option('--limit <NUMBER>', 'list no more', readInteger(1, 999_999), 20)
    .action(run(findRecords));
  const addOne = (name: string, description: string, example: string) =>
    addOfTenant(program, `${name} <RESOURCE> <RECORD>`, description, example);
  const ofStudent = 'alunos ana@minha.example --tenant ID';
  addOne('show', 'show a record', ofStudent).action(run(showRecord));
  const history = 'show who changed a record, and when; name a deleted one by its id';
  addOne('history', history, ofStudent).action(run(showHistory));
  const correct = 'correct a record, and show what has changed';
  addOne('update', correct, "alunos ana@minha.example --tenant ID --set 'telefone=11 98888-0001' academia=Centro sexo=")
    .requiredOption('--set <COLUMN=VALUE...>', 'as in a file to import; without a value it is cleared', readSetting)
    .option('--allow-duplicates', 'take an e-mail or a name that another record has')
    .action(run(updateRecord));
  const deactivate = 'set ativo to false; update sets it to true again';
  addOne('deactivate', deactivate, 'personais bia@minha.example --tenant ID').action(run(deactivateRecord));
}

async function findRecords(
  db: Database,
  resource: string,
  text: string,
  { tenant, limit }: OfTenant & { readonly limit: number },
): Promise<Output> {
  const table = await openTable(db, resource);
  const matches = table.columns
    .filter(({ type }) => type === 'text')
    .map(
      ({ name }) => `position(private.to_searchable($2) in private.to_searchable(r.${pg.escapeIdentifier(name)})) > 0`,
    );
  const condition = ['r.id = private.to_uuid($2)', ...matches].join(' or ');
  const found = await readRows(db, table, [...listed(table), 'id'], condition, [tenant, text, limit + 1]);
  const rows = found.slice(0, limit);
  if (rows.length === 0) return { json: [], text: t`None of the tenant's ${table.name} has ${JSON.stringify(text)}.` };
  const columns = ['id', ...listed(table), ...(hasColumn(table, 'ativo') ? ['ativo'] : [])];
  const head = columns.map((name) => name.toUpperCase());
  const cells = rows.map((row) => columns.map((name) => toText(row[name])));
  const more = found.length > limit ? `\n${t`There are more: --limit ${limit * 10}`}` : '';
  return { json: rows, text: toTable(head, cells) + more };
}

/** Shows a record, with the names of the records that it refers to. */
async function showRecord(db: Database, resource: string, name: string, { tenant }: OfTenant): Promise<Output> {
  const { table, row } = await openRecord(db, tenant, resource, name);
  const cells: [string, string][] = [];
  for (const column of table.columns) {
    const value = toText(row[column.name]);
    const referred = await findName(db, tenant, column, value);
    cells.push([column.name, referred ? `${value} (${referred})` : value]);
  }
  return { json: row, text: toTable([], cells) };
}

async function updateRecord(db: Database, resource: string, name: string, { set, ...options }: UpdateOptions) {
  const { table, row: before } = await openRecord(db, options.tenant, resource, name);
  const id = String(before.id);
  const writer = createWriter(db, table, readSettings(table, [...set.keys()]), { ...options, clears: true });
  const line: Line = { ...writer.read(1, [...set.values()]), id };
  await inTransaction(db, async () => {
    await writer.write([line]);
    const hint = line.isTaken ? TAKEN : 'Nothing was changed.';
    if (line.bad.length > 0) throw new CommandError(line.bad.map(describeBad).join('\n'), hint);
  });
  const after = await findRecord(db, table, options.tenant, id);
  const changed = Object.keys(after).filter((name) => toText(before[name]) !== toText(after[name]));
  const shorten = (value: unknown) => toText(value).slice(0, MAX_SHOWN) || translate('(empty)');
  const lines = changed.map((name) => [`${name}:`, `${shorten(before[name])} → ${shorten(after[name])}`]);
  const values = changed.map((name) => [name, { from: before[name], to: after[name] }]);
  return {
    json: { id, changed: Object.fromEntries(values) },
    text:
      lines.length > 0
        ? `${t`Changed ${nameOf(table, before)} (${id})`}\n${toTable([], lines)}`
        : translate('Nothing was changed.'),
  };
}

async function deactivateRecord(db: Database, resource: string, name: string, options: Omit<UpdateOptions, 'set'>) {
  const table = await openTable(db, resource);
  if (!hasColumn(table, 'ativo'))
    throw new CommandError(t`${table.name} has no column ativo, which deactivate sets to false`);
  return updateRecord(db, resource, name, { ...options, set: new Map([['ativo', 'false']]) });
}

async function showHistory(db: Database, resource: string, name: string, { tenant }: OfTenant): Promise<Output> {
  const table = await openTable(db, resource);
  const id = UUID.test(name) ? name.toLowerCase() : String((await findRecord(db, table, tenant, name)).id);
  const changes = await queryRows<Change>(db, HISTORY, [tenant, table.name, id]);
  if (changes.length === 0) return { json: [], text: t`No change of ${id} is kept.` };
  const cells = changes.map(({ at, kind, key_id, key, request }) => [at, kind, key ?? key_id ?? '', request ?? '']);
  return { json: changes, text: toTable(['WHEN', 'CHANGE', 'KEY', 'REQUEST'].map(translate), cells) };
}

async function showStudent(db: Database, name: string, { tenant }: OfTenant): Promise<Output> {
  const { row } = await openRecord(db, tenant, 'alunos', name);
  const sql = 'select private.student_data($1, $2) as data';
  const { data } = await queryRow<{ data: unknown }>(db, sql, [tenant, row.id]);
  return { json: data, text: JSON.stringify(data, null, 2) };
}

async function eraseStudent(db: Database, name: string, { tenant, yes }: OfTenant & Confirmed): Promise<Output> {
  const { table, row } = await openRecord(db, tenant, 'alunos', name);
  const student = nameOf(table, row);
  await confirm(t`Erases the student ${student} and everything that refers to it.`, student, { yes });
  const deleted = await queryRows<Deleted>(db, 'select * from private.erase_student($1, $2)', [tenant, row.id]);
  return toErased(t`Student ${row.id} was erased`, deleted);
}

/** The output of an erasure: the rows deleted from each table. */
export function toErased(what: string, tables: readonly Deleted[]): Output {
  const counts = tables.map(({ name, deleted }) => [withoutSchema(name), deleted] as const);
  const text = `${what}: ${listCounts(counts.filter(([, deleted]) => deleted > 0))}.\n${translate(KEEP)}`;
  return { json: { deleted: Object.fromEntries(counts) }, text };
}

async function openTable(db: Database, resource: string): Promise<Table> {
  const table = findTable(await readTables(db), resource);
  requireId(table);
  return table;
}

async function openRecord(db: Database, tenant: string, resource: string, name: string) {
  const table = await openTable(db, resource);
  return { table, row: await findRecord(db, table, tenant, name) };
}

/** Finds a record by its id, e-mail or name. */
async function findRecord(db: Database, table: Table, tenant: string, name: string): Promise<Row> {
  // An API client may have stored other blanks.
  const texts = [name.trim(), withPlainBlanks(name).trim()];
  const found = await findIds(db, tenant, [table.name, table.knownBy], texts);
  const order = ['criado_em', 'id'].filter((name) => hasColumn(table, name));
  const values = [tenant, [...found.values()].flat(), null];
  const [row, ...others] = await readRows(db, table, order, 'r.id = any ($2::uuid[])', values);
  if (!row) {
    throw new CommandError(
      t`the tenant has no ${name} in ${table.name}`,
      t`Name a record by its ${idAnd(table.knownBy)}: npm run admin -- find ${table.name} TEXT --tenant ${tenant}`,
    );
  }
  if (others.length === 0) return row;
  const names = [row, ...others].map((row) => `${row.id} (${nameOf(table, row)})`).join(', ');
  throw new CommandError(t`${name} is the ${table.knownBy} of several ${table.name}`, t`Name one by its id: ${names}`);
}

/** The e-mail or name of the record that a column refers to; empty for none. */
async function findName(db: Database, tenant: string, column: Column, id: string): Promise<string> {
  const { refers_to: name, known_by: label } = column;
  if (!name || !label || id === '') return '';
  const [row = {}] = await readRows(db, { name, columns: [{ name: label }] }, [label], 'r.id = $2', [tenant, id, 1]);
  return toText(row[label]);
}

/** Maps the names of settings to columns. Throws InvalidArgumentError with all mistakes. */
function readSettings({ name: resource, columns }: Table, titles: readonly string[]): readonly Header[] {
  const settable = columns.filter(({ name }) => name !== 'id');
  const { headers, mistakes } = readTitles(titles, { name: resource, columns: settable });
  if (mistakes.length === 0) return headers;
  const names = settable.map(({ name }) => name).join(', ');
  throw new InvalidArgumentError(t`${resource}: ${mistakes.join('; ')}: expected one of ${names}.`);
}

/** Reads at most $3 rows of the tenant $1; null means no limit. */
function readRows(
  db: Database,
  { name, columns }: { readonly name: string; readonly columns: readonly Pick<Column, 'name'>[] },
  order: readonly string[],
  condition: string,
  values: unknown[],
): Promise<Row[]> {
  const list = columns.map((column) => `r.${pg.escapeIdentifier(column.name)}`).join(', ');
  const sql = `select ${list} from ${toIdentifier(name)} r where r.tenant_id = $1 and (${condition})
                order by ${order.map((name) => `r.${pg.escapeIdentifier(name)}`).join(', ')} limit $3`;
  return queryRows<Row>(db, sql, values);
}

/** The columns that a list shows: the required texts. */
function listed({ columns }: Table): string[] {
  return columns.filter(({ type, required }) => type === 'text' && required).map(({ name }) => name);
}

function hasColumn({ columns }: Table, name: string): boolean {
  return columns.some((column) => column.name === name);
}

/** A name of the record for people. */
function nameOf(table: Table, row: Row): string {
  return toText(row[listed(table)[0] ?? 'id']);
}

function toText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
