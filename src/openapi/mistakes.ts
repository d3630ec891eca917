// What a document can be refused for, and the mistakes in it: one line for each, with the place.

import type { Mistake } from './document.ts';
import { ALL_METHODS } from './path.ts';
import { find, type Place, readPointer, toPointer } from './pointer.ts';

/** Everything that a document is refused for, in the order of docs/openapi-support.md, which a test holds to this list. */
export const REFUSED = [
  'what the specification does not allow',
  'a path outside of `paths`',
  'a reference to nothing',
  'several paths of servers',
  "a variable in a server's path with several values",
  'servers of a path or an operation',
  'another dialect',
  '`head`, `options`, `trace`',
  'callbacks',
  'two paths of one shape',
  'two parameters in one segment',
  'a parameter of the path that is not declared',
  'a parameter in path that the path does not have',
  "a path of the gateway's own",
  'no function',
  'a name over 63 characters',
  'no operationId',
  'an operationId twice',
  'no security, or `security: []`',
  'optional security',
  'bearer, OAuth, OpenID Connect, cookies, two schemes',
  'a cookie',
  'a parameter in another place',
  'a parameter with content',
  'an object as a parameter, `deepObject`',
  'the styles `label` and `matrix`',
  'the headers `Accept`, `Content-Type`, `Authorization`',
  '`allowEmptyValue` of a number',
  'a name without letters and digits',
  'two parameters with one argument',
  '`after` without ids',
  'a body of a GET or a DELETE',
  'forms, uploads and XML in a body',
  'CSV and XML in an answer',
  'content without a schema',
  'several success statuses, or none',
  'content of a 204',
  'redirections',
  'another form of errors',
  '`x-conflicts` of another form',
  'a header that is never sent',
  '`Location` without a link',
  'a link to no operation',
  'an unknown format',
  'an invalid pattern',
  '`$id`, `$anchor`, `$dynamicRef`',
  'keywords beside `$ref` in 3.0',
  '`nullable` in 3.1',
  'a keyword that is none',
  'a keyword with a value that it does not have',
  'integers that JSON readers round',
] as const;

export type Refused = (typeof REFUSED)[number];

type SchemaError = {
  readonly instancePath: string;
  readonly message: string;
  readonly keyword: string;
  readonly params: {
    readonly additionalProperty?: string;
    readonly unevaluatedProperty?: string;
    readonly allowedValues?: readonly unknown[];
  };
};

/** Reads the mistakes from the errors of a validator for what stands at a place, or from its only message. */
export function readMistakes(errors: string | readonly object[], what: Refused, at: Place = []): Mistake[] {
  if (typeof errors === 'string') return [{ what, text: errors, place: at }];
  return dropConsequences(errors as SchemaError[]).map(({ instancePath, message, params }) => {
    const unknown = params.additionalProperty ?? params.unevaluatedProperty;
    const allowed = params.allowedValues ? `: ${params.allowedValues.join(', ')}` : '';
    const text =
      unknown === undefined
        ? message + allowed
        : `has ${unknown}, which OpenAPI does not define: correct it, or call it x-${unknown}`;
    const place = [...at, ...(instancePath === '' ? [] : readPointer(instancePath))];
    const within = toPointer(splitPlace(place).rest).slice('#/'.length);
    return { what, text: `${within} ${text}`.trim(), place: unknown === undefined ? place : [...place, unknown] };
  });
}

/**
 * Drops errors that only follow from others: a mistake also makes every enclosing object invalid, and the object is no
 * reference either.
 */
function dropConsequences(all: readonly SchemaError[]): SchemaError[] {
  const isChoice = (place: string) => all.some((other) => other.keyword === 'anyOf' && other.instancePath === place);
  const isFirst = (error: SchemaError) => all.find((other) => other.instancePath === error.instancePath) === error;
  const errors = all.filter(
    (error) => !['anyOf', 'oneOf', 'if'].includes(error.keyword) && (isFirst(error) || !isChoice(error.instancePath)),
  );
  const isReferenceMissing = (error: SchemaError) => /property '\$ref'/.test(error.message);
  const isOuter = ({ instancePath, keyword }: SchemaError) =>
    keyword !== 'required' && errors.some((other) => other.instancePath.startsWith(`${instancePath}/`));
  return errors.filter((error) => !isOuter(error) && !isReferenceMissing(error));
}

/**
 * The mistakes as a person reads them: each once, at the place that it has behind references, and with the name of the operation or
 * component there. What is within another mistake follows from it.
 */
export function describeMistakes(document: object, mistakes: readonly Mistake[]): Mistake[] {
  const described = new Map<string, Mistake>();
  for (const mistake of mistakes) {
    const { text, place = [] } = mistake;
    const found = find(document, place);
    const real = found.node === undefined ? place : found.place;
    const { name } = splitPlace(real);
    const key = `${toPointer(real)} ${text}`;
    if (!described.has(key))
      described.set(key, { ...mistake, text: name === '' ? text : `${name}: ${text}`, place: real });
  }
  return [...described.values()];
}

/** The operation or component that a place is in, by a short name, and the rest of the place. */
function splitPlace(place: Place): { readonly name: string; readonly rest: Place } {
  const [first, second, third] = place;
  if (first === 'paths' && second !== undefined) {
    return ALL_METHODS.includes(String(third))
      ? { name: `${String(third).toUpperCase()} ${second}`, rest: place.slice(3) }
      : { name: String(second), rest: place.slice(2) };
  }
  const isComponent = first === 'components' && third !== undefined;
  return isComponent ? { name: `${second} ${third}`, rest: place.slice(3) } : { name: '', rest: place };
}
