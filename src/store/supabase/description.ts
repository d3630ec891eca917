// What PostgREST publishes of the functions that its caller may execute: names, arguments, and nothing of results.

import type { DatabaseFunction } from '../store.ts';

type Published = {
  readonly paths?: Readonly<Record<string, { readonly get?: { readonly parameters?: readonly Parameter[] } }>>;
};
type Parameter = { readonly name?: string; readonly format?: string; readonly required?: boolean };

const PREFIX = '/rpc/';

/** The functions in the OpenAPI 2.0 document at the root of a PostgREST; what is no such document has none. */
export function readPublished(text: string): DatabaseFunction[] {
  const { paths = {} } = parse(text);
  return Object.entries(paths).flatMap(([path, { get }]) => {
    if (!path.startsWith(PREFIX)) return [];
    const parameters = get?.parameters ?? [];
    return [
      {
        name: path.slice(PREFIX.length),
        arguments: parameters.flatMap(({ name, format, required }) =>
          name === undefined ? [] : [{ name, type: format ?? '', hasDefault: required !== true }],
        ),
      },
    ];
  });
}

function parse(text: string): Published {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
