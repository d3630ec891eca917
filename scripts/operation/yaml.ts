// Writes the YAML of operations into the document. The rest of the file does not change by a byte.

import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { Document, isCollection, isSeq, parseDocument, visit } from 'yaml';
import { readDocument } from '../../src/openapi/document.ts';
import { findKeyScheme } from '../../src/openapi/examples.ts';
import { toArgumentName } from '../../src/openapi/operations.ts';
import { type Kind, placeOf, type Subject, toCamel, toUpper } from './subject.ts';
import { type Column, RefusedError } from './table.ts';

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

/** Samples, each with its operation. */
export type Samples = readonly (readonly [kind: Kind, sample: Sample])[];

/** The responses that every operation refers to, by component. */
export const RESPONSES = {
  ...{ NotModified: 304, BadRequest: 400, BadBody: 400, RefusedKey: 401, RequestTimeout: 408, BodyTooLarge: 413 },
  ...{ InvalidRequest: 422, TooManyRequests: 429, HeadersTooLarge: 431, StoreFailure: 502 },
};
const HEADERS = ['RateLimit', 'RateLimit-Policy', 'Access-Control-Allow-Origin'];

/** An id that no record has. */
const NO_ID = 'ffffffff-ffff-4fff-8fff-ffffffffffff';

export type Node = Readonly<Record<string, unknown>>;

/** A document that operations are added to. */
export type Target = {
  readonly document: OpenAPIV3.Document;
  /** The components of the main file: other tools find only these by a reference such as `#/components/schemas/Error`. */
  readonly components: OpenAPIV3.ComponentsObject;
  /** The API key of the examples, and the argument of functions that receives a key. */
  readonly key: string;
  readonly keyArgument: string;
};

/** A document's text and nodes. Both are kept, because parsing takes a hundred times as long as writing an operation. */
export type Source = { readonly text: string; readonly nodes: Document.Parsed };

export function toSource(text: string): Source {
  return { text, nodes: parseDocument(text, { merge: true }) };
}

/** Reads a document. Throws RefusedError if it lacks what every operation refers to, or a key for the examples. */
export function readTarget(file: string, { text, nodes }: Source): Target {
  const document = readDocument(file, text);
  const { components = {} } = nodes.toJS({ maxAliasCount: -1 }) as Partial<OpenAPIV3.Document>;
  const needed = { responses: Object.keys(RESPONSES), headers: [...HEADERS, REPLAYED], schemas: ['Error'] };
  const lacking = Object.entries(needed).flatMap(([kind, names]) => {
    const found = components[kind as keyof typeof needed] ?? {};
    const missing = names.filter((name) => !(name in found));
    return missing.length > 0 ? [`${kind} ${missing.join(', ')}`] : [];
  });
  if (lacking.length > 0) {
    throw new RefusedError(
      `every operation refers to components that the document lacks: ${lacking.join('; ')}: copy them, and what they refer to, from the openapi.yaml that comes with the gateway`,
    );
  }
  const scheme = findKeyScheme(document);
  const key = scheme?.['x-example'];
  if (!scheme || key === undefined) {
    throw new RefusedError(
      'the examples need an API key of the demo data: add x-example to the key in components.securitySchemes, such as x-example: wms_demo_aurora',
    );
  }
  return { document, components, key, keyArgument: toArgumentName(scheme.name) };
}

/** Adds the operations of a table, and their schemas, to the text of a document. */
export function addToDocument(source: Source, subject: Subject, samples: Samples): string {
  const { kinds, noun, schemas, columns, written } = subject;
  const required = written.filter((column) => !column.isNullable && column.default === null);
  const isMissing = !source.nodes.hasIn(['components', 'schemas', schemas.record]);
  const added = [
    [isMissing && kinds.some((kind) => kind !== 'delete'), schemas.record, toUpper(noun.one), columns, columns, false],
    [kinds.includes('create'), schemas.created, `What a client sets of ${noun.one}`, written, required, true],
    [kinds.includes('update'), schemas.changed, `Changes of ${noun.one}`, written, [], true],
  ] as const;
  const samplesOf = (kind: Kind) => samples.flatMap(([one, sample]) => (one === kind ? [sample] : []));
  const drafts = kinds.map((kind) => describeOperation(subject, kind, samplesOf(kind)));
  const described = added.flatMap(([isAdded, name, description, all, needed, isSent]) =>
    isAdded ? [{ [name]: toSchema(subject, description, all, needed, isSent) }] : [],
  );
  return addOperations(source, drafts, described);
}

/** An operation to write, without the parts that every operation declares. Its first response is the success. */
export type Draft = {
  readonly path: string;
  readonly method: string;
  readonly function: string;
  readonly tag: { readonly name: string; readonly description: string };
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Node[];
  readonly requestBody?: Node | undefined;
  readonly responses: Readonly<Record<number, Node | undefined>>;
};

/** Adds operations of one tag, and schemas, to the text of a document. */
export function addOperations(
  { text, nodes }: Source,
  drafts: readonly Draft[],
  schemas: readonly Node[] = [],
): string {
  const { tags = [] } = nodes.toJS({ maxAliasCount: -1 }) as Partial<OpenAPIV3.Document>;
  const [{ tag }] = drafts as [Draft];
  const tagged = tags.length > 0 ? { place: ['tags'], entry: [tag] } : { place: [], entry: { tags: [tag] }, gap: '\n' };
  const insertions: readonly Insertion[] = [
    ...[...Map.groupBy(drafts, ({ path }) => path)].map(([path, all]) => {
      const item = Object.fromEntries(all.map((draft) => [draft.method, toOperation(draft)]));
      return nodes.hasIn(['paths', path])
        ? { place: ['paths', path], entry: item }
        : { place: ['paths'], entry: { [path]: item }, gap: '\n' };
    }),
    ...schemas.map((entry) => ({ place: ['components', 'schemas'], entry, gap: '\n' })),
    ...(tags.some(({ name }) => name === tag.name) ? [] : [tagged]),
  ];
  const located = insertions.map(({ place, entry, gap = '' }) => {
    const node = nodes.getIn(place, true);
    if (!isCollection(node) || node.flow || !node.range || node.has('$ref')) {
      throw new RefusedError(`the document has no block ${place.join('.')}, to which the operation belongs`);
    }
    const [start, end] = node.range;
    const indent = ' '.repeat(start - (text.lastIndexOf('\n', start - 1) + 1));
    const lines = `\n${gap}${write(entry).replace(/^(?=.)/gm, indent)}`;
    return { at: text.slice(0, end).trimEnd().length, depth: place.length, lines };
  });
  // Insert from the end, so that the other indexes stay valid. At the same index, the entry of the inner place comes first in the file.
  const order = located.toReversed().toSorted((a, b) => b.at - a.at || a.depth - b.depth);
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  return order.reduce(
    (edited, { at, lines }) =>
      edited.slice(0, at) + lines.replaceAll('\n', eol) + edited.slice(at).replace(/^\r?\n/, ''),
    text,
  );
}

/** An entry to add at the end of a collection, after a gap. */
type Insertion = { readonly place: readonly string[]; readonly entry: object; readonly gap?: string };

/** Completes an operation with the refusals and headers that every operation declares. */
function toOperation({ method, tag, summary, description, parameters, requestBody, responses, ...draft }: Draft): Node {
  const reads = method === 'get';
  const [[status, success] = []] = Object.entries(responses);
  const replayed = parameters.some(({ name }) => name === KEY) ? [REPLAYED] : [];
  const headers = refer([...(reads ? ['ETag'] : []), ...replayed, ...HEADERS]);
  return {
    ...{ operationId: toCamel(draft.function), 'x-rpc': draft.function, tags: [tag.name], summary, description },
    ...{ parameters: parameters.length > 0 ? parameters : undefined, requestBody },
    responses: {
      ...referToRefusals(reads, requestBody !== undefined),
      ...responses,
      [status ?? 200]: { ...success, headers: { ...(success?.headers ?? {}), ...headers } },
    },
  };
}

/** Maximum length of an object or a list on one line, as JSON. */
const WIDTH = 90;

/** Writes YAML in the style of openapi.yaml, without undefined values. On one line, objects are padded and lists are not. */
function write(value: object): string {
  // Texts that YAML 1.1 reads as dates or booleans are quoted.
  const document = new Document(value, { aliasDuplicateObjects: false, compat: 'yaml-1.1' });
  visit(document, {
    Collection(_key, node, around) {
      // Outer collections are blocks, because only a block can get further entries later.
      node.flow = around.length > 4 && JSON.stringify(node).length <= WIDTH;
      const toText = node.toString.bind(node);
      const flowCollectionPadding = isSeq(node) ? '' : ' ';
      node.toString = (context, ...others) => toText(context && { ...context, flowCollectionPadding }, ...others);
    },
  });
  return document.toString({ lineWidth: 0, singleQuote: true });
}

function describeOperation(subject: Subject, kind: Kind, samples: readonly Sample[]): Draft {
  const { names, tag, noun, schemas, sentences, hasGet } = subject;
  const one = noun.one.replace(/^an? /, '');
  const texts: Record<Kind, readonly [status: number, summary: string, success: string]> = {
    list: [200, `List ${noun.many}`, `A page of ${noun.many}`],
    get: [200, `Get ${noun.one}`, toUpper(noun.one)],
    create: [201, `Create ${noun.one}`, `The new ${one}`],
    update: [200, `Change ${noun.one}`, `The changed ${one}`],
    delete: [204, `Delete ${noun.one}`, 'It is deleted'],
  };
  const [status, summary, description] = texts[kind];
  const [isList, isDeletion] = [kind === 'list', kind === 'delete'];
  const sentence = isList || kind === 'get' ? `Returns ${sentences[kind]}` : toUpper(sentences[kind]);
  const more = kind === 'update' ? ' A field that is left out stays as it is, and null clears it.' : '';
  const successes = samples.filter((each) => each.status < 300);
  const sent = { create: schemas.created, update: schemas.changed }[kind as string];
  const bodies = Object.fromEntries(successes.map(({ name, body }) => [name, { value: body }]));
  const record = referTo('schemas', schemas.record);
  const isLocated = kind === 'create' && hasGet;
  const links = { self: { operationId: toCamel(names.get), parameters: { id: '$response.body#/id' } } };
  const schema = isList ? { type: 'array', maxItems: 1000, items: record } : record;
  return {
    ...placeOf(subject, kind),
    ...{ function: names[kind], tag: { name: tag, description: toUpper(noun.many) } },
    ...{ summary, description: `${sentence}.${more}`, parameters: listParameters(subject, kind, successes) },
    requestBody: sent ? { required: true, ...toContent(referTo('schemas', sent), bodies) } : undefined,
    responses: {
      [status]: {
        description,
        headers: isList ? refer(['Link']) : isLocated ? LOCATION : {},
        links: isLocated ? links : undefined,
        ...(isDeletion ? {} : toContent(schema, showAnswers(subject, successes))),
      },
      404: isList || kind === 'create' ? undefined : toNotFound(['id']),
      409: describeConflicts(subject, isDeletion, samples),
    },
  };
}

/** Describes the 409 for conflicts with other records; undefined without an example. */
function describeConflicts(subject: Subject, isDeletion: boolean, samples: readonly Sample[]): Node | undefined {
  const examples = samples.filter(({ status }) => status === 409);
  if (examples.length === 0) return undefined;
  const { incoming, uniques } = subject.table;
  const texts = isDeletion
    ? incoming.map(({ name, table }) => [name, `there are ${table.replace(/^private\./, '')} of this record`])
    : uniques.map(({ name, columns, isExclusion }) => {
        return [name, `another record ${isExclusion ? 'conflicts with' : 'has'} this ${columns.join(' and ')}`];
      });
  const description = isDeletion ? 'Other records refer to it' : 'Another record has what has to be unique';
  return { 'x-conflicts': Object.fromEntries(texts), ...toRefusal(description, showAnswers(subject, examples)) };
}

/** A refusal that an operation declares itself, not by reference. */
export function toRefusal(description: string, examples: Node | undefined): Node {
  return { description, headers: refer(HEADERS), ...toContent(referTo('schemas', 'Error'), examples) };
}

/** The 404 for ids in the path that no record has. */
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

/** The header that makes a creation idempotent. */
export const KEY = 'Idempotency-Key';
export const KEY_PARAMETER = {
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

function listParameters({ noun, filters, openapi }: Subject, kind: Kind, samples: readonly Sample[]): Node[] {
  const show = (parameter: Node & { readonly name: string }): Node => {
    const given = samples.filter(({ parameters }) => parameter.name in parameters);
    const examples = given.map((one) => [one.name, { value: one.parameters[parameter.name] }]);
    return { ...parameter, examples: given.length > 0 ? Object.fromEntries(examples) : undefined };
  };
  if (kind === 'create') return [show(KEY_PARAMETER)];
  if (kind !== 'list') {
    const schema = { type: 'string', format: 'uuid', maxLength: 36 };
    return [show({ name: 'id', in: 'path', required: true, description: `The \`id\` of ${noun.one}`, schema })];
  }
  const ofQuery = (name: string, description: string, schema: Node) => show({ name, in: 'query', description, schema });
  const after =
    'Only records after this one: the `id` of the last record of the page before. Cannot be given with `offset`.';
  return [
    ofQuery('limit', 'Maximum number of records', referTo('schemas', 'Limit')),
    ofQuery('offset', 'The number of records to skip', referTo('schemas', 'Offset')),
    ...filters.map(({ name, schema }) =>
      ofQuery(name, `Only ${noun.many} with this \`${name}\``, forVersion(schema, openapi)),
    ),
    ofQuery('after', after, referTo('schemas', 'After')),
  ];
}

/** Response examples: the answers, and for each refusal the request that causes it. */
function showAnswers({ columns, written }: Subject, samples: readonly Sample[]): Node {
  const examples = samples.map(({ name, status, parameters, body, expected = {}, answer: value = null }) => {
    const isChanged = (column: Column) =>
      column.name in expected && !isDeepStrictEqual(expected[column.name], (value as Node | null)?.[column.name]);
    const isNew = (column: Column) => status === 201 && !written.includes(column);
    /** A column computed from the request's fields alone has the same value each time. */
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
  isSent: boolean,
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
      'x-rule': isSent && rules.length > 0 ? [...new Set(rules)].join(', ') : undefined,
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

export function toContent(schema: Node, examples: Node | undefined): Node {
  return { content: { 'application/json': { schema, examples } } };
}

/** References to headers. */
export function refer(names: readonly string[]): Node {
  return Object.fromEntries(names.map((name) => [name, referTo('headers', name)]));
}

export function referTo(kind: string, name: string): Node {
  return { $ref: `#/components/${kind}/${name}` };
}
