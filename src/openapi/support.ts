// Finds what OpenAPI can say and the gateway does not do, wherever it stands in the document. What depends on the operation
// is found in operations.ts. docs/openapi-support.md lists both.

import type { OpenAPIV3 } from 'openapi-types';
import { type Mistake, readServerPath } from './document.ts';
import { formats } from './formats.ts';
import { ALL_METHODS } from './path.ts';
import type { Place } from './pointer.ts';
import { EXACT, SUBSCHEMAS, TYPES } from './schema.ts';

type Kind =
  | 'document'
  | 'components'
  | 'pathItem'
  | 'operation'
  | 'parameter'
  | 'body'
  | 'response'
  | 'header'
  | 'media'
  | 'schema';
type Node = Readonly<Record<string, unknown>>;
type Child = readonly [Kind, 'one' | 'list' | 'map'];

/** What each kind of object consists of, as far as it has schemas or operations in it. */
const CHILDREN: Readonly<Record<Kind, Readonly<Record<string, Child>>>> = {
  document: { paths: ['pathItem', 'map'], components: ['components', 'one'] },
  components: {
    schemas: ['schema', 'map'],
    parameters: ['parameter', 'map'],
    requestBodies: ['body', 'map'],
    responses: ['response', 'map'],
    headers: ['header', 'map'],
    pathItems: ['pathItem', 'map'],
  },
  pathItem: {
    parameters: ['parameter', 'list'],
    ...Object.fromEntries(ALL_METHODS.map((method): [string, Child] => [method, ['operation', 'one']])),
  },
  operation: { parameters: ['parameter', 'list'], requestBody: ['body', 'one'], responses: ['response', 'map'] },
  parameter: { schema: ['schema', 'one'], content: ['media', 'map'] },
  body: { content: ['media', 'map'] },
  response: { headers: ['header', 'map'], content: ['media', 'map'] },
  header: { schema: ['schema', 'one'], content: ['media', 'map'] },
  media: { schema: ['schema', 'one'] },
  schema: {
    ...Object.fromEntries(SUBSCHEMAS.one.map((name): [string, Child] => [name, ['schema', 'one']])),
    ...Object.fromEntries(SUBSCHEMAS.list.map((name): [string, Child] => [name, ['schema', 'list']])),
    ...Object.fromEntries(SUBSCHEMAS.map.map((name): [string, Child] => [name, ['schema', 'map']])),
  },
};

/** Visits the objects of a document, each where it stands: references are not followed. */
function visit(document: object, onNode: (kind: Kind, node: Node, place: Place) => void): void {
  const walk = (kind: Kind, node: unknown, place: Place): void => {
    if (typeof node !== 'object' || node === null) return;
    onNode(kind, node as Node, place);
    for (const [name, [child, count]] of Object.entries(CHILDREN[kind])) {
      const value = (node as Node)[name];
      if (typeof value !== 'object' || value === null) continue;
      const parts = count === 'one' ? [[undefined, value] as const] : Object.entries(value);
      for (const [key, part] of parts) {
        const index = Array.isArray(value) ? Number(key) : key;
        walk(child, part, [...place, name, ...(index === undefined ? [] : [index])]);
      }
    }
  };
  walk('document', document, []);
}

/** A rule for one kind of object: gives what is wrong, and the name in the object that it is about. */
type Rule = readonly [kind: Kind, find: (node: Node, isVersion30: boolean) => readonly (readonly [string, string?])[]];

const NOT_SERVED = {
  head: 'a HEAD is answered as the GET of its path',
  options: 'an OPTIONS is answered by CORS_ORIGINS',
  trace: 'a TRACE would echo the key',
};

/** Keywords of JSON Schema that refer to other places than a pointer does, or that change the language. */
const REFERENCES = '$id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary'.split(' ');
const DIALECTS = ['https://spec.openapis.org/oas/3.1/dialect/base', 'https://json-schema.org/draft/2020-12/schema'];
const ANNOTATIONS = `title summary description default deprecated example examples externalDocs readOnly writeOnly xml
  discriminator $comment`.split(/\s+/);
const KEYWORDS = [
  ...Object.values(SUBSCHEMAS).flat(),
  ...ANNOTATIONS,
  ...REFERENCES,
  ...`$ref $schema type format enum const pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum
    multipleOf minItems maxItems uniqueItems minContains maxContains minProperties maxProperties required dependentRequired
    contentEncoding contentMediaType`.split(/\s+/),
];

const RULES: readonly Rule[] = [
  [
    'document',
    ({ jsonSchemaDialect: dialect }) => (dialect === undefined ? [] : findDialect(dialect, 'jsonSchemaDialect')),
  ],
  ['document', findServers],
  [
    'pathItem',
    (node) =>
      Object.entries(NOT_SERVED)
        .filter(([method]) => method in node)
        .map(([method, why]) => [`${method} cannot be declared: ${why}; remove it`, method]),
  ],
  ['pathItem', findOwnServers],
  ['operation', findOwnServers],
  [
    'operation',
    ({ callbacks }) =>
      isFilled(callbacks) ? [['callbacks are requests that the gateway does not send: remove them', 'callbacks']] : [],
  ],
  ['schema', findReferences],
  ['schema', (node, isVersion30) => (isVersion30 ? [] : findKeywords(node))],
  ['schema', findFormats],
  ['schema', findPatterns],
  ['schema', findHugeBounds],
];

/** Finds what the gateway does not do, wherever it stands. */
export function findUnsupported(document: OpenAPIV3.Document): Mistake[] {
  const isVersion30 = document.openapi.startsWith('3.0');
  const mistakes: Mistake[] = [];
  visit(document, (kind, node, place) => {
    for (const [of, find] of RULES) {
      if (of !== kind) continue;
      for (const [text, name] of find(node, isVersion30)) {
        mistakes.push({ text: `${toName(place)}${text}`, place: name === undefined ? place : [...place, name] });
      }
    }
  });
  return mistakes;
}

/** Names a place shortly: the operation or component that it is in. */
function toName(place: Place): string {
  const [first, second, third] = place;
  if (first === 'paths' && second !== undefined) {
    const method = ALL_METHODS.includes(String(third)) ? `${String(third).toUpperCase()} ` : '';
    return `${method}${second}: `;
  }
  return first === 'components' && third !== undefined ? `${second} ${third}: ` : '';
}

function isFilled(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

/** The gateway serves one path. Hosts do not matter: a proxy or DNS leads there. */
function findServers({ servers }: Node): [string, string][] {
  const all = (servers ?? []) as OpenAPIV3.ServerObject[];
  const paths = [...new Set(all.map(readServerPath))];
  const several = Object.entries(all[0]?.variables ?? {}).filter(
    ([name, { enum: values }]) =>
      (values?.length ?? 0) > 1 && all[0]?.url.replace(/^\w+:\/\/[^/]*/, '').includes(`{${name}}`),
  );
  return [
    ...(paths.length > 1
      ? [
          [`the servers have the paths ${paths.join(' and ')}: keep one, which the gateway serves`, 'servers'] as [
            string,
            string,
          ],
        ]
      : []),
    ...several.map(([name]): [string, string] => [
      `the path of the server has the variable ${name} with several values: keep its default only`,
      'servers',
    ]),
  ];
}

function findOwnServers({ servers }: Node): [string, string][] {
  return isFilled(servers)
    ? [['servers apply to the whole document: move them to its top level, or remove them', 'servers']]
    : [];
}

function findDialect(dialect: unknown, name: string): [string, string][] {
  return DIALECTS.includes(String(dialect).replace(/#$/, ''))
    ? []
    : [[`${name} ${dialect} is not supported: the dialect of OpenAPI 3.1 is, which needs no ${name}`, name]];
}

function findReferences(node: Node, isVersion30: boolean): [string, string][] {
  const found = REFERENCES.filter((name) => name in node).map((name): [string, string] => [
    `${name} is not supported: refer to a schema with $ref and its place, such as #/components/schemas/Pet`,
    name,
  ]);
  const siblings = Object.keys(node).filter((name) => name !== '$ref' && !['summary', 'description'].includes(name));
  if (!isVersion30 || !('$ref' in node) || siblings.length === 0) return found;
  return [
    ...found,
    [
      `${siblings.join(', ')} beside $ref has no effect in OpenAPI 3.0: use allOf, or declare openapi: 3.1.0`,
      siblings[0] as string,
    ],
  ];
}

/** In OpenAPI 3.1 a schema may have any keyword: one that is misspelt would be ignored. */
function findKeywords(node: Node): [string, string][] {
  const unknown = Object.keys(node).filter((name) => !KEYWORDS.includes(name) && !name.startsWith('x-'));
  const wrong = [node.type ?? []].flat().filter((type) => !TYPES.includes(type as string));
  return [
    ...unknown.map((name): [string, string] => [
      name === 'nullable'
        ? "nullable has no effect in OpenAPI 3.1: add 'null' to the type"
        : `has ${name}, which JSON Schema does not define: correct it, or call it x-${name}`,
      name,
    ]),
    ...wrong.map((type): [string, string] => [`${type} is no type of JSON Schema: it has ${TYPES.join(', ')}`, 'type']),
    ...('$schema' in node ? findDialect(node.$schema, '$schema') : []),
  ];
}

function findFormats({ format }: Node): [string, string][] {
  return typeof format !== 'string' || format in formats
    ? []
    : [[`unknown format "${format}": the gateway could not check it; use a pattern, or remove it`, 'format']];
}

function findPatterns({ pattern, patternProperties }: Node): [string, string][] {
  const patterns = [...(typeof pattern === 'string' ? [pattern] : []), ...Object.keys(patternProperties ?? {})];
  return patterns.flatMap((text): [string, string][] => {
    try {
      new RegExp(text, 'u');
      return [];
    } catch (error) {
      return [[(error as Error).message, typeof pattern === 'string' ? 'pattern' : 'patternProperties']];
    }
  });
}

/** JSON readers, and the gateway, round integers beyond. */
function findHugeBounds(node: Node): [string, string][] {
  const names = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
  return ![node.type].flat().includes('integer')
    ? []
    : names.flatMap((name): [string, string][] => {
        const bound = node[name];
        const isExact = typeof bound !== 'number' || (bound >= EXACT[0] && bound <= EXACT[1]);
        if (isExact) return [];
        return [
          [`${name} is beyond ${EXACT[1]}, where JSON readers round integers: use a smaller bound or a string`, name],
        ];
      });
}

/** Makes of each reference with keywords beside it, which OpenAPI 3.1 allows in schemas, two schemas that both apply. */
export function separateReferences(document: OpenAPIV3.Document): OpenAPIV3.Document {
  const copy = structuredClone(document);
  visit(copy, (kind, node) => {
    if (kind !== 'schema' || !('$ref' in node)) return;
    const schema = node as Record<string, unknown>;
    const beside = Object.keys(schema).filter(
      (name) => name !== '$ref' && !ANNOTATIONS.includes(name) && !name.startsWith('x-'),
    );
    if (beside.length === 0) return;
    const own = Object.fromEntries(beside.map((name) => [name, schema[name]]));
    const parts = [{ $ref: schema.$ref }, own];
    for (const name of ['$ref', ...beside]) delete schema[name];
    schema.allOf = parts;
  });
  return copy;
}
