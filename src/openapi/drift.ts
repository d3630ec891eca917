// Holds the document against the database: what one of them says and the other does not is a finding.

import type { OpenAPIV3 } from 'openapi-types';
import type { Argument, Column, DatabaseFunction } from '../store/store.ts';
import type { Place } from './document.ts';
import type { DocumentOperation, Operation } from './operations.ts';
import { canHold, describeSchema, isWrittenAs } from './postgres-types.ts';

/** One disagreement of document and database. */
export type Finding = {
  readonly operation: string;
  readonly function: string;
  /** What the document says, and where: the path to the place within it. */
  readonly document: string;
  readonly place: Place;
  readonly database: string;
};

type Schema = OpenAPIV3.SchemaObject;
/** An argument that the gateway gives, and what stands in the document of it. */
type Fed = {
  readonly argument: string;
  readonly what: string;
  readonly schema: Schema;
  readonly always: boolean;
  readonly place: Place;
};

/** Who owns and who calls the published functions. */
const OWNER = 'gateway_functions';
const CALLER = 'gateway';
/** What a secret key of a Supabase project is. */
const CALLERS = [CALLER, 'service_role'];
const PATH = 'pg_catalog, pg_temp';

/** Every disagreement of the document's operations with the functions that they name. */
export function checkContract(
  operations: ReadonlyMap<string, Operation>,
  sources: readonly DocumentOperation[],
  functions: readonly DatabaseFunction[],
): Finding[] {
  const findings = sources.flatMap((source) => {
    const operation = operations.get(source.operationId ?? '');
    return operation ? new Check(operation, source, functions).run() : [];
  });
  return [...findings, ...checkKeyUse(operations, functions)];
}

/** The function that is told of a key's use is no operation's. */
function checkKeyUse(operations: ReadonlyMap<string, Operation>, functions: readonly DatabaseFunction[]): Finding[] {
  const names = new Set([...operations.values()].flatMap(({ key }) => key.usedFunction ?? []));
  return [...names]
    .filter((name) => functions.filter((found) => found.name === name).length !== 1)
    .map((name) => ({
      operation: 'every operation',
      function: name,
      document: 'x-rpc-used names the function that is told of a key that was used',
      place: ['components', 'securitySchemes'],
      database: 'it is not there, or more than once',
    }));
}

class Check {
  readonly #findings: Finding[] = [];
  readonly #operation: Operation;
  readonly #source: DocumentOperation;
  readonly #functions: readonly DatabaseFunction[];
  readonly #place: Place;

  constructor(operation: Operation, source: DocumentOperation, functions: readonly DatabaseFunction[]) {
    this.#operation = operation;
    this.#source = source;
    this.#functions = functions;
    this.#place = ['paths', source.path, source.method];
  }

  run(): Finding[] {
    const found = this.#functions.filter(({ name }) => name === this.#operation.function);
    const [only] = found;
    if (only === undefined || found.length > 1) {
      const database = only ? `there are ${found.length} of that name` : 'there is none of that name in schema public';
      this.#find(['x-rpc'], 'x-rpc names the function', database);
    } else {
      this.#checkArguments(only);
      this.#checkResult(only);
      this.#checkSecurity(only);
    }
    return this.#findings;
  }

  #checkArguments({ arguments: args }: DatabaseFunction): void {
    const fed = this.#readFed();
    for (const { argument, what, schema, always, place } of fed) {
      const taken = args.find(({ name }) => name === argument);
      if (!taken) {
        this.#find(place, `${what} is its argument ${argument}`, 'it has no such argument');
      } else if (!canHold(schema, taken)) {
        this.#find(place, `${what} is ${describeSchema(schema)}`, `${argument} is ${describeType(taken)}`);
      } else if (!always && !taken.hasDefault) {
        this.#find(place, `${what} may be left out and has no default`, `${argument} has no default`);
      }
    }
    for (const { name } of args.filter(
      ({ name, hasDefault }) => !hasDefault && !fed.some(({ argument }) => argument === name),
    )) {
      this.#find([], `no input is its argument ${name}`, `${name} has no default`);
    }
  }

  #readFed(): Fed[] {
    const { key, inputs } = this.#operation;
    const parameters = (this.#source.parameters ?? []) as OpenAPIV3.ParameterObject[];
    const ofParameters = parameters.map((parameter, index): Fed => {
      const schema = (parameter.schema ?? {}) as Schema;
      return {
        argument: inputs.find((input) => input.name === parameter.name && input.in === parameter.in)?.argument ?? '',
        what: `the ${parameter.in} parameter ${parameter.name}`,
        schema,
        always: parameter.required === true || schema.default !== undefined,
        place: ['parameters', index],
      };
    });
    const keyOnly: Fed = {
      argument: key.argument,
      what: 'the API key',
      schema: { type: 'string' },
      always: true,
      place: [],
    };
    return [keyOnly, ...ofParameters, ...this.#readFields()];
  }

  #readFields(): Fed[] {
    const place = ['requestBody', 'content', 'application/json', 'schema'];
    const body = this.#source.requestBody as OpenAPIV3.RequestBodyObject | undefined;
    const schema = body?.content['application/json']?.schema as Schema | undefined;
    return Object.entries(schema?.properties ?? {}).map(([name, property]) => ({
      argument: name,
      what: `the field ${name}`,
      schema: property as Schema,
      always: schema?.required?.includes(name) === true || (property as Schema).default !== undefined,
      place: [...place, 'properties', name],
    }));
  }

  #checkResult(found: DatabaseFunction): void {
    const { status, returns, readOnly } = this.#operation;
    const method = this.#source.method.toUpperCase();
    if (found.isVolatile !== undefined && found.isVolatile === readOnly) {
      const expected = readOnly ? 'changes nothing' : 'changes something';
      this.#find([], `${method} ${expected}`, `it is ${found.isVolatile ? 'volatile' : 'not volatile'}`);
    }
    const place = ['responses', String(status), 'content', 'application/json', 'schema'];
    const schema = this.#readAt(place);
    if (found.result === undefined) return;
    const { columns, isSet, isSingle } = found.result;
    if (returns === 'rows' && !isSet) this.#find(place, 'the response is an array', 'it returns one row');
    if (returns === 'row' && !isSingle) {
      this.#find(place, 'the response is one object', 'it may return many rows: say "rows 1" if it does not');
    }
    const item = (returns === 'rows' ? (schema as OpenAPIV3.ArraySchemaObject).items : schema) as Schema;
    this.#checkColumns(columns, item, returns === 'rows' ? [...place, 'items'] : place);
  }

  #checkColumns(columns: readonly Column[], item: Schema, place: Place): void {
    // An object that says nothing of its properties may have any.
    if (!item.properties) return;
    for (const [name, property] of Object.entries(item.properties)) {
      const column = columns.find((column) => column.name === name);
      const at = [...place, 'properties', name];
      if (column) this.#checkColumn(column, property as Schema, at);
      else this.#find(at, `the response has ${name}`, 'it returns no such column');
    }
    for (const { name } of columns.filter(({ name }) => !(name in (item.properties ?? {})))) {
      this.#find(place, `the response has no ${name}`, `it returns the column ${name}`);
    }
  }

  #checkColumn({ name, type, isNullable }: Column, schema: Schema, place: Place): void {
    if (!isWrittenAs(schema, type)) {
      this.#find(place, `${name} is ${describeSchema(schema)}`, `the column ${name} is ${type}`);
    }
    // Only the document can say that rows without a value are not returned.
    const isNeverNull = 'x-never-null' in schema;
    if (isNullable && !schema.nullable && !isNeverNull) {
      this.#find(place, `${name} is never null`, `the column ${name} may be null`);
    }
  }

  #checkSecurity({ security }: DatabaseFunction): void {
    if (security === undefined) return;
    const says = 'x-rpc names a published function';
    if (security.owner !== OWNER || security.ownerIsAble) {
      const able = security.ownerIsAble ? ', which can log in, owns tables or bypasses row security' : '';
      this.#find(['x-rpc'], says, `its owner is ${security.owner}${able}, and not ${OWNER}`);
    }
    if (!security.definer) this.#find(['x-rpc'], says, 'it is not security definer');
    if (security.path !== PATH) {
      this.#find(['x-rpc'], says, `its search_path is ${security.path ?? 'not set'}, and not ${PATH}`);
    }
    if (!security.executors.includes(CALLER)) this.#find(['x-rpc'], says, `${CALLER} may not execute it`);
    const others = security.executors.filter((role) => !CALLERS.includes(role));
    if (others.length > 0) this.#find(['x-rpc'], says, `${others.join(', ')} may execute it too`);
  }

  #readAt(place: Place): Schema {
    return place.reduce<unknown>((node, name) => (node as Record<string, unknown>)[name], this.#source) as Schema;
  }

  #find(place: Place, document: string, database: string): void {
    const { id, function: name } = this.#operation;
    this.#findings.push({ operation: id, function: name, document, place: [...this.#place, ...place], database });
  }
}

function describeType({ type, labels }: Argument): string {
  return labels ? `${type} (${labels.join(', ')})` : type;
}
