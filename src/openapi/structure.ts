// The structure of a document: which of its parts can be references, which are schemas, and which are data.

import { follow, isReference, type Place } from './pointer.ts';
import { ALL_METHODS } from './url.ts';

/** The kinds of objects that may be references, or contain some. */
export type Kind =
  | 'document'
  | 'components'
  | 'pathItem'
  | 'operation'
  | 'parameter'
  | 'body'
  | 'response'
  | 'header'
  | 'media'
  | 'example'
  | 'link'
  | 'securityScheme'
  | 'schema';
export type Node = Readonly<Record<string, unknown>>;
type Child = readonly [Kind, 'one' | 'list' | 'map'];

/** The keywords of a schema whose values are schemas: one, a list, or a map of them. */
export const SUBSCHEMAS: Readonly<Record<'one' | 'list' | 'map', readonly string[]>> = {
  one: `additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems
    unevaluatedProperties`.split(/\s+/),
  list: ['allOf', 'anyOf', 'oneOf', 'prefixItems'],
  map: ['$defs', 'definitions', 'dependentSchemas', 'patternProperties', 'properties'],
};

const NAMED = { schema: ['schema', 'one'], content: ['media', 'map'], examples: ['example', 'map'] } as const;

/** The children of each kind of object. All its other properties are data, such as examples and extensions. */
const CHILDREN: Readonly<Record<Kind, Readonly<Record<string, Child>>>> = {
  document: { paths: ['pathItem', 'map'], webhooks: ['pathItem', 'map'], components: ['components', 'one'] },
  components: {
    schemas: ['schema', 'map'],
    parameters: ['parameter', 'map'],
    requestBodies: ['body', 'map'],
    responses: ['response', 'map'],
    headers: ['header', 'map'],
    pathItems: ['pathItem', 'map'],
    examples: ['example', 'map'],
    links: ['link', 'map'],
    securitySchemes: ['securityScheme', 'map'],
  },
  pathItem: {
    parameters: ['parameter', 'list'],
    ...Object.fromEntries(ALL_METHODS.map((method): [string, Child] => [method, ['operation', 'one']])),
  },
  operation: { parameters: ['parameter', 'list'], requestBody: ['body', 'one'], responses: ['response', 'map'] },
  parameter: NAMED,
  body: { content: ['media', 'map'] },
  response: { headers: ['header', 'map'], content: ['media', 'map'], links: ['link', 'map'] },
  header: NAMED,
  media: { schema: ['schema', 'one'], examples: ['example', 'map'] },
  example: {},
  link: {},
  securityScheme: {},
  schema: Object.fromEntries(
    Object.entries(SUBSCHEMAS).flatMap(([count, names]) =>
      names.map((name): [string, Child] => [name, ['schema', count as Child[1]]]),
    ),
  ),
};

/** Visits the objects of a document in place: does not follow references. */
export function visit(document: object, onNode: (kind: Kind, node: Node, place: Place) => void): void {
  const walk = (kind: Kind, node: unknown, place: Place): void => {
    if (typeof node !== 'object' || node === null) return;
    onNode(kind, node as Node, place);
    mapChildren(kind, node as Node, (child, part, at) => walk(child, part, [...place, ...at]));
  };
  walk('document', document, []);
}

/** Copies an object of a document, and maps its children, each with its place in it. A list or map that is a reference stays. */
export function mapChildren(
  kind: Kind,
  node: Node,
  map: (kind: Kind, part: unknown, at: Place) => unknown,
): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...node };
  for (const [name, [child, count]] of Object.entries(CHILDREN[kind])) {
    const value = node[name];
    if (typeof value !== 'object' || value === null) continue;
    const isList = Array.isArray(value);
    // A list in place of one object stays, so that validation reports it.
    if (count === 'one') copy[name] = isList ? value : map(child, value, [name]);
    else if (isList) copy[name] = value.map((part, index) => map(child, part, [name, index]));
    else if (!isReference(value)) {
      const toPart = (key: string, part: unknown) =>
        isExtension(kind, name, key) ? part : map(child, part, [name, key]);
      copy[name] = Object.fromEntries(Object.entries(value).map(([key, part]) => [key, toPart(key, part)]));
    }
  }
  return copy;
}

/** Whether a key of a map is an extension: only paths and the responses of an operation may have some beside their parts. */
export function isExtension(kind: Kind, name: string, key: string): boolean {
  return key.startsWith('x-') && (name === 'paths' || (kind === 'operation' && name === 'responses'));
}

/** Copies a part of a document, resolves its references and converts its schemas. Throws for a reference to nothing. */
export function resolve<T>(document: object, kind: Kind, part: T, convert: (schema: unknown) => unknown): T {
  if (kind === 'schema') return convert(part) as T;
  const node = follow(document, part as Node) as Node | undefined;
  if (typeof node !== 'object' || node === null) throw new Error(`a ${kind} is no object`);
  return mapChildren(kind, node, (child, part) => resolve(document, child, part, convert)) as T;
}

/** Whether a part of an object is a map. */
export function isMap(kind: Kind, name: string): boolean {
  return CHILDREN[kind][name]?.[1] === 'map';
}

/** The names of the properties that are maps in some object. */
export const MAPS: readonly string[] = Object.values(CHILDREN).flatMap((children) =>
  Object.keys(children).filter((name) => children[name]?.[1] === 'map'),
);

/** The section of the components for a kind of object; undefined if not every version has one. */
export function sectionOf(kind: Kind): string | undefined {
  const [section] = Object.entries(CHILDREN.components).find(([, [child]]) => child === kind) ?? [];
  return section === 'pathItems' ? undefined : section;
}
