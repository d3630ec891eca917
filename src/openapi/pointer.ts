// Places in a document. Runs in browsers too, in the client's handlers for msw.

/** A place in a document, as a path of names and indices. */
export type Place = readonly (string | number)[];

/** Parses a JSON pointer such as `#/paths/~1alunos`. */
export function readPointer(pointer: string): Place {
  return pointer.replace(/^#?\//, '').split('/').map(unescapePointer);
}

/** Unescapes one name of a JSON pointer (RFC 6901, section 4). */
export function unescapePointer(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Names a place by its JSON pointer, such as `#/paths/~1alunos` (RFC 6901). */
export function toPointer(place: Place): string {
  return ['#', ...place.map((name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}
