// npm run dev: applies a saved document or migration at once, and logs drift.

import { execFile } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { toSuccess } from './api/answer.ts';
import { toCall } from './api/call.ts';
import type { ApiRequest } from './api/request.ts';
import { receiveExample } from './api/validate.ts';
import { FILES } from './config.ts';
import { isFault, messageOf } from './errors.ts';
import { type CompiledDocument, compileFile } from './openapi/compile.ts';
import { DocumentError } from './openapi/document.ts';
import { describeDrift } from './openapi/drift.ts';
import { type Example, expectedBody, readExamples } from './openapi/examples.ts';
import type { Operation } from './openapi/operations.ts';
import { toTextsFile } from './openapi/translations.ts';
import type { OwnStore } from './store/open.ts';
import type { PgError } from './store/sqlstate.ts';
import type { Json, Result, Store } from './store/store.ts';

type Drift = Awaited<ReturnType<typeof describeDrift>>;

/** The parts to update when the files change. */
type Development = {
  readonly store: Store;
  /** Migrates the store and tries calls; undefined for a store that others share. */
  readonly own: OwnStore | undefined;
  /** Replaces the served document, starting with the next request. */
  readonly serve: (document: CompiledDocument) => void;
  readonly deadlineMs: number;
  readonly log: { info(text: string): void; warn(text: string): void };
};

/** How often the files are checked, in milliseconds. */
const LOOK_MS = 100;
/** The maximum length of a value in a line. */
const SHOWN = 80;
/** A key that no tenant has. */
const UNKNOWN_KEY = 'wms_live_unknown';
/** SQLSTATE of a missing privilege. */
const DENIED = '42501';
/** Demo data is loaded only into a new store. */
const OTHER_DATA = ' (with the demo data as it is now: DATA_DIR=:memory: npm run dev)';

/** Watches the document and the migrations. Returns the function that stops it. */
export function develop({ store, own, serve, deadlineMs, log }: Development, first: CompiledDocument): () => void {
  const { document, migrations } = FILES;
  let compiled = first;
  let isStopped = false;
  // After the stop the store is closed, and unfinished work fails.
  const warn = (text: string) => {
    if (!isStopped) log.warn(text);
  };
  let last = Promise.resolve();
  /** Does one task at a time, in the order of the saves. */
  const enqueue = (work: () => Promise<void>) => {
    last = last.then(work).catch((error: Error) => {
      warn(messageOf(error) + (error instanceof DocumentError ? '\nStill serving the last valid document' : ''));
    });
  };
  /** Compares the database with the document, and tries the examples. */
  const compare = async (report: (drift: Drift) => void) => {
    const drift = await describeDrift({ document: compiled, store, deadlineMs });
    report(drift);
    if (own && !('failure' in drift)) await tryExamples(compiled, own, drift.broken, warn);
  };
  const reportDrift = (drift: Drift) => {
    if ('failure' in drift) warn(`Cannot compare the database with the document: ${drift.failure.kind}`);
    else if (drift.lines.length > 0) warn(drift.lines.join('\n'));
    else log.info('Document and database agree');
  };
  const readDocument = async () => {
    compiled = await compileFile(document);
    serve(compiled);
    log.info(`Serving the saved ${basename(document)}`);
    await generateTypes();
    await compare(reportDrift);
  };
  const readMigrations = async () => {
    if (!own) return log.info('A migration has changed: apply it with npm run migrate');
    for (const file of await own.migrate()) log.info(`Applied ${basename(file)}`);
    await compare(reportDrift);
  };
  // The other files of a divided document (docs/openapi-support.md).
  const parts = join(dirname(document), 'src/document');
  const findDocument = () => [document, toTextsFile(document), ...findFiles(parts, /\.(ya?ml|json)$/)];
  const findMigrations = () => findFiles(migrations, /\.sql$/);
  const stops = [
    onChange(findDocument, () => enqueue(readDocument)),
    onChange(findMigrations, () => enqueue(readMigrations)),
  ];
  log.info(`Watching ${basename(document)} and ${basename(migrations)}`);
  // The start has reported drift.
  enqueue(() => compare(() => {}));
  return () => {
    isStopped = true;
    for (const stop of stops) stop();
  };
}

/**
 * Calls the functions with the examples of success, and rolls back: Postgres checks a function's body only when it runs. Reports the
 * first example of each operation that fails, has another answer, or is answered for an unknown key. Skips `broken` operations.
 */
async function tryExamples(
  document: CompiledDocument,
  own: OwnStore,
  broken: ReadonlySet<string>,
  warn: (text: string) => void,
): Promise<void> {
  const done = new Set(broken);
  for (const example of readExamples(document.source)) {
    const operation = document.operations.get(example.operationId);
    if (!operation || example.status !== operation.status || done.has(operation.id)) continue;
    const problem = await tryExample(document, own, operation, example).catch(
      (error) => `cannot be tried with the example ${example.name}: ${messageOf(error)}`,
    );
    if (!problem) continue;
    done.add(operation.id);
    warn(`${operation.id} ${problem}`);
  }
}

async function tryExample(
  document: CompiledDocument,
  own: OwnStore,
  operation: Operation,
  example: Example,
): Promise<string | undefined> {
  const received = await receiveExample(document, example.request);
  if (!received) return undefined;
  const call = toCall(operation, received.request);
  const args = { ...call.args, [operation.key.argument]: UNKNOWN_KEY };
  return (
    findMissingCheck(operation, await own.attempt({ ...call, args })) ??
    findProblem(operation, example, received.request, await own.attempt(call))
  );
}

/** Describes what is wrong with the result of an example. Ignores refusals and generated values, which depend on the data. */
function findProblem(operation: Operation, example: Example, request: ApiRequest, result: Result): string | undefined {
  if ('failure' in result) {
    if (!isFault(result.failure)) return undefined;
    const { message, code, where } = result.failure.cause as PgError;
    const [, statement = 'select'] = /^SQL statement "\s*(insert|update|delete)\b/i.exec(where ?? '') ?? [];
    const place =
      statement === 'select' ? (where?.split('\n')[0] ?? operation.function) : `${statement} in ${operation.function}`;
    const [, table] = /permission denied for table (\S+)/.exec(message) ?? [];
    const rights = [...new Set(['select', statement.toLowerCase()])].join(', ');
    const isDenied = code === DENIED && table !== undefined;
    const remedy = isDenied ? `; grant what it lacks of: grant ${rights} on private.${table} to gateway_functions` : '';
    return `fails in the example ${example.name}: ${message} (${place})${remedy}`;
  }
  // An example after another request has a different answer without that request.
  const text = example.after === undefined && toSuccess(operation, request, result).json;
  if (!text) return undefined;
  const got: Json = JSON.parse(text);
  const difference = findDifference(expectedBody(example, got), got);
  return difference && `answers the example ${example.name} with ${difference}${OTHER_DATA}`;
}

/** Describes a function that does not refuse an unknown key: a status that it raises is an answer too. */
function findMissingCheck({ function: name }: Operation, result: Result): string | undefined {
  if ('failure' in result && result.failure.kind !== 'raised') return undefined;
  return `answers a key that nobody has: ${name} must call private.verify_key first`;
}

/** Describes the first difference between two values. */
function findDifference(wanted: Json | undefined, got: Json | undefined, place = ''): string | undefined {
  if (isDeepStrictEqual(wanted, got)) return undefined;
  const [one, other] = [wanted, got] as Readonly<Record<string, Json>>[];
  if (typeof one === 'object' && typeof other === 'object' && one && other) {
    const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
    return names.map((name) => findDifference(one[name], other[name], `${place}/${name}`)).find(Boolean);
  }
  const show = (value: Json | undefined) => JSON.stringify(value)?.slice(0, SHOWN) ?? 'nothing';
  return `${show(got)} in ${place || 'its body'}, where the document has ${show(wanted)}`;
}

/**
 * Calls back once after files were changed, added or removed, and returns the function that stops it. It polls, because file system
 * events get lost: of folders that a change of the branch removes and restores, and between a container and its host.
 */
function onChange(findFiles: () => readonly string[], callback: () => void): () => void {
  const look = () => findFiles().map(toState).join();
  // The start has read the files already, so one that was saved after its beginning counts as changed.
  let [known, last] = [findFiles().some(isSavedSinceStart) ? '' : look(), ''];
  const timer = setInterval(() => {
    const now = look();
    // An editor saves a file in several steps.
    if (now === last && now !== known) {
      known = now;
      callback();
    }
    last = now;
  }, LOOK_MS);
  return () => clearInterval(timer);
}

/** Describes the state of a file, with another text after each change. */
function toState(file: string): string {
  const { ino, ctimeMs, size } = statSync(file, { throwIfNoEntry: false }) ?? {};
  return `${file} ${ino} ${ctimeMs} ${size}`;
}

/** Whether a file was saved since this process was started. */
function isSavedSinceStart(file: string): boolean {
  const { ctimeMs = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  return ctimeMs > performance.timeOrigin;
}

/** Finds the files of a folder and its subfolders whose names match; none if the folder does not exist. */
function findFiles(folder: string, pattern: RegExp): string[] {
  try {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    return files.filter((file) => pattern.test(file)).map((file) => join(folder, file));
  } catch {
    return [];
  }
}

/** Writes the client's types, in another process, because that takes a second of processor time. */
async function generateTypes(): Promise<void> {
  const script = join(import.meta.dirname, '../scripts/client-types.ts');
  await promisify(execFile)(process.execPath, [script, FILES.document, FILES.types]);
}
