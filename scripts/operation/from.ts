// Plans the operation of an existing function: its arguments, columns and errors, and an example answered from the demo data.

import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type pg from 'pg';
import { adviseOn, isWrittenAs } from '../../src/openapi/postgres-types.ts';
import { typesOf } from '../../src/openapi/schema.ts';
import type { DatabaseFunction } from '../../src/store/store.ts';
import { BEGIN, type Change, describeFunctions, type Files, openExamples, withDatabase } from './plan.ts';
import { toCamel, toPascal, toUpper } from './subject.ts';
import { boundText, RefusedError, toSchema } from './table.ts';
import {
  addOperations,
  allowNull,
  type Draft,
  forVersion,
  KEY,
  KEY_PARAMETER,
  type Node,
  RESPONSES,
  readTarget,
  refer,
  referTo,
  type Target,
  toContent,
  toNotFound,
  toRefusal,
  toSource,
} from './yaml.ts';

/** The path of the operation, and the values of its example. */
type FromRequest = { readonly path?: string | undefined; readonly values: Readonly<Record<string, string>> };

/** An input of the operation, for an argument of the function. */
type Input = { readonly name: string; readonly in: string; readonly isRequired: boolean; readonly schema: Node };
type Found = DatabaseFunction & { readonly comment: string | null; readonly source: string };

const EXAMPLE = 'example';
/** Statuses that every operation declares. */
const COMMON = new Set(Object.values(RESPONSES));
/** Schemas of argument types that toSchema does not know; answers do not use them. */
const ARGUMENTS: Readonly<Record<string, Node>> = {
  bytea: { type: 'string', format: 'byte', maxLength: 50_000 },
  interval: { type: 'string', format: 'duration', maxLength: 100 },
};
const PAGES: Readonly<Record<string, string>> = { limit: 'Limit', offset: 'Offset', after: 'After' };

/** Plans the operation of a function. Changes no file. Throws RefusedError. */
export function planFromFunction(name: string, request: FromRequest, files: Files): Promise<Change[]> {
  const file = files.document;
  const source = toSource(readFileSync(file, 'utf8'));
  return withDatabase(files, async (db) => {
    const found = await findFunction(db, name);
    const target = readTarget(file, source);
    const write = (answers: readonly unknown[]) =>
      addOperations(source, [draftOperation(target, found, request, answers)]);
    return [{ file, text: write(await askForExample(db, { file, text: write([null]) }, found)) }];
  });
}

async function findFunction(db: pg.Client, name: string): Promise<Found> {
  const [found, ...others] = (await describeFunctions(db)).filter((one) => one.name === name);
  if (!found) {
    throw new RefusedError(`there is no function public.${name}: write it in a migration, and publish it there`);
  }
  if (others.length > 0) {
    throw new RefusedError(
      `more than one function is named public.${name}: remove the other in a migration, with drop function and its arguments`,
    );
  }
  const { rows } = await db.query(
    `select obj_description(oid, 'pg_proc') as comment, prosrc as source
       from pg_proc where pronamespace = 'public'::regnamespace and proname = $1`,
    [name],
  );
  return { ...found, ...rows[0] };
}

/** Gets the example's answer from the function twice: values that differ are generated. */
async function askForExample(db: pg.Client, source: Change, { name }: Found): Promise<readonly unknown[]> {
  const id = toCamel(name);
  const answer = await openExamples(db, source, [id]);
  const ask = () => answer(id, ({ status }) => status < 300);
  const answered = await ask();
  if (!answered) {
    throw new RefusedError('the example is no valid request: give other values with --with NAME=VALUE, a list as JSON');
  }
  const { status, body, cause } = answered;
  if (status < 300) {
    // Only another transaction has another now().
    await db.query(`rollback; ${BEGIN}`);
    return [body, (await ask())?.body];
  }
  const remedy = status < 500 ? 'give other values with --with NAME=VALUE' : 'correct the function in its migration';
  throw new RefusedError(`the example gets a ${status}: ${cause}; ${remedy}`);
}

function draftOperation(
  { document, components: { schemas = {} }, keyArgument }: Target,
  found: Found,
  { path: wanted, values }: FromRequest,
  [answer, again]: readonly unknown[],
): Draft {
  const { name, comment } = found;
  const path = wanted ?? `/${name.replaceAll('_', '-')}`;
  if (!path.startsWith('/')) throw new RefusedError(`--path ${path}: it begins with /: --path '/${path}'`);
  const reads = found.volatility !== 'volatile';
  const method = reads ? 'get' : 'post';
  const existing = document.paths[path]?.[method];
  if (existing) {
    throw new RefusedError(
      `the document has ${method.toUpperCase()} ${path} already: ${existing.operationId}; give another one with --path`,
    );
  }
  const { openapi } = document;
  const inputs = readInputs({ openapi, schemas, keyArgument }, found, path, reads);
  const names = inputs.map((input) => input.name);
  const unknown = Object.keys(values).find((given) => !names.includes(given));
  if (unknown) {
    throw new RefusedError(`--with ${unknown}: public.${name} has no such input: expected one of ${names.join(', ')}`);
  }
  const lacking = inputs.filter((input) => input.isRequired && !(input.name in values));
  if (lacking.length > 0) {
    const options = lacking.map((input) => `--with ${input.name}=VALUE`).join(' ');
    throw new RefusedError(`an example needs a value of each argument without a default: add ${options}`);
  }
  const toExample = (value: unknown, more: Node = {}) => ({ [EXAMPLE]: { ...more, value } });
  const given = ({ name, schema }: Input) => toValue(values[name] ?? '', schema);
  const parameters = inputs
    .filter((input) => input.in !== 'body')
    .map((input) => {
      if (input.name === KEY) return KEY_PARAMETER;
      const { name, in: place, isRequired, schema } = input;
      return {
        ...{ name, in: place, required: isRequired || undefined },
        ...{ description: toUpper(name.replaceAll('_', ' ')), schema },
        examples: name in values ? toExample(given(input)) : undefined,
      };
    });
  const fields = inputs.filter((input) => input.in === 'body');
  const required = fields.filter((field) => field.isRequired).map((field) => field.name);
  const sent = fields.filter((field) => field.name in values).map((field) => [field.name, given(field)]);
  const body: Node = {
    ...{ type: 'object', additionalProperties: false, required: required.length > 0 ? required : undefined },
    properties: Object.fromEntries(fields.map((field) => [field.name, field.schema])),
  };
  const result = describeResult(found, openapi, answer);
  // x-generated cannot name a property of a list's items.
  const isObject = result?.type === 'object' && again !== undefined;
  const isOther = (name: string) => !isDeepStrictEqual((answer as Node)?.[name], (again as Node)?.[name]);
  const generated = isObject ? Object.keys(answer ?? {}).filter(isOther) : [];
  // A list of texts or numbers is one value for the gateway.
  const isList = result?.type === 'array' && typesOf(result.items as Node).includes('object');
  const isPage = isList && names.includes('limit') && names.includes('offset');
  const summary = toUpper(name.replaceAll('_', ' '));
  const tag = toPascal((path.split('/')[1] ?? name).replaceAll('-', '_'));
  const example = toExample(answer, { 'x-generated': generated.length > 0 ? generated : undefined });
  return {
    ...{ path, method, function: name, tag: { name: tag, description: tag } },
    ...{ summary, description: `${comment ?? summary}.`, parameters },
    requestBody:
      fields.length > 0 ? { required: true, ...toContent(body, toExample(Object.fromEntries(sent))) } : undefined,
    responses: {
      [result ? 200 : 204]: {
        description: comment ?? summary,
        headers: isPage ? refer(['Link']) : {},
        ...(result && toContent(result, example)),
      },
      ...describeRaised(found, inputs),
    },
  };
}

/** Maps the arguments to inputs. Throws a RefusedError that names every argument that cannot be one. */
function readInputs(
  { openapi, schemas, keyArgument }: { openapi: string; schemas: Node; keyArgument: string },
  { arguments: args, name }: Found,
  path: string,
  reads: boolean,
): Input[] {
  const others = args.filter((argument) => argument.name !== keyArgument);
  const isPage = ['p_limit', 'p_offset'].every((page) => others.some((argument) => argument.name === page));
  const known = others.map(({ name: argument, type, labels, hasDefault, modifier }): Input | string => {
    const plain = argument.replace(/^p_/, '');
    if (argument === 'p_idempotency_key' && !reads) return { name: KEY, in: 'header', isRequired: false, schema: {} };
    const component = isPage ? PAGES[plain] : undefined;
    const schema =
      reads && component && component in schemas
        ? referTo('schemas', component)
        : (describeType(type, labels, openapi, modifier) ?? ARGUMENTS[type]);
    if (!argument.startsWith('p_')) return `${argument} of public.${name} must begin with p_: rename it in a migration`;
    if (schema === undefined) return describeUnknown(`${argument} of public.${name}`, type);
    if (path.includes(`{${plain}}`)) return { name: plain, in: 'path', isRequired: true, schema };
    if (reads) return { name: plain, in: 'query', isRequired: !hasDefault, schema };
    return { name: argument, in: 'body', isRequired: !hasDefault, schema };
  });
  const reasons = known.filter((one) => typeof one === 'string');
  if (reasons.length > 0) throw new RefusedError(reasons.join('\n'));
  return known.filter((one) => typeof one !== 'string');
}

/** Explains why a value of a type has no schema. */
function describeUnknown(what: string, type: string): string {
  const advice = adviseOn({}, { type }) || ', and only you know what is in it: write the operation by hand';
  return `${what} is ${type}${advice}`;
}

/** Returns the schema of the answer; undefined for no content. The example's answer shows what JSON contains. */
function describeResult({ name: asked, result }: Found, openapi: string, answer: unknown): Node | undefined {
  const { type = 'void', columns = [], isSet = false, isSingle = false } = result ?? {};
  if (type === 'void') return undefined;
  const isList = isSet && !isSingle;
  const values = (isList ? (answer ?? []) : [answer]) as readonly Node[];
  const whole = `the answer of public.${asked}`;
  const item: Node =
    columns.length === 0
      ? (describeType(type, undefined, openapi) ?? describeOther(whole, type, values))
      : {
          type: 'object',
          required: columns.map(({ name }) => name),
          properties: Object.fromEntries(
            columns.map(({ name, type, labels, isNullable }) => {
              const others = values.map((value) => value?.[name]);
              const schema = describeType(type, labels, openapi) ?? describeOther(`${name} in ${whole}`, type, others);
              const takesNull = isNullable || others.includes(null);
              return [name, takesNull && schema.type ? allowNull(schema, openapi) : schema];
            }),
          ),
        };
  return isList ? { type: 'array', maxItems: 1000, items: item } : item;
}

/** The schema of a type; undefined for JSON and other types that a person has to describe. */
function describeType(
  base: string,
  labels: readonly string[] | null | undefined,
  openapi: string,
  modifier = -1,
): Node | undefined {
  const schema = toSchema({ name: '', base, modifier, labels: labels ?? null }, {});
  return schema.type === undefined ? undefined : forVersion(boundText(schema), openapi);
}

/** The schema of another type in an answer: a text such as an interval, or JSON, an object unless the example has other values. */
function describeOther(what: string, type: string, values: readonly unknown[]): Node {
  if (isWrittenAs({ type: 'string' }, { type })) return boundText({ type: 'string' });
  if (!['json', 'jsonb', 'record'].includes(type)) throw new RefusedError(describeUnknown(what, type));
  return values.every((value) => typeof (value ?? null) === 'object' && !Array.isArray(value))
    ? { type: 'object' }
    : {};
}

/** The statuses that the function raises, and a 404 for unknown ids in the path. */
function describeRaised({ raises = [], source }: Found, inputs: readonly Input[]): Node {
  const ids = inputs.filter((input) => input.in === 'path' && input.schema.format === 'uuid').map(({ name }) => name);
  const code = source.replace(/('(?:[^']|'')*')|--.*|\/\*[\s\S]*?\*\//g, '$1');
  const statuses = new Set([...raises, ...(ids.length > 0 ? [404] : [])]);
  const refusals = [...statuses.difference(COMMON)].map((status) => {
    const [, quoted] = new RegExp(`PT${status}'[^;]*?message\\s*=\\s*'((?:[^']|'')+)'`).exec(code) ?? [];
    const message = quoted?.replaceAll("''", "'");
    if (status === 404 && ids.length > 0) return [status, toNotFound(ids, message)];
    // Only the author knows a computed text.
    const examples = message === undefined ? undefined : { [`raised${status}`]: { value: { error: message } } };
    return [status, toRefusal(message ?? 'Refused', examples)];
  });
  return Object.fromEntries(refusals);
}

/** Parses a value of the command line as JSON, unless its schema is a string. */
function toValue(text: string, { type }: Node): unknown {
  if (type === 'string') return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
