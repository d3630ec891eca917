// The commands that import and export a tenant's data as CSV. Every line of a file becomes a row, or no line does.

import { readdirSync, statSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Database, inTransaction } from '../store/migrations.ts';
import { readDelimiter, readEncoding, readMapping, toFile, toNewPath, toPath, UUID } from './arguments.ts';
import { type Header, PROBLEMS, readTitles } from './columns.ts';
import { addOfTenant, type Run } from './command.ts';
import { type CsvRecord, decode, findDelimiter, readRecords, requireSize, toCsv } from './csv.ts';
import { exportData, USAGE } from './export.ts';
import { inAll, t, translate } from './language.ts';
import { createWriter, type Line, type Writer, type WriterOptions } from './lines.ts';
import { findTable, readTables, type Table } from './tables.ts';
import { CommandError, createProgress, describeBad, listCounts, type Output, toTable, withPath } from './terminal.ts';

export type ImportOptions = Omit<WriterOptions, 'clears'> & {
  readonly delimiter?: string;
  readonly encoding: string;
  readonly dryRun?: boolean;
  /** Columns by title. */
  readonly map?: ReadonlyMap<string, string>;
  readonly ignoreUnknown?: boolean;
  /** A new file for all lines, each with its problems. */
  readonly problems?: string;
};

/** A file to import into a table. */
type Source = { readonly table: string; readonly name: string; read(): Promise<Uint8Array> };

/** The first lines of a file as they are imported. */
type Preview = {
  readonly file: string;
  readonly lines: readonly number[];
  readonly columns: readonly { title: string; column: string | null; values: readonly string[] }[];
};

/** The numbers of lines that an import has created, updated, left as they were, and skipped. */
type Imported = { readonly table: string; readonly preview: Preview } & Readonly<
  Record<'created' | 'updated' | 'unchanged' | 'skipped', number>
>;

/** Postgres's limit of columns per table. */
const MAX_COLUMNS = 1_600;
/** The maximum number of listed mistakes in a header. */
const MAX_MISTAKES = 20;
/** The number of lines in a preview, and the maximum length of a value. */
const PREVIEWED = 3;
const MAX_PREVIEW = 24;
/** The RESOURCE that imports every file of a folder. */
const ALL = 'all';

/** The counts, their names in the JSON of a dry run, and their texts. */
const KINDS = [
  ['created', 'wouldCreate', (list: string) => t`Created: ${list}.`],
  ['updated', 'wouldUpdate', (list: string) => t`Updated: ${list}.`],
  ['unchanged', 'wouldLeave', (list: string) => t`Unchanged: ${list}.`],
  ['skipped', 'wouldSkip', (list: string) => t`Skipped: ${list}.`],
] as const;

/** Marks a line with the wrong number of values in the file of problems: a spreadsheet would pad the line unnoticed. */
const MISFIT = 'Correct this line, then delete this text';
const CORRECT =
  'Correct them and import the file again: all lines are imported, or none. --problems FILE writes the lines of one file, with what is wrong with each.';
const EXISTING =
  'If the file was imported before: --skip-existing leaves out the lines whose records exist, --update corrects these, and --allow-duplicates creates others.';
const UNKNOWN =
  "Say what a column is with --map 'Its name=column', or leave out what is unknown with --ignore-unknown.";

/** Adds the commands import and export. */
export function addDataCommands(program: Command, run: Run<Database>): void {
  const skip = new Option('--skip-existing', 'leave out lines whose record exists');
  const update = new Option('--update', 'correct the records that exist; an empty value leaves what is there');
  addOfTenant(
    program,
    'import <RESOURCE>',
    'create a record from each line of a CSV file, or none if a line is bad',
    'alunos alunos.csv --tenant ID --dry-run',
    'alunos alunos.csv --tenant ID --encoding windows-1252',
    "alunos alunos.csv --tenant ID --map 'Fone 2=telefone' --ignore-unknown --update",
    'all export --tenant ID',
  )
    .argument('<FILE>', 'CSV whose first line names the columns; - is standard input; for RESOURCE all, a folder')
    .option('--dry-run', 'check all lines, and change nothing')
    .option('--delimiter <CHARACTER>', 'between the values; by default , ; or tab as in the first line', readDelimiter)
    .option('--encoding <NAME>', 'utf-8, windows-1252, utf-16le, …', readEncoding, 'utf-8')
    .option('--map <TITLE=COLUMN...>', 'which column of the table a column of the file is; empty for none', readMapping)
    .option('--ignore-unknown', 'leave out the columns of the file that the table lacks')
    .option('--problems <FILE>', 'if a line is bad, write all lines to a new file, with what is wrong with each')
    .addOption(skip.conflicts(['update', 'allowDuplicates']))
    .addOption(update.conflicts('allowDuplicates'))
    .option('--allow-duplicates', 'create another record where one exists')
    .action(run(importData));
  const exported = "write a tenant's data to a folder of CSV files, which can be imported";
  addOfTenant(program, 'export', exported, 'export --tenant ID')
    .argument('<FOLDER>', 'where to write them; it is created')
    .action(run(exportData));
}

async function importData(db: Database, resource: string, path: string, options: ImportOptions): Promise<Output> {
  const { dryRun, map, problems } = options;
  const ofOne = map ? '--map' : problems && '--problems';
  if (resource === ALL && ofOne) throw new InvalidArgumentError(t`Expected ${ofOne} with one file.`);
  // Checked first: a refusal after the import would hide the bad lines.
  if (problems) toNewPath(problems);
  const sources = resource === ALL ? findFiles(path) : [findFile(resource, path)];
  const tables = await readTables(db);
  const targets = sources.map((source) => ({ source, table: findTable(tables, source.table) }));
  targets.sort((one, other) => tables.indexOf(one.table) - tables.indexOf(other.table));
  const imported: Imported[] = [];
  await inTransaction(db, async () => {
    await db.query('savepoint before_import');
    for (const { source, table } of targets) imported.push(await importSource(db, table, source, options));
    if (dryRun) await db.query('rollback to savepoint before_import');
  });
  return toOutput(imported, options);
}

function findFile(table: string, name: string): Source {
  if (name === '-') return { table, name: translate('standard input'), read: () => buffer(process.stdin) };
  const path = toFile(name);
  requireSize(name, statSync(path).size);
  return { table, name, read: () => readFile(path) };
}

function findFiles(folder: string): Source[] {
  const path = toPath(folder);
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw new CommandError(t`There is no folder ${folder}`);
  const sources = readdirSync(path).flatMap((file) => {
    const table = /^(.*)\.csv$/i.exec(file)?.[1];
    return table === undefined || table.toLowerCase() === USAGE ? [] : findFile(table, join(folder, file));
  });
  if (sources.length === 0) throw new CommandError(t`${folder} has no CSV file`);
  return sources;
}

/** Creates or changes a row for each record. Throws CommandError with all bad lines in order. */
export async function importSource(
  db: Database,
  table: Table,
  { name, read }: Source,
  options: ImportOptions,
): Promise<Imported> {
  const text = decode(name, await read(), options.encoding);
  const delimiter = options.delimiter ?? findDelimiter(text);
  const [header, ...records] = readRecords(name, text, delimiter);
  const { titles, headers } = readHeader(name, header, table, options);
  const writer = createWriter(db, table, headers, options);
  const lines = records.map((record) => readLine(record, headers, writer, options));
  const preview = toPreview(name, headers, lines.slice(0, PREVIEWED));
  const progress = createProgress((lines) => t`${name}: ${lines} lines`);
  await writer.write(lines, progress.add).finally(progress.end);
  if (lines.some(({ bad }) => bad.length > 0)) {
    if (options.problems) await writeProblems(options.problems, titles, lines, delimiter);
    throw toError(table.name, preview, lines, options);
  }
  const counts = { created: 0, updated: 0, unchanged: 0, skipped: 0 };
  for (const { id, leftOut } of lines) counts[leftOut ?? (id ? 'updated' : 'created')] += 1;
  return { table: table.name, preview, ...counts };
}

/** Writes the file again, with a column of each line's problems, which an import ignores. */
async function writeProblems(
  path: string,
  titles: readonly string[],
  lines: readonly Line[],
  delimiter: string,
): Promise<void> {
  const before = titles.findIndex((title) => inAll(PROBLEMS).includes(title));
  const toRow = (cells: readonly string[], problems: string) => {
    // Pads a short line, so that its problems are in their column.
    const padded = titles.map((_title, index) => cells[index] ?? '').concat(cells.slice(titles.length));
    return [...(before < 0 ? padded : padded.toSpliced(before, 1)), problems];
  };
  const rows = lines.map(({ texts, bad }) => {
    const misfit = titles.length === texts.length ? [] : [translate(MISFIT)];
    return toRow(texts, [...misfit, ...bad.map(describeBad)].join('; '));
  });
  // Without a byte order mark Excel assumes the system's legacy encoding.
  const text = `\ufeff${toCsv([toRow(titles, translate(PROBLEMS)), ...rows], delimiter)}`;
  const file = toNewPath(path);
  // Personal data: only the owner may read it.
  await writeFile(file, text, { flag: 'wx', mode: 0o600 }).catch(async (error) => {
    if (error.code !== 'EEXIST') await rm(file, { force: true });
    throw withPath(error, file);
  });
}

/** Maps the header to columns of the table. Throws CommandError with all mistakes. */
function readHeader(
  name: string,
  header: CsvRecord | undefined,
  table: Table,
  options: ImportOptions,
): { readonly titles: readonly string[]; readonly headers: readonly Header[] } {
  const known = table.columns.map(({ name, required, known_by: label }) => {
    return name + (label ? t` (an id or ${label})` : '') + (required ? t` (required)` : '');
  });
  const hint = t`The first line names the columns: ${known.join(', ')}.`;
  if (!header) throw new CommandError(t`${name} is empty: expected CSV with a header`, hint);
  const fail = (mistakes: readonly string[], more = '') =>
    new CommandError(t`${name}, line ${header.line}: ${mistakes.join('; ')}`, hint + more);
  if (header.cells.length > MAX_COLUMNS) throw fail([t`has ${header.cells.length} columns: the file may not be CSV`]);
  const titles = header.cells.map((cell) => cell.trim());
  const { headers, mistakes, hasUnknown } = readTitles(titles, table, options);
  const missing = table.columns.filter((column) => column.required && !headers.some((one) => one.column === column));
  const all = [
    ...mistakes,
    ...(options.update ? [] : missing.map(({ name }) => t`column ${JSON.stringify(name)} is missing`)),
  ];
  if (all.length > MAX_MISTAKES) all.splice(MAX_MISTAKES, Infinity, translate('and more'));
  if (all.length > 0) throw fail(all, hasUnknown ? `\n${translate(UNKNOWN)}` : '');
  return { titles: header.cells, headers };
}

function readLine(
  { line, cells }: CsvRecord,
  headers: readonly Header[],
  writer: Writer,
  { ignoreUnknown }: ImportOptions,
): Line {
  // Excel leaves out the delimiters of empty values at the end of a line.
  const rest = headers.slice(cells.length);
  const isWhole = (cells.length > 1 || headers.length < 3) && rest.every(({ column }) => !column?.required);
  const texts = isWhole ? [...cells, ...rest.map(() => '')] : cells;
  const message = findMisfit(texts, headers, ignoreUnknown);
  if (message === undefined) return writer.read(line, texts);
  return { line, texts: cells, fields: {}, bad: [{ line, field: null, value: null, message }] };
}

/** Returns why a line does not fit the header; undefined if it fits. */
function findMisfit(cells: readonly string[], headers: readonly Header[], ignoreUnknown = false): string | undefined {
  if (cells.length !== headers.length) {
    return t`does not fit the header (values: ${cells.length}, columns: ${headers.length})`;
  }
  // The mark is only in ignored columns: a value of the table may be the same text.
  const isMarked = (cell: string, index: number) =>
    !headers[index]?.column && inAll(MISFIT).some((text) => cell.startsWith(text));
  if (cells.some(isMarked)) return translate(MISFIT);
  const untitled = headers.findIndex(({ title }, index) => title === '' && cells[index]?.trim() !== '');
  return untitled >= 0 && !ignoreUnknown ? t`has a value in column ${untitled + 1}, which has no name` : undefined;
}

/** Creates the preview. Call it before the lines are written, which replaces references by ids. */
function toPreview(file: string, headers: readonly Header[], lines: readonly Line[]): Preview {
  const columns = headers.map(({ title, column }, index) => {
    const values = lines.map(({ texts, fields }) => (column && fields[column.name]) ?? texts[index]?.trim() ?? '');
    return { title, column: column?.name ?? null, values };
  });
  return { file, lines: lines.map(({ line }) => line), columns };
}

function describePreview({ file, lines, columns }: Preview): string {
  const shorten = (text: string) => {
    const line = text.replace(/\s+/g, ' ');
    return line.length > MAX_PREVIEW ? `${line.slice(0, MAX_PREVIEW - 1)}…` : line;
  };
  const rows = columns.map(({ title, column, values }) =>
    [title, column ?? translate('(left out)'), ...values].map(shorten),
  );
  return toTable([t`COLUMN OF ${basename(file)}`, t`BECOMES`, ...lines.map((line) => t`LINE ${line}`)], rows);
}

function toError(table: string, preview: Preview, lines: readonly Line[], options: ImportOptions): CommandError {
  const { dryRun, problems } = options;
  const wrong = lines.filter(({ bad }) => bad.length > 0);
  /** The lines that are bad only because their records exist. */
  const existing = wrong.filter(({ exists, bad }) => exists && bad.length === 1);
  const error = t`Nothing was imported from ${preview.file}; bad lines: ${wrong.length} of ${lines.length}`;
  const correct = problems
    ? t`${problems} has all lines, with what is wrong with each: correct it, and import it with: ${toCommand(table, problems, options)}`
    : translate(CORRECT);
  const id = preview.columns.find(({ column }) => column === 'id')?.title;
  const isForeign = wrong.some(({ bad }) => bad.some(({ field, value }) => field === id && !UUID.test(value ?? '')));
  const hints = [
    ...(isForeign ? [t`--map ${`'${id}='`} leaves out the ids of other software.`] : []),
    ...(wrong.length > existing.length ? [correct] : []),
    ...(existing.length > 0 ? [translate(EXISTING)] : []),
  ];
  const report = { lines: wrong.flatMap(({ bad }) => bad), ...(dryRun ? { preview: [preview] } : {}) };
  return new CommandError(error, hints.join('\n'), report, dryRun ? `${describePreview(preview)}\n` : undefined);
}

/** Returns the command that imports the corrected file of problems, which is UTF-8 with a delimiter that is detected. */
function toCommand(table: string, file: string, options: ImportOptions): string {
  const { tenant, map = new Map(), ignoreUnknown, skipExisting, update, allowDuplicates } = options;
  const quote = (text: string) => (/^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
  const flags = [
    ...(map.size > 0 ? ['--map', ...[...map].map((pair) => quote(pair.join('=')))] : []),
    ...(ignoreUnknown ? ['--ignore-unknown'] : []),
    ...(skipExisting ? ['--skip-existing'] : []),
    ...(update ? ['--update'] : []),
    ...(allowDuplicates ? ['--allow-duplicates'] : []),
  ];
  return `npm run admin -- import ${quote(table)} ${quote(file)} ${['--tenant', tenant, ...flags].join(' ')}`;
}

function toOutput(imported: readonly Imported[], { dryRun, update, skipExisting }: ImportOptions): Output {
  const isListed = { created: true, updated: update, unchanged: update, skipped: skipExisting };
  const kinds = KINDS.filter(([kind]) => isListed[kind]).map(([kind, would, describe]) => {
    const counts = imported.map((file) => [file.table, file[kind]] as const);
    return { key: dryRun ? would : kind, text: describe(listCounts(counts)), counts: Object.fromEntries(counts) };
  });
  const json = Object.fromEntries(kinds.map(({ key, counts }) => [key, counts]));
  const texts = kinds.map(({ text }) => text);
  const [{ preview }, ...others] = imported as [Imported, ...Imported[]];
  if (preview.lines.length === 0 && others.length === 0) {
    return { json, text: t`${preview.file} has no line below its header: nothing was imported.` };
  }
  if (!dryRun) return { json, text: texts.join('\n') };
  const previews = imported.map(({ preview }) => preview);
  const would = t`Nothing is wrong, and nothing was changed. Without --dry-run: ${texts.join(' ')}`;
  return { json: { ...json, preview: previews }, text: [...previews.map(describePreview), would].join('\n\n') };
}
