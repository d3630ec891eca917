// Compares the document with the database.

import { type Fault, OperatorError } from '../errors.ts';
import { findNear } from '../near-miss.ts';
import type { Column, DatabaseFunction, Parameter, Store } from '../store/store.ts';
import type { CompiledDocument } from './compile.ts';
import { compareLines } from './document.ts';
import { BODY_ARGUMENT, declares, type Operation, readAnswerSchema } from './operations.ts';
import type { Place } from './pointer.ts';
import { adviseOn, adviseOnRounding, canHold, describeSchema, isWrittenAs } from './postgres-types.ts';
import { isHidden, isNeverNull, isNullable, itemsOf, readProperties, type Schema, scalarOf } from './schema.ts';

/** Document and database disagree; the message has a line for each difference. */
export class DriftError extends OperatorError {}

/** One difference between document and database. */
export type Difference = {
  readonly operation: string;
  readonly function: string;
  /** What the document says, and where. */
  readonly document: string;
  readonly place: Place;
  /** What the database says. */
  readonly database: string;
  /** Whether requests succeed nevertheless: the database only has more than the document describes. */
  readonly isAddition: boolean;
  /** Whether it is a guess from the name of a column. */
  readonly isSupposed?: true | undefined;
};

/** A function argument that the gateway supplies, and its source in the document. */
type SuppliedArgument = {
  readonly argument: string;
  readonly what: string;
  readonly schema: Schema;
  readonly always: boolean;
  readonly place: Place;
};

/** The statuses that SQL may raise in every operation. */
const ALWAYS = [401, 422];

/** The owner and the caller of published functions. */
const OWNER = 'gateway_functions';
const CALLER = 'gateway';
/** A Supabase project's secret key acts as `service_role`. */
const CALLERS = [CALLER, 'service_role'];
const PATH = 'pg_catalog, pg_temp';
const STRICT =
  'it is strict, so Postgres does not run it where an argument is null, and so verifies no key: declare it called on null input';

/** The message if the gateway sees no function. PostgREST shows a key only the functions that it may execute. */
const NO_FUNCTIONS =
  'the gateway finds no function in schema public: run npm run migrate, and check that SUPABASE_KEY, if set, is a secret key ' +
  'or has the role gateway';

type DriftOptions = {
  readonly document: CompiledDocument;
  readonly store: Store;
  readonly deadlineMs: number;
};

/** The differences, one line each, and the ids of the operations that they break. */
type Drift = { readonly lines: readonly string[]; readonly broken: ReadonlySet<string> };

/** Compares document and database. Returns the fault if the store cannot be queried. */
export async function describeDrift(options: DriftOptions): Promise<Drift | { readonly failure: Fault }> {
  const { document, store, deadlineMs } = options;
  const description = await store.describe(AbortSignal.timeout(deadlineMs));
  if ('failure' in description) return description;
  if (description.functions.length === 0) {
    return { lines: [`${store.description}: ${NO_FUNCTIONS}`], broken: new Set(document.operations.keys()) };
  }
  const differences = findDrift(document.operations, description.functions);
  const lines = differences.map(
    (difference) => `${document.locate(difference.place)}: ${describeDifference(difference)}`,
  );
  lines.sort(compareLines);
  const breaking = differences.filter(({ isAddition, isSupposed }) => !isAddition && !isSupposed);
  return { lines, broken: new Set(breaking.map(({ operation }) => operation)) };
}

/** Describes a difference in a line, without its place in the document. */
export function describeDifference({ operation, function: name, document, database, ...kind }: Difference): string {
  const effect = kind.isAddition ? ' (other requests succeed)' : '';
  const warning = kind.isSupposed ? ' (supposed from its name: requests are served)' : '';
  return `${operation} → ${name}: in the document ${document}; in the database ${database}${effect}${warning}`;
}

/** Finds the differences between the document's operations and their functions. */
export function findDrift(
  operations: ReadonlyMap<string, Operation>,
  functions: readonly DatabaseFunction[],
): Difference[] {
  const differences = [...operations.values()].flatMap((operation) => new Comparison(operation).run(functions));
  return [...differences, ...compareKeyUse(operations, functions)];
}

/** Checks the function that records the use of keys, which belongs to no operation. */
function compareKeyUse(
  operations: ReadonlyMap<string, Operation>,
  functions: readonly DatabaseFunction[],
): Difference[] {
  const names = new Set([...operations.values()].flatMap(({ key }) => key.usedFunction ?? []));
  const wrong = [...names].filter((name) => functions.filter((found) => found.name === name).length !== 1);
  return wrong.map((name) => ({
    ...{ operation: 'every operation', function: name, place: ['components', 'securitySchemes'], isAddition: false },
    document: 'x-rpc-used names the function that records the use of keys',
    database: 'it is missing, or there is more than one',
  }));
}

class Comparison {
  readonly #differences: Difference[] = [];
  readonly #operation: Operation;
  readonly #place: Place;

  constructor(operation: Operation) {
    this.#operation = operation;
    this.#place = ['paths', operation.source.path, operation.source.method];
  }

  run(functions: readonly DatabaseFunction[]): Difference[] {
    const found = functions.filter(({ name }) => name === this.#operation.function);
    const [only] = found;
    if (only === undefined || found.length > 1) {
      const names = functions.map(({ name }) => name);
      const database = only ? describeNamesakes(found) : describeMissing(this.#operation.function, names);
      this.#add(['x-rpc'], 'x-rpc names the function', database);
    } else {
      this.#checkArguments(only);
      this.#checkResult(only);
      this.#checkRaised(only);
      this.#checkConflicts(only);
      this.#checkSecurity(only);
    }
    return this.#differences;
  }

  #checkArguments({ arguments: args }: DatabaseFunction): void {
    const supplied = this.#readSupplied();
    for (const { argument, what, schema, always, place } of supplied) {
      const taken = args.find(({ name }) => name === argument);
      if (!taken) {
        const advice =
          argument === BODY_ARGUMENT
            ? ': only an object of fields p_… with additionalProperties: false is an argument for each field'
            : '';
        this.#addAt(place, `${what} is its argument ${argument}`, `it has no such argument${advice}`);
      } else if (!canHold(schema, taken)) {
        const type = describeType(taken) + adviseOn(schema, taken);
        this.#addAt(place, `${what} is ${describeSchema(schema)}`, `${argument} is ${type}`);
      } else if (!always && !taken.hasDefault) {
        this.#addAt(place, `${what} may be left out and has no default`, `${argument} has no default`);
      }
      const rounding = taken && adviseOnRounding(schema, taken);
      if (rounding)
        this.#addAt(place, `${what} is ${describeSchema(schema)}`, `${argument} is a domain${rounding}`, true);
    }
    for (const { name, hasDefault } of args) {
      if (hasDefault || supplied.some(({ argument }) => argument === name)) continue;
      this.#add([], `no input is its argument ${name}`, `${name} has no default`);
    }
  }

  #readSupplied(): SuppliedArgument[] {
    const { key, inputs, source } = this.#operation;
    const ofParameters = source.parameters.map(({ name, in: where, required, schema = {}, place }, index) => ({
      ...{ argument: inputs[index]?.argument ?? '', what: `the ${where} parameter ${name}`, schema, place },
      always: required === true || schema.default !== undefined,
    }));
    const schema: Schema = { type: 'string' };
    const ofKey = { argument: key.argument, what: 'the API key', schema, always: true, place: this.#place };
    return [ofKey, ...ofParameters, ...this.#readBody()];
  }

  #readBody(): SuppliedArgument[] {
    const { body } = this.#operation;
    if (!body) return [];
    const { schema, isRequired, fields } = body;
    const place = [...this.#place, 'requestBody', 'content', 'application/json', 'schema'];
    if (!fields) {
      const always = isRequired || schema.default !== undefined;
      // The empty schema allows any value, which only json and jsonb can hold.
      return [{ argument: BODY_ARGUMENT, what: 'the whole body', schema: {}, always, place }];
    }
    return fields.map(({ argument, default: value }) => ({
      argument,
      what: `the field ${argument}`,
      schema: schema.properties?.[argument] ?? {},
      always: (isRequired && schema.required?.includes(argument) === true) || value !== undefined,
      place: [...place, 'properties', argument],
    }));
  }

  #checkResult(found: DatabaseFunction): void {
    const { status, returns, readOnly } = this.#operation;
    const method = this.#operation.source.method.toUpperCase();
    const expected = readOnly ? 'stable' : 'volatile';
    if (found.volatility !== undefined && found.volatility !== expected) {
      const does = readOnly ? 'reads' : 'writes';
      const remedy = readOnly || found.volatility === 'volatile' ? '' : ': say x-read-only: true if it only reads';
      this.#add([], `${method} ${does} tables`, `it is ${found.volatility}, and not ${expected}${remedy}`);
    }
    if (found.result === undefined || returns === 'nothing') return;
    const place = ['responses', String(status), 'content', 'application/json', 'schema'];
    const schema = readAnswerSchema(this.#operation) ?? {};
    const { type, columns, isSet, isSingle } = found.result;
    if (returns === 'value') {
      const array = itemsOf(schema);
      const isScalar = scalarOf(array ?? schema) && isWrittenAs(array ?? schema, { type });
      const other = isScalar ? `${type}${array ? '[]' : ''}` : 'jsonb';
      // The answer would be the first column of the row.
      const isRow = !isSet && type === 'record';
      // PostgREST answers with an object if the function has an OUT argument.
      const [out] = isRow ? [] : columns;
      const what = out ? `by the argument ${out.name}: declare it returns ${type}` : type;
      const returned = `it returns ${isRow ? 'a row: return one value' : isSet ? `rows: return ${other}` : what}`;
      const isOther = isSet || isRow || out !== undefined || !isWrittenAs(schema, { type });
      if (isOther) this.#add(place, `the response is ${describeSchema(schema)}`, returned);
      return;
    }
    if (returns !== 'row' && !isSet) this.#add(place, 'the response is an array', 'it returns one row');
    if (returns === 'row' && !isSingle) {
      this.#add(place, 'the response is one object', 'it may return many rows: declare "rows 1" if it returns one');
    }
    const item = (returns === 'row' ? schema : itemsOf(schema)) ?? {};
    const at = returns === 'row' ? place : [...place, 'items'];
    // Only the query that calls a function can describe a record without columns.
    const isValue = returns === 'values' && type !== 'record' && isWrittenAs(item, { type });
    const isOther = columns.length === 0 && !isValue;
    const says = returns === 'values' ? `an item is ${describeSchema(item)}` : 'the properties of a record are columns';
    // The only column of such rows would have the function's name.
    if (isOther) this.#add(at, says, `it returns ${type}`);
    else if (returns !== 'values') this.#checkColumns(columns, item, at);
  }

  #checkColumns(columns: readonly Column[], item: Schema, place: Place): void {
    const { properties, required } = readProperties(item);
    // An object without declared properties may have any properties.
    if (Object.keys(properties).length === 0) return;
    for (const [name, property] of Object.entries(properties)) {
      const column = columns.find((column) => column.name === name);
      const at = [...place, 'properties', name];
      if (isHidden(property)) {
        if (column) this.#add(at, `${name} is writeOnly`, `it returns the column ${name}: leave it out`);
      } else if (column) this.#checkColumn(column, property, required.includes(name), at);
      else if (required.includes(name)) this.#add(at, `the response has ${name}`, 'it returns no such column');
      else this.#add(at, `the response may have ${name}`, 'it returns no such column', true);
    }
    const known = [...Object.keys(properties), ...columns.map(({ name }) => name)];
    for (const name of required.filter((one) => !known.includes(one))) {
      this.#add([...place, 'required'], `the response has ${name}`, 'it returns no such column');
    }
    for (const { name } of columns.filter(({ name }) => !(name in properties))) {
      // Answers contain it, so the author of the document should know.
      this.#add(place, `the response has no ${name}`, `it returns the column ${name}`, true);
    }
  }

  #checkColumn(column: Column, schema: Schema, isRequired: boolean, place: Place): void {
    const { name, isNullable: mayBeNull } = column;
    if (!isWrittenAs(schema, column)) {
      const type = describeType(column) + adviseOn(schema, column);
      this.#add(place, `${name} is ${describeSchema(schema)}`, `the column ${name} is ${type}`);
    }
    // An optional property is left out where it is null.
    if (mayBeNull && isRequired && !isNullable(schema) && !isNeverNull(schema)) {
      const remedy = 'let it be null in the document, or say x-never-null: true if the function never returns it';
      const database = `a column of the name ${name} may be null: ${remedy}`;
      this.#addAt([...this.#place, ...place], `${name} is never null`, database, false, true);
    }
  }

  /** A status that the document does not declare would be a 502. 401 and 422 need no declaration. */
  #checkRaised({ raises = [] }: DatabaseFunction): void {
    for (const status of raises.filter((status) => !ALWAYS.includes(status) && !declares(this.#operation, status))) {
      this.#add(['responses'], `there is no response ${status}`, `it raises PT${status}, which would be a 502`, true);
    }
  }

  /** The text of a misspelled constraint would never be sent. */
  #checkConflicts({ constraints }: DatabaseFunction): void {
    if (constraints === undefined) return;
    const place = ['responses', '409', 'x-conflicts'];
    for (const name of Object.keys(this.#operation.conflicts ?? {})) {
      if (!constraints.includes(name))
        this.#add(place, `a constraint is named ${name}`, 'there is none in schema private');
    }
  }

  #checkSecurity({ security }: DatabaseFunction): void {
    if (security === undefined) return;
    const { owner, ownerIsAble, definer, isStrict, path, executors } = security;
    const able = ownerIsAble ? ', which can log in, owns tables or bypasses row security' : '';
    const others = executors.filter((role) => !CALLERS.includes(role));
    const checks: readonly (readonly [boolean, string])[] = [
      [owner !== OWNER || ownerIsAble, `its owner is ${owner}${able}, and not ${OWNER}`],
      [!definer, 'it is not security definer'],
      [isStrict, STRICT],
      [path !== PATH, `its search_path is ${path ?? 'not set'}, and not ${PATH}`],
      [!executors.includes(CALLER), `${CALLER} may not execute it`],
      [others.length > 0, `${others.join(', ')} may execute it too`],
    ];
    const says = `x-rpc names a function published by private.publish('public.${this.#operation.function}')`;
    for (const [isWrong, text] of checks) if (isWrong) this.#add(['x-rpc'], says, text);
  }

  #add(place: Place, document: string, database: string, isAddition = false): void {
    this.#addAt([...this.#place, ...place], document, database, isAddition);
  }

  /** Adds a difference at a place in the document, which may be outside of the operation. */
  #addAt(place: Place, document: string, database: string, isAddition = false, isSupposed?: true): void {
    const { id, function: name } = this.#operation;
    this.#differences.push({ operation: id, function: name, document, place, database, isAddition, isSupposed });
  }
}

function describeMissing(name: string, names: readonly string[]): string {
  const near = findNear(name, names);
  return `there is none of that name in schema public${near ? `: did you mean ${near}?` : ''}`;
}

/** A changed argument creates a second function of that name. Only a person knows which one to drop. */
function describeNamesakes(found: readonly DatabaseFunction[]): string {
  const drops = found.map(({ name, arguments: args }) => {
    return `drop function public.${name}(${args.map(({ type }) => type).join(', ')})`;
  });
  return `there are ${found.length} of that name: keep one, and in a migration ${drops.join(' or ')}`;
}

function describeType({ type, labels }: Pick<Parameter, 'type' | 'labels'>): string {
  return labels ? `${type} (${labels.join(', ')})` : type;
}
