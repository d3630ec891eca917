// Compiles the document: openapi-backend routes and validates, and everything else is computed once.

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Ajv, type Options, type ValidateFunction } from 'ajv';
import { OpenAPIBackend, OpenAPIValidator } from 'openapi-backend';
import type { OpenAPIV3 } from 'openapi-types';
import { createLocator, DocumentError, type Locate, parseDocument, readApiRoot, toPointer } from './document.ts';
import { formats } from './formats.ts';
import { findInvalidParameters, findMisplacedPaths, readMistakes } from './mistakes.ts';
import { type Operation, readOperations } from './operations.ts';
import { createMatch, type Match } from './router.ts';
import { readTranslations, type Translations } from './translations.ts';

/** A document that was read, checked and compiled. */
export type CompiledDocument = {
  /** The document as it was read. */
  readonly source: OpenAPIV3.Document;
  /** By operationId. */
  readonly operations: ReadonlyMap<string, Operation>;
  /** The validators of each operation's requests, by operationId. */
  readonly validators: ReadonlyMap<string, readonly ValidateFunction[]>;
  readonly translations: Translations;
  readonly match: Match;
  /** Names a place in the document as it was read: the file may have changed since. */
  readonly locate: Locate;
};

/** Reads and compiles a document file. Throws DocumentError with the line of each mistake. */
export async function compileFile(file: string): Promise<CompiledDocument> {
  const text = readFileSync(file, 'utf8');
  const document = parseDocument(text, file);
  const locate = createLocator(text, basename(file));
  try {
    return { ...(await compile(document)), locate };
  } catch (error) {
    throw error instanceof DocumentError ? error.located(locate) : error;
  }
}

/** Compiles a document, with options for Ajv. Throws DocumentError with all mistakes if it is invalid or unsupported. */
export async function compile(source: OpenAPIV3.Document, options: Options = {}): Promise<CompiledDocument> {
  const misplaced = [...findMisplacedPaths(source), ...findInvalidParameters(source)];
  if (misplaced.length > 0) throw new DocumentError(misplaced);
  const apiRoot = readApiRoot(source);
  const backend = new OpenAPIBackend<OpenAPIV3.Document>({
    definition: structuredClone(source),
    apiRoot,
    strict: true,
    validate: false,
  });
  try {
    await backend.init();
    const { definition } = backend;
    const operations = readOperations(definition, backend.router.getOperations());
    // The backend's own validator also compiles the response schemas, which takes longer than everything else together.
    const validator = new OpenAPIValidator({
      definition,
      router: backend.router,
      lazyCompileValidators: true,
      customizeAjv: (_default, ajvOptions) => createAjv({ ...ajvOptions, ...options }),
    });
    const toValidators = (id: string) => [id, validator.getRequestValidatorsForOperation(id)] as const;
    return {
      source,
      operations,
      validators: new Map([...operations.keys()].map(toValidators)),
      translations: readTranslations(source),
      match: createMatch(operations, apiRoot),
      locate: toPointer,
    };
  } catch (error) {
    throw error instanceof DocumentError ? error : new DocumentError(readMistakes(error), { cause: error });
  }
}

/**
 * Creates the validator for requests and responses. It reports all errors and converts nothing. It throws for an unknown
 * format.
 */
export function createAjv(options: Options = {}): Ajv {
  return new Ajv({
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
