// The import of a tenant's data from CSV: every line becomes a row, or no line does.

import { hash } from 'node:crypto';
import { createReadStream, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { type Database, inTransaction } from '../store/migrations.ts';
import { addBlankTexts, createCheck, type Fields, findColumns, toValue } from './columns.ts';
import { type CsvRecord, decode, readRecords } from './csv.ts';
import { type BadLine, CommandError } from './errors.ts';
import { USAGE } from './export.ts';
import { type Output, toCount, toTable } from './output.ts';
import { toPath } from './path.ts';
import { createProgress, toBar } from './progress.ts';
import { createFinder, type FileLine, type Header } from './references.ts';
import { queryRows } from './store.ts';
import { findTable, readTables, type Table } from './tables.ts';

export type ImportOptions = {
  readonly tenant: string;
  readonly delimiter?: string;
  readonly encoding: string;
  readonly dryRun?: boolean;
  /** The columns of titles, by title. */
  readonly map?: ReadonlyMap<string, string>;
  readonly ignoreUnknown?: boolean;
  /** What becomes of a line whose record exists; without any of them it is bad. */
  readonly skipExisting?: boolean;
  readonly update?: boolean;
  readonly allowDuplicates?: boolean;
};

/** A file for a table; its size in bytes if that is known. */
type Source = {
  readonly table: string;
  readonly name: string;
  readonly size?: number;
  open(): AsyncIterable<Uint8Array>;
};

type Line = FileLine & {
  /** The record that it changes. */
  id?: string;
  isSkipped?: boolean;
};

/** The first lines of a file as they are imported. */
type Preview = {
  readonly file: string;
  readonly lines: number[];
  readonly columns: readonly { readonly title: string; readonly column: string | null; readonly values: string[] }[];
};

/** What became of the lines of a file. */
type Counts = { created: number; updated: number; skipped: number };
type Imported = Counts & { readonly table: string; readonly preview: Preview };

/** Lines in one SQL call. Each call that looks for e-mails or names reads all of a tenant's. */
const BATCH = 5_000;
/** A table of Postgres has no more columns. */
const MAX_COLUMNS = 1_600;
/** How many mistakes of a header are listed. */
const MAX_MISTAKES = 20;
/** The lines of a preview, and the characters of a value. */
const PREVIEWED = 3;
const MAX_PREVIEW = 24;
/** The resource that stands for all, in a folder. */
const ALL = 'all';

const CORRECT = 'Correct them and import the file again: all lines are imported, or none.';
const EXISTING =
  'If the file was imported before: --skip-existing leaves out the lines whose records exist, --update corrects these, and --allow-duplicates creates others.';
const UNKNOWN =
  "Say what a column is with --map 'Its name=column', or leave out what is unknown with --ignore-unknown.";

/** Imports a file, or all files of a folder. A file that is not there is found before the store is opened. */
export async function importData(
  resource: string,
  path: string,
  options: ImportOptions,
  run: (work: (db: Database) => Promise<Output>) => Promise<void>,
): Promise<void> {
  if (resource === ALL && options.map) throw new InvalidArgumentError('Expected --map with one file, not with all.');
  const sources = resource === ALL ? findFiles(path) : [findFile(resource, path)];
  await run(async (db) => {
    const tables = await readTables(db);
    for (const { table } of sources) findTable(tables, table);
    const imported = await inTransaction(db, async () => {
      await db.query('select private.require_tenant($1)', [options.tenant]);
      await db.query('savepoint before_import');
      const imported: Imported[] = [];
      for (const table of tables) {
        const source = sources.find((source) => source.table === table.name);
        if (source) imported.push({ table: table.name, ...(await importSource(db, table, source, options)) });
      }
      if (options.dryRun) await db.query('rollback to savepoint before_import');
      return imported;
    });
    return toOutput(imported, options);
  });
}

function findFile(table: string, name: string): Source {
  if (name === '-') return { table, name: 'standard input', open: () => process.stdin };
  const path = toPath(name);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new CommandError({ error: `There is no file ${name}` });
  if (stat.isDirectory()) throw new CommandError({ error: `${name} is a folder: expected a CSV file` });
  return { table, name, size: stat.size, open: () => createReadStream(path) };
}

function findFiles(folder: string): Source[] {
  const path = toPath(folder);
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError({ error: `There is no folder ${folder}` });
  }
  const files = readdirSync(path).filter((file) => file.endsWith('.csv') && file !== `${USAGE}.csv`);
  if (files.length === 0) throw new CommandError({ error: `${folder} has no CSV file` });
  return files.map((file) => findFile(basename(file, '.csv'), join(folder, file)));
}

/** Creates a row from each record, or changes one. Throws CommandError with all bad lines in order. */
export async function importSource(
  db: Database,
  table: Table,
  { name, size, open }: Source,
  options: ImportOptions,
): Promise<Counts & { preview: Preview }> {
  let read = 0;
  async function* readBytes() {
    for await (const chunk of open()) {
      read += chunk.length;
      yield chunk;
    }
  }
  const records = readRecords(decode(name, readBytes(), options.encoding), options.delimiter);
  const progress = createProgress((lines) => `${name}: ${size ? `${toBar(read / size)}, ` : ''}${lines} lines`);
  let sending: Promise<readonly BadLine[]> = Promise.resolve([]);
  try {
    const headers = await readHeader(name, records, table, options);
    const check = createCheck(table.columns, { isPartial: options.update === true });
    const find = createFinder(db, options.tenant);
    const settler = await createSettler(db, table, headers, options);
    const preview: Preview = { file: name, lines: [], columns: headers.map(toPreview) };
    const counts = { created: 0, updated: 0, skipped: 0 };
    const bad: BadLine[] = [];
    let total = 0;
    for await (const batch of inBatches(records)) {
      const filled = batch.filter((record) => !('cells' in record) || record.cells.some((cell) => cell.trim() !== ''));
      addToPreview(preview, filled, headers);
      const lines = filled.map((record) => checkRecord(record, headers, { table, check }, options));
      bad.push(...(await sending));
      await find(lines, headers);
      await settler.settle(lines);
      if (options.update) requireFields(lines, table);
      bad.push(...lines.flatMap((line) => line.bad));
      // The database works on these lines while the next are read.
      sending = send(db, options.tenant, table, lines, headers);
      sending.catch(() => {});
      total += lines.length;
      for (const { id, isSkipped } of lines) counts[isSkipped ? 'skipped' : id ? 'updated' : 'created'] += 1;
      progress.add(batch.length);
    }
    bad.push(...(await sending));
    if (bad.length > 0) throw toError({ name, bad, total, existing: settler.refused(), preview, ...options });
    return { ...counts, preview };
  } finally {
    progress.end();
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
  options: ImportOptions,
): Promise<readonly Header[]> {
  const known = columns.map(({ name, known_by: label }) => (label ? `${name} (an id or ${label})` : name));
  const required = columns.filter((column) => column.required).map((column) => column.name);
  const needed = required.length > 0 ? `; required: ${required.join(', ')}` : '';
  const hint = `The first line names the columns: ${known.join(', ')}${needed}.`;
  const { value: header } = await records.next();
  if (!header) throw new CommandError({ error: `${name} is empty: expected CSV with a header`, hint });
  const fail = (mistakes: readonly string[], more = '') =>
    new CommandError({ error: `${name}, line ${header.line}: ${mistakes.join('; ')}`, hint: hint + more });
  if ('problem' in header) throw fail([header.problem]);
  if (header.cells.length > MAX_COLUMNS) throw fail([`has ${header.cells.length} columns: the file may not be CSV`]);
  const titles = header.cells.map((cell) => cell.trim());
  const { columns: found, mistakes } = findColumns(titles, columns, options);
  const hasUnknown = mistakes.some((mistake) => mistake.startsWith('unknown'));
  const missing = options.update ? [] : required.filter((name) => !found.some((column) => column?.name === name));
  const all = [...mistakes, ...missing.map((name) => `column ${JSON.stringify(name)} is missing`)];
  if (all.length > MAX_MISTAKES) all.splice(MAX_MISTAKES, Infinity, 'and more');
  if (all.length > 0) throw fail(all, hasUnknown ? `\n${UNKNOWN}` : '');
  return titles.map((title, index) => ({ title, column: found[index] }));
}

function checkRecord(
  record: CsvRecord,
  headers: readonly Header[],
  { table, check }: { readonly table: Table; readonly check: ReturnType<typeof createCheck> },
  { ignoreUnknown, update }: ImportOptions,
): Line {
  const { line } = record;
  const unusable = (message: string) => ({ line, fields: undefined, bad: [{ line, field: null, message }] });
  if ('problem' in record) return unusable(record.problem);
  const { cells } = record;
  if (cells.length !== headers.length) {
    return unusable(`has ${toCount(cells.length, 'value')}, but the header has ${toCount(headers.length, 'column')}`);
  }
  const untitled = headers.findIndex(({ title }, index) => title === '' && cells[index]?.trim() !== '');
  if (untitled >= 0 && !ignoreUnknown) return unusable(`has a value in column ${untitled + 1}, which has no name`);
  const pairs = headers.flatMap(({ column }, index) =>
    column ? [[column.name, toValue(cells[index] ?? '', column)] as const] : [],
  );
  const fields = Object.fromEntries(pairs.filter(([, text]) => text !== ''));
  if (!update) addBlankTexts(fields, table.columns);
  const errors = Object.entries(check(fields));
  const bad = errors.flatMap(([field, messages]) =>
    messages.map((message) => ({ line, field: toTitle(field, headers), message })),
  );
  for (const [field] of errors) delete fields[field];
  return { line, fields, bad };
}

/** Decides what becomes of lines whose records exist. */
type Settler = {
  settle(lines: readonly Line[]): Promise<void>;
  /** How many lines are bad because their records exist. */
  refused(): number;
};

/**
 * A line is of a record that exists if it has its id, or the e-mail or name by which people know it; in a table whose records
 * have none, if all its columns are the same.
 */
async function createSettler(
  db: Database,
  table: Table,
  headers: readonly Header[],
  { tenant, update = false, skipExisting = false, allowDuplicates = false }: ImportOptions,
): Promise<Settler> {
  const names = headers.flatMap(({ column }) => column?.name ?? []);
  const label = ['id', table.knownBy].find((name) => name !== undefined && names.includes(name));
  if (update && !label) {
    throw new CommandError({ error: `--update expects a column ${['id', table.knownBy ?? []].flat().join(' or ')}` });
  }
  const identity = label ? [label] : names;
  const isChecked = !allowDuplicates && (await hasRows(db, table, tenant));
  /** By the first line: a record that an earlier line has created does not count. */
  const found = new Map<string, string[]>();
  const changed = new Map<string, number>();
  let refused = 0;

  const keyOf = (fields: Fields) =>
    hash('sha1', JSON.stringify(identity.map((name) => fields[name]?.toLowerCase())), 'base64');

  async function find(lines: readonly (Line & { readonly key: string })[]): Promise<void> {
    const unknown = lines.filter(({ key }) => !found.has(key) && found.set(key, []));
    const keys = new Map(unknown.map(({ line, key }) => [line, key]));
    const texts = unknown.map(({ line, fields }) => ({ line, fields }));
    const sql = 'select * from private.find_rows($1, $2::text::regclass, $3::text[], $4)';
    const values = [tenant, `private.${table.name}`, identity, JSON.stringify(texts)];
    for (const { line, id } of await queryRows<{ line: number; id: string }>(db, sql, values)) {
      found.get(keys.get(line) ?? '')?.push(id);
    }
  }

  return {
    refused: () => refused,
    settle: async (lines) => {
      if (!isChecked) return;
      const good = lines.flatMap((line) => {
        const { fields, bad } = line;
        if (!fields || bad.length > 0 || (label && fields[label] === undefined)) return [];
        return [Object.assign(line, { key: keyOf(fields) })];
      });
      await find(good);
      for (const line of good) {
        const [id, another] = found.get(line.key) ?? [];
        const refuse = (message: string) =>
          line.bad.push({ line: line.line, field: label ? toTitle(label, headers) : null, message });
        if (id === undefined) continue;
        if (skipExisting) line.isSkipped = true;
        else if (update && another !== undefined) refuse(`is the ${label} of several ${table.name}: give the id`);
        else if (update && changed.has(line.key)) refuse(`is also that of line ${changed.get(line.key)}`);
        else if (update) {
          line.id = id;
          changed.set(line.key, line.line);
        } else {
          refused += 1;
          refuse(`is ${label ? 'that of' : 'the same as'} one of the tenant's ${table.name}`);
        }
      }
    },
  };
}

async function hasRows(db: Database, { name, columns }: Table, tenant: string): Promise<boolean> {
  if (!columns.some((column) => column.name === 'id')) return false;
  return (await queryRows(db, `select from private.${name} where tenant_id = $1 limit 1`, [tenant])).length > 0;
}

/** A line that creates a record needs what one that changes it does not. */
function requireFields(lines: readonly Line[], { columns }: Table): void {
  const required = columns.filter((column) => column.required);
  for (const { line, id, fields, bad } of lines) {
    if (id !== undefined || bad.length > 0 || !fields) continue;
    addBlankTexts(fields, columns);
    const missing = required.filter(({ name }) => fields[name] === undefined);
    bad.push(...missing.map(({ name }) => ({ line, field: name, message: 'is required' })));
  }
}

/** Sends the good lines to SQL, and returns those that the table refuses. */
async function send(
  db: Database,
  tenant: string,
  { name }: Table,
  lines: readonly Line[],
  headers: readonly Header[],
): Promise<BadLine[]> {
  const good = lines.filter(({ bad, isSkipped }) => bad.length === 0 && !isSkipped);
  const bad: BadLine[] = [];
  for (const isUpdate of [false, true]) {
    const sent = good.filter(({ id }) => (id !== undefined) === isUpdate);
    if (sent.length === 0) continue;
    const refused = await queryRows<BadLine>(db, 'select * from private.import_rows($1, $2::text::regclass, $3, $4)', [
      tenant,
      `private.${name}`,
      JSON.stringify(sent.map(({ line, fields, id }) => ({ line, fields, id }))),
      isUpdate,
    ]);
    bad.push(...refused);
  }
  return bad.map(({ line, field, message }) => ({ line, field: field && toTitle(field, headers), message }));
}

function toTitle(name: string, headers: readonly Header[]): string {
  return headers.find(({ column }) => column?.name === name)?.title ?? name;
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

function toPreview({ title, column }: Header): Preview['columns'][number] {
  return { title, column: column?.name ?? null, values: [] };
}

function addToPreview({ lines, columns }: Preview, records: readonly CsvRecord[], headers: readonly Header[]): void {
  for (const record of records.slice(0, PREVIEWED - lines.length)) {
    if (!('cells' in record)) return;
    lines.push(record.line);
    for (const [index, { column }] of headers.entries()) {
      const text = record.cells[index] ?? '';
      columns[index]?.values.push(column ? toValue(text, column) : text);
    }
  }
}

function describePreview({ file, lines, columns }: Preview): string {
  const shorten = (text: string) => {
    const line = text.replace(/\s+/g, ' ');
    return line.length > MAX_PREVIEW ? `${line.slice(0, MAX_PREVIEW - 1)}…` : line;
  };
  const rows = columns.map(({ title, column, values }) => [title, column ?? '(left out)', ...values].map(shorten));
  return toTable([`COLUMN OF ${basename(file)}`, 'BECOMES', ...lines.map((line) => `LINE ${line}`)], rows);
}

type Failed = {
  readonly name: string;
  readonly bad: readonly BadLine[];
  readonly total: number;
  /** How many lines are bad because their records exist. */
  readonly existing: number;
  readonly preview: Preview;
  readonly dryRun?: boolean;
};

function toError({ name, bad, total, existing, preview, dryRun }: Failed): CommandError {
  const count = new Set(bad.map(({ line }) => line)).size;
  const report = {
    error: `Nothing was imported from ${name}: ${count} of ${total} lines ${count === 1 ? 'is' : 'are'} bad`,
    hint: [...(count > existing ? [CORRECT] : []), ...(existing > 0 ? [EXISTING] : [])].join('\n'),
    // The rules of the table are checked last.
    lines: bad.toSorted((one, other) => one.line - other.line),
  };
  return dryRun
    ? new CommandError({ ...report, preview: [preview] }, `${describePreview(preview)}\n`)
    : new CommandError(report);
}

function toOutput(imported: readonly Imported[], options: ImportOptions): Output {
  const { dryRun = false, update = false, skipExisting = false } = options;
  const kinds = [
    { kind: 'created', would: 'wouldCreate', verb: 'create', isListed: true },
    { kind: 'updated', would: 'wouldUpdate', verb: 'update', isListed: update },
    { kind: 'skipped', would: 'wouldSkip', verb: 'skip', isListed: skipExisting },
  ] as const;
  const listed = kinds.filter(({ isListed }) => isListed);
  const countsOf = (kind: keyof Counts) => imported.map((counts) => [counts.table, counts[kind]] as const);
  const listOf = (kind: keyof Counts) =>
    countsOf(kind)
      .map((count) => count.join(' '))
      .join(', ');
  const json = listed.map(({ kind, would }) => [dryRun ? would : kind, Object.fromEntries(countsOf(kind))]);
  if (!dryRun) {
    const text = listed.map(({ kind }) => `${kind[0]?.toUpperCase()}${kind.slice(1)}: ${listOf(kind)}.`).join('\n');
    return { json: Object.fromEntries(json), text };
  }
  const previews = imported.map(({ preview }) => preview);
  const would = listed.map(({ kind, verb }) => `${verb}: ${listOf(kind)}`).join('; ');
  return {
    json: { ...Object.fromEntries(json), preview: previews },
    text: `${previews.map(describePreview).join('\n\n')}\n\nNothing is wrong, and nothing was changed. The import would ${would}.`,
  };
}
