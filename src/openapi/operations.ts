// Reads the operations of the document: their inputs, functions and answers.

import type { OpenAPIV3 } from 'openapi-types';
import { type Call, isJsonObject, type Json } from '../store/store.ts';
import { type Mistake, readApiRoot } from './document.ts';
import { isSent } from './headers.ts';
import { MAX_NAME, type Refused, type Texts, toMistake } from './mistakes.ts';
import { find, follow, type Place } from './pointer.ts';
import {
  allowsOnlyObjects,
  createConverter,
  type Form,
  formOf,
  isHidden,
  isNeverNull,
  isNullable,
  itemsOf,
  MAX_NESTING,
  pick,
  readProperties,
  type Scalar,
  type Schema,
  scalarOf,
  TYPES,
  typesOf,
} from './schema.ts';
import { resolve } from './structure.ts';
import {
  EXPRESSIONS,
  isPossible,
  METHODS,
  normalizeTemplate,
  OWN_PATHS,
  readStyle,
  readTemplate,
  type Separator,
} from './url.ts';

/** A parameter of a request and the function argument that it becomes. */
export type Input = {
  readonly in: 'query' | 'path' | 'header';
  /** The name in the document; header names ignore case. */
  readonly name: string;
  readonly argument: string;
  readonly form: Form;
  /** The type of its values, or of the items of an array. */
  readonly type: Scalar;
  /** The separator of an array's items in one text; undefined if each item is a parameter of its own. */
  readonly separator?: Separator | undefined;
  readonly default?: Json | undefined;
};

type Field = Pick<Input, 'argument' | 'form' | 'default'>;

/** How a body becomes arguments. */
export type Body = {
  readonly isRequired: boolean;
  readonly schema: Schema;
  /** The fields in the document's order, each an argument of its name; undefined if the whole body is one argument. */
  readonly fields: readonly Field[] | undefined;
};

/** The argument that a whole body becomes. */
export const BODY_ARGUMENT = 'p_body';

/** An operation of the document as the gateway needs it, computed once. */
export type Operation = {
  readonly id: string;
  /** The Postgres function in schema public. */
  readonly function: string;
  /** Normalized, so that equal paths are equal strings. */
  readonly path: string;
  /** The path template in the document, with the server's path before it. */
  readonly route: string;
  /** The success status. */
  readonly status: number;
  /** The statuses that the document declares, `4XX` and `default` among them. */
  readonly statuses: readonly string[];
  /** The texts of a 409 by constraint. */
  readonly conflicts?: Readonly<Record<string, string>> | undefined;
  /** The source of a success's Location header. */
  readonly location?: Location;
  readonly returns: Call['returns'];
  /** The properties of its records that are left out where they are null. */
  readonly optional: readonly string[];
  readonly readOnly: boolean;
  /** Undefined for an operation without a body. */
  readonly body?: Body | undefined;
  readonly inputs: readonly Input[];
  /** The inputs that select a page; undefined for an operation without pagination. */
  readonly page?: Page | undefined;
  readonly key: Key;
  /** The operation in the document. */
  readonly source: DocumentOperation;
};

/** The inputs that select a page: the number of records to skip, or, if the operation has `after`, the record before the page. */
export type Page = {
  readonly limit: Input;
  readonly offset: Input;
  readonly after?: Input | undefined;
  /** The other query inputs, which a link to another page repeats. */
  readonly filters: readonly Input[];
};

/** The template of a path, and the text of each of its parameters, with runtime expressions (OpenAPI) in braces. */
export type Location = { readonly path: string; readonly values: Readonly<Record<string, string>> };

/** How an operation receives its API key. */
export type Key = {
  /** The header's name in the document. */
  readonly name: string;
  /** The header's name in lower case. */
  readonly header: string;
  readonly argument: string;
  /** The function that records the use of keys. */
  readonly usedFunction?: string | undefined;
};

/** A parameter without references and with a normalized schema, and its place in the document. */
export type DocumentParameter = Omit<OpenAPIV3.ParameterObject, 'schema'> & {
  readonly schema?: Schema;
  readonly place: Place;
};

/** An operation without references and with normalized schemas, its path and method, and the parameters and security that it inherits. */
export type DocumentOperation = Omit<OpenAPIV3.OperationObject, 'parameters' | 'requestBody' | 'responses'> & {
  readonly path: string;
  readonly method: string;
  readonly parameters: readonly DocumentParameter[];
  readonly requestBody?: OpenAPIV3.RequestBodyObject;
  readonly responses: Readonly<Record<string, OpenAPIV3.ResponseObject>>;
};

/** Whether a normalized schema allows a value. */
type Allows = (schema: Schema, value: Json) => boolean;

const IDENTIFIER = /^[a-z_][a-z0-9_]*$/;
const FIELD = /^p_[a-z0-9_]+$/;
/** A token (RFC 9110, 5.6.2). */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const JSON_TYPE = 'application/json';
/** Statuses without content (RFC 9110, 15.3.5, 15.3.6 and 15.4.5). */
const EMPTY = ['204', '205', '304'];
/** Methods whose request content has no meaning (RFC 9110, 9.3). */
const WITHOUT_BODY = ['get', 'delete'];
/** The runtime expressions that are evaluated. */
const KNOWN = /^\$(response\.body#\/|request\.(path|query|header)\.)/;
/** OpenAPI ignores parameters with these names: it describes these headers elsewhere. */
const IGNORED_HEADERS = ['accept', 'content-type', 'authorization'];

/** The data that the readers of all operations share. */
type Context = {
  readonly document: OpenAPIV3.Document;
  readonly allows: Allows;
  /** By operationId. */
  readonly targets: ReadonlyMap<string, Target>;
};

/** An operation that a link leads to. */
type Target = Pick<DocumentOperation, 'path' | 'method' | 'operationId'>;

/**
 * Reads the operations of a document, by operationId, and adds their mistakes to `mistakes`. If there are mistakes already, it
 * skips an operation that it cannot read. `allows` is passed in, because compile.ts imports this file.
 */
export function readOperations(
  document: OpenAPIV3.Document,
  allows: Allows,
  mistakes: Mistake[],
): ReadonlyMap<string, Operation> {
  mistakes.push(...findUnmatchedPaths(Object.keys(document.paths ?? {})));
  const sources = listSources(document);
  const targets = new Map(sources.map((target) => [target.operationId ?? '', target]));
  const context = { document, allows, targets };
  const result = new Map<string, Operation>();
  const found: Mistake[] = [];
  for (const { read } of sources) {
    try {
      const reader = new OperationReader(read(), context);
      const operation = reader.read();
      if (result.has(operation.id)) reader.mistake('an operationId twice', ['operationId'], operation.id);
      result.set(operation.id, operation);
      found.push(...reader.mistakes);
    } catch (error) {
      if (mistakes.length === 0) throw error;
    }
  }
  mistakes.push(...found);
  return result;
}

/** Finds paths that no request has, or that differ only in the names of their parameters: the second one is never matched. */
function findUnmatchedPaths(paths: readonly string[]): Mistake[] {
  const written = paths.filter((path) => path.startsWith('/'));
  const impossible = written.filter((path) => !isPossible(path));
  const possible = written.filter(isPossible);
  const shapes = Map.groupBy(possible, (path) => normalizeTemplate(path.replace(/\{[^}]*\}/g, '{-}')));
  return [
    ...impossible.map((path) => toMistake('a path that no request has', ['paths', path], path)),
    ...[...shapes.values()].flatMap(([first, ...others]) =>
      others.map((path) => toMistake('two paths of one shape', ['paths', path], String(first), path)),
    ),
  ];
}

/** Lists the operations of a document, each with a function that reads it, or throws for a reference to nothing. */
export function listSources(document: OpenAPIV3.Document): (Target & { readonly read: () => DocumentOperation })[] {
  const converters = { request: createConverter('request', document), answer: createConverter('answer', document) };
  return Object.entries(withoutExtensions(document.paths ?? {})).flatMap(([path, reference]) => {
    const item = follow(document, reference ?? {});
    return METHODS.flatMap((method) => {
      const { operationId } = item?.[method] ?? {};
      const read = () => toSource(document, path, item, method, converters);
      return item?.[method] ? [{ path, method, ...(operationId === undefined ? {} : { operationId }), read }] : [];
    });
  });
}

/** Reads an operation: resolves its references and normalizes its schemas. */
function toSource(
  document: OpenAPIV3.Document,
  path: string,
  item: OpenAPIV3.PathItemObject,
  method: (typeof METHODS)[number],
  { request, answer }: Readonly<Record<'request' | 'answer', (schema: unknown) => Schema>>,
): DocumentOperation {
  const { security = [] } = document;
  const own = item[method] as OpenAPIV3.OperationObject;
  const read = (parameters: readonly unknown[] = [], at: Place) =>
    parameters.map((parameter, index) => ({
      ...withoutNull(resolve(document, 'parameter', parameter as DocumentParameter, request)),
      place: [...at, 'parameters', index],
    }));
  const specific = read(own.parameters, ['paths', path, method]);
  // An operation's parameter replaces the path's parameter of the same name and place.
  const isReplaced = (shared: DocumentParameter) =>
    specific.some((parameter) => parameter.name === shared.name && parameter.in === shared.in);
  const shared = read(item.parameters, ['paths', path]).filter((parameter) => !isReplaced(parameter));
  const { responses } = resolve(document, 'operation', { responses: own.responses }, answer);
  return {
    security,
    ...own,
    path,
    method,
    parameters: [...specific, ...shared],
    ...(own.requestBody ? { requestBody: resolve(document, 'body', own.requestBody, request) } : {}),
    responses: withoutExtensions(responses ?? {}),
  } as DocumentOperation;
}

/** Returns paths or responses without the extensions beside them. */
function withoutExtensions<T extends object>(parts: T): T {
  return pick(parts, (name) => !name.startsWith('x-')) as T;
}

/** A URL or a header cannot carry null. */
function withoutNull(parameter: DocumentParameter): DocumentParameter {
  const { schema } = parameter;
  return schema?.enum
    ? { ...parameter, schema: { ...schema, enum: schema.enum.filter((value) => value !== null) } }
    : parameter;
}

class OperationReader {
  readonly mistakes: Mistake[] = [];
  readonly #source: DocumentOperation & { readonly 'x-rpc'?: unknown; readonly 'x-read-only'?: unknown };
  readonly #context: Context;

  constructor(source: DocumentOperation, context: Context) {
    this.#source = source;
    this.#context = context;
  }

  read(): Operation {
    const { document } = this.#context;
    const source = this.#source;
    const { 'x-rpc': rpc, 'x-read-only': isReading } = source;
    if (typeof rpc !== 'string' || !IDENTIFIER.test(rpc)) {
      const found = JSON.stringify(rpc) ?? 'missing';
      this.mistake('no function', [], `x-rpc must name the Postgres function, in lower case; it is ${found}`);
    }
    this.#checkName('x-rpc', String(rpc), ['x-rpc']);
    if (!source.operationId) this.mistake('no operationId', []);
    const key = this.#readKey();
    const described = {
      id: source.operationId ?? '',
      function: String(rpc),
      path: normalizeTemplate(source.path),
      route: readApiRoot(document) + source.path,
      ...this.#readSuccess(),
      statuses: Object.keys(source.responses),
      conflicts: (source.responses['409'] as { 'x-conflicts'?: Record<string, string> } | undefined)?.['x-conflicts'],
      // GET is safe: it changes nothing (RFC 9110, 9.2.1).
      readOnly: source.method === 'get' || isReading === true,
      body: this.#readBody(),
      inputs: source.parameters.flatMap((parameter) => this.#readInput(parameter)),
      key: key ?? { name: '', header: '', argument: '' },
      source,
    };
    const operation = { ...described, page: readPage(described) };
    this.#checkPath(operation);
    this.#checkArguments(operation, key);
    this.#checkResponses();
    const record = itemsOf(this.#schemaOf(operation.status) ?? {}) ?? {};
    if (operation.page?.after && this.mistakes.length === 0 && !requires(record, 'id')) {
      this.mistake('`after` without ids', []);
    }
    return this.#readLinks(operation);
  }

  /** Checks the links and headers of the responses. Returns the operation with its Location. */
  #readLinks(operation: Operation): Operation {
    const { document, targets } = this.#context;
    let location: Location | undefined;
    for (const [status, response] of Object.entries(this.#source.responses)) {
      for (const [name, link] of Object.entries(response.links ?? {})) {
        const { operationId, operationRef, parameters = {} } = link as OpenAPIV3.LinkObject;
        const target = operationId === undefined ? undefined : targets.get(operationId);
        const $ref = operationRef?.startsWith('#') ? operationRef : undefined;
        const isMissing = $ref
          ? follow<unknown>(document, { $ref }) === undefined
          : operationRef === undefined && !target;
        if (isMissing) {
          const place = ['responses', status, 'links', name];
          this.mistake('a link to no operation', place, name, operationRef ?? operationId ?? 'no operation');
        }
        if (status === String(operation.status)) location ??= readLocation(operation.path, target, parameters);
      }
      for (const name of Object.keys(response.headers ?? {})) {
        this.#checkHeader(operation, status, name, location !== undefined);
      }
    }
    const { headers = {} } = this.#source.responses[operation.status] ?? {};
    const isDeclared = Object.keys(headers).some((name) => name.toLowerCase() === 'location');
    return location && isDeclared ? { ...operation, location } : operation;
  }

  /** Adds a mistake at a place in the operation. */
  mistake<R extends Refused>(what: R, place: Place, ...texts: Texts<R>): void {
    const { method, path } = this.#source;
    this.mistakes.push(toMistake(what, ['paths', path, method, ...place], ...texts));
  }

  /** Postgres would truncate a longer name, and so call another function. */
  #checkName(what: string, name: string, place: Place): void {
    if (name.length > MAX_NAME) this.mistake('a name over 63 characters', place, what, name);
  }

  /** Finds paths and parameters that no request could match. */
  #checkPath({ route }: Operation): void {
    const { path, parameters } = this.#source;
    // Matching several parameters in one segment can take quadratic time in the path's length.
    if (/\}[^/]*\{/.test(path)) this.mistake('two parameters in one segment', []);
    const declared = parameters.flatMap((one) => (one.in === 'path' ? [one.name] : []));
    const [has, takes] = [readTemplate(path), declared].map((names) => names.toSorted().join(', ') || 'none');
    if (has !== takes) this.mistake('other parameters in path than the path has', [], `${has}`, `${takes}`);
    if (OWN_PATHS.includes(route)) this.mistake("a path of the gateway's own", [], route);
  }

  #readSuccess(): Pick<Operation, 'status' | 'returns' | 'optional'> {
    const { responses } = this.#source;
    const statuses = Object.keys(responses).filter((status) => status.startsWith('2'));
    const [status] = statuses;
    if (status === undefined || statuses.length > 1 || !/^2\d\d$/.test(status)) {
      this.mistake('several success statuses, or none', ['responses'], statuses.join(', ') || 'none');
      return { status: 200, returns: 'rows', optional: [] };
    }
    if (!responses[status]?.content) return { status: Number(status), returns: 'nothing', optional: [] };
    const schema = this.#schemaOf(status);
    if (!schema) {
      const place = ['responses', status, 'content'];
      this.mistake('content without a schema', place, `the response ${status}`, ', or no content');
    }
    const returns = toReturned(schema ?? {});
    const optional = ['row', 'rows'].includes(returns) ? readOptional(schema ?? {}) : [];
    return { status: Number(status), returns, optional };
  }

  #schemaOf(status: number | string): Schema | undefined {
    return readAnswerSchema({ source: this.#source, status });
  }

  #checkContent(content: object = {}, what: string, place: Place): void {
    const others = Object.keys(content).filter((type) => type !== JSON_TYPE);
    if (others.length > 0) this.mistake('forms, uploads, CSV and XML', [...place, 'content'], what, others.join(', '));
  }

  /** Finds responses that the gateway would not send as declared. */
  #checkResponses(): void {
    const { responses, method } = this.#source;
    // Every operation can answer with a 422, which one of these responses describes.
    const covering = ['422', '4XX', 'default'].find((status) => status in responses);
    for (const [status, response] of Object.entries(responses)) {
      const { content } = response;
      const place = ['responses', status];
      if (/^[13]/.test(status) && (status !== '304' || method !== 'get'))
        this.mistake('redirections, informational responses', place, status);
      if (content && EMPTY.includes(status)) this.mistake('content of a 204', [...place, 'content'], status);
      const { 'x-conflicts': conflicts = {} } = response as { 'x-conflicts'?: unknown };
      const isOfTexts = isJsonObject(conflicts) && Object.values(conflicts).every((text) => typeof text === 'string');
      if (!isOfTexts || (status !== '409' && 'x-conflicts' in response)) {
        this.mistake('`x-conflicts` of another form, or without a 409', [...place, 'x-conflicts'], status);
      }
      if (!/^[13]/.test(status)) this.#checkContent(content, `the response ${status}`, place);
      if (!content || !/^([45]|default)/.test(status)) continue;
      const schema = this.#schemaOf(status);
      const check = (value: Json, remedy: string) => {
        if (!schema || this.#context.allows(schema, value)) return;
        const at = [...place, 'content', JSON_TYPE, 'schema'];
        this.mistake('another form of errors', at, status, JSON.stringify(value), remedy);
      };
      if (status !== '422') check({ error: 'text' }, '');
      if (covering === status) check({ error: { field: ['message'] } }, status === '422' ? '' : '; or declare a 422');
    }
  }

  #checkHeader(operation: Operation, status: string, header: string, hasLocation: boolean): void {
    const { method } = this.#source;
    const isSuccess = status === String(operation.status);
    const isPage = operation.page !== undefined;
    if (isSent(header, { status, method, isSuccess, isPage, hasLocation })) return;
    const place = ['responses', status, 'headers', header];
    if (header.toLowerCase() === 'location' && isSuccess) this.mistake('`Location` without a link', place);
    else this.mistake('a header that is never sent', place, header, status);
  }

  #readInput(source: DocumentParameter): Input[] {
    const { name, schema, place } = source;
    const parameter = `parameter ${name} in ${source.in}`;
    const refuse = <R extends Refused>(what: R, ...texts: Texts<R>): Input[] => {
      this.mistakes.push(toMistake(what, place, ...texts));
      return [];
    };
    // support.ts refuses any other place, and the specification demands a name.
    if ((source.in !== 'query' && source.in !== 'path' && source.in !== 'header') || !name) return [];
    if (source.content) return refuse('a parameter with content', parameter);
    if (source.in === 'header' && IGNORED_HEADERS.includes(name.toLowerCase())) {
      return refuse('the headers `Accept`, `Content-Type`, `Authorization`', parameter);
    }
    if (source.in === 'header' && !HEADER_NAME.test(name)) return refuse('a name that no header can have', name);
    // The specification demands a schema. support.ts reports a reference to nothing.
    const { document } = this.#context;
    const { node } = find(document, [...place, 'schema']);
    if (schema === undefined || (follow(document, node) ?? undefined) === undefined) return [];
    const items = itemsOf(schema);
    const type = scalarOf(items ?? schema);
    // The specification refuses an unknown type.
    if (typesOf(items ?? schema).some((name) => !TYPES.includes(name))) return [];
    if (!type || formOf(schema) === 'json') return refuse('an object as a parameter, `deepObject`', parameter);
    const { style, separator, isExploded } = readStyle(source);
    if (!separator) {
      return refuse('the styles `label` and `matrix`', parameter, style, source.in === 'query' ? 'form' : 'simple');
    }
    if (source.allowEmptyValue && !this.#context.allows(schema, items ? [''] : '')) {
      return refuse('`allowEmptyValue` of what is never empty', parameter);
    }
    if (!this.#allowsDefault(schema)) {
      return refuse('a default that its schema does not allow', JSON.stringify(schema.default), parameter);
    }
    return [
      {
        in: source.in,
        name,
        argument: toArgumentName(name),
        form: formOf(schema),
        type,
        separator: items && !isExploded ? separator : undefined,
        default: schema.default as Json | undefined,
      },
    ];
  }

  #readBody(): Body | undefined {
    const { method, requestBody } = this.#source;
    if (!requestBody) return undefined;
    const { content, required = false } = requestBody;
    const place = ['requestBody', 'content', JSON_TYPE, 'schema'];
    if (WITHOUT_BODY.includes(method)) {
      this.mistake('a body of a GET or a DELETE', ['requestBody'], method.toUpperCase());
    }
    this.#checkContent(content, 'the body', ['requestBody']);
    if (!content[JSON_TYPE]?.schema) {
      this.mistake('content without a schema', ['requestBody', 'content'], 'the body', '');
    }
    const schema = (content[JSON_TYPE]?.schema ?? {}) as Schema;
    const fields = readFields(schema);
    for (const [name, filled] of Object.entries(fields ? (schema.properties ?? {}) : { 'the body': schema })) {
      if (this.#allowsDefault(filled)) continue;
      const at = [...place, ...(fields ? ['properties', name] : []), 'default'];
      this.mistake('a default that its schema does not allow', at, JSON.stringify(filled.default), name);
    }
    return { isRequired: required, schema, fields };
  }

  /** Whether a schema allows its default. A default of null counts as none. */
  #allowsDefault(schema: Schema): boolean {
    const value = (schema.default ?? null) as Json;
    return value === null || this.#context.allows(schema, value);
  }

  /** Reads the API key; undefined if the security is anything but one key in a header. */
  #readKey(): Key | undefined {
    const { document } = this.#context;
    const { method, path, security = [] } = this.#source;
    // Report a mistake in the document's security once, and not for each operation that inherits it.
    const place = security === document.security ? ['security'] : ['paths', path, method, 'security'];
    const schemes = document.components?.securitySchemes ?? {};
    const schemeOf = (name: string) => follow(document, schemes[name] ?? {}) as OpenAPIV3.SecuritySchemeObject;
    const all = security.flatMap((requirement) => Object.keys(requirement));
    const [name = ''] = all;
    const scheme = schemeOf(name);
    const roles = security.flatMap((requirement) => Object.values(requirement)).flat();
    const found = [
      ...all.map((one) => `${one} (${describeScheme(schemeOf(one))})`),
      ...(security.some((one) => Object.keys(one).length === 0) ? ['{}, which makes it optional'] : []),
      ...(roles.length > 0 ? [`the roles ${roles.join(' and ')}, which no key has`] : []),
    ];
    if (found.length !== 1 || scheme?.type !== 'apiKey' || scheme.in !== 'header') {
      this.mistakes.push(
        toMistake('other security than a key in a header, or none', place, found.join(', ') || 'none'),
      );
      return undefined;
    }
    if (!HEADER_NAME.test(scheme.name)) {
      this.mistakes.push(toMistake('a name that no header can have', place, scheme.name));
      return undefined;
    }
    const { 'x-rpc-used': usedFunction } = scheme as { 'x-rpc-used'?: unknown };
    const isFunction = typeof usedFunction === 'string' && IDENTIFIER.test(usedFunction);
    if (usedFunction !== undefined && !isFunction) {
      const text = 'x-rpc-used of the security scheme must name a function';
      this.mistakes.push(toMistake('no function', ['components', 'securitySchemes', name, 'x-rpc-used'], text));
    }
    return {
      name: scheme.name,
      header: scheme.name.toLowerCase(),
      argument: toArgumentName(scheme.name),
      usedFunction: isFunction ? usedFunction : undefined,
    };
  }

  #checkArguments({ inputs, body }: Operation, key: Key | undefined): void {
    const named = [
      ...(key ? [{ name: `the header ${key.header}`, argument: key.argument }] : []),
      ...inputs,
      ...(body && !body.fields ? [{ name: 'the body', argument: BODY_ARGUMENT }] : []),
      ...(body?.fields ?? []).map(({ argument }) => ({ name: 'the body', argument })),
    ];
    for (const { name, argument } of named) {
      if (!FIELD.test(argument)) this.mistake('a name without letters and digits', [], name);
      this.#checkName(`${name}: its argument`, argument, []);
    }
    const names = Map.groupBy(named, ({ argument }) => argument);
    for (const [argument, several] of names) {
      if (several.length < 2) continue;
      const givers = several.map(({ name }) => name).join(' and ');
      this.mistake('two parameters with one argument', [], argument, givers);
    }
  }
}

/** The fields of a body, if each becomes an argument; undefined if the whole body becomes one argument. */
function readFields(schema: Schema): readonly Field[] | undefined {
  const properties = Object.entries(schema.properties ?? {}).filter(([, property]) => !isHidden(property));
  // A field of patternProperties has no argument, and null has no fields.
  const isClosed = schema.additionalProperties === false && !schema.patternProperties && !schema.nullable;
  const isSpread = schema.type === 'object' && isClosed && properties.length > 0;
  if (!isSpread || properties.some(([name]) => !FIELD.test(name))) return undefined;
  return properties.map(([argument, property]) => ({
    argument,
    form: formOf(property),
    default: property.default as Json | undefined,
  }));
}

/**
 * The kind of result that the function returns for a response: `row` for an object whose properties are columns, `rows` for an array
 * of them, `values` for an array of other items that may be objects, such as maps, and `value` for anything else.
 */
function toReturned(schema: Schema): Call['returns'] {
  const hasColumns = (one: Schema) =>
    allowsOnlyObjects(one) && !hasShapes(one) && Object.keys(readProperties(one).properties).length > 0;
  if (hasColumns(schema)) return 'row';
  const items = itemsOf(schema);
  if (!items || !typesOf(items).includes('object')) return 'value';
  return hasColumns(items) ? 'rows' : 'values';
}

/** Whether an object has properties that cannot be columns: only one of its shapes has them, or their names are not fixed. */
function hasShapes(schema: Schema, nesting = 0): boolean {
  if (nesting > MAX_NESTING) return false;
  const { allOf = [], anyOf = [], oneOf = [], then, else: otherwise, dependentSchemas = {} } = schema;
  const { additionalProperties, unevaluatedProperties, patternProperties = {} } = schema;
  const maps = [additionalProperties, unevaluatedProperties, ...Object.values(patternProperties)];
  // `false` was converted to `not: {}`.
  const isMap = (others: unknown) => Object.keys(Object(others)).some((name) => name !== 'not');
  const namesOf = (part: Schema) => Object.keys(readProperties(part).properties);
  const hasMore = (parts: readonly Schema[], known: readonly string[]) =>
    parts.some((part) => namesOf(part).some((name) => !known.includes(name)) || hasShapes(part, nesting + 1));
  const conditional = [then ?? [], otherwise ?? [], ...Object.values(dependentSchemas)].flat();
  return (
    maps.some(isMap) ||
    hasMore([...anyOf, ...oneOf], []) ||
    // A condition that only describes known properties adds no shape.
    hasMore(conditional, namesOf(schema)) ||
    allOf.some((part) => hasShapes(part, nesting + 1))
  );
}

/** Whether all objects of a schema have a property, whichever of its shapes they have. */
function requires(schema: Schema, name: string): boolean {
  const choices = schema.oneOf ?? schema.anyOf ?? [];
  const isInEach = choices.length > 0 && choices.every((choice) => requires(choice, name));
  return isInEach || readProperties(schema).required.includes(name);
}

/** The properties that an answer omits where they are null: they are neither required nor nullable. */
function readOptional(schema: Schema): readonly string[] {
  const { properties, required } = readProperties(itemsOf(schema) ?? schema);
  const names = Object.keys(properties).filter((name) => !required.includes(name));
  return names.filter((name) => !isNullable(properties[name] ?? {}) && !isNeverNull(properties[name] ?? {}));
}

/** The location of the record that a link leads to; undefined unless the link leads to a GET and fills all parameters of its path. */
function readLocation(path: string, target: Target | undefined, parameters: object): Location | undefined {
  if (target?.method !== 'get') return undefined;
  const toTemplate = (text: string) => (text.startsWith('$') ? `{${text}}` : text);
  const given = Object.entries(parameters).map(([name, value]) => [
    name.replace(/^path\./, ''),
    toTemplate(String(value)),
  ]);
  const byName: Readonly<Record<string, string>> = Object.fromEntries(given);
  const template = normalizeTemplate(target.path);
  const values = readTemplate(template).map((name) => [name, byName[name] ?? ''] as const);
  const isKnown = values.every(
    ([, text]) => text !== '' && text.matchAll(EXPRESSIONS).every(([, one]) => KNOWN.test(`${one}`)),
  );
  if (values.length === 0 || !isKnown) return undefined;
  // Relative, because the gateway does not know the public URL behind a proxy.
  const toRoot = '../'.repeat(path.split('/').length - 2) || './';
  return { path: toRoot + template.slice(1), values: Object.fromEntries(values) };
}

function describeScheme(scheme: object | undefined): string {
  const { type, scheme: kind, in: place } = (scheme ?? {}) as { type?: string; scheme?: string; in?: string };
  if (!type) return 'which is not declared';
  return [type, kind ?? (place ? `in ${place}` : undefined)].filter(Boolean).join(' ');
}

/** The schema of a response, by default of the success; undefined if it has no content. */
export function readAnswerSchema({ source, status }: Pick<Operation, 'source'> & { readonly status: number | string }) {
  return source.responses[status]?.content?.[JSON_TYPE]?.schema as Schema | undefined;
}

/** Whether the document declares a status for an operation: itself, a range such as 4XX, or `default`. */
export function declares({ statuses }: Pick<Operation, 'statuses'>, status: number): boolean {
  return [String(status), `${Math.floor(status / 100)}XX`, 'default'].some((code) => statuses.includes(code));
}

function readPage({ returns, inputs }: Pick<Operation, 'returns' | 'inputs'>): Page | undefined {
  const find = (name: string, hasDefault: boolean) =>
    inputs.find((input) => input.in === 'query' && input.name === name && (input.default !== undefined) === hasDefault);
  const [limit, offset, after] = [find('limit', true), find('offset', true), find('after', false)];
  if (limit?.type !== 'integer' || offset?.type !== 'integer') return undefined;
  if (!['rows', 'values'].includes(returns)) return undefined;
  const filters = inputs.filter((input) => input.in === 'query' && ![limit, offset, after].includes(input));
  return { limit, offset, after, filters };
}

/** Derives an argument's name from a parameter's: `limit` → `p_limit`, `petId` → `p_pet_id`, `X-Api-Key` → `p_api_key`. */
export function toArgumentName(name: string): string {
  const words = name
    .replace(/^X-/i, '')
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .replace(/([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g, '$1$2_')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .toLowerCase();
  return `p_${words}`.replace(/_+$/, '');
}
