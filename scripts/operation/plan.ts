// Makes operations for a table: their YAML and SQL, with examples whose answers are those of the functions, in the demo data.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import pg from 'pg';
import { parse } from 'yaml';
import { toCall } from '../../src/api/call.ts';
import { receiveExample } from '../../src/api/example-request.ts';
import { isFault, messageOf, toHttpError } from '../../src/errors.ts';
import { type CompiledDocument, compile } from '../../src/openapi/compile.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import { findKeyScheme, readExamples } from '../../src/openapi/examples.ts';
import { DESCRIPTION, toDescription } from '../../src/store/catalog.ts';
import { openServer, toUrl } from '../../src/store/embedded/store.ts';
import { readMigrations } from '../../src/store/migrations.ts';
import { type PgError, toFailure } from '../../src/store/sqlstate.ts';
import { createStatementWriter, toResult } from '../../src/store/statement.ts';
import type { Call, DatabaseFunction, Result } from '../../src/store/store.ts';
import { writeFunction, writeGrants } from './functions.ts';
import { type Kind, type Request, readSubject, type Subject } from './subject.ts';
import { RefusedError, readTable } from './table.ts';
import { addToDocument, KEY, type Sample } from './yaml.ts';

/** Where the document, the migrations and the demo data are. */
export type Files = {
  readonly document: string;
  readonly migrations: string;
  readonly seed: string;
  /** The administrator's URL of a database that the migrations and the demo data have made; without it one is made. */
  readonly database?: string;
};

/** A file to write, and what is new in it. */
export type Change = { readonly file: string; readonly text: string };

/** What a row of an example has to be. */
const ANY = 'whichever it is';

type Row = Readonly<Record<string, unknown>> & { readonly id: string };

/** Plans the operations on the database that the migrations make. Changes no file. Throws RefusedError. */
export async function planOperations(tableName: string, request: Request, files: Files): Promise<Change[]> {
  const migrations = readMigrations(files.migrations);
  const text = readFileSync(files.document, 'utf8');
  return withDatabase(files, async (db, seed) => {
    const subject = readSubject(parse(text), await readTable(db, tableName), request);
    const sql = writeMigration(subject);
    await db.query(sql).catch((error) => {
      throw new RefusedError(`Postgres refuses what would be written: ${messageOf(error)}`);
    });
    const samples = await chooseSamples(db, parse(text), subject, { text, seed });
    const document = await fillIn(db, text, subject, samples);
    return [
      { file: files.document, text: document },
      { file: join(files.migrations, toFileName(subject, migrations.at(-1)?.version)), text: sql },
    ];
  });
}

/** Works in a transaction of the database that the migrations and the demo data make, which is gone afterwards. */
export async function withDatabase<T>(files: Files, work: (db: pg.Client, seed: string) => Promise<T>): Promise<T> {
  const seed = readFileSync(files.seed, 'utf8');
  const content = { migrationsDir: files.migrations, seed: { file: files.seed, sql: seed } };
  const server = files.database ? undefined : await openServer({ dataDir: undefined, fsync: false }, content);
  const db = new pg.Client(server ? toUrl(server.dataDir, 'postgres') : files.database);
  try {
    await db.connect();
    await db.query(`begin; set local timezone = 'UTC'`);
    return await work(db, seed);
  } finally {
    await db.end();
    await server?.close();
  }
}

/** The functions in schema public. */
export async function describeFunctions(db: pg.Client): Promise<readonly DatabaseFunction[]> {
  const description = toDescription(await query(db, DESCRIPTION.text, []));
  if ('failure' in description) throw description.failure.cause;
  return description.functions;
}

function writeMigration(subject: Subject): string {
  const { kinds, noun } = subject;
  const functions = kinds.map((kind) => writeFunction(subject, kind));
  const grants = writeGrants(subject);
  return [`-- The operations of ${noun.many}: ${kinds.join(', ')}.\n`, ...(grants ? [grants] : []), ...functions].join(
    '\n',
  );
}

/** Later than all others, by the clock if that is right. */
function toFileName({ kinds, names, table }: Subject, last = ''): string {
  const now = new Date().toISOString().replace(/\D/g, '').slice(0, 14);
  const version = now > last ? now : String(BigInt(last) + 1n);
  return `${version}_${kinds.length === 1 ? names[kinds[0] as Kind].function : `operations_of_${table.name}`}.sql`;
}

/** Requests for the demo data of the tenant whose key the document shows. */
async function chooseSamples(
  db: pg.Client,
  document: OpenAPIV3.Document,
  subject: Subject,
  { text, seed }: { readonly text: string; readonly seed: string },
): Promise<Record<Kind, Sample[]>> {
  const { table, kinds, names, filters, written, uniques, incoming } = subject;
  const key = findKeyScheme(document)?.['x-example'] ?? '';
  const rows = await readRows(db, subject, key);
  await db.query('savepoint again; truncate private.tenants cascade');
  await db.query(seed);
  const again = await readRows(db, subject, key);
  await db.query('rollback to savepoint again');
  if (!isDeepStrictEqual(again, rows)) {
    throw new RefusedError(
      `the rows of private.${table.name} in supabase/seed.sql differ each time: give id, criado_em and what else is generated as constants`,
    );
  }
  const all = rows.map(({ row }) => row);
  // What an example changes or deletes must not be in another one.
  const free = rows.slice(2).filter(({ row }) => !text.includes(row.id));
  const [changed] = free;
  const [deleted] = free
    .filter(({ row, used }) => row !== changed?.row && used.every((name) => name === null))
    .slice(-1);
  const referred = rows.find(({ used }) => used.some((name) => name !== null))?.row;
  const need = (row: Row | undefined, what: string) => {
    if (row) return row;
    throw new RefusedError(
      `an example needs a row of private.${table.name} in supabase/seed.sql, of the tenant of ${key}, ${what}`,
    );
  };
  const [first, second] = all;
  const body = (row: Row) => Object.fromEntries(written.map(({ name }) => [name, row[name]]));
  const taken = (row: Row) =>
    uniques.length === 0 ? [] : [{ name: 'taken', status: 409, parameters: {}, body: body(row) }];
  const makers: Record<Kind, () => Sample[]> = {
    list: () => [
      { name: 'firstPage', status: 200, parameters: { limit: 2 } },
      ...(second ? [{ name: 'afterRecord', status: 200, parameters: { limit: 1, after: need(first, ANY).id } }] : []),
      ...filters.flatMap(({ name }) => {
        const value = need(first, ANY)[name];
        const isShown = ['string', 'number', 'boolean'].includes(typeof value);
        return isShown
          ? [
              {
                name: `by_${name}`.replace(/_(\w)/g, (_, c) => c.toUpperCase()),
                status: 200,
                parameters: { [name]: value as string, limit: 1 },
              },
            ]
          : [];
      }),
    ],
    get: () => [{ name: 'found', status: 200, parameters: { id: need(first, ANY).id } }],
    create: () => [
      {
        name: 'created',
        status: 201,
        parameters: { [KEY]: `${names.create.operation}-example` },
        body: body(makeUnique(subject, need(first, ANY), all)),
      },
      ...taken(need(first, ANY)),
    ],
    update: () => {
      const row = need(changed?.row, 'besides the first two, which no example shows yet');
      const sample = {
        name: 'changed',
        status: 200,
        parameters: { id: row.id },
        body: body(change(subject, row, all)),
      };
      return [sample, ...taken(need(first, ANY)).map((one) => ({ ...one, parameters: { id: row.id } }))];
    },
    delete: () => {
      const { id } = need(
        deleted?.row,
        'besides the first three, which no example shows yet and no other record refers to',
      );
      const inUse = () => ({ id: need(referred, `that a record of ${incoming[0]?.table} refers to`).id });
      return [
        { name: 'deleted', status: 204, parameters: { id } },
        ...(incoming.length > 0 ? [{ name: 'inUse', status: 409, parameters: inUse() }] : []),
      ];
    },
  };
  const isAsked = (kind: Kind) => kinds.includes(kind);
  return Object.fromEntries(
    (Object.keys(makers) as Kind[]).map((kind) => [kind, isAsked(kind) ? makers[kind]() : []]),
  ) as Record<Kind, Sample[]>;
}

/** The tenant's demo data in the order of a list, each row with the foreign keys that refer to it. */
async function readRows(
  db: pg.Client,
  { table, order, incoming }: Subject,
  key: string,
): Promise<{ row: Row; used: (string | null)[] }[]> {
  const used = incoming.map(({ name, columns, table: other }) => {
    const references = columns.map((column) => `r.${column}`).join(', ');
    return `case when exists (select from ${other} r where (${references}) = (t.tenant_id, t.id)) then '${name}' end`;
  });
  const { rows } = await db.query<{ row: Row; used: (string | null)[] }>(
    `select to_jsonb(t) as row, array[${used.join(', ')}]::text[] as used
       from private.${table.name} t
      where t.tenant_id = (select k.tenant_id from private.api_keys k where k.key_hash = sha256($1))
      order by ${order ? `t.${order}, ` : ''}t.id`,
    [Buffer.from(key)],
  );
  return rows;
}

/** The row with other values where a unique constraint demands them. */
function makeUnique({ uniques, written }: Subject, row: Row, all: readonly Row[]): Row {
  const names = uniques.map(
    ({ columns }) => written.find(({ name, reference }) => columns.includes(name) && !reference)?.name,
  );
  const values = names.flatMap((name) => {
    const value = name && row[name];
    if (typeof value === 'number') return [[name, Math.max(...all.map((one) => Number(one[name as string]))) + 1]];
    if (typeof value !== 'string') return [];
    const schema = written.find((column) => column.name === name)?.schema;
    const text = schema?.format === 'email' ? `outro.${value}` : `${value} (outro)`;
    return [[name, text.slice(0, schema?.maxLength)]];
  });
  return { ...row, ...Object.fromEntries(values) };
}

/** The row with one value of another row, if there is one that no constraint needs to be as it is. */
function change({ table, uniques, written }: Subject, row: Row, all: readonly Row[]): Row {
  const isFree = (name: string) => ![...uniques, ...table.otherChecks].some(({ columns }) => columns.includes(name));
  const columns = written.filter(({ name }) => isFree(name));
  const other = columns.flatMap(({ name }) =>
    all
      .filter((one) => one[name] !== row[name] && one[name] !== null)
      .slice(0, 1)
      .map((one) => [name, one[name]]),
  );
  return { ...row, ...Object.fromEntries(other.slice(0, 1)) };
}

/** The document with the answers that the examples get. Throws RefusedError if one gets none that the document says. */
async function fillIn(
  db: pg.Client,
  text: string,
  subject: Subject,
  samples: Readonly<Record<Kind, readonly Sample[]>>,
): Promise<string> {
  const compiled = await compile(parse(addToDocument(text, subject, samples, () => null)));
  const own = subject.kinds.map((kind) => subject.names[kind].operation);
  refuseDrift(compiled, own, await describeFunctions(db));
  const values = new Map<string, unknown>();
  for (const kind of subject.kinds) {
    for (const sample of samples[kind]) {
      const id = subject.names[kind].operation;
      const example = readExamples(compiled.source).find((one) => one.operationId === id && one.name === sample.name);
      const received = example && (await receiveExample(compiled, example.request));
      if (!received) throw new RefusedError(`the demo data is no valid request of ${id}: ${JSON.stringify(sample)}`);
      const { operation, request } = received;
      const result = await call(db, toCall(operation, request));
      const { status, body, cause } = toAnswer(operation, result);
      if (status !== sample.status) {
        throw new RefusedError(
          `${id} would answer its example ${sample.name} with ${status}, and not ${sample.status}: ${cause}`,
        );
      }
      values.set(`${id} ${sample.name}`, body);
    }
  }
  return addToDocument(text, subject, samples, (kind, { name }) =>
    values.get(`${subject.names[kind].operation} ${name}`),
  );
}

/** Throws RefusedError if the operations are not as their functions are. */
export function refuseDrift(
  compiled: CompiledDocument,
  ids: readonly string[],
  functions: readonly DatabaseFunction[],
): void {
  const operations = new Map([...compiled.operations].filter(([id]) => ids.includes(id)));
  const [drift] = findDrift(operations, functions).map(describeDifference);
  if (drift) throw new RefusedError(`document and database would disagree: ${drift}`);
}

type Operation = { readonly status: number; readonly conflicts?: Readonly<Record<string, string>> };

export function toAnswer(
  { status, conflicts = {} }: Operation,
  result: Result,
): { status: number; body: unknown; cause?: string } {
  if (!('failure' in result)) return { status, body: result.json && JSON.parse(result.json) };
  const { failure } = result;
  const { status: refused, error } = toHttpError(failure);
  const own = failure.kind === 'raised' ? conflicts[failure.constraint ?? ''] : undefined;
  const cause = isFault(failure) ? messageOf(failure.cause as Error) : JSON.stringify(error);
  return { status: refused, body: { error: own ?? error }, cause };
}

/** Makes a call as the gateway does, and takes it back. */
export async function call(db: pg.Client, made: Call): Promise<Result> {
  const { text, values } = createStatementWriter()(made, made.returns);
  await db.query('savepoint example; set local role gateway');
  try {
    return await query(db, text, [...values]);
  } catch (error) {
    return { failure: toFailure(error as PgError) };
  } finally {
    await db.query('rollback to savepoint example');
  }
}

async function query(db: pg.Client, text: string, values: unknown[]): Promise<Result> {
  const { rows } = await db.query<{ json: string | null }>(text, values);
  return toResult(rows[0] && [rows[0].json]);
}
