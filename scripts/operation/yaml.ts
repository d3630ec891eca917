// The YAML of the operations, and its places in the document. The rest of the file stays as it is, to the byte.

import { isCollection, parseDocument, stringify } from 'yaml';
import { type Kind, placeOf, type Subject, toUpper } from './subject.ts';
import { type Column, type Key, RefusedError } from './table.ts';

/** A request of an example, without what the document says for all. */
export type Sample = {
  readonly name: string;
  readonly status: number;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly body?: Readonly<Record<string, unknown>>;
};

/** The answers of the samples, by operation and name; a missing one is null. */
export type Answers = (kind: Kind, sample: Sample) => unknown;

/** Responses of the document that the operations refer to. */
const NEEDED = [
  'NotModified',
  'BadRequest',
  'BadBody',
  'RefusedKey',
  'RequestTimeout',
  'BodyTooLarge',
  'InvalidRequest',
];
const NEEDED_TOO = ['TooManyRequests', 'HeadersTooLarge', 'StoreFailure'];
const SENT = ['RateLimit', 'RateLimit-Policy', 'Access-Control-Allow-Origin'];

const NOT_FOUND = `NotFound:
  description: The tenant has no such record; the answer is the same for a record of another tenant
  headers:
${SENT.map((name) => `    ${name}: { $ref: '#/components/headers/${name}' }\n`).join('')}  content:
    application/json:
      schema:
        $ref: '#/components/schemas/Error'
      examples:
        noSuchRecord:
          x-request: { path: { id: ffffffff-ffff-4fff-8fff-ffffffffffff } }
          value: { error: Not found }
`;

const LOCATION = `Location:
  description: The path of the new record
  schema: { type: string, maxLength: 2000 }
`;

/** Adds the operations to the text of a document. Throws RefusedError if it lacks what all operations refer to. */
export function addToDocument(
  text: string,
  subject: Subject,
  samples: Readonly<Record<Kind, readonly Sample[]>>,
  answers: Answers,
): string {
  const { kinds, noun, tag, schemas, columns } = subject;
  const parsed = parseDocument(text).toJS();
  const { responses = {}, headers = {} } = parsed.components ?? {};
  const lacking =
    [...NEEDED, ...NEEDED_TOO].find((name) => !(name in responses)) ?? SENT.find((name) => !(name in headers));
  if (lacking)
    throw new RefusedError(`the document has no ${lacking} in its components, which every operation refers to`);

  let edited = text;
  const add = (place: readonly string[], entry: string) => {
    edited = insert(edited, place, entry);
  };
  for (const kind of kinds) {
    const { path, method } = placeOf(subject, kind);
    const operation = `${method}:\n${indent(writeOperation(subject, kind, samples[kind], answers), 2)}`;
    const isNew = !(path in (parseDocument(edited).toJS().paths ?? {}));
    if (isNew) add(['paths'], `\n${path}:\n${indent(operation, 2)}`);
    else add(['paths', path], operation);
  }
  if (!parsed.tags?.some(({ name }: { name: string }) => name === tag)) {
    add(['tags'], `- name: ${tag}\n  description: ${toUpper(noun.many)}\n`);
  }
  if (kinds.includes('create') && subject.hasGet && !('Location' in headers)) add(['components', 'headers'], LOCATION);
  const usesSchema = kinds.some((kind) => kind !== 'delete');
  if (usesSchema && !(schemas.record in parsed.components.schemas)) {
    add(
      ['components', 'schemas'],
      `\n${writeSchema(schemas.record, toUpper(noun.one), columns, columns, parsed.openapi)}`,
    );
  }
  if (kinds.includes('create')) {
    const required = subject.written.filter((column) => !column.isNullable && column.default === null);
    add(
      ['components', 'schemas'],
      `\n${writeSchema(schemas.created, `What a client sets of ${noun.one}`, subject.written, required, parsed.openapi, true)}`,
    );
  }
  if (kinds.includes('update')) {
    add(
      ['components', 'schemas'],
      `\n${writeSchema(schemas.changed, `Changes of ${noun.one}`, subject.written, [], parsed.openapi, true)}`,
    );
  }
  if (kinds.some((kind) => kind !== 'list' && kind !== 'create') && !('NotFound' in responses)) {
    add(['components', 'responses'], NOT_FOUND);
  }
  return edited;
}

/** Inserts an entry at the end of a collection. */
function insert(text: string, place: readonly string[], entry: string): string {
  const node = parseDocument(text).getIn(place, true);
  if (!isCollection(node) || node.flow || !node.range) {
    throw new RefusedError(`the document has no block ${place.join('.')}, to which the operation belongs`);
  }
  const [start, end] = node.range;
  const column = start - (text.lastIndexOf('\n', start - 1) + 1);
  const before = text.slice(0, end).trimEnd();
  return `${before}\n${indent(entry, column)}${text.slice(before.length + 1)}`;
}

function writeOperation(subject: Subject, kind: Kind, samples: readonly Sample[], answers: Answers): string {
  const { names, tag, noun, schemas } = subject;
  const { operation, function: rpc } = names[kind];
  const body = { create: schemas.created, update: schemas.changed }[kind as string];
  const parameters = writeParameters(subject, kind, samples);
  const summaries: Record<Kind, string> = {
    list: `List ${noun.many}`,
    get: `Get ${noun.one}`,
    create: `Create ${noun.one}`,
    update: `Change ${noun.one}`,
    delete: `Delete ${noun.one}`,
  };
  return `operationId: ${operation}
x-rpc: ${rpc}
tags: [${tag}]
summary: ${summaries[kind]}
description: ${scalar(describe(subject, kind))}
${parameters ? `parameters:\n${indent(parameters, 2)}` : ''}${
  body
    ? writeBody(
        body,
        samples.filter(({ status }) => status < 300),
      )
    : ''
}responses:
${indent(writeResponses(subject, kind, samples, answers), 2)}`;
}

function describe({ sentences }: Subject, kind: Kind): string {
  const sentence = sentences[kind];
  if (kind === 'list' || kind === 'get') return `Returns ${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}.`;
  return `${sentence}.${kind === 'update' ? ' A field that is left out stays as it is, and null clears it.' : ''}`;
}

function writeParameters({ noun, filters }: Subject, kind: Kind, samples: readonly Sample[]): string {
  const write = (name: string, place: string, description: string, schema: string) => {
    const examples = samples.filter(({ status, parameters }) => status < 300 && name in parameters);
    const list = examples.map((one) => `    ${one.name}: { value: ${flow(one.parameters[name])} }\n`).join('');
    const required = place === 'path' ? '  required: true\n' : '';
    return `- name: ${name}\n  in: ${place}\n${required}  description: ${scalar(description)}\n  schema: ${schema}\n${list ? `  examples:\n${list}` : ''}`;
  };
  const refer = (name: string) => `{ $ref: '#/components/schemas/${name}' }`;
  if (kind === 'create') return '';
  if (kind !== 'list')
    return write('id', 'path', `The \`id\` of ${noun.one}`, flow({ type: 'string', format: 'uuid', maxLength: 36 }));
  return [
    write('limit', 'query', 'Maximum number of records', refer('Limit')),
    write('offset', 'query', 'The number of records to skip', refer('Offset')),
    ...filters.map(({ name, schema }) => write(name, 'query', `Only ${noun.many} with this \`${name}\``, flow(schema))),
    write(
      'after',
      'query',
      'Only records after this one: the `id` of the last record of the page before. Cannot be given with `offset`.',
      refer('After'),
    ),
  ].join('');
}

function writeBody(schema: string, samples: readonly Sample[]): string {
  return `requestBody:
  required: true
  content:
    application/json:
      schema:
        $ref: '#/components/schemas/${schema}'
      examples:
${samples.map(({ name, body }) => `        ${name}:\n${indent(property('value', body), 10)}`).join('')}`;
}

function writeResponses(subject: Subject, kind: Kind, samples: readonly Sample[], answers: Answers): string {
  const { noun, names, schemas } = subject;
  const reads = kind === 'list' || kind === 'get';
  const hasBody = kind === 'create' || kind === 'update';
  const success = samples.filter(({ status }) => status < 300);
  const conflicts = samples.filter(({ status }) => status === 409);
  const record = `$ref: '#/components/schemas/${schemas.record}'`;
  const schema = kind === 'list' ? `type: array\nmaxItems: 1000\nitems: { ${record} }` : record;
  const descriptions: Record<Kind, string> = {
    list: `A page of ${noun.many}`,
    get: toUpper(noun.one),
    create: `The new ${noun.one.replace(/^an? /, '')}`,
    update: `The changed ${noun.one.replace(/^an? /, '')}`,
    delete: 'It is deleted',
  };
  const headers = [
    ...(kind === 'list' ? ['Link'] : []),
    ...(reads ? ['ETag'] : []),
    ...(kind === 'create' && subject.hasGet ? ['Location'] : []),
    ...SENT,
  ];
  const links = `links:\n  self: { operationId: ${names.get.operation}, parameters: { id: $response.body#/id } }\n`;
  const refer = (status: number, name: string) => `'${status}': { $ref: '#/components/responses/${name}' }\n`;
  const generated = subject.columns.filter((column) => !subject.written.includes(column)).map(({ name }) => name);
  const content = (own: string, examples: readonly Sample[]) =>
    `content:
  application/json:
    schema:
${indent(own, 6)}    examples:
${examples
  .map(
    (one) =>
      `      ${one.name}:\n${kind === 'create' && one.status < 300 ? `        x-generated: [${generated.join(', ')}]\n` : ''}${one.status < 300 ? '' : indent(property('x-request', { store: 'demo', ...toOverride(one) }), 8)}${indent(property('value', answers(kind, one)), 8)}`,
  )
  .join('')}`;
  const status = success[0]?.status ?? 200;
  const keys = kind === 'delete' ? subject.incoming : subject.uniques;
  return [
    `'${status}':\n  description: ${descriptions[kind]}\n  headers:\n${referHeaders(headers)}`,
    ...(kind === 'create' && subject.hasGet ? [indent(links, 2)] : []),
    ...(kind === 'delete' ? [] : [indent(content(`${schema}\n`, success), 2)]),
    ...(reads ? [refer(304, 'NotModified')] : []),
    refer(400, hasBody ? 'BadBody' : 'BadRequest'),
    refer(401, 'RefusedKey'),
    ...(kind === 'list' || kind === 'create' ? [] : [refer(404, 'NotFound')]),
    refer(408, 'RequestTimeout'),
    ...(conflicts.length === 0
      ? []
      : [
          `'409':\n  description: ${kind === 'delete' ? 'Other records refer to it' : 'Another record has what has to be unique'}\n`,
          `  x-conflicts:\n${keys.map((key) => `    ${key.name}: ${describeConflict(kind, key)}\n`).join('')}`,
          `  headers:\n${referHeaders(SENT)}`,
          indent(content(`$ref: '#/components/schemas/Error'\n`, conflicts), 2),
        ]),
    ...(hasBody ? [refer(413, 'BodyTooLarge')] : []),
    refer(422, 'InvalidRequest'),
    refer(429, 'TooManyRequests'),
    refer(431, 'HeadersTooLarge'),
    refer(502, 'StoreFailure'),
  ].join('');
}

function describeConflict(kind: Kind, { columns, table }: Key): string {
  const name = table.replace(/^private\./, '');
  return kind === 'delete' ? `there are ${name} of this record` : `another record has this ${columns.join(' and ')}`;
}

function toOverride({ parameters, body }: Sample): Record<string, unknown> {
  return { ...('id' in parameters ? { path: parameters } : {}), ...(body ? { body } : {}) };
}

function referHeaders(names: readonly string[]): string {
  return names.map((name) => `    ${name}: { $ref: '#/components/headers/${name}' }\n`).join('');
}

function writeSchema(
  name: string,
  description: string,
  columns: readonly Column[],
  required: readonly Column[],
  version: string,
  isSent = false,
): string {
  const properties = columns.map(({ name, schema, isNullable, reference, comment }) => {
    const { minLength: _least, ...answered } = schema as Column['schema'] & { minLength?: number };
    const nullable = version.startsWith('3.0')
      ? { ...(isSent ? schema : answered), nullable: true }
      : { ...(isSent ? schema : answered), type: [schema.type, 'null'] };
    const value = {
      ...(comment ? { description: comment } : {}),
      ...(isNullable ? nullable : isSent ? schema : answered),
      ...(isSent && reference ? { 'x-rule': 'the id of a record of the tenant' } : {}),
    };
    return property(name, value);
  });
  return `${name}:
  description: ${scalar(description)}
  type: object
  additionalProperties: false
${required.length > 0 ? `  required: [${required.map((column) => column.name).join(', ')}]\n` : ''}  properties:
${indent(properties.join(''), 4)}`;
}

/** The longest line, less the deepest indentation. */
const WIDTH = 90;

/** A property in one line if it fits. */
function property(name: string, value: unknown): string {
  const line = `${name}: ${flow(value)}`;
  if (line.length <= WIDTH || typeof value !== 'object' || value === null) return `${line}\n`;
  if (!Array.isArray(value)) {
    return `${name}:\n${Object.entries(value)
      .map(([key, one]) => indent(property(key, one), 2))
      .join('')}`;
  }
  const items = value.map((item) => {
    if (flow(item).length <= WIDTH) return `  - ${flow(item)}\n`;
    const lines = Object.entries(item)
      .map(([key, one]) => property(key, one))
      .join('');
    return `  - ${indent(lines, 4).slice(4)}`;
  });
  return `${name}:\n${items.join('')}`;
}

/** A text as the value of a property that has its line alone. */
function scalar(text: string): string {
  return stringify(text, { lineWidth: 0, singleQuote: true }).trim();
}

/** A value in one line. */
function flow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, one]) => one !== undefined);
    return entries.length === 0 ? '{}' : `{ ${entries.map(([name, one]) => `${name}: ${flow(one)}`).join(', ')} }`;
  }
  // YAML 1.1 reads a date as one.
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\d/.test(value)) return `'${value}'`;
  const options = { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0, singleQuote: true } as const;
  return stringify([value], options).trim().slice(1, -1);
}

function indent(text: string, columns: number): string {
  return text.replace(/^(?=.)/gm, ' '.repeat(columns));
}
