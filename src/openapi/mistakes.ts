// Every reason to refuse a document, with its message, and the conversion of a validator's errors to mistakes.

import type { Mistake } from './document.ts';
import { enter, find, type Place, readPointer, toPointer } from './pointer.ts';
import { ALL_METHODS } from './url.ts';

/** The maximum length of a name in Postgres. */
export const MAX_NAME = 63;

/** Every reason to refuse a document, with its message. A test compares it with docs/openapi-support.md, which has the same order. */
export const REFUSED = {
  'what the specification does not allow': (text) => text,
  'a path outside of `paths`': (path, parent) =>
    `${path} is at ${parent} instead of under paths: indent it like the other paths, by two spaces`,
  'a reference to nothing': (reference) => {
    const target = reference.startsWith('#') ? 'nothing' : 'a file that cannot be read, or to a place that it lacks';
    return `the reference ${reference} leads to ${target}: correct it, or add what it names`;
  },
  'a reference to another kind of object': (reference, section) =>
    `the reference ${reference} leads to another kind of object: refer to one of components/${section}`,
  'several paths of servers': (paths) => `the servers have the paths ${paths}: keep one, which the gateway serves`,
  'a server without a URL': (url) => `the URL of a server is ${url}: correct it, or declare its variables`,
  'servers of a path or an operation': () =>
    'servers apply to the whole document: move them to its top level, or remove them',
  'another dialect': (name, dialect) =>
    `${name} ${dialect} is not supported: the dialect of OpenAPI 3.1 is, which needs no ${name}`,
  '`head`, `options`, `trace`': (method, why) => `${method} cannot be declared: ${why}; remove it`,
  callbacks: () => 'callbacks are requests that the gateway does not send: remove them',
  'a path that no request has': (path) =>
    `no request has the path ${path}: remove a query, a fragment, dots and braces that name no parameter`,
  'two paths of one shape': (first, path) =>
    `the paths ${first} and ${path} match the same requests: make them one path, with one name`,
  'two parameters in one segment': () => 'a path segment can have one parameter only: put a slash between them',
  'other parameters in path than the path has': (has, declared) =>
    `the path has the parameters ${has}, and ${declared} in path: declare each of them, and name it once`,
  "a path of the gateway's own": (path) => `the path ${path} is the gateway's own: give the server a path, such as /v1`,
  'no function': (text) => text,
  'a name over 63 characters': (what, name) =>
    `${what} ${name} has ${name.length} characters, and Postgres knows ${MAX_NAME}: give it a shorter name`,
  'no operationId': () => 'operationId is missing: add one, which no other operation has',
  'an operationId twice': (id) => `operationId ${id} is used twice: rename one`,
  'other security than a key in a header, or none': (found) =>
    `security must require one scheme, of type apiKey in a header; it has ${found}`,
  'a cookie, or a parameter in another place': (name, place, places) =>
    `parameter ${name} is in ${place}: expected one of ${places}`,
  'a parameter with content': (parameter) =>
    `${parameter} has content, which is not supported: give it a schema, or send it in the body`,
  'an object as a parameter, `deepObject`': (parameter) =>
    `${parameter} must be a string, integer, number or boolean, or an array of one of them`,
  'the styles `label` and `matrix`': (parameter, style, other) =>
    `${parameter} has the style ${style}, which is not supported: use ${other}`,
  'the headers `Accept`, `Content-Type`, `Authorization`': (parameter) =>
    `${parameter} is ignored by OpenAPI: the content types and the security describe it; remove it`,
  'a name that no header can have': (name) => `no header can have the name ${name} (RFC 9110, 5.1): rename it`,
  '`allowEmptyValue` of what is never empty': (parameter) =>
    `${parameter} allows an empty value, which its schema does not: remove allowEmptyValue`,
  'a default that its schema does not allow': (value, name) =>
    `the default ${value} of ${name} is not allowed by its schema: correct one of the two`,
  'a name without letters and digits': (name) => `${name} has no letter or digit to name an argument by: rename it`,
  'the name `__proto__`': () => 'no parameter and no property can have the name __proto__: rename it',
  'two parameters with one argument': (argument, givers) =>
    `the argument ${argument} would be given twice, by ${givers}: rename one`,
  '`after` without ids': () =>
    'the parameter after names a record by its id: the records must have the property id, as required',
  'a body of a GET or a DELETE': (method) => `a ${method} has no body (RFC 9110, 9.3): use parameters`,
  'forms, uploads, CSV and XML': (what, types) =>
    `${what} has the content ${types}: the gateway reads and sends application/json only, remove the others`,
  'content without a schema': (what, or) => `${what} must have an application/json schema${or}`,
  'several success statuses, or none': (found) =>
    `exactly one success response must be declared, such as 200; found ${found}`,
  'content of a 204': (status) => `a ${status} has no content (RFC 9110, 15): remove its content`,
  'redirections, informational responses': (status) => `the gateway never answers with ${status}: remove it`,
  'another form of errors': (status, sent, remedy) =>
    `the schema of the response ${status} does not allow what the gateway sends: ${sent}${remedy}`,
  '`x-conflicts` of another form, or without a 409': (status) =>
    `the response ${status} has x-conflicts, which must be a map from constraints to texts, of the response 409`,
  'a header that is never sent': (header, status) =>
    `the gateway never sends the header ${header} with ${status}: remove it`,
  '`Location` without a link': () =>
    'the header Location needs links in its response, with the operationId of a GET and the parameters of its path, such as id: $response.body#/id',
  'a link to no operation': (name, found) =>
    `the link ${name} refers to ${found}, which the document does not have: name one that it has`,
  'an unknown format': (format, remedy) =>
    `unknown format ${format}: the gateway could not check it; ${remedy}, or remove it`,
  'an invalid pattern': (why) => `${why}: correct it`,
  '`$id`, `$anchor`, `$dynamicRef`': (name) =>
    `${name} is not supported: refer to a schema with $ref and its place, such as #/components/schemas/Pet`,
  'anything else beside `$ref`': (names) =>
    `${names} beside $ref has no effect: add it to what $ref leads to, or write that here without $ref`,
  'keywords beside `$ref` in 3.0': (names) =>
    `${names} beside $ref has no effect in OpenAPI 3.0: use allOf, or declare openapi: 3.1.0`,
  '`nullable` in 3.1': () => "nullable has no effect in OpenAPI 3.1: add 'null' to the type",
  'a keyword that is none': (name) => `has ${name}, which JSON Schema does not define: ${adviseOnKey(name)}`,
  'a keyword with a value that it does not have': (text) => text,
  'an extension of another form': (name, form) => `${name} must be ${form}: correct it`,
  'a misspelt extension': (name, near) => `${name} has no effect: call it ${near}, or give it another name`,
  'a value of another type in an `enum`': (type, values, remedy) =>
    `enum has values of another type than ${type}, ${values}: ${remedy}`,
  'a schema that no value meets': (name, other) => `${name} and ${other} leave no valid value: correct one of the two`,
  'a schema within itself': () =>
    'leads to itself for the same value, and so has no end: move what both schemas have to a third one',
  'integers that JSON readers round': (name, most) =>
    `${name} is beyond ${most}, where JSON readers round integers: use a smaller one or a string`,
} satisfies Readonly<Record<string, (...texts: string[]) => string>>;

export type Refused = keyof typeof REFUSED;

/** The variable texts in the message of a mistake. */
export type Texts<R extends Refused> = Parameters<(typeof REFUSED)[R]>;

/** Creates a mistake at a place. */
export function toMistake<R extends Refused>(what: R, place: Place, ...texts: Texts<R>): Mistake {
  return { what, text: (REFUSED[what] as (...texts: string[]) => string)(...texts), place };
}

type SchemaError = {
  readonly instancePath: string;
  readonly schemaPath: string;
  readonly message: string;
  readonly keyword: string;
  /** The name that an error of `propertyNames` is about. */
  readonly propertyName?: string;
  readonly params: {
    readonly [name in 'additionalProperty' | 'unevaluatedProperty' | 'propertyName']?: string;
  } & { readonly allowedValues?: readonly unknown[] };
};

/** The messages for keywords whose own messages say too little. */
const MESSAGES: Readonly<Record<string, (name: string) => string>> = {
  not: () => 'has two keys of which OpenAPI allows one, such as example and examples: remove one',
  propertyNames: (name) => `has the name ${name}: OpenAPI allows letters, digits, dots, - and _; rename it`,
};
/** The remedies for keywords of another version of OpenAPI, by the validator's error. */
const OTHER_VERSION: readonly (readonly [RegExp, string])[] = [
  [/\/items must be object,boolean$/, ': give a list of schemas to prefixItems'],
  [/\/type must be string$/, ', one type: for null too say nullable: true, for others declare openapi: 3.1.0'],
  [/\/exclusiveM\w+ must be boolean$/, ': say true, and the bound in minimum or maximum, or declare openapi: 3.1.0'],
  [/\/exclusiveM\w+ must be number$/, ': give it the bound itself'],
];
/** The keys that OpenAPI 3.1 has and OpenAPI 3.0 lacks. */
const NEW =
  `const webhooks $defs if then else prefixItems contains minContains maxContains patternProperties propertyNames
  unevaluatedItems unevaluatedProperties dependentRequired dependentSchemas contentEncoding contentMediaType contentSchema
  $comment $schema jsonSchemaDialect identifier pathItems`.split(/\s+/);
/** The validator also reports these properties as unknown if another part of their object is wrong. */
const CONDITIONAL =
  `allowReserved bearerFormat example examples explode flows in name openIdConnectUrl scheme style`.split(' ');

function unknownOf({ params }: SchemaError): string | undefined {
  return params.additionalProperty ?? params.unevaluatedProperty;
}

/** The keys that Swagger 2.0 allowed directly in a parameter or a header. */
const IN_SCHEMA = 'type format enum default items pattern minimum maximum minLength maxLength'.split(' ');

/** The remedy for an unknown key of the object at a place. */
function adviseOnKey(unknown: string, place: Place = []): string {
  const method = unknown.toLowerCase();
  const [around, name] = place.slice(-2).map(String);
  if (unknown === 'ref') return 'call it $ref';
  if (unknown === 'additionalItems') return 'call it items';
  if (IN_SCHEMA.includes(unknown) && /^(parameters|headers)$/.test(`${around}`)) return 'move it into schema';
  if (unknown === 'schema' && (/^(responses|requestBodies)$/.test(`${around}`) || name === 'requestBody')) {
    return 'move it into content, below application/json';
  }
  if (method !== unknown && ALL_METHODS.includes(method)) return `call it ${method}`;
  return place.join() === 'paths' ? `call it /${unknown}` : `correct it, or call it x-${unknown}`;
}

/** Converts the errors of a validator for the node at a place, or its only message, to mistakes. */
export function readMistakes(errors: string | readonly object[], what: Refused, at: Place = []): Mistake[] {
  if (typeof errors === 'string') return [{ what, text: errors, place: at }];
  return dropConsequences(errors as SchemaError[]).map((error) => {
    const { instancePath, keyword, params } = error;
    const unknown = unknownOf(error);
    const message = (MESSAGES[keyword] ?? (() => error.message))(params.propertyName ?? '');
    // YAML reads null without quotes as null, not as a text.
    const values = params.allowedValues?.map((value) => (value === 'null' ? "'null'" : value));
    const allowed = values ? `: ${values.join(', ')}` : '';
    const place = [...at, ...(instancePath === '' ? [] : readPointer(instancePath))];
    const within = toPointer(splitPlace(place).rest).slice('#/'.length);
    if (unknown === undefined) {
      const [, remedy = ''] = OTHER_VERSION.find(([pattern]) => pattern.test(`${instancePath} ${message}`)) ?? [];
      return { what, text: `${within} ${message}${allowed}${remedy}`.trim(), place };
    }
    const parent = String(place.at(-1) ?? 'the top level');
    if (unknown.startsWith('/')) return toMistake('a path outside of `paths`', [...place, unknown], unknown, parent);
    // The schema of OpenAPI 3.1 reports unevaluated properties instead.
    const isOf30 = params.additionalProperty !== undefined;
    const why =
      isOf30 && NEW.includes(unknown)
        ? 'which OpenAPI 3.0 does not define: declare openapi: 3.1.0'
        : `which OpenAPI does not define: ${adviseOnKey(unknown, place)}`;
    const text = `${within} has ${unknown}, ${why}`;
    return { what, text: text.trim(), place: [...place, unknown] };
  });
}

/**
 * Drops errors that only follow from others: a mistake also makes every enclosing object invalid, which is then reported for not
 * being a reference either.
 */
function dropConsequences(all: readonly SchemaError[]): SchemaError[] {
  const isChoice = (place: string) => all.some((other) => other.keyword === 'anyOf' && other.instancePath === place);
  // The schema of OpenAPI 3.0 has a part for each place of a parameter. support.ts refuses unknown places.
  const places = all.filter(
    ({ keyword, instancePath }) => keyword === 'enum' && /\/parameters\/[^/]+\/in$/.test(instancePath),
  );
  const isOfOtherPlace = ({ schemaPath, instancePath }: SchemaError) =>
    places.some(
      (other) =>
        schemaPath.startsWith(other.schemaPath.replace(/properties\/in\/enum$/, '')) &&
        `${instancePath}/`.startsWith(other.instancePath.replace(/in$/, '')),
    );
  // A value may be refused for several types: keep the last of these errors, and no error about an enum beside it.
  const isOfLastType = (error: SchemaError) => {
    const last = all.findLast((other) => other.keyword === 'type' && other.instancePath === error.instancePath);
    return !['type', 'enum'].includes(error.keyword) || (last ?? error) === error;
  };
  const isFirst = (error: SchemaError) => all.find((other) => other.instancePath === error.instancePath) === error;
  const errors = all.filter(
    (error) =>
      !['anyOf', 'oneOf', 'if'].includes(error.keyword) &&
      error.propertyName === undefined &&
      !isOfOtherPlace(error) &&
      // findPatterns reports a name that is no regular expression.
      !(error.keyword === 'propertyNames' && error.instancePath.endsWith('/patternProperties')) &&
      (isChoice(error.instancePath) ? isFirst(error) : isOfLastType(error)),
  );
  // Drops the advice to add a $ref instead, or the content of a parameter, which the gateway does not serve.
  const isChoiceMissing = ({ message, schemaPath }: SchemaError) =>
    /property '\$ref'/.test(message) || (/property 'content'/.test(message) && schemaPath.includes('/oneOf/'));
  const isConditional = (error: SchemaError) => CONDITIONAL.includes(unknownOf(error) ?? '');
  const isOuter = (error: SchemaError) => {
    const { instancePath, keyword } = error;
    if (isConditional(error) && errors.some((one) => one.instancePath === instancePath && !isConditional(one)))
      return true;
    if (keyword === 'required' || (unknownOf(error) !== undefined && !isConditional(error))) return false;
    return errors.some((other) => other.instancePath.startsWith(`${instancePath}/`));
  };
  return errors.filter((error) => !isOuter(error) && !isChoiceMissing(error));
}

/**
 * Prepares mistakes for people: lists each once, at its place behind references, with the name of the operation or component
 * there.
 */
export function describeMistakes(document: object, mistakes: readonly Mistake[]): Mistake[] {
  const described = new Map<string, Mistake>();
  for (const mistake of mistakes) {
    const { text, place = [] } = mistake;
    const found = enter(document, find(document, place));
    const real = found.node === undefined ? place : found.place;
    const { name } = splitPlace(real);
    const key = `${toPointer(real)} ${text}`;
    if (!described.has(key))
      described.set(key, { ...mistake, text: name === '' ? text : `${name}: ${text}`, place: real });
  }
  return [...described.values()];
}

/** The operation or component that a place is in, by a short name, and the rest of the place. */
function splitPlace(place: Place): { readonly name: string; readonly rest: Place } {
  const [first, second, third] = place;
  if (first === 'paths' && second !== undefined) {
    return ALL_METHODS.includes(String(third))
      ? { name: `${String(third).toUpperCase()} ${second}`, rest: place.slice(3) }
      : { name: String(second), rest: place.slice(2) };
  }
  const isComponent = first === 'components' && third !== undefined;
  return isComponent ? { name: `${second} ${third}`, rest: place.slice(3) } : { name: '', rest: place };
}
