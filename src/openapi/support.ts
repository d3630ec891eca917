// Finds what OpenAPI can say and the gateway does not do, wherever it stands in the document. What depends on the operation
// is found in operations.ts.

import type { OpenAPIV3 } from 'openapi-types';
import { type Mistake, readServerPath } from './document.ts';
import { formats } from './formats.ts';
import { type Refused, readMistakes } from './mistakes.ts';
import { follow, isReference, type Place, toPointer } from './pointer.ts';
import { ANNOTATIONS, EXACT } from './schema.ts';
import { type Kind, type Node, SUBSCHEMAS, visit } from './structure.ts';

/** A rule for one kind of object: gives what is wrong, and the name in the object that it is about. */
type Rule = readonly [
  kind: Kind,
  what: Refused,
  find: (node: Node, isVersion30: boolean, place: Place) => readonly (readonly [string, string?])[],
];

const NOT_SERVED = {
  head: 'a HEAD is answered as the GET of its path',
  options: 'an OPTIONS is answered by CORS_ORIGINS',
  trace: 'a TRACE would echo the key',
};

/** Keywords of JSON Schema that refer to other places than a pointer does, or that change the language. */
export const REFERENCES: readonly string[] =
  '$id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary'.split(' ');
const DIALECTS = ['https://spec.openapis.org/oas/3.1/dialect/base', 'https://json-schema.org/draft/2020-12/schema'];
/** The keywords of JSON Schema and OpenAPI. */
export const KEYWORDS: readonly string[] = [
  ...Object.values(SUBSCHEMAS).flat(),
  ...ANNOTATIONS,
  ...REFERENCES,
  ...`$ref $schema type format enum const pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum
    multipleOf minItems maxItems uniqueItems minContains maxContains minProperties maxProperties required dependentRequired
    contentEncoding contentMediaType`.split(/\s+/),
];

const PLACES = ['query', 'path', 'header', 'cookie'];

const RULES: readonly Rule[] = [
  ['document', 'a path outside of `paths`', findMisplaced],
  ['pathItem', 'a path outside of `paths`', findMisplaced],
  [
    'parameter',
    'a parameter in another place',
    (node) =>
      isReference(node) || PLACES.includes(String(node.in))
        ? []
        : [[`parameter ${node.name} is in ${node.in}: expected one of ${PLACES.join(', ')}`, 'in']],
  ],
  [
    'document',
    'another dialect',
    ({ jsonSchemaDialect: dialect }) => (dialect === undefined ? [] : findDialect(dialect, 'jsonSchemaDialect')),
  ],
  ['document', 'several paths of servers', findServers],
  ['document', "a variable in a server's path with several values", findVariables],
  [
    'pathItem',
    '`head`, `options`, `trace`',
    (node) =>
      Object.entries(NOT_SERVED)
        .filter(([method]) => method in node)
        .map(([method, why]) => [`${method} cannot be declared: ${why}; remove it`, method]),
  ],
  ['pathItem', 'servers of a path or an operation', findOwnServers],
  ['operation', 'servers of a path or an operation', findOwnServers],
  [
    'operation',
    'callbacks',
    ({ callbacks }) =>
      isFilled(callbacks) ? [['callbacks are requests that the gateway does not send: remove them', 'callbacks']] : [],
  ],
  ['schema', '`$id`, `$anchor`, `$dynamicRef`', findOtherReferences],
  ['schema', 'keywords beside `$ref` in 3.0', (node, isVersion30) => (isVersion30 ? findBeside(node) : [])],
  [
    'schema',
    '`nullable` in 3.1',
    (node, isVersion30) =>
      isVersion30 || !('nullable' in node)
        ? []
        : [["nullable has no effect in OpenAPI 3.1: add 'null' to the type", 'nullable']],
  ],
  ['schema', 'a keyword that is none', (node, isVersion30) => (isVersion30 ? [] : findKeywords(node))],
  [
    'schema',
    'another dialect',
    ({ $schema: dialect }) => (dialect === undefined ? [] : findDialect(dialect, '$schema')),
  ],
  ['schema', 'an unknown format', findFormats],
  ['schema', 'an invalid pattern', findPatterns],
  ['schema', 'integers that JSON readers round', findHugeBounds],
];

/** Validates a schema of OpenAPI 3.1; gives the errors of Ajv. */
export type ValidateSchema = (schema: Node) => readonly object[];

/** Finds what the gateway does not do, wherever it stands. */
export function findUnsupported(document: OpenAPIV3.Document, validateSchema: ValidateSchema): Mistake[] {
  const isVersion30 = String(document.openapi).startsWith('3.0');
  const mistakes: Mistake[] = [];
  /** The schema that is visited, with all that is within. */
  let outermost = '-';
  visit(document, (kind, node, place) => {
    if (isReference(node) && follow<unknown>(document, node) === undefined) {
      mistakes.push({ what: 'a reference to nothing', text: describeReference(node.$ref), place });
    }
    // Another system sends what a webhook describes.
    if (place[0] === 'webhooks') return;
    for (const [of, what, find] of RULES) {
      if (of !== kind) continue;
      for (const [text, name] of find(node, isVersion30, place)) {
        mistakes.push({ what, text, place: name === undefined ? place : [...place, name] });
      }
    }
    if (kind !== 'schema' || isVersion30) return;
    const pointer = toPointer(place);
    if (pointer.startsWith(`${outermost}/`)) return;
    outermost = pointer;
    mistakes.push(...readMistakes(validateSchema(node), 'a keyword with a value that it does not have', place));
  });
  return mistakes;
}

function describeReference(reference: string): string {
  return reference.startsWith('#')
    ? `the reference ${reference} leads to nothing: correct it, or add what it names`
    : `the reference ${reference} leads to no file that can be read: correct it, or add the file`;
}

function isFilled(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

/** Happens when YAML is pasted with the wrong indentation. */
function findMisplaced(node: Node, _isVersion30: boolean, place: Place): [string, string][] {
  const parent = place.at(-1) ?? 'the top level';
  return Object.keys(node)
    .filter((name) => name.startsWith('/'))
    .map((name) => [
      `${name} is at ${parent} instead of under paths: indent it like the other paths, by two spaces`,
      name,
    ]);
}

/** The gateway serves one path. Hosts do not matter: a proxy or DNS leads there. */
function findServers({ servers }: Node): [string, string][] {
  const paths = [...new Set(((servers ?? []) as OpenAPIV3.ServerObject[]).map(readServerPath))];
  const text = `the servers have the paths ${paths.join(' and ')}: keep one, which the gateway serves`;
  return paths.length > 1 ? [[text, 'servers']] : [];
}

function findVariables({ servers }: Node): [string, string][] {
  const [first] = (servers ?? []) as OpenAPIV3.ServerObject[];
  return Object.entries(first?.variables ?? {}).flatMap(([name, { enum: values = [] }]): [string, string][] => {
    const isInPath = first?.url.replace(/^\w+:\/\/[^/]*/, '').includes(`{${name}}`);
    const text = `the path of the server has the variable ${name} with several values: keep its default only`;
    return isInPath && values.length > 1 ? [[text, 'servers']] : [];
  });
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

function findOtherReferences(node: Node): [string, string][] {
  return REFERENCES.filter((name) => name in node).map((name) => [
    `${name} is not supported: refer to a schema with $ref and its place, such as #/components/schemas/Pet`,
    name,
  ]);
}

function findBeside(node: Node): (readonly [string, string?])[] {
  const beside = Object.keys(node).filter((name) => !['$ref', 'summary', 'description'].includes(name));
  const text = `${beside.join(', ')} beside $ref has no effect in OpenAPI 3.0: use allOf, or declare openapi: 3.1.0`;
  return isReference(node) ? beside.slice(0, 1).map((name) => [text, name] as const) : [];
}

/** In OpenAPI 3.1 a schema may have any keyword: one that is misspelt would be ignored. */
function findKeywords(node: Node): [string, string][] {
  const known = [...KEYWORDS, 'nullable'];
  const unknown = Object.keys(node).filter((name) => !known.includes(name) && !name.startsWith('x-'));
  return unknown.map((name) => [
    `has ${name}, which JSON Schema does not define: correct it, or call it x-${name}`,
    name,
  ]);
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
      return [
        [`${(error as Error).message}: correct it`, typeof pattern === 'string' ? 'pattern' : 'patternProperties'],
      ];
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
