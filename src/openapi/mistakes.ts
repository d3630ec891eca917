// Turns what openapi-backend says of an invalid document into one line for each mistake.

import type { OpenAPIV3 } from 'openapi-types';
import { type Mistake, readPointer } from './document.ts';

type SchemaError = {
  readonly instancePath: string;
  readonly message: string;
  readonly keyword: string;
  readonly params: { readonly additionalProperty?: string };
};

const PLACES = ['query', 'path', 'header', 'cookie'];

/** Parameters with an invalid `in`: openapi-backend fails on them without saying where. */
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

/** Paths outside of `paths`: YAML that was pasted with the wrong indentation. */
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
 * The errors that openapi-backend lists as JSON after its message, without those that only follow from others: a mistake
 * in an object also makes every object around it invalid, and an invalid reference.
 */
function readSchemaErrors(message: string): SchemaError[] {
  const [, list] = /^Document is not valid OpenAPI\.[^\n]*\n(.*)$/s.exec(message) ?? [];
  if (list === undefined) return [];
  const errors = (JSON.parse(list) as SchemaError[]).filter(({ keyword }) => keyword !== 'oneOf');
  const isReferenceMissing = (error: SchemaError) => /property '\$ref'/.test(error.message);
  // Where a schema is allowed, so is a reference. As a reference, every name of the schema is unknown, and a wrong name is
  // reported twice.
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
  const what =
    additionalProperty === undefined ? message : `has ${additionalProperty}, which is none of OpenAPI's names`;
  const place = readPointer(instancePath);
  const at = additionalProperty === undefined ? place : [...place, additionalProperty];
  return { text: `${instancePath || 'the document'} ${what}`, place: at };
}

/** The alternatives of a schema report the same mistake once for each of them. */
function isFirstOfItsText({ text }: Mistake, index: number, all: readonly Mistake[]): boolean {
  return all.findIndex((other) => other.text === text) === index;
}
