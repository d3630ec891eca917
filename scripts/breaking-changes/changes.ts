// Compares the APIs that two documents describe.

import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { readApiRoot } from '../../src/openapi/document.ts';
import { findKeyScheme } from '../../src/openapi/examples.ts';
import { type DocumentOperation, listSources } from '../../src/openapi/operations.ts';
import { itemsOf, type Schema } from '../../src/openapi/schema.ts';
import type { Node } from '../../src/openapi/structure.ts';
import { normalizeTemplate, readStyle, readTemplate } from '../../src/openapi/url.ts';
import { below, createComparison, type Difference, namesOf, type Use } from './schemas.ts';

/** A difference between two documents, as a line of the report. */
export type Change = { readonly isBreaking: boolean; readonly line: string };

/** An operation, one of its parameters, its body, a response or a header. */
type Part = {
  /** Its name in a report, such as `GET /alunos query limit`. */
  readonly name: string;
  readonly use: Use;
  readonly fields: Node;
  /** Set if the schema is that of the content: a report then names only the keywords. */
  readonly isContent?: true;
  /** The key of the part that contains this one. */
  readonly around?: string;
};

/** Parts by a key that is equal for equal parts: path parameters count by position, and headers ignore case. */
type Parts = ReadonlyMap<string, Part>;

/** Finds the changes from one document to another, breaking ones first. Leaves out texts and examples. */
export function findChanges(before: OpenAPIV3.Document, after: OpenAPIV3.Document): Change[] {
  const [root, ownRoot] = [readApiRoot(before), readApiRoot(after)];
  // A part of the URL may move from the server to the paths, or back.
  const isBelow = listSources(after).every(({ path }) => `${ownRoot}${path}`.startsWith(`${root}/`));
  const later = readParts(after, (path) => (isBelow ? `${ownRoot}${path}`.slice(root.length) : path));
  const moved: Difference = { path: ['0', 'url'], isBreaking: true, before: root || '/', after: ownRoot || '/' };
  const changes = [...(isBelow ? [] : [toChange('servers', moved)]), ...compareParts(readParts(before), later)];
  return changes.sort((a, b) => Number(b.isBreaking) - Number(a.isBreaking));
}

function readParts(document: OpenAPIV3.Document, toRoute = (path: string) => path): Parts {
  const sources = listSources(document).map(({ read }) => read());
  return new Map(sources.flatMap((source) => [...readOperation(document, source, toRoute(source.path))]));
}

/** Reads an operation and its parts, each with its key. */
function* readOperation(
  document: OpenAPIV3.Document,
  source: DocumentOperation,
  route: string,
): Iterable<[string, Part]> {
  const { path, method, parameters = [], requestBody, responses, security, ...others } = source;
  const name = `${method.toUpperCase()} ${route}`;
  const around = `${method} ${normalizeTemplate(route).replace(/\{[^}]+\}/g, '{}')}`;
  // Header names ignore case.
  const keyHeader = findKeyScheme(document, security ?? [])?.name.toLowerCase() ?? '';
  yield [around, { name, use: 'request', fields: { security: keyHeader, ...others } }];
  for (const parameter of parameters) {
    const { name: own, in: place, required, style: _style, explode: _explode, place: _place, ...rest } = parameter;
    const key = place === 'path' ? readTemplate(path).indexOf(own) : place === 'header' ? own.toLowerCase() : own;
    const { style, isExploded } = readStyle(parameter);
    const isList = itemsOf(rest.schema ?? {}) !== undefined;
    const written = isList ? { style: isExploded ? 'form, exploded' : style } : {};
    const fields = { ...rest, ...(required ? { required } : {}), ...written };
    yield [`${around} ${place} ${key}`, { name: `${name} ${place} ${own}`, use: 'request', fields, around }];
  }
  const toPart = (own: string, part: Omit<Part, 'name'>): [string, Part] => [
    `${around} ${own}`,
    { name: `${name} ${own}`, around, ...part },
  ];
  if (requestBody) yield toPart('body', { use: 'request', ...readContent(requestBody) });
  for (const [status, response] of Object.entries(responses)) {
    const { headers = {}, ...answer } = response;
    yield toPart(status, { use: 'answer', ...readContent(answer) });
    for (const [own, fields] of Object.entries(headers as Readonly<Record<string, Node>>)) {
      yield toPart(`${status} header ${own.toLowerCase()}`, { use: 'answer', fields, around: `${around} ${status}` });
    }
  }
}

function readContent({ content, ...fields }: OpenAPIV3.ResponseObject | OpenAPIV3.RequestBodyObject) {
  const schema = content?.['application/json']?.schema as Schema | undefined;
  return { fields: { ...fields, ...(schema ? { schema } : {}) }, isContent: true } as const;
}

function compareParts(before: Parts, after: Parts): Change[] {
  const compare = createComparison();
  const keys = new Set([...before.keys(), ...after.keys()]);
  return [...keys].flatMap((key) => {
    const [one, other] = [before.get(key), after.get(key)];
    const { name, use, around = '' } = (one ?? other) as Part;
    if (one && other) return compareFields(one, other, compare).map((found) => toChange(name, found));
    // The part that contains it is new or gone, which is reported once.
    if (around !== '' && !(one ? after : before).has(around)) return [];
    const isBreaking = one !== undefined || (use === 'request' && other?.fields.required === true);
    return [toChange(name, { path: [], isBreaking, before: one?.fields, after: other?.fields })];
  });
}

/** The fields that are no annotations. A change breaks clients if this is true of a request's new value, or of an answer's old one. */
const ASKS_MORE: Readonly<Record<string, (value: unknown) => boolean>> = {
  required: (value) => value === true,
  security: (value) => value !== '',
  style: () => true,
  schema: (value) => value !== undefined,
};

function compareFields(one: Part, other: Part, compare: ReturnType<typeof createComparison>): Difference[] {
  return namesOf(one.fields, other.fields).flatMap((name) => {
    const [before, after] = [one.fields[name], other.fields[name]];
    if (name === 'schema' && before && after) {
      const differences = compare(one.use, before as Schema, after as Schema);
      return one.isContent ? differences : below(name, differences);
    }
    const asksMore = ASKS_MORE[name];
    if (!asksMore || isDeepStrictEqual(before, after)) return [];
    return [{ path: [name], isBreaking: asksMore(one.use === 'request' ? after : before), before, after }];
  });
}

/** The maximum length of a value in a report, and of its nesting. */
const MAX_VALUE = 80;
const MAX_DEPTH = 8;

function toChange(place: string, { isBreaking, path, before, after }: Difference): Change {
  const effect = isBreaking ? 'breaking' : 'non-breaking';
  const at = [effect, place, ...(path.length > 0 ? [path.join('.')] : [])].join(': ');
  return { isBreaking, line: `${at}: ${format(before)} → ${format(after)}` };
}

function format(value: unknown): string {
  if (value === undefined) return 'none';
  const text = JSON.stringify(copy(value));
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}

/** Copies a value to a limited depth, because a schema may contain itself. */
function copy(value: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) return undefined;
  if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, copy(part, depth + 1)]));
}
