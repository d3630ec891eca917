// The import of a tenant's data from CSV: every line becomes a row, or no line does.

import { createReadStream, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { type Database, inTransaction } from '../store/migrations.ts';
import { toPath } from './arguments.ts';
import { findColumns, toValue } from './columns.ts';
import { type CsvRecord, decode, readRecords } from './csv.ts';
import { type BadLine, CommandError } from './errors.ts';
import { createSettler, type ExistingOptions } from './existing.ts';
import { USAGE } from './export.ts';
import { createProgress, type Output, toBar, toCount, toTable } from './output.ts';
import {
  createWriter,
  findTable,
  type Header,
  type Line,
  type OfTenant,
  readTables,
  type Table,
  type Writer,
} from './tables.ts';

export type ImportOptions = ExistingOptions &
  OfTenant & {
    /** Of times without a zone. */
    readonly timeZone: string;
    readonly delimiter?: string;
    readonly encoding: string;
    readonly dryRun?: boolean;
    /** The columns of titles, by title. */
    readonly map?: ReadonlyMap<string, string>;
    readonly ignoreUnknown?: boolean;
  };

/** A file for a table; its size in bytes if that is known. */
type Source = {
  readonly table: string;
  readonly name: string;
  readonly size?: number;
  open(): AsyncIterable<Uint8Array>;
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

/** Finds a file, or all files of a folder, before the store is opened, and gives the function that imports them. */
export function prepareImport(
  resource: string,
  path: string,
  { map }: Pick<ImportOptions, 'map'>,
): (db: Database, options: ImportOptions) => Promise<Output> {
  if (resource === ALL && map) throw new InvalidArgumentError('Expected --map with one file, not with all.');
  const sources = resource === ALL ? findFiles(path) : [findFile(resource, path)];
  return async (db, options) => {
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
  };
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
    const writer = createWriter(db, table, headers, { ...options, isPartial: options.update === true });
    const settler = await createSettler(db, table, headers, writer, options);
    const preview: Preview = { file: name, lines: [], columns: headers.map(toPreview) };
    const counts = { created: 0, updated: 0, skipped: 0 };
    const bad: BadLine[] = [];
    let total = 0;
    for await (const batch of inBatches(records)) {
      addToPreview(preview, batch, headers);
      const lines = batch.map((record) => readLine(record, headers, writer, options));
      bad.push(...(await sending));
      await writer.resolve(lines);
      await settler.settle(lines);
      bad.push(...lines.flatMap((line) => line.bad));
      // The database works on these lines while the next are read.
      sending = writer.send(lines);
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

function readLine(
  record: CsvRecord,
  headers: readonly Header[],
  writer: Writer,
  { ignoreUnknown }: ImportOptions,
): Line {
  const { line } = record;
  const unusable = (message: string) => {
    return { line, texts: [], fields: undefined, bad: [{ line, field: null, value: null, message }] };
  };
  if ('problem' in record) return unusable(record.problem);
  const { cells } = record;
  if (cells.length !== headers.length) {
    return unusable(`has ${toCount(cells.length, 'value')}, but the header has ${toCount(headers.length, 'column')}`);
  }
  const untitled = headers.findIndex(({ title }, index) => title === '' && cells[index]?.trim() !== '');
  if (untitled >= 0 && !ignoreUnknown) return unusable(`has a value in column ${untitled + 1}, which has no name`);
  return writer.read(line, cells);
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
