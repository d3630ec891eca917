// Places in a document, and the references between them. Runs in browsers too, in the client's handlers for msw.

/** A place in a document, as a path of names and indices. */
export type Place = readonly (string | number)[];

/** The value at a place, and its place behind all references. */
type Found = { readonly node: unknown; readonly place: Place };

/** A longer chain of references counts as a cycle. */
export const MAX_REFERENCES = 100;

/**
 * Finds the value at a place, and follows the references on the way. Names beside a `$ref` take precedence over what it refers
 * to. The node is undefined if the document has no such place.
 */
export function find(document: object, place: Place, passed = 0): Found {
  let found: Found = { node: document, place: [] };
  for (const name of place) {
    const isOwn = Object.hasOwn(Object(found.node), name);
    const { node, place } = isOwn ? found : enter(document, found, passed);
    const parts = Object(node) as Readonly<Record<string, unknown>>;
    found = { node: Object.hasOwn(parts, name) ? parts[name] : undefined, place: [...place, name] };
  }
  return found;
}

/** Resolves a reference; undefined if it leads to nothing. Returns any other value unchanged. */
export function follow<T>(document: object, value: T | { $ref: string }): T {
  return enter(document, { node: value, place: [] }).node as T;
}

/** Resolves a found value if it is a reference. The node is undefined if that leads to nothing. */
export function enter(document: object, found: Found, passed = 0): Found {
  if (!isReference(found.node)) return found;
  const { $ref } = found.node;
  if (!$ref.startsWith('#') || passed > MAX_REFERENCES) return { ...found, node: undefined };
  return enter(document, find(document, readReference($ref), passed + 1), passed + 1);
}

/** Splits a reference, which is a URI, into the path of a file, empty for the same file, and the pointer in it. */
export function splitReference(reference: string): { readonly path: string; readonly pointer: string } {
  const [path = '', pointer = ''] = reference.split('#');
  return { path: decode(path), pointer: `#${pointer}` };
}

/** Parses the pointer in a reference, which is a fragment of a URI (RFC 6901, section 6). */
export function readReference(fragment: string): Place {
  return ['', '#'].includes(fragment) ? [] : readPointer(decode(fragment));
}

/** Whether a value has the form of a reference. */
export function isReference(value: unknown): value is { readonly $ref: string } {
  return typeof (value as { $ref?: unknown } | null | undefined)?.$ref === 'string';
}

/** Lists the names beside a `$ref`, except for a summary and a description. */
export function listBeside(reference: object): string[] {
  return Object.keys(reference).filter((name) => !['$ref', 'summary', 'description'].includes(name));
}

function decode(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}

/** Parses a JSON pointer such as `#/paths/~1alunos`. */
export function readPointer(pointer: string): Place {
  return pointer.replace(/^#?\//, '').split('/').map(unescapePointer);
}

/** Unescapes one name of a JSON pointer (RFC 6901, section 4). */
export function unescapePointer(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Writes a place as a JSON pointer, such as `#/paths/~1alunos` (RFC 6901). */
export function toPointer(place: Place): string {
  return ['#', ...place.map((name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}
