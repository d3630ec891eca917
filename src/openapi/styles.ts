// How the value of a parameter is written: its style, and whether an array explodes (OpenAPI, "Style Values").

import type { Json } from '../store/store.ts';

/** The properties of a parameter that say how its value is written. */
export type Styled = { readonly in: string; readonly style?: string; readonly explode?: boolean };

/** What separates the items of an array in one text. */
export type Separator = ',' | ' ' | '|';

/** Every style that is served, with its place in a request. */
export const SEPARATORS: Readonly<Record<string, Separator>> = {
  'form query': ',',
  'spaceDelimited query': ' ',
  'pipeDelimited query': '|',
  'simple path': ',',
  'simple header': ',',
};

/** The style of a parameter; without a separator if the gateway does not serve that style. */
export function readStyle({ in: place, style: own, explode }: Styled) {
  const style = own ?? (place === 'query' ? 'form' : 'simple');
  // In a query only `form` explodes by default. In a path or a header the separator is always a comma.
  const isExploded = place === 'query' && (explode ?? style === 'form');
  return { style, isExploded, separator: SEPARATORS[`${style} ${place}`] };
}

/** The texts of a parameter: one, or one for each item of an array that explodes. */
export function writeValue(parameter: Styled, value: Json): string[] {
  const { isExploded, separator = ',' } = readStyle(parameter);
  return writeItems(parameter.in, isExploded ? undefined : separator, value);
}

/** As writeValue, by the separator of an array; without one it explodes. */
export function writeItems(place: string, separator: Separator | undefined, value: Json): string[] {
  const items = [value].flat().map((part) => (place === 'header' ? String(part) : encodeURIComponent(String(part))));
  // A comma that is encoded belongs to an item (RFC 6570, 3.2.1).
  return separator === undefined || !Array.isArray(value) ? items : [items.join(encodeURI(separator))];
}
