// Finds the mistakes in an invalid document: one line for each.

import type { OpenAPIV3 } from 'openapi-types';
import type { Mistake } from './document.ts';
import { readPointer } from './pointer.ts';

type SchemaError = {
  readonly instancePath: string;
  readonly message: string;
  readonly keyword: string;
  readonly params: { readonly additionalProperty?: string; readonly unevaluatedProperty?: string };
};

const PLACES = ['query', 'path', 'header', 'cookie'];

/** Finds parameters with an invalid `in`: the errors of the validator for them are many, and none is clear. */
export function findInvalidParameters(document: OpenAPIV3.Document): Mistake[] {
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    Object.entries(item ?? {}).flatMap(([method, operation]) => {
      const { parameters = [] } = operation as OpenAPIV3.OperationObject;
      return parameters.flatMap((parameter, index) => {
        if ('$ref' in parameter || PLACES.includes(parameter.in)) return [];
        const text = `parameter ${parameter.name} is in ${parameter.in}: expected one of ${PLACES.join(', ')}`;
        return [{ text, place: ['paths', path, method, 'parameters', index, 'in'] }];
      });
    }),
  );
}

/** Finds paths outside `paths`, which happens when YAML is pasted with the wrong indentation. */
export function findMisplacedPaths(document: OpenAPIV3.Document): Mistake[] {
  const items = Object.entries(document.paths ?? {}).map(([path, item]) => [['paths', path], item] as const);
  return [[[], document] as const, ...items].flatMap(([place, node]) =>
    Object.keys(node ?? {})
      .filter((name) => name.startsWith('/'))
      .map((name) => {
        const parent = place.at(-1) ?? 'the top level';
        const text = `${name} is at ${parent} instead of under paths: indent it like the other paths, by two spaces`;
        return { text, place: [...place, name] };
      }),
  );
}

/** Reads the mistakes from the errors of the validator of documents, or from its only message. */
export function readMistakes(errors: string | readonly object[]): Mistake[] {
  if (typeof errors === 'string') return [{ text: errors }];
  return dropConsequences(errors as SchemaError[])
    .map(toMistake)
    .filter(isFirstOfItsText);
}

/**
 * Drops errors that only follow from others: a mistake also makes every enclosing object invalid, and the object is no
 * reference either.
 */
function dropConsequences(all: readonly SchemaError[]): SchemaError[] {
  const errors = all.filter(({ keyword }) => keyword !== 'oneOf' && keyword !== 'if');
  const isReferenceMissing = (error: SchemaError) => /property '\$ref'/.test(error.message);
  const isOuter = ({ instancePath }: SchemaError) =>
    errors.some((other) => other.instancePath.startsWith(`${instancePath}/`));
  return errors.filter((error) => !isOuter(error) && !isReferenceMissing(error));
}

function toMistake({ instancePath, message, params }: SchemaError): Mistake {
  const { additionalProperty, unevaluatedProperty } = params;
  const unknown = additionalProperty ?? unevaluatedProperty;
  const what = unknown === undefined ? message : `has ${unknown}, which OpenAPI does not define`;
  const place = readPointer(instancePath);
  const at = unknown === undefined ? place : [...place, unknown];
  return { text: `${instancePath || 'the document'} ${what}`, place: at };
}

/** Each alternative of a schema reports the same mistake: keeps the first. */
function isFirstOfItsText({ text }: Mistake, index: number, all: readonly Mistake[]): boolean {
  return all.findIndex((other) => other.text === text) === index;
}
