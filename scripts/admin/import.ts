// The import of a tenant's data from CSV: every line becomes a row, or no line does.

import { createReadStream, readdirSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { findProblem, type Problems } from '../../src/api/request.ts';
import { toFieldErrors } from '../../src/api/validate.ts';
import type { FieldErrors } from '../../src/errors.ts';
import { createAjv } from '../../src/openapi/compile.ts';
import { type Connection, inTransaction } from '../../src/store/migrations.ts';
import { type CsvRecord, decode, readRecords } from './csv.ts';
import { type BadLine, CommandError } from './errors.ts';
import type { Output } from './keys.ts';
import { queryRows } from './store.ts';
import { type Column, findTable, readTables, type Table, withoutSchema } from './tables.ts';

export type ImportOptions = {
  readonly tenant: string;
  readonly delimiter?: string;
  readonly encoding: string;
  readonly dryRun?: boolean;
};

/** A file for a table. */
type Source = { readonly table: string; readonly name: string; open(): AsyncIterable<Uint8Array> };
type Fields = Record<string, string>;
type Check = (fields: Fields) => FieldErrors;

/** A column of a file: its name there, and the table's column. */
type Header = { readonly title: string; readonly column: Column };

/** A line: its valid fields, or undefined if it cannot be read, and its problems. */
type Line = { readonly line: number; readonly fields: Fields | undefined; readonly bad: BadLine[] };

/** Lines in one SQL call. Each call that looks for e-mails or names reads all of a tenant's. */
const BATCH = 5_000;
/** A table of Postgres has no more columns. */
const MAX_COLUMNS = 1_600;
/** What is listed of a header: so many mistakes, and so many characters of a name. */
const MAX_MISTAKES = 20;
const MAX_NAME = 100;
/** The resource that stands for all, in a folder. */
const ALL = 'all';

const BRAZILIAN_DATE = /^(\d\d)\/(\d\d)\/(\d{4})$/;
/** As spreadsheets in English and in Portuguese write them. */
const BOOLEANS: ReadonlyMap<string, string> = new Map([
  ['true', 'true'],
  ['verdadeiro', 'true'],
  ['sim', 'true'],
  ['false', 'false'],
  ['falso', 'false'],
  ['não', 'false'],
]);

/** Imports a file, or all files of a folder. A file that is not there is found before the store is opened. */
export async function importData(
  resource: string,
  path: string,
  options: ImportOptions,
  run: (work: (db: Connection) => Promise<Output>) => Promise<void>,
): Promise<void> {
  const sources = resource === ALL ? findFiles(path) : [findFile(resource, path)];
  await run(async (db) => {
    const tables = await readTables(db);
    for (const { table } of sources) findTable(tables, table);
    const counts = await inTransaction(db, async () => {
      await db.query('select private.require_tenant($1)', [options.tenant]);
      await db.query('savepoint before_import');
      const counts: [string, number][] = [];
      for (const table of tables) {
        const source = sources.find((source) => source.table === table.name);
        if (source) counts.push([table.name, await importSource(db, table, source, options)]);
      }
      if (options.dryRun) await db.query('rollback to savepoint before_import');
      return counts;
    });
    return toOutput(counts, options);
  });
}

/** A path is relative to the folder where npm was called. */
function toPath(name: string): string {
  return resolve(process.env.INIT_CWD ?? '.', name);
}

function findFile(table: string, name: string): Source {
  if (name === '-') return { table, name: 'standard input', open: () => process.stdin };
  const path = toPath(name);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new CommandError({ error: `There is no file ${name}` });
  if (stat.isDirectory()) throw new CommandError({ error: `${name} is a folder: expected a CSV file` });
  return { table, name, open: () => createReadStream(path) };
}

function findFiles(folder: string): Source[] {
  const path = toPath(folder);
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError({ error: `There is no folder ${folder}` });
  }
  const files = readdirSync(path).filter((file) => file.endsWith('.csv'));
  if (files.length === 0) throw new CommandError({ error: `${folder} has no CSV file` });
  return files.map((file) => findFile(basename(file, '.csv'), join(folder, file)));
}

/** Creates a row from each record and returns their number. Throws CommandError with all bad lines in order. */
export async function importSource(
  db: Connection,
  table: Table,
  { name, open }: Source,
  { tenant, delimiter, encoding }: ImportOptions,
): Promise<number> {
  const records = readRecords(decode(name, open(), encoding), delimiter);
  let sending: Promise<readonly BadLine[]> = Promise.resolve([]);
  try {
    const headers = await readHeader(name, records, table);
    const check = createCheck(table);
    const find = createFinder(db, tenant);
    const bad: BadLine[] = [];
    let total = 0;
    for await (const batch of inBatches(records)) {
      const lines = batch.map((record) => checkRecord(record, headers, check));
      bad.push(...(await sending));
      await find(lines, headers);
      bad.push(...lines.flatMap((line) => line.bad));
      // The database works on these lines while the next are read.
      sending = send(db, tenant, table, lines, headers);
      sending.catch(() => {});
      total += batch.length;
      showProgress(name, total);
    }
    bad.push(...(await sending));
    if (total === 0) throw new CommandError({ error: `${name} has a header and no other line: nothing was imported` });
    if (bad.length > 0) throw toError(name, bad, total);
    return total;
  } finally {
    await Promise.allSettled([sending]);
    // Unread standard input would keep the process alive.
    await records.return(undefined);
  }
}

/** Reads the header. Throws CommandError with all mistakes unless its columns are columns of the table. */
async function readHeader(
  name: string,
  records: AsyncGenerator<CsvRecord, void>,
  { columns }: Table,
): Promise<readonly Header[]> {
  const known = columns.map(({ name, known_by: label }) => (label ? `${name} (an id or ${label})` : name));
  const required = columns.filter((column) => column.required).map((column) => column.name);
  const needed = required.length > 0 ? `; required: ${required.join(', ')}` : '';
  const hint = `The first line names the columns: ${known.join(', ')}${needed}.`;
  const { value: header } = await records.next();
  if (!header) throw new CommandError({ error: `${name} is empty: expected CSV with a header`, hint });
  const fail = (mistakes: readonly string[]) =>
    new CommandError({ error: `${name}, line ${header.line}: ${mistakes.join('; ')}`, hint });
  if ('problem' in header) throw fail([header.problem]);
  if (header.cells.length > MAX_COLUMNS) throw fail([`has ${header.cells.length} columns: the file may not be CSV`]);
  const titles = header.cells.map((cell) => cell.trim());
  const named = new Map(columns.flatMap((column) => toTitles(column).map((title) => [title, column])));
  const found = new Set<string>();
  const mistakes = titles.flatMap((title, index) => {
    if (title === '') return [`column ${index + 1} has no name`];
    const column = named.get(title.toLowerCase());
    if (!column) return [`unknown column ${JSON.stringify(title.slice(0, MAX_NAME))}`];
    if (found.has(column.name)) return [`column ${JSON.stringify(title)} is repeated`];
    found.add(column.name);
    return [];
  });
  const missing = required.filter((name) => !found.has(name));
  mistakes.push(...missing.map((name) => `column ${JSON.stringify(name)} is missing`));
  if (mistakes.length > MAX_MISTAKES) mistakes.splice(MAX_MISTAKES, Infinity, 'and more');
  if (mistakes.length > 0) throw fail(mistakes);
  return titles.map((title) => ({ title, column: named.get(title.toLowerCase()) as Column }));
}

/** The names that a file may use: the table's, those of the interface, and one without _id for an e-mail or a name. */
function toTitles({ name, refers_to }: Column): string[] {
  const thing = name.replace(/_id$/, '');
  return [name, `p_${name}`, ...(refers_to ? [thing, `id_${thing}`] : [])];
}

/** Creates the check of a line's fields, with the messages of the API. */
function createCheck({ columns }: Table): Check {
  const required = columns.filter((column) => column.required).map((column) => column.name);
  const properties = Object.fromEntries(columns.map((column) => [column.name, toSchema(column)]));
  const validate = createAjv().compile({
    type: 'object',
    properties: { requestBody: { type: 'object', properties, required } },
  });
  const documents = columns.filter(({ type }) => type === 'jsonb').map(({ name }) => name);
  return (fields) => {
    validate({ requestBody: fields });
    return toFieldErrors(validate.errors ?? [], findProblems(fields, documents), []);
  };
}

function toSchema({ name, type, required, max_length: maxLength, refers_to }: Column): object {
  if (refers_to) return {};
  switch (type) {
    case 'uuid':
      return { format: 'uuid' };
    case 'boolean':
      return { pattern: '^(true|false)$', 'x-pattern-message': 'must be true or false, or sim or não' };
    case 'date':
      return { format: 'date', 'x-format-message': 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY' };
    case 'timestamp with time zone':
      return { format: 'date-time', 'x-format-message': 'must be a time, as 2026-12-31T18:00:00Z' };
    case 'integer':
      return { pattern: '^-?\\d+$', 'x-pattern-message': 'must be an integer' };
    default:
      return {
        ...(maxLength === null ? {} : { maxLength }),
        ...(name === 'email' ? { format: 'email' } : {}),
        ...(required ? { pattern: '[^\\s\\x85]', 'x-pattern-message': 'must not be blank' } : {}),
      };
  }
}

function findProblems(fields: Fields, documents: readonly string[]): Problems {
  const found = Object.entries(fields).map(([field, text]) => {
    const problem = documents.includes(field) ? findDocumentProblem(text) : findProblem(text);
    return [field, problem] as const;
  });
  return new Map(found.flatMap(([field, problem]) => (problem ? [[field, [problem]]] : [])));
}

function findDocumentProblem(text: string): string | undefined {
  try {
    return findProblem(JSON.parse(text));
  } catch {
    return 'must be JSON';
  }
}

function checkRecord(record: CsvRecord, headers: readonly Header[], check: Check): Line {
  const { line } = record;
  const unusable = (message: string) => ({ line, fields: undefined, bad: [{ line, field: null, message }] });
  if ('problem' in record) return unusable(record.problem);
  const { cells } = record;
  if (cells.length !== headers.length) {
    return unusable(`has ${toCount(cells.length, 'value')}, but the header has ${toCount(headers.length, 'column')}`);
  }
  const pairs = headers.map(({ column }, index) => [column.name, convert(cells[index] ?? '', column)] as const);
  const fields = Object.fromEntries(pairs.filter(([, text]) => text !== ''));
  const errors = Object.entries(check(fields));
  const bad = errors.flatMap(([field, messages]) =>
    messages.map((message) => ({ line, field: toTitle(field, headers), message })),
  );
  for (const [field] of errors) delete fields[field];
  return { line, fields, bad };
}

/** What people write, as Postgres takes it. */
function convert(text: string, { type }: Column): string {
  if (type === 'boolean') return BOOLEANS.get(text.trim().toLowerCase()) ?? text;
  return type === 'date' ? text.replace(BRAZILIAN_DATE, '$3-$2-$1') : text;
}

/** Creates a function that replaces the ids, e-mails and names of other records by ids; it looks for each text once. */
function createFinder(
  db: Connection,
  tenant: string,
): (lines: readonly Line[], headers: readonly Header[]) => Promise<void> {
  const found = new Map<Column, Map<string, string[]>>();

  async function find(column: Column, texts: readonly string[]): Promise<Map<string, string[]>> {
    const ids = found.get(column) ?? new Map<string, string[]>();
    found.set(column, ids);
    const unknown = [...new Set(texts)].filter((text) => !ids.has(text));
    for (const text of unknown) ids.set(text, []);
    const records = await queryRows<{ value: string; id: string }>(
      db,
      'select * from private.find_records($1, $2::text::regclass, $3, $4)',
      [tenant, column.refers_to, column.known_by, JSON.stringify(unknown)],
    );
    for (const { value, id } of records) ids.get(value)?.push(id);
    return ids;
  }

  return async (lines, headers) => {
    for (const { title, column } of headers.filter(({ column }) => column.refers_to)) {
      const ids = await find(
        column,
        lines.flatMap(({ fields }) => fields?.[column.name] ?? []),
      );
      for (const { line, fields, bad } of lines) {
        const text = fields?.[column.name];
        if (!fields || text === undefined) continue;
        const [id, another] = ids.get(text) ?? [];
        if (id !== undefined && another === undefined) fields[column.name] = id;
        else bad.push({ line, field: title, message: describeReference(column, another !== undefined) });
      }
    }
  };
}

function describeReference({ refers_to: table, known_by: label }: Column, isOfSeveral: boolean): string {
  const records = withoutSchema(table ?? '');
  if (isOfSeveral) return `is the ${label} of several ${records}: give the id`;
  return `must be the id${label ? ` or the ${label}` : ''} of one of the tenant's ${records}`;
}

/** Sends the good lines to SQL, and returns those that the table refuses. */
async function send(
  db: Connection,
  tenant: string,
  { name }: Table,
  lines: readonly Line[],
  headers: readonly Header[],
): Promise<BadLine[]> {
  const good = lines.filter(({ bad }) => bad.length === 0).map(({ line, fields }) => ({ line, fields }));
  const bad = await queryRows<BadLine>(db, 'select * from private.import_rows($1, $2::text::regclass, $3)', [
    tenant,
    `private.${name}`,
    JSON.stringify(good),
  ]);
  return bad.map(({ line, field, message }) => ({ line, field: field && toTitle(field, headers), message }));
}

function toTitle(name: string, headers: readonly Header[]): string {
  return headers.find(({ column }) => column.name === name)?.title ?? name;
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

function showProgress(name: string, lines: number): void {
  if (process.stderr.isTTY && lines % BATCH === 0) process.stderr.write(`\r${name}: ${lines} lines\r`);
}

function toError(name: string, bad: readonly BadLine[], total: number): CommandError {
  const count = new Set(bad.map(({ line }) => line)).size;
  return new CommandError({
    error: `Nothing was imported from ${name}: ${count} of ${total} lines ${count === 1 ? 'is' : 'are'} bad`,
    hint: 'Correct them and import the file again: all lines are imported, or none.',
    // The rules of the table are checked last.
    lines: bad.toSorted((one, other) => one.line - other.line),
  });
}

function toOutput(
  counts: readonly (readonly [table: string, count: number])[],
  { dryRun = false }: ImportOptions,
): Output {
  const list = counts.map(([table, count]) => `${table} ${count}`).join(', ');
  return {
    json: { [dryRun ? 'wouldCreate' : 'created']: Object.fromEntries(counts) },
    text: dryRun ? `Nothing is wrong, and nothing was changed. The import would create: ${list}.` : `Created: ${list}.`,
  };
}

function toCount(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}
