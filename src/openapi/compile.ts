// Compiles the document: openapi-backend routes and validates, and everything else is computed once.

import { $RefParser } from '@apidevtools/json-schema-ref-parser';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { OpenAPIRouter, OpenAPIValidator } from 'openapi-backend';
import type { OpenAPIV3 } from 'openapi-types';
import { DocumentError, type Locate, openDocument, readApiRoot } from './document.ts';
import { formats } from './formats.ts';
import { findInvalidParameters, findMisplacedPaths, readMistakes } from './mistakes.ts';
import { type Operation, readOperations } from './operations.ts';
import { toPointer } from './pointer.ts';
import { createMatch, type Match } from './router.ts';
import { findUnsupported, separateReferences } from './support.ts';
import { readTexts, readTranslations, type Translations } from './translations.ts';

/** A document that was read, checked and compiled. */
export type CompiledDocument = {
  /** The document as it was read. */
  readonly source: OpenAPIV3.Document;
  /** By operationId. */
  readonly operations: ReadonlyMap<string, Operation>;
  /** The validators of each operation's requests, by operationId. */
  readonly validators: ReadonlyMap<string, readonly ValidateFunction[]>;
  /** Of the messages of a 422. */
  readonly translations: Translations;
  /** The Portuguese of the summaries and descriptions. */
  readonly texts: Translations;
  readonly match: Match;
  /** Names a place in the document as it was read: the file may have changed since. */
  readonly locate: Locate;
};

/** Reads and compiles a document file. Throws DocumentError with the line of each mistake. */
export async function compileFile(file: string): Promise<CompiledDocument> {
  const { document, locate } = await openDocument(file);
  try {
    return { ...(await compile(document)), texts: readTexts(file), locate };
  } catch (error) {
    throw error instanceof DocumentError ? error.located(locate) : error;
  }
}

/** Compiles a document, with options for Ajv, such as those for code that browsers run. Throws DocumentError with all mistakes if it is invalid or unsupported. */
export async function compile(source: OpenAPIV3.Document, options: Options = {}): Promise<CompiledDocument> {
  const misplaced = [...findMisplacedPaths(source), ...findInvalidParameters(source)];
  if (misplaced.length > 0) throw new DocumentError(misplaced);
  const { errors = [] } = await new Validator({ allErrors: true }).validate(structuredClone(source) as never);
  if (errors.length > 0) throw new DocumentError(readMistakes(errors));
  const unsupported = findUnsupported(source);
  if (unsupported.length > 0) throw new DocumentError(unsupported);
  const definition = await dereference(source);
  const createOwnAjv = (own: Options = {}) => createAjv({ ...own, ...options }, source);
  const operations = readOperations(definition, createAllows(createOwnAjv()));
  // The backend's own router would find the operations again, as they are written.
  const router = new OpenAPIRouter({ definition });
  router.getOperations = () => [...operations.values()].map((operation) => operation.source) as never;
  // The backend's own validator also compiles the response schemas, which takes longer than everything else together.
  const validator = new OpenAPIValidator({
    definition,
    router,
    lazyCompileValidators: true,
    customizeAjv: (_default, ajvOptions) => createOwnAjv(ajvOptions),
  });
  try {
    const toValidators = (id: string) => [id, validator.getRequestValidatorsForOperation(id)] as const;
    return {
      source,
      operations,
      validators: new Map([...operations.keys()].map(toValidators)),
      translations: readTranslations(source),
      texts: new Map(),
      match: createMatch(operations, readApiRoot(source)),
      locate: toPointer,
    };
  } catch (error) {
    throw error instanceof DocumentError
      ? error
      : new DocumentError([{ text: (error as Error).message }], { cause: error });
  }
}

type SchemaCompiler = { compileSchema(ajv: Ajv, schema: object): ValidateFunction };

/** Compiles a schema, which may contain itself; Ajv alone would not come to an end. */
export function compileSchema(ajv: Ajv, schema: object): ValidateFunction {
  return (OpenAPIValidator as unknown as SchemaCompiler).compileSchema(ajv, schema);
}

/** A copy of the document without references; a schema may then contain itself. */
async function dereference(source: OpenAPIV3.Document): Promise<OpenAPIV3.Document> {
  try {
    const options = { resolve: { external: false } } as never;
    return (await $RefParser.dereference(
      separateReferences(source) as never,
      options,
    )) as unknown as OpenAPIV3.Document;
  } catch (error) {
    throw new DocumentError([{ text: (error as Error).message }], { cause: error });
  }
}

/** Creates the function that says whether a schema allows a value. It compiles each schema once. */
function createAllows(ajv: Ajv) {
  const compiled = new Map<object, ValidateFunction>();
  return (schema: object, value: unknown): boolean => {
    const isValid = compiled.get(schema) ?? compileSchema(ajv, schema);
    compiled.set(schema, isValid);
    return isValid(value) === true;
  };
}

/**
 * Creates the validator for requests and responses, of the JSON Schema that the document's version has. It reports all errors
 * and converts nothing. It throws for an unknown format.
 */
export function createAjv(
  options: Options = {},
  { openapi }: Pick<OpenAPIV3.Document, 'openapi'> = { openapi: '3.0' },
): Ajv {
  const Version = openapi.startsWith('3.0') ? Ajv : (Ajv2020 as unknown as typeof Ajv);
  return new Version({
    ...options,
    allErrors: true,
    verbose: true,
    coerceTypes: false,
    // OpenAPI adds keywords to JSON Schema. Validating the document finds unknown ones.
    strict: false,
    strictNumbers: true,
    formats,
    logger: { log: () => {}, warn: fail, error: fail },
  });
}

function fail(message: unknown): never {
  throw new Error(String(message));
}
