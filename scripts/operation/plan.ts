// Plans the operations of a table: YAML and SQL, with examples that the new functions have answered from the demo data.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import pg from 'pg';
import { toCall, toDeclared } from '../../src/api/call.ts';
import { receiveExample } from '../../src/api/validate.ts';
import { isFault, messageOf, toHttpError } from '../../src/errors.ts';
import { compile } from '../../src/openapi/compile.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import { type Example, readExamples } from '../../src/openapi/examples.ts';
import type { Operation } from '../../src/openapi/operations.ts';
import { DESCRIPTION } from '../../src/store/catalog.ts';
import { openServer, toUrl } from '../../src/store/embedded/store.ts';
import { readMigrations } from '../../src/store/migrations.ts';
import { tryCall } from '../../src/store/statement.ts';
import type { Call, DatabaseFunction, Result } from '../../src/store/store.ts';
import { writeFunction, writeGrants } from './functions.ts';
import { attempt, findTaken, makeNew, type Row } from './new-row.ts';
import { type Kind, type Request, readSubject, type Subject, toCamel } from './subject.ts';
import { type Column, RefusedError, readTable } from './table.ts';
import { addToDocument, KEY, readTarget, type Sample, type Samples, type Source, toSource } from './yaml.ts';

/** The files of the document, the migrations and the demo data. */
export type Files = {
  readonly document: string;
  readonly migrations: string;
  readonly seed: string;
  /** The administrator's URL of a database with the migrations and the demo data; by default a temporary one is created. */
  readonly database?: string;
};

/** A file to write, and its new text. */
export type Change = { readonly file: string; readonly text: string };

/** Plans operations for a table. Changes no file. Throws RefusedError. */
export async function planOperations(tableName: string, request: Request, files: Files): Promise<Change[]> {
  const migrations = readMigrations(files.migrations);
  const source = toSource(readFileSync(files.document, 'utf8'));
  const { document, key, keyArgument } = readTarget(files.document, source);
  return withDatabase(files, async (db, seed) => {
    const table = await readTable(db, tableName);
    const subject = readSubject(document, table, request, keyArgument);
    const sql = writeMigration(subject);
    await db.query(sql).catch((error) => {
      throw new RefusedError(`Postgres refuses what would be written: ${messageOf(error)}`);
    });
    const samples = await chooseSamples(db, subject, { key, text: source.text, seed });
    const answered = await answerSamples(db, { file: files.document, source }, subject, samples);
    // The migration is written first: operations without their functions would stop the gateway.
    return [
      { file: join(files.migrations, toFileName(subject, migrations.at(-1)?.version)), text: sql },
      { file: files.document, text: addToDocument(source, subject, answered) },
    ];
  });
}

/** Begins the transaction of all queries. */
export const BEGIN = `begin; set local timezone = 'UTC'`;

/** Runs `work` in a transaction of a database with the migrations and the demo data, and rolls it back. */
export async function withDatabase<T>(files: Files, work: (db: pg.Client, seed: string) => Promise<T>): Promise<T> {
  const seed = readFileSync(files.seed, 'utf8');
  const content = { migrationsDir: files.migrations, seed: { file: files.seed, sql: seed } };
  const server = files.database ? undefined : await openServer({ dataDir: undefined, fsync: false }, content);
  const db = new pg.Client(server ? toUrl(server.dataDir, 'postgres') : files.database);
  try {
    await db.connect();
    await db.query(BEGIN);
    return await work(db, seed);
  } finally {
    await db.end();
    await server?.close();
  }
}

/** Reads the functions in schema public. */
export async function describeFunctions(db: pg.Client): Promise<readonly DatabaseFunction[]> {
  const { rows } = await db.query<{ json: string }>(DESCRIPTION.text);
  return JSON.parse(rows[0]?.json ?? '[]');
}

function writeMigration(subject: Subject): string {
  const { kinds, noun } = subject;
  const comment = `-- The operations of ${noun.many}: ${kinds.join(', ')}.\n`;
  return [comment, writeGrants(subject), ...kinds.map((kind) => writeFunction(subject, kind))].join('\n');
}

/** Names the migration by the current time, or after the last one if that is in the future. */
function toFileName({ kinds, names, table }: Subject, last = ''): string {
  const now = new Date().toISOString().replace(/\D/g, '').slice(0, 14);
  const version = now > last ? now : String(BigInt(last) + 1n);
  return `${version}_${kinds.length === 1 ? names[kinds[0] as Kind] : `operations_of_${table.name}`}.sql`;
}

/** Chooses requests for the demo data of the tenant whose key the document shows. */
async function chooseSamples(
  db: pg.Client,
  subject: Subject,
  { key, text, seed }: Readonly<Record<'key' | 'text' | 'seed', string>>,
): Promise<Samples> {
  const { table, kinds, names, filters, written } = subject;
  const { uniques, incoming } = table;
  const rows = await readRows(db, subject, key);
  await requireConstant(db, subject, rows, () => db.query(seed).then(() => readRows(db, subject, key)));
  const need = (row: Row | undefined, what: string) => {
    if (row) return row;
    throw new RefusedError(
      `an example needs a row of private.${table.name} in supabase/seed.sql, of the tenant of ${key}, ${what}`,
    );
  };
  const first = need(rows[0], 'whichever it is');
  // An example must not change or delete what another one shows.
  const [changed, ...free] = rows.slice(2).filter((row) => !text.includes(row.id));
  const find = async (rows: readonly Row[], isWanted: boolean) => {
    for (const row of rows) if ((await isKept(db, subject, row)) === isWanted) return row;
    return undefined;
  };
  const body = (row: Row) => Object.fromEntries(written.map(({ name }) => [name, row[name]]));
  const findConflict = async (parameters: Sample['parameters']): Promise<Sample[]> => {
    if (uniques.length === 0) return [];
    // Setting a record to the values that it already has is no conflict.
    const others = kinds.includes('update') ? rows.filter((row) => row !== changed) : rows;
    const taken = await findTaken(db, subject, others);
    const keys = uniques.map(({ name }) => name).join(' or ');
    const row = need(taken, `that ${keys} keeps from being repeated: without null in the columns of that`);
    return [{ name: 'taken', status: 409, parameters, body: body(row) }];
  };
  const makers: Record<Kind, () => Sample[] | Promise<Sample[]>> = {
    list: () => [
      { name: 'firstPage', status: 200, parameters: { limit: 2 } },
      ...(rows.length > 1 ? [{ name: 'afterRecord', status: 200, parameters: { limit: 1, after: first.id } }] : []),
      ...filters.flatMap(({ name }) => {
        const value = first[name];
        if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return [];
        return [{ name: toCamel(`by_${name}`), status: 200, parameters: { [name]: value, limit: 1 } }];
      }),
    ],
    get: () => [{ name: 'found', status: 200, parameters: { id: first.id } }],
    create: async () => {
      const expected = await makeNew(db, subject, first, rows);
      const parameters = { [KEY]: `${toCamel(names.create)}-example` };
      const created = { name: 'created', status: 201, parameters, body: body(expected), expected };
      return [created, ...(await findConflict({}))];
    },
    update: async () => {
      const row = need(changed, 'besides the first two, which no example shows yet');
      const [parameters, expected] = [{ id: row.id }, change(subject, row, rows)];
      const sample = { name: 'changed', status: 200, parameters, body: body(expected), expected };
      return [sample, ...(await findConflict(parameters))];
    },
    delete: async () => {
      const own = table.columns.filter(({ reference }) => reference?.target === `private.${table.name}`);
      const referred = incoming.length > 0 ? await find(rows, true) : undefined;
      const referring = rows.filter((row) => own.some(({ name }) => row[name] === referred?.id));
      // The example inUse needs a reference to its record: do not delete the only row that has one.
      const others = free.filter((row) => referring.length !== 1 || row !== referring[0]);
      const deleted = await find(others.toReversed(), false);
      const what = 'besides the first three, which no example shows yet and no other record refers to';
      const sample = { name: 'deleted', status: 204, parameters: { id: need(deleted, what).id } };
      if (incoming.length === 0) return [sample];
      const { id } = need(referred, `that a record of ${incoming[0]?.table} refers to`);
      return [sample, { name: 'inUse', status: 409, parameters: { id } }];
    },
  };
  const samples: [Kind, Sample][] = [];
  for (const kind of kinds) for (const sample of await makers[kind]()) samples.push([kind, sample]);
  return samples;
}

/** Refuses demo data that changes from run to run or from day to day: its examples would become wrong. */
async function requireConstant(
  db: pg.Client,
  { table }: Subject,
  rows: readonly Row[],
  readAgain: () => Promise<readonly Row[]>,
): Promise<void> {
  await db.query('savepoint again; truncate private.tenants restart identity cascade');
  const again = await readAgain();
  await db.query('rollback to savepoint again');
  const today = (await db.query('select current_date::text as today')).rows[0].today;
  const clocks = table.columns.filter(({ base, isGenerated }) => base === 'date' && isGenerated);
  const isOfToday = rows.some((row) => clocks.some(({ name }) => row[name] === today));
  if (!isOfToday && isDeepStrictEqual(again, rows)) return;
  throw new RefusedError(
    `the rows of private.${table.name} in supabase/seed.sql differ each time: give id, criado_em and what else is generated as constants, which no trigger replaces`,
  );
}

/** Reads the tenant's demo data in the order of a list. */
async function readRows(db: pg.Client, { table, order }: Subject, key: string): Promise<Row[]> {
  const { rows } = await db.query<{ row: Row }>(
    `select to_jsonb(t.*) as row
       from private.${table.name} t
      where t.tenant_id = (select k.tenant_id from private.api_keys k where k.key_hash = sha256($1))
      order by ${order ? `t.${order}, ` : ''}t.id`,
    [Buffer.from(key)],
  );
  return rows.map(({ row }) => row);
}

/** Tries whether a foreign key prevents the deletion of a row. */
async function isKept(db: pg.Client, { table }: Subject, { id }: Row): Promise<boolean> {
  const refusal = await attempt(db, `delete from private.${table.name} where id = $1`, [id]);
  return /^23(503|001)$/.test(refusal?.code ?? '');
}

/** Takes the value of one column from another row. The column has no unique or check constraint. */
function change({ table, written }: Subject, row: Row, all: readonly Row[]): Row {
  const bound = [...table.uniques, ...table.otherChecks].flatMap(({ columns }) => columns);
  for (const { name } of written.filter((column) => !bound.includes(column.name))) {
    const other = all.find((one) => one[name] !== row[name] && one[name] !== null);
    if (other) return { ...row, [name]: other[name] };
  }
  return row;
}

/** Adds the operations' answers to their samples. Throws RefusedError for an unexpected answer. */
async function answerSamples(
  db: pg.Client,
  { file, source }: { readonly file: string; readonly source: Source },
  subject: Subject,
  samples: Samples,
): Promise<Samples> {
  const draft = { file, text: addToDocument(source, subject, samples) };
  const idOf = (kind: Kind) => toCamel(subject.names[kind]);
  const answer = await openExamples(db, draft, subject.kinds.map(idOf));
  const answered: [Kind, Sample][] = [];
  for (const [kind, sample] of samples) {
    const id = idOf(kind);
    const found = await answer(id, ({ name }) => name === sample.name);
    if (!found) throw new RefusedError(`the demo data is no valid request of ${id}: ${JSON.stringify(sample)}`);
    const { status, body, cause } = found;
    if (status !== sample.status) {
      const got = `${status}, and not ${sample.status}${cause ? `: ${cause}` : ''}`;
      // A 422 is probably due to the values of the example: say where they come from.
      const origin =
        '; the example has the values of the first row of the table in the demo data, and the default of the moment where a column has one';
      const remedy = kind === 'create' && status === 422 ? origin : '';
      throw new RefusedError(`${id} would answer its example ${sample.name} with ${got}${remedy}`);
    }
    const isOther = ({ name }: Column) => !isDeepStrictEqual(sample.expected?.[name], (body as Row)[name]);
    const other = sample.expected && subject.written.find(isOther);
    if (other) {
      throw new RefusedError(
        `${id} would answer its example ${sample.name} with another ${other.name} than it sends, as a trigger may set it: let its default call a function, such as now(), or write the operations without it`,
      );
    }
    answered.push([kind, { ...sample, answer: body }]);
  }
  return answered;
}

/** The gateway's answer to an example, and the cause of a refusal. */
type Answer = { readonly status: number; readonly body: unknown; readonly cause?: string };

/**
 * Returns a function that answers examples of a document as the gateway would, without changing the database; undefined for an invalid
 * request. Throws RefusedError if document and database disagree on the operations with these ids.
 */
export async function openExamples(
  db: pg.Client,
  { file, text }: Change,
  ids: readonly string[],
): Promise<(id: string, isWanted: (example: Example) => boolean) => Promise<Answer | undefined>> {
  const compiled = await compile(readDocument(file, text));
  const operations = new Map([...compiled.operations].filter(([id]) => ids.includes(id)));
  const [drift] = findDrift(operations, await describeFunctions(db)).map(describeDifference);
  if (drift) throw new RefusedError(`document and database would disagree: ${drift}`);
  const examples = readExamples(compiled.source);
  return async (id, isWanted) => {
    const example = examples.find((one) => one.operationId === id && isWanted(one));
    const received = example && (await receiveExample(compiled, example.request));
    return received && toAnswer(received.operation, await call(db, toCall(received.operation, received.request)));
  };
}

function toAnswer(operation: Operation, result: Result): Answer {
  if (!('failure' in result)) return { status: operation.status, body: result.json && JSON.parse(result.json) };
  const failure = toDeclared(operation, result.failure);
  const { status, error } = toHttpError(failure);
  const cause = isFault(failure) ? messageOf(failure.cause as Error) : JSON.stringify(error);
  return { status, body: { error }, cause };
}

/** Makes a call as the gateway does, and rolls it back. */
async function call(db: pg.Client, made: Call): Promise<Result> {
  await db.query('savepoint example; set local role gateway');
  return tryCall(db, made).finally(() => db.query('rollback to savepoint example'));
}
