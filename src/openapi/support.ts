// Finds what OpenAPI allows and the gateway does not support, anywhere in the document. operations.ts finds what depends on
// the operation.

import type { OpenAPIV3 } from 'openapi-types';
import { findNear } from '../near-miss.ts';
import { isJsonObject } from '../store/store.ts';
import { type Mistake, readServerPath } from './document.ts';
import { formats } from './formats.ts';
import { type Refused, readMistakes, toMistake } from './mistakes.ts';
import { find, follow, isReference, listBeside, readReference, toPointer } from './pointer.ts';
import { ANNOTATIONS, APPLIED, EXACT, readTypes, toSchemaReference, typeOf } from './schema.ts';
import { type Kind, type Node, SUBSCHEMAS, sectionOf, visit } from './structure.ts';

/** A mistake in an object: its property, undefined for the object itself, and the texts of the message. */
type Finding = readonly [name: string | undefined, ...texts: string[]];

/** A rule for one kind of object. */
type Rule = readonly [kind: Kind, what: Refused, find: (node: Node, isVersion30: boolean) => readonly Finding[]];

const NOT_SERVED = {
  head: 'a HEAD is answered as the GET of its path',
  options: 'an OPTIONS is answered by CORS_ORIGINS',
  trace: 'a TRACE would echo the key',
};

/** Keywords of JSON Schema that refer to schemas other than by a pointer, or that change the vocabulary. */
export const REFERENCES: readonly string[] =
  '$id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary'.split(' ');
const DIALECTS = ['https://spec.openapis.org/oas/3.1/dialect/base', 'https://json-schema.org/draft/2020-12/schema'];
/** The keywords of JSON Schema and OpenAPI. */
export const KEYWORDS: readonly string[] = [
  ...Object.values(SUBSCHEMAS).flat(),
  ...ANNOTATIONS,
  ...REFERENCES,
  ...`$ref $schema type format enum const pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum
    multipleOf minItems maxItems uniqueItems minContains maxContains minProperties maxProperties required
    dependentRequired`.split(/\s+/),
];

/** Each lower bound with its upper bounds. */
const BOUNDS: readonly (readonly [string, string])[] = [
  ...['Length', 'Items', 'Properties', 'Contains'].map((what) => [`min${what}`, `max${what}`] as const),
  ...['minimum', 'exclusiveMinimum'].flatMap((least) =>
    ['maximum', 'exclusiveMaximum'].map((most) => [least, most] as const),
  ),
];
/** JavaScript takes a property of this name for the prototype of its object. */
const PROTOTYPE = '__proto__';
const hasPrototype = (properties: unknown) => Object.hasOwn(Object(properties), PROTOTYPE);
const PLACES = ['query', 'path', 'header'];

const isText = (value: unknown) => typeof value === 'string';
const isBoolean = (value: unknown) => typeof value === 'boolean';

/** The gateway's own extensions, with the form of their values. operations.ts checks those that name functions and constraints. */
const EXTENSIONS: readonly (readonly [Kind, names: readonly string[], form: string, (value: unknown) => boolean])[] = [
  ['operation', ['x-read-only'], 'true or false', isBoolean],
  ['schema', ['x-never-null'], 'true or false', isBoolean],
  ['schema', KEYWORDS.map((name) => `x-${name}-message`), 'a text', isText],
  ['securityScheme', ['x-example', 'x-unknown-example'], 'a text', isText],
  ['example', ['x-request'], 'an object', isJsonObject],
  ['example', ['x-generated'], 'a list of names', (value) => Array.isArray(value) && value.every(isText)],
  ['parameter', ['x-filter'], 'an object', isJsonObject],
];
/** Extensions with distinctive names, so that a similar name is a misspelling. Short keywords are like languages, as in x-en-message. */
const DISTINCT: readonly (readonly [Kind, ...names: string[]])[] = [
  ['document', 'x-translations'],
  ['operation', 'x-read-only'],
  ['response', 'x-conflicts'],
  ['securityScheme', 'x-rpc-used'],
  ['schema', 'x-never-null', ...KEYWORDS.filter((name) => /^\w{7,}$/.test(name)).map((name) => `x-${name}-message`)],
];

const RULES: readonly Rule[] = [
  ['document', 'another dialect', (node) => findDialect(node, 'jsonSchemaDialect')],
  ['document', 'several paths of servers', findServers],
  ['document', 'a server without a URL', findUrls],
  [
    'pathItem',
    '`head`, `options`, `trace`',
    (node) => Object.entries(NOT_SERVED).flatMap(([method, why]) => (method in node ? [[method, method, why]] : [])),
  ],
  ['pathItem', 'servers of a path or an operation', (node) => findFilled(node, 'servers')],
  ['operation', 'servers of a path or an operation', (node) => findFilled(node, 'servers')],
  ['operation', 'callbacks', (node) => findFilled(node, 'callbacks')],
  ['parameter', 'a cookie, or a parameter in another place', findOtherPlace],
  ['parameter', 'the name `__proto__`', ({ name }) => (name === PROTOTYPE ? [['name']] : [])],
  ['schema', 'the name `__proto__`', ({ properties }) => (hasPrototype(properties) ? [['properties']] : [])],
  ['schema', '`$id`, `$anchor`, `$dynamicRef`', (node) => toFindings(REFERENCES.filter((name) => name in node))],
  ['schema', 'keywords beside `$ref` in 3.0', (node, isVersion30) => (isVersion30 ? findBeside(node) : [])],
  ['schema', '`nullable` in 3.1', (node, isVersion30) => (!isVersion30 && 'nullable' in node ? [['nullable']] : [])],
  ['schema', 'a keyword that is none', (node, isVersion30) => (isVersion30 ? [] : findKeywords(node))],
  ['schema', 'another dialect', (node) => findDialect(node, '$schema')],
  ['schema', 'an unknown format', findFormats],
  ['schema', 'an invalid pattern', findPatterns],
  ['schema', 'a value of another type in an `enum`', findOtherTypes],
  ['schema', 'a schema that no value meets', findContradictions],
  ['schema', 'integers that JSON readers round', findHugeIntegers],
  ['schema', 'a keyword with a value that it does not have', findDiscriminator],
  ...EXTENSIONS.map(
    ([kind, names, form, isValid]): Rule => [
      kind,
      'an extension of another form',
      (node) => {
        const wrong = names.filter((name) => node[name] !== undefined && !isValid(node[name]));
        return toFindings(wrong, form);
      },
    ],
  ),
  ...DISTINCT.map(([kind, ...names]): Rule => [kind, 'a misspelt extension', (node) => findMisspelt(node, names)]),
];

/** Validates a schema of OpenAPI 3.1, and returns Ajv's errors. */
export type ValidateSchema = (schema: Node) => readonly object[];

/** Finds everything that the gateway does not support. */
export function findUnsupported(document: OpenAPIV3.Document, validateSchema: ValidateSchema): Mistake[] {
  const isVersion30 = String(document.openapi).startsWith('3.0');
  const mistakes: Mistake[] = [];
  /** The pointer of the schema that was validated last, with all schemas in it. */
  let outermost = '-';
  const ended = new Set<unknown>();
  visit(document, (kind, node, place) => {
    const [beside] = kind === 'schema' ? [] : findBeside(node);
    const section = sectionOf(kind);
    if (beside) {
      // One case is a path item of another file, whose reference bundle.ts leaves because of the keys beside it.
      mistakes.push(toMistake('anything else beside `$ref`', [...place, beside[0] ?? ''], beside[1] ?? ''));
    } else if (section !== undefined && isReference(node) && isElsewhere(node.$ref, section)) {
      mistakes.push(toMistake('a reference to another kind of object', [...place, '$ref'], node.$ref, section));
    } else if (isReference(node) && follow<unknown>(document, node) === undefined) {
      mistakes.push(toMistake('a reference to nothing', place, node.$ref));
    }
    for (const target of kind === 'schema' ? readMapping(node) : []) {
      const $ref = toSchemaReference(target);
      if (follow<unknown>(document, { $ref }) !== undefined) continue;
      mistakes.push(toMistake('a reference to nothing', [...place, 'discriminator', 'mapping'], $ref));
    }
    // A webhook describes requests that another system sends.
    if (place[0] === 'webhooks') return;
    for (const [of, what, find] of RULES) {
      if (of !== kind) continue;
      for (const [name, ...texts] of find(node, isVersion30)) {
        mistakes.push(toMistake(what, name === undefined ? place : [...place, name], ...(texts as never)));
      }
    }
    if (kind === 'schema' && hasNoEnd(document, node, ended)) mistakes.push(toMistake('a schema within itself', place));
    if (kind !== 'schema' || isVersion30) return;
    const pointer = toPointer(place);
    if (pointer.startsWith(`${outermost}/`)) return;
    outermost = pointer;
    mistakes.push(...readMistakes(validateSchema(node), 'a keyword with a value that it does not have', place));
  });
  return mistakes;
}

/** Whether a schema applies itself to the same value, and so has no end. `ended` has the schemas that were checked before. */
function hasNoEnd(document: object, node: unknown, ended: Set<unknown>, around = new Set<unknown>()): boolean {
  if (around.has(node)) return true;
  if (typeof node !== 'object' || node === null || ended.has(node)) return false;
  around.add(node);
  const parts = APPLIED.flatMap((name) => {
    const part = (node as Node)[name];
    return name === 'dependentSchemas' ? Object.values(Object(part)) : [part].flat();
  });
  if (isReference(node)) parts.push(find(document, readReference(node.$ref)).node);
  const isEndless = parts.some((part) => hasNoEnd(document, part, ended, around));
  around.delete(node);
  ended.add(node);
  return isEndless;
}

/** Whether a reference leads to a component of another section. */
function isElsewhere(reference: string, section: string): boolean {
  const [first, other, ...rest] = readReference(reference);
  return first === undefined || (first === 'components' && rest.length === 1 && other !== section);
}

/** The targets in the mapping of a discriminator. */
function readMapping({ discriminator }: Node): readonly string[] {
  const { mapping } = Object(discriminator) as { mapping?: unknown };
  return Object.values(Object(mapping)).filter((target) => typeof target === 'string');
}

/** Creates findings about properties whose messages begin with their names. */
function toFindings(names: readonly string[], ...texts: string[]): Finding[] {
  return names.map((name) => [name, name, ...texts]);
}

function findFilled(node: Node, name: string): Finding[] {
  const value = node[name];
  return typeof value === 'object' && Object.keys(value ?? {}).length > 0 ? [[name]] : [];
}

/** The gateway serves one base path. Hosts do not matter: DNS or a proxy leads to it. */
function findServers(node: Node): Finding[] {
  const all = readServers(node).flatMap((one) => [one, ...withValues(one)]);
  const paths = new Set(all.map((one) => readServerPath(one) || '/'));
  return paths.size > 1 ? [['servers', [...paths].join(' and ')]] : [];
}

function findUrls(node: Node): Finding[] {
  const wrong = readServers(node).filter((one) => readServerPath(one) === undefined);
  return wrong.map(({ url }) => ['servers', url]);
}

/** Lists a server with each value of its variables. */
function withValues({ url, variables = {} }: OpenAPIV3.ServerObject): OpenAPIV3.ServerObject[] {
  return Object.entries(variables ?? {}).flatMap(([name, variable]) =>
    (variable?.enum ?? []).map((value) => ({ url, variables: { ...variables, [name]: { default: value } } })),
  );
}

/** The servers, without those that the specification does not allow. */
function readServers({ servers }: Node): OpenAPIV3.ServerObject[] {
  return [servers].flat().filter((one): one is OpenAPIV3.ServerObject => typeof Object(one).url === 'string');
}

function findDialect(node: Node, name: string): Finding[] {
  const dialect = node[name];
  const isServed = dialect === undefined || DIALECTS.includes(String(dialect).replace(/#$/, ''));
  return isServed ? [] : [[name, name, String(dialect)]];
}

function findOtherPlace({ name, in: place }: Node, isVersion30: boolean): Finding[] {
  // The specification demands a place, and that of OpenAPI 3.0 also demands a text.
  const isKnown = place === undefined || PLACES.includes(place as string) || (isVersion30 && !isText(place));
  const found = isText(place) ? String(place) : JSON.stringify(place);
  return isKnown ? [] : [['in', String(name), found, PLACES.join(', ')]];
}

function findBeside(node: Node): Finding[] {
  const beside = isReference(node) ? listBeside(node) : [];
  return beside.length > 0 ? [[beside[0], beside.join(', ')]] : [];
}

/** An unknown extension may belong to another tool. */
function findMisspelt(node: Node, names: readonly string[]): Finding[] {
  const unknown = Object.keys(node).filter((name) => name.startsWith('x-') && !names.includes(name));
  return unknown.flatMap((name): Finding[] => {
    const near = findNear(name, names);
    return near === undefined ? [] : [[name, name, near]];
  });
}

/** OpenAPI 3.1 allows any keyword in a schema, so a misspelt one would be ignored. */
function findKeywords(node: Node): Finding[] {
  const known = [...KEYWORDS, 'nullable'];
  return toFindings(Object.keys(node).filter((name) => !known.includes(name) && !name.startsWith('x-')));
}

/** Finds invalid discriminators that the specification's own schema allows: that of OpenAPI 3.1 allows any. */
function findDiscriminator({ discriminator }: Node, isVersion30: boolean): Finding[] {
  if (discriminator === undefined) return [];
  const { propertyName, mapping = {}, ...others } = isJsonObject(discriminator) ? discriminator : {};
  const isOfTexts = isJsonObject(mapping) && Object.values(mapping).every(isText);
  const unknown = Object.keys(others).filter((name) => !name.startsWith('x-'));
  const texts = [
    ...(isVersion30 || isText(propertyName) ? [] : ['discriminator must have a propertyName']),
    ...(isVersion30 || isOfTexts ? [] : ['mapping must be a map from values to names of schemas or references']),
    ...unknown.map((name) => `discriminator has ${name}, which OpenAPI does not define: correct it, or remove it`),
  ];
  return texts.map((text) => ['discriminator', text]);
}

/** Finds unknown formats, and int32 for a type other than numbers, because schema.ts gives every int32 its bounds. */
function findFormats({ format, type }: Node): Finding[] {
  if (typeof format !== 'string') return [];
  const types = [type ?? []].flat();
  const isNumber = types.includes('integer') || types.includes('number');
  // The specification allows other formats of numbers for strings too, where they validate nothing.
  const isMisplaced = format === 'int32' && types.length > 0 && !isNumber;
  if (Object.hasOwn(formats, format) && !isMisplaced) return [];
  const remedy = isNumber ? 'use minimum and maximum' : 'use a pattern';
  return [['format', `"${format}"${isMisplaced ? ` of ${types.join(' or ')}` : ''}`, remedy]];
}

function findPatterns({ pattern, patternProperties }: Node): Finding[] {
  const patterns = [...(typeof pattern === 'string' ? [pattern] : []), ...Object.keys(patternProperties ?? {})];
  return patterns.flatMap((text): Finding[] => {
    try {
      new RegExp(text, 'u');
      return [];
    } catch (error) {
      return [[typeof pattern === 'string' ? 'pattern' : 'patternProperties', (error as Error).message]];
    }
  });
}

/** Finds values of an enum that are never valid: YAML reads 1.0 and true without quotes as a number and a boolean. */
function findOtherTypes(node: Node): Finding[] {
  const { type, enum: values } = node;
  const others = Array.isArray(values) ? values.filter((value) => isOfOtherType(node, value)) : [];
  if (others.length === 0) return [];
  const types = [type].flat();
  const remedy = types.includes('string') && !others.includes(null) ? 'put them in quotes' : 'correct them';
  return [['enum', types.join(' or '), others.map((value) => JSON.stringify(value)).join(', '), remedy]];
}

function isOfOtherType(node: Node, value: unknown): boolean {
  return node.type !== undefined && !readTypes(node).includes(typeOf(value));
}

/** Finds two keywords of one schema that no value can meet. */
function findContradictions(node: Node): Finding[] {
  const { const: only, required, properties, patternProperties, additionalProperties } = node;
  const isReversed = (least: unknown, most: unknown, isExclusive: boolean) =>
    typeof least === 'number' && typeof most === 'number' && (least > most || (isExclusive && least === most));
  const isRefused = (name: unknown) => !Object.hasOwn(Object(properties), String(name));
  const isClosed = additionalProperties === false && patternProperties === undefined;
  const found = [
    ...BOUNDS.filter(([least, most]) => isReversed(node[least], node[most], /exclusive/.test(least + most))),
    ...('const' in node && isOfOtherType(node, only) ? [['const', 'type']] : []),
    ...(isClosed && Array.isArray(required) && required.some(isRefused) ? [['required', 'properties']] : []),
  ];
  return found.map(([name = '', other = '']) => [name, name, other]);
}

/** JSON readers, the gateway among them, round larger integers. */
function findHugeIntegers(node: Node): Finding[] {
  if (![node.type].flat().includes('integer')) return [];
  const names = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'enum', 'const'];
  const isHuge = (value: unknown) => typeof value === 'number' && (value < EXACT[0] || value > EXACT[1]);
  const huge = names.filter((name) => [node[name]].flat().some(isHuge));
  return toFindings(huge, String(EXACT[1]));
}
