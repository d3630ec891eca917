// Finds the mistakes in an invalid document, and converts openapi-backend's errors to one line per mistake.

import type { OpenAPIV3 } from 'openapi-types';
import { type Mistake, readPointer } from './document.ts';

type SchemaError = {
  readonly instancePath: string;
  readonly message: string;
  readonly keyword: string;
  readonly params: { readonly additionalProperty?: string };
};

const PLACES = ['query', 'path', 'header', 'cookie'];

/** Finds parameters with an invalid `in`: openapi-backend's error for them has no place. */
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

/** Reads the mistakes from an error that openapi-backend throws when it starts. */
export function readMistakes(error: unknown): Mistake[] {
  const { message, parentPath } = error as Error & { parentPath?: string };
  const errors = readSchemaErrors(message);
  if (errors.length > 0) return errors.map(toMistake).filter(isFirstOfItsText);
  return [{ text: message, ...(parentPath ? { place: readPointer(parentPath) } : {}) }];
}

/**
 * Reads the errors that openapi-backend lists as JSON after its message. Drops errors that only follow from others: a
 * mistake also makes every enclosing object invalid, and makes the object an invalid reference.
 */
function readSchemaErrors(message: string): SchemaError[] {
  const [, list] = /^Document is not valid OpenAPI\.[^\n]*\n(.*)$/s.exec(message) ?? [];
  if (list === undefined) return [];
  const errors = (JSON.parse(list) as SchemaError[]).filter(({ keyword }) => keyword !== 'oneOf');
  const isReferenceMissing = (error: SchemaError) => /property '\$ref'/.test(error.message);
  // A schema may be replaced by a reference. As a reference, all its names are unknown: a valid name is reported once,
  // and a wrong name twice.
  const isOfReference = ({ instancePath, params: { additionalProperty } }: SchemaError) => {
    const here = errors.filter((other) => other.instancePath === instancePath);
    const times = here.filter(({ params }) => params.additionalProperty === additionalProperty).length;
    return additionalProperty !== undefined && here.some(isReferenceMissing) && times === 1;
  };
  const isOuter = ({ instancePath }: SchemaError) =>
    errors.some((other) => other.instancePath.startsWith(`${instancePath}/`));
  return errors.filter((error) => !isOuter(error) && !isReferenceMissing(error) && !isOfReference(error));
}

function toMistake({ instancePath, message, params }: SchemaError): Mistake {
  const { additionalProperty } = params;
  const what = additionalProperty === undefined ? message : `has ${additionalProperty}, which OpenAPI does not define`;
  const place = readPointer(instancePath);
  const at = additionalProperty === undefined ? place : [...place, additionalProperty];
  return { text: `${instancePath || 'the document'} ${what}`, place: at };
}

/** Each alternative of a schema reports the same mistake: keeps the first. */
function isFirstOfItsText({ text }: Mistake, index: number, all: readonly Mistake[]): boolean {
  return all.findIndex((other) => other.text === text) === index;
}
