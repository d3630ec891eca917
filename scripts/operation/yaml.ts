// Writes the YAML of operations into the document. The rest of the file does not change by a byte.

import { isDeepStrictEqual } from 'node:util';
import { isCollection, parseDocument, stringify } from 'yaml';
import { parseText, readDocument } from '../../src/openapi/document.ts';
import { findKeyScheme } from '../../src/openapi/examples.ts';
import { toArgumentName } from '../../src/openapi/operations.ts';
import { type Kind, placeOf, type Subject, toCamel, toUpper } from './subject.ts';
import { type Column, type Key, RefusedError } from './table.ts';

/** The request of an example, and the status of its answer. */
export type Sample = {
  readonly name: string;
  readonly status: number;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly body?: Readonly<Record<string, unknown>>;
  /** The record as the request leaves it, unless a trigger changes more. */
  readonly expected?: Readonly<Record<string, unknown>>;
  /** The body of its answer, once it is known. */
  readonly answer?: unknown;
};

/** The samples of each operation. */
export type Samples = Readonly<Record<Kind, readonly Sample[]>>;

/** The components that every operation refers to. */
export const RESPONSES = {
  ...{ NotModified: 304, BadRequest: 400, BadBody: 400, RefusedKey: 401, RequestTimeout: 408, BodyTooLarge: 413 },
  ...{ InvalidRequest: 422, TooManyRequests: 429, HeadersTooLarge: 431, StoreFailure: 502 },
};
const HEADERS = ['RateLimit', 'RateLimit-Policy', 'Access-Control-Allow-Origin'];

/** An id that no record has. */
const NO_ID = 'ffffffff-ffff-4fff-8fff-ffffffffffff';

export type Node = Readonly<Record<string, unknown>>;

/** The file of a document, and its text, which may be edited already. */
export type Source = { readonly file: string; readonly text: string };

/** Adds operations to the text of a document. Throws RefusedError if it lacks a component that they refer to. */
export function addToDocument(source: Source, subject: Subject, samples: Samples): string {
  const { kinds, noun, schemas, columns, written } = subject;
  const { components } = parseText(source.text, source.file) as Document;
  let edited = source.text;
  const addSchema = (name: string, value: Node) => {
    edited = insert(edited, ['components', 'schemas'], `\n${write(name, value)}`);
  };
  for (const kind of kinds) {
    edited = addOperation({ ...source, text: edited }, describeOperation(subject, kind, samples[kind]));
  }
  if (kinds.some((kind) => kind !== 'delete') && !(schemas.record in components.schemas)) {
    addSchema(schemas.record, toSchema(subject, toUpper(noun.one), columns, columns));
  }
  if (kinds.includes('create')) {
    const required = written.filter((column) => !column.isNullable && column.default === null);
    addSchema(schemas.created, toSchema(subject, `What a client sets of ${noun.one}`, written, required, true));
  }
  if (kinds.includes('update')) {
    addSchema(schemas.changed, toSchema(subject, `Changes of ${noun.one}`, written, [], true));
  }
  return edited;
}

/** The parts of a document that operations are added to or refer to. */
export type Document = {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId: string }>>>>;
  readonly tags: readonly { readonly name: string }[];
  readonly components: Readonly<Record<'schemas' | 'responses' | 'headers', Node>>;
  /** The API key of the examples, and the argument of functions that receives a key. */
  readonly key: string;
  readonly keyArgument: string;
};

/**
 * Reads the parts of a document that its main file has. Throws RefusedError if it lacks what every operation refers to, or a key for
 * the examples.
 */
export function readParts({ file, text }: Source): Document {
  const { openapi, paths, tags = [], components } = parseText(text, file) as Partial<Document>;
  const { schemas = {}, responses = {}, headers = {} } = components ?? ({} as Partial<Document['components']>);
  const found: Document['components'] = { schemas, responses, headers };
  const needed = { responses: Object.keys(RESPONSES), headers: [...HEADERS, REPLAYED], schemas: ['Error'] };
  const lacking = Object.entries(needed).flatMap(([kind, names]) => {
    const missing = names.filter((name) => !(name in found[kind as keyof typeof found]));
    return missing.length > 0 ? [`${kind} ${missing.join(', ')}`] : [];
  });
  if (lacking.length > 0) {
    throw new RefusedError(
      `every operation refers to components that the document lacks: ${lacking.join('; ')}: copy them, and what they refer to, from the openapi.yaml that comes with the gateway`,
    );
  }
  const scheme = findKeyScheme(readDocument(file, text));
  const key = scheme?.['x-example'];
  if (!scheme || key === undefined) {
    throw new RefusedError(
      'the examples need an API key of the demo data: add x-example to the key in components.securitySchemes, such as x-example: wms_demo_aurora',
    );
  }
  return {
    openapi: openapi ?? '',
    paths: paths ?? {},
    tags,
    components: found,
    key,
    keyArgument: toArgumentName(scheme.name),
  };
}

type Content = { readonly schema: Node; readonly examples: Node | undefined };

/** An operation to write. */
export type Draft = {
  readonly place: { readonly path: string; readonly method: string };
  readonly function: string;
  readonly tag: { readonly name: string; readonly description: string };
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Node[];
  readonly body?: Content | undefined;
  readonly success: {
    readonly status: number;
    readonly description: string;
    /** Its own, beside those of every answer. */
    readonly headers: Node;
    readonly links?: Node | undefined;
    readonly content?: Content | undefined;
  };
  /** Those of its own, by status. */
  readonly refusals: Node;
};

/** Adds an operation with its tag, and with the refusals and headers that all declare. */
export function addOperation({ text }: Pick<Source, 'text'>, draft: Draft): string {
  const { place, tag, summary, description, parameters, body, success } = draft;
  const { path, method } = place;
  const reads = method === 'get';
  const replayed = parameters.some(({ name }) => name === KEY) ? [REPLAYED] : [];
  const headers = [...(reads ? ['ETag'] : []), ...replayed, ...HEADERS];
  const operation = {
    ...{ operationId: toCamel(draft.function), 'x-rpc': draft.function, tags: [tag.name], summary, description },
    parameters: parameters.length > 0 ? parameters : undefined,
    requestBody: body && { required: true, ...toContent(body) },
    responses: {
      [success.status]: {
        description: success.description,
        headers: { ...success.headers, ...refer(headers) },
        links: success.links,
        ...(success.content && toContent(success.content)),
      },
      ...referToRefusals(reads, body !== undefined),
      ...draft.refusals,
    },
  };
  const document = parseDocument(text);
  const { paths = {}, tags = [] }: Partial<Document> = document.toJS();
  const edited =
    path in paths
      ? insert(text, ['paths', path], write(method, operation), document)
      : insert(text, ['paths'], `\n${write(path, { [method]: operation })}`, document);
  if (tags.some(({ name }) => name === tag.name)) return edited;
  const entry = `- name: ${tag.name}\n  ${write('description', tag.description)}`;
  return tags.length > 0
    ? insert(edited, ['tags'], entry)
    : edited.trimEnd() + endAs(text, `\n\ntags:\n${indent(entry, 2)}`);
}

/** Inserts an entry at the end of a collection. */
function insert(text: string, place: readonly string[], entry: string, document = parseDocument(text)): string {
  const node = document.getIn(place, true);
  if (!isCollection(node) || node.flow || !node.range || node.has('$ref')) {
    throw new RefusedError(`the document has no block ${place.join('.')}, to which the operation belongs`);
  }
  const [start, end] = node.range;
  const column = start - (text.lastIndexOf('\n', start - 1) + 1);
  const before = text.slice(0, end).trimEnd();
  return `${before}${endAs(text, `\n${indent(entry, column)}`)}${text.slice(before.length).replace(/^\r?\n/, '')}`;
}

/** Ends the lines of an addition as those of the document end. */
function endAs(text: string, added: string): string {
  return text.includes('\r\n') ? added.replaceAll('\n', '\r\n') : added;
}

function describeOperation(subject: Subject, kind: Kind, samples: readonly Sample[]): Draft {
  const { names, tag, noun, schemas, sentences, hasGet } = subject;
  const one = noun.one.replace(/^an? /, '');
  const texts: Record<Kind, readonly [summary: string, success: string]> = {
    list: [`List ${noun.many}`, `A page of ${noun.many}`],
    get: [`Get ${noun.one}`, toUpper(noun.one)],
    create: [`Create ${noun.one}`, `The new ${one}`],
    update: [`Change ${noun.one}`, `The changed ${one}`],
    delete: [`Delete ${noun.one}`, 'It is deleted'],
  };
  const [summary, description] = texts[kind];
  const reads = kind === 'list' || kind === 'get';
  const sentence = reads
    ? `Returns ${sentences[kind].charAt(0).toLowerCase()}${sentences[kind].slice(1)}`
    : sentences[kind];
  const more = kind === 'update' ? ' A field that is left out stays as it is, and null clears it.' : '';
  const successes = samples.filter(({ status }) => status < 300);
  const sent = { create: schemas.created, update: schemas.changed }[kind as string];
  const bodies = successes.map(({ name, body }) => [name, { value: body }]);
  const record = referTo('schemas', schemas.record);
  const isLocated = kind === 'create' && hasGet;
  const links = { self: { operationId: names.get.operation, parameters: { id: '$response.body#/id' } } };
  return {
    ...{ place: placeOf(subject, kind), function: names[kind].function },
    ...{ tag: { name: tag, description: toUpper(noun.many) }, summary, description: `${sentence}.${more}` },
    parameters: listParameters(subject, kind, successes),
    body: sent ? { schema: referTo('schemas', sent), examples: Object.fromEntries(bodies) } : undefined,
    success: {
      status: successes[0]?.status ?? 200,
      description,
      headers: { ...(kind === 'list' && refer(['Link'])), ...(isLocated && LOCATION) },
      links: isLocated ? links : undefined,
      content:
        kind === 'delete'
          ? undefined
          : {
              schema: kind === 'list' ? { type: 'array', maxItems: 1000, items: record } : record,
              examples: showAnswers(subject, successes),
            },
    },
    refusals: describeRefusals(subject, kind, samples),
  };
}

function describeRefusals(subject: Subject, kind: Kind, samples: readonly Sample[]): Node {
  const conflicts = samples.filter(({ status }) => status === 409);
  const keys = kind === 'delete' ? subject.table.incoming : subject.table.uniques;
  const description = kind === 'delete' ? 'Other records refer to it' : 'Another record has what has to be unique';
  const conflict = {
    'x-conflicts': Object.fromEntries(keys.map((key) => [key.name, describeConflict(kind, key)])),
    ...toRefusal(description, showAnswers(subject, conflicts)),
  };
  return {
    404: kind === 'list' || kind === 'create' ? undefined : toNotFound(['id']),
    409: conflicts.length === 0 ? undefined : conflict,
  };
}

/** A refusal that an operation declares by itself. */
export function toRefusal(description: string, examples: Node | undefined): Node {
  const schema = referTo('schemas', 'Error');
  return { description, headers: refer(HEADERS), ...toContent({ schema, examples }) };
}

/** The refusal of ids in the path that no record has. */
export function toNotFound(ids: readonly string[], error = 'Not found'): Node {
  const request = { path: Object.fromEntries(ids.map((name) => [name, NO_ID])) };
  const description = 'The tenant has no such record; the answer is the same for a record of another tenant';
  return toRefusal(description, { noSuchRecord: { 'x-request': request, value: { error } } });
}

/** The refusals that every operation declares. */
function referToRefusals(reads: boolean, hasBody: boolean): Node {
  const unfit = [...(reads ? [] : ['NotModified']), ...(hasBody ? ['BadRequest'] : ['BadBody', 'BodyTooLarge'])];
  const fit = Object.entries(RESPONSES).filter(([name]) => !unfit.includes(name));
  return Object.fromEntries(fit.map(([name, status]) => [status, referTo('responses', name)]));
}

function describeConflict(kind: Kind, { columns, table }: Key): string {
  const name = table.replace(/^private\./, '');
  return kind === 'delete' ? `there are ${name} of this record` : `another record has this ${columns.join(' and ')}`;
}

/** The header that makes a creation idempotent. */
export const KEY = 'Idempotency-Key';
export const KEY_PARAMETER: Node = {
  name: KEY,
  in: 'header',
  description:
    'A unique text for this request, such as a UUID. A repeated request gets the first answer, for 24 hours.',
  schema: {
    ...{ type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]*$' },
    'x-pattern-message': 'must be of visible ASCII characters',
  },
  'x-rule': 'not used in the last 24 hours for another request',
};

/** The header of the answer to a repeated request. */
const REPLAYED = 'Idempotent-Replayed';
const LOCATION = {
  Location: {
    description: 'The URL of the new record, relative to that of the request',
    schema: { type: 'string', maxLength: 2000 },
  },
};

/** The examples of a parameter; undefined for none. */
function showExamples(name: string, samples: readonly Sample[]): Node | undefined {
  const examples = samples.filter(({ parameters }) => name in parameters);
  if (examples.length === 0) return undefined;
  return Object.fromEntries(examples.map((one) => [one.name, { value: one.parameters[name] }]));
}

function listParameters({ noun, filters, openapi }: Subject, kind: Kind, samples: readonly Sample[]): Node[] {
  const toParameter = (name: string, description: string, schema: Node, place: Node = { in: 'query' }): Node => {
    return { name, ...place, description, schema, examples: showExamples(name, samples) };
  };
  if (kind === 'create') return [{ ...KEY_PARAMETER, examples: showExamples(KEY, samples) }];
  if (kind !== 'list') {
    const schema = { type: 'string', format: 'uuid', maxLength: 36 };
    return [toParameter('id', `The \`id\` of ${noun.one}`, schema, { in: 'path', required: true })];
  }
  const after =
    'Only records after this one: the `id` of the last record of the page before. Cannot be given with `offset`.';
  return [
    toParameter('limit', 'Maximum number of records', referTo('schemas', 'Limit')),
    toParameter('offset', 'The number of records to skip', referTo('schemas', 'Offset')),
    ...filters.map(({ name, schema }) =>
      toParameter(name, `Only ${noun.many} with this \`${name}\``, forVersion(schema, openapi)),
    ),
    toParameter('after', after, referTo('schemas', 'After')),
  ];
}

/** Response examples: the answers, and for refusals how the requests differ. */
function showAnswers({ columns, written }: Subject, samples: readonly Sample[]): Node {
  const examples = samples.map(({ name, status, parameters, body, expected = {}, answer: value = null }) => {
    const isChanged = (column: Column) =>
      column.name in expected && !isDeepStrictEqual(expected[column.name], (value as Node | null)?.[column.name]);
    const isNew = (column: Column) => status === 201 && !written.includes(column);
    /** What is computed from the fields alone is the same each time. */
    const isFixed = ({ sources }: Column) => sources?.every((source) => written.some(({ name }) => name === source));
    const generated = columns.filter((one) => (isNew(one) || isChanged(one)) && !isFixed(one));
    const request = { store: 'demo', path: 'id' in parameters ? parameters : undefined, body };
    const example = {
      'x-generated': generated.length > 0 ? generated.map(({ name }) => name) : undefined,
      'x-request': status < 300 ? undefined : request,
      value,
    };
    return [name, example];
  });
  return Object.fromEntries(examples);
}

function toSchema(
  { table, openapi }: Subject,
  description: string,
  columns: readonly Column[],
  required: readonly Column[],
  isSent = false,
): Node {
  const toProperty = ({ name, schema, isNullable, sources, reference, comment }: Column) => {
    const { minLength, pattern, ...others } = schema;
    const own = forVersion(isSent ? schema : others, openapi);
    const checks = table.otherChecks.filter((check) => check.columns.includes(name));
    const rules = [...(reference ? ['the id of a record of the tenant'] : []), ...checks.map(({ text }) => text)];
    const property = {
      description: comment ?? undefined,
      ...(isNullable ? allowNull(own, openapi) : own),
      readOnly: sources !== null || undefined,
      'x-rule': isSent && rules.length > 0 ? rules.join(', ') : undefined,
    };
    return [name, property];
  };
  return {
    description,
    type: 'object',
    additionalProperties: false,
    required: required.length > 0 ? required.map(({ name }) => name) : undefined,
    properties: Object.fromEntries(columns.map(toProperty)),
  };
}

/** Converts a schema to the document's version: in OpenAPI 3.0 an exclusive bound is a flag beside the bound. */
export function forVersion(schema: Column['schema'], version: string): Node {
  if (!version.startsWith('3.0')) return schema;
  const { exclusiveMinimum: above, exclusiveMaximum: below, ...others } = schema;
  return {
    ...others,
    ...(above === undefined ? {} : { minimum: above, exclusiveMinimum: true }),
    ...(below === undefined ? {} : { maximum: below, exclusiveMaximum: true }),
  };
}

/** Lets a schema allow null, in the document's version. */
export function allowNull(schema: Node, version: string): Node {
  const values = Array.isArray(schema.enum) ? { enum: [...schema.enum, null] } : {};
  const type = version.startsWith('3.0') ? { nullable: true } : { type: [schema.type, 'null'] };
  return { ...schema, ...type, ...values };
}

function toContent(content: Content): Node {
  return { content: { 'application/json': content } };
}

export function refer(headers: readonly string[]): Node {
  return Object.fromEntries(headers.map((name) => [name, referTo('headers', name)]));
}

export function referTo(kind: string, name: string): Node {
  return { $ref: `#/components/${kind}/${name}` };
}

/** Maximum length of a line without its indentation, in a document of 120 columns. */
const WIDTH = 90;
/** Quotes texts that YAML 1.1 reads as dates or booleans. */
const STYLE = { lineWidth: 0, singleQuote: true, flowCollectionPadding: false, compat: 'yaml-1.1' } as const;

/** Writes a property as YAML, on one line if it fits, without properties that are undefined. */
function write(name: string, value: unknown): string {
  if (value === undefined) return '';
  const key = stringify(name, STYLE).trim();
  if (typeof value === 'string' && !value.includes('\n')) return `${key}: ${stringify(value, STYLE)}`;
  const line = `${key}: ${flow(value)}`;
  if (line.length <= WIDTH || typeof value !== 'object' || value === null) return `${line}\n`;
  const block = (node: object) =>
    Object.entries(node)
      .map(([name, one]) => write(name, one))
      .join('');
  if (!Array.isArray(value)) return `${key}:\n${indent(block(value), 2)}`;
  const items = value.map((item) => (flow(item).length <= WIDTH ? `${flow(item)}\n` : block(item)));
  return `${key}:\n${items.map((item) => `  - ${indent(item, 4).slice(4)}`).join('')}`;
}

/** Writes a value on one line. */
function flow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, one]) => one !== undefined);
    return entries.length === 0 ? '{}' : `{ ${entries.map(([name, one]) => `${name}: ${flow(one)}`).join(', ')} }`;
  }
  if (typeof value === 'string' && value.includes('\n')) return JSON.stringify(value);
  return stringify([value], { ...STYLE, collectionStyle: 'flow' })
    .trim()
    .slice(1, -1);
}

function indent(text: string, columns: number): string {
  return text.replace(/^(?=.)/gm, ' '.repeat(columns));
}
