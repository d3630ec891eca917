// The import of students: every line passes the rules of the document and of SQL, or no student is created.

import { createReadStream, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { findProblem, type Problems } from '../../src/api/request.ts';
import { toFieldErrors } from '../../src/api/validate.ts';
import type { FieldErrors } from '../../src/errors.ts';
import { compile, createAjv } from '../../src/openapi/compile.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { type Connection, inTransaction } from '../../src/store/migrations.ts';
import { type CsvRecord, decode, readRecords } from './csv.ts';
import { type BadLine, CommandError } from './errors.ts';
import type { Output } from './keys.ts';

type ImportOptions = { readonly tenant: string; readonly delimiter?: string; readonly encoding: string };
type Fields = Readonly<Record<string, string>>;

/** The document's rules for the fields of a student. */
export type Rules = {
  readonly fields: readonly string[];
  readonly required: readonly string[];
  check(fields: Fields): FieldErrors;
};

/** A column: its name in the file, and the field. */
type Column = { readonly name: string; readonly field: string };

/** A CSV file whose header has been read. */
type AlunoFile = {
  readonly name: string;
  readonly columns: readonly Column[];
  readonly records: AsyncIterable<CsvRecord>;
};

/** A line: its valid fields, or undefined if it cannot be read, and its problems. */
type Line = { readonly line: number; readonly fields: Record<string, string> | undefined; readonly bad: BadLine[] };

const OPERATION = 'criarAluno';
/** Lines in one SQL call. */
const BATCH = 1_000;

/** Imports students from a file. Problems of the file alone are found before the store is opened. */
export async function importFile(
  file: string,
  { tenant, delimiter, encoding }: ImportOptions,
  run: (work: (db: Connection) => Promise<Output>) => Promise<void>,
): Promise<void> {
  const rules = await readRules(readDocument(join(import.meta.dirname, '../../openapi.yaml')));
  const { name, bytes } = openFile(file);
  const records = readRecords(decode(name, bytes, encoding), delimiter);
  try {
    const columns = await readHeader(name, records, rules);
    await run(async (db) => {
      const created = await importAlunos(db, tenant, { name, columns, records }, rules);
      return { json: { created }, text: `Created ${toCount(created, 'student')}.` };
    });
  } finally {
    // Unread standard input would keep the process alive.
    await records.return(undefined);
  }
}

/** A path is relative to the folder where npm was called. */
function openFile(file: string): { name: string; bytes: AsyncIterable<Uint8Array> } {
  if (file === '-') return { name: 'standard input', bytes: process.stdin };
  const path = resolve(process.env.INIT_CWD ?? '.', file);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new CommandError({ error: `There is no file ${file}` });
  if (stat.isDirectory()) throw new CommandError({ error: `${file} is a folder: expected a CSV file` });
  return { name: file, bytes: createReadStream(path) };
}

/** Reads the rules from the document. */
export async function readRules(document: OpenAPIV3.Document): Promise<Rules> {
  const operation = (await compile(document)).operations.get(OPERATION);
  const body = operation?.source.requestBody as OpenAPIV3.RequestBodyObject | undefined;
  const schema = body?.content['application/json']?.schema as OpenAPIV3.SchemaObject | undefined;
  if (!schema) throw new Error(`the document has no ${OPERATION} with a body`);
  const validate = createAjv().compile({ type: 'object', properties: { requestBody: schema } });
  const check = (fields: Fields) => {
    validate({ requestBody: fields });
    return toFieldErrors(validate.errors ?? [], findProblems(fields), []);
  };
  return { fields: Object.keys(schema.properties ?? {}), required: schema.required ?? [], check };
}

function findProblems(fields: Fields): Problems {
  const found = Object.entries(fields).map(([field, text]) => [field, findProblem(text)] as const);
  return new Map(found.flatMap(([field, problem]) => (problem ? [[field, [problem]]] : [])));
}

/** Reads the header. Throws CommandError with all mistakes unless its columns are fields of a student. */
export async function readHeader(
  name: string,
  records: AsyncGenerator<CsvRecord, void>,
  { fields, required }: Rules,
): Promise<readonly Column[]> {
  const [known, needed] = [fields, required].map((names) => names.map(withoutPrefix));
  const hint = `The first line names the columns: ${known?.join(', ')}; ${needed?.join(' and ')} are required.`;
  const { value: header } = await records.next();
  if (!header) throw new CommandError({ error: `${name} is empty: expected CSV with a header`, hint });
  const columns =
    'cells' in header
      ? header.cells.map((cell) => ({ name: cell.trim(), field: `p_${withoutPrefix(cell.trim())}` }))
      : [];
  const mistakes = 'cells' in header ? findMistakes(columns, fields, required) : [header.problem];
  if (mistakes.length === 0) return columns;
  throw new CommandError({ error: `${name}, line ${header.line}: ${mistakes.join('; ')}`, hint });
}

function withoutPrefix(name: string): string {
  return name.toLowerCase().replace(/^p_/, '');
}

function findMistakes(columns: readonly Column[], fields: readonly string[], required: readonly string[]): string[] {
  const found = columns.map(({ field }) => field);
  const unnamed = columns.flatMap(({ name }, index) => (name === '' ? [`column ${index + 1} has no name`] : []));
  const unknown = columns.filter(({ name, field }) => name !== '' && !fields.includes(field));
  const first = fields.map((field) => found.indexOf(field));
  const repeated = columns.filter(({ field }, index) => fields.includes(field) && !first.includes(index));
  const missing = required.filter((field) => !found.includes(field));
  return [
    ...unnamed,
    ...unknown.map(({ name }) => `unknown column ${JSON.stringify(name)}`),
    ...repeated.map(({ name }) => `column ${JSON.stringify(name)} is repeated`),
    ...missing.map((field) => `column ${JSON.stringify(withoutPrefix(field))} is missing`),
  ];
}

/** Creates a student from each record and returns their number. Throws CommandError with all bad lines in order. */
export function importAlunos(db: Connection, tenant: string, file: AlunoFile, rules: Rules): Promise<number> {
  const { name, columns, records } = file;
  return inTransaction(db, async () => {
    await db.query('select private.require_tenant($1)', [tenant]);
    const bad: BadLine[] = [];
    let total = 0;
    for await (const batch of inBatches(records)) {
      const lines = batch.map((record) => checkRecord(record, columns, rules));
      bad.push(...lines.flatMap((line) => line.bad));
      bad.push(...(await send(db, tenant, lines, columns, bad.length > 0)));
      total += batch.length;
      showProgress(total);
    }
    if (total === 0) throw new CommandError({ error: `${name} has a header and no other line: nothing was imported` });
    if (bad.length > 0) throw toError(name, bad, total);
    return total;
  });
}

function checkRecord(record: CsvRecord, columns: readonly Column[], rules: Rules): Line {
  const { line } = record;
  const unusable = (message: string) => ({ line, fields: undefined, bad: [{ line, field: null, message }] });
  if ('problem' in record) return unusable(record.problem);
  const { cells } = record;
  if (cells.length !== columns.length) {
    return unusable(`has ${toCount(cells.length, 'value')}, but the header has ${toCount(columns.length, 'column')}`);
  }
  const pairs = columns.map(({ field }, index) => [field, cells[index] ?? ''] as const);
  const fields = Object.fromEntries(pairs.filter(([, text]) => text !== ''));
  const errors = Object.entries(rules.check(fields));
  const bad = errors.flatMap(([field, messages]) =>
    messages.map((message) => ({ line, field: toName(field, columns), message })),
  );
  for (const [field] of errors) delete fields[field];
  return { line, fields, bad };
}

/** Sends a batch to SQL, which creates all students unless a line is bad, or only checks the lines. */
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
  return bad.map(({ line, field, message }) => ({ line, field: toName(field, columns), message }));
}

function toName(field: string, columns: readonly Column[]): string {
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

function showProgress(lines: number): void {
  if (process.stderr.isTTY && lines % BATCH === 0) process.stderr.write(`\r${lines} lines\r`);
}

function toError(name: string, bad: readonly BadLine[], total: number): CommandError {
  const count = new Set(bad.map(({ line }) => line)).size;
  return new CommandError({
    error: `Nothing was imported from ${name}: ${count} of ${total} lines ${count === 1 ? 'is' : 'are'} bad`,
    hint: 'Correct them and import the file again: all lines are imported, or none.',
    // SQL's rules are checked after the document's.
    lines: bad.toSorted((one, other) => one.line - other.line),
  });
}

function toCount(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}
