// Compiles the document: openapi-backend routes and validates, and everything else is computed once.

import { Validator } from '@seriousme/openapi-schema-validator';
import { _, type Ajv, type CodeKeywordDefinition, Name, type Options, str, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { OpenAPIValidator } from 'openapi-backend';
import type { OpenAPIV3 } from 'openapi-types';
import { DocumentError, type Locate, type Mistake, openDocument, readApiRoot } from './document.ts';
import { formats } from './formats.ts';
import { describeMistakes, readMistakes } from './mistakes.ts';
import { type Operation, readOperations } from './operations.ts';
import { toPointer } from './pointer.ts';
import type { Schema } from './schema.ts';
import { findUnsupported, type ValidateSchema } from './support.ts';
import { readTexts, readTranslations, type Translations } from './translations.ts';
import { createMatch, type Match } from './url.ts';
import { ONCE, writeSchemas } from './written-schemas.ts';

/** The id of the schemas that several operations use. */
const SHARED = 'shared';

/** A document that was read, checked and compiled. */
export type CompiledDocument = {
  /** The document as it was read. */
  readonly source: OpenAPIV3.Document;
  /** The path of its server, such as /v1; empty for the root. */
  readonly apiRoot: string;
  /** By operationId. */
  readonly operations: ReadonlyMap<string, Operation>;
  /** The validators of each operation's requests, by operationId. */
  readonly validators: ReadonlyMap<string, readonly ValidateFunction[]>;
  /** The Portuguese messages of a 422. */
  readonly translations: Translations;
  /** The Portuguese of the summaries and descriptions. */
  readonly texts: Translations;
  readonly match: Match;
  /** Names a place in the document as it was read: the file may have changed since. */
  readonly locate: Locate;
};

/** Reads and compiles a document file. Throws DocumentError with the line of each mistake. */
export async function compileFile(file: string): Promise<CompiledDocument> {
  const { document, locate } = openDocument(file);
  try {
    return { ...(await compile(document)), texts: readTexts(file), locate };
  } catch (error) {
    throw error instanceof DocumentError ? error.located(locate) : error;
  }
}

/**
 * Compiles a document, with options for Ajv, such as those for code that browsers run. Throws DocumentError with all mistakes if it
 * is invalid or unsupported.
 */
export async function compile(source: OpenAPIV3.Document, options: Options = {}): Promise<CompiledDocument> {
  const ajv = createAjv(options);
  const unsupported = findUnsupported(source, validateSchema);
  const mistakes = [...unsupported, ...(await findInvalid(source))];
  // A schema within itself can be neither validated nor read.
  const isEndless = mistakes.some(({ what }) => what === 'a schema within itself');
  if (isEndless) throw new DocumentError(describeMistakes(source, mistakes));
  const operations = readOperations(source, createAllows(ajv), mistakes);
  const translations = readTranslations(source, mistakes);
  if (mistakes.length > 0) throw new DocumentError(describeMistakes(source, mistakes));
  const apiRoot = readApiRoot(source);
  return {
    source,
    apiRoot,
    operations,
    validators: createValidators(source, operations, ajv),
    translations,
    texts: new Map(),
    match: createMatch(operations, apiRoot),
    locate: toPointer,
  };
}

/**
 * Module-level, because compiling the specification's schema takes a sixth of a start, and half of the time to compile another
 * document. That schema is valid, and need not be validated.
 */
const VALIDATOR = new Validator({ allErrors: true, validateSchema: false, code: { optimize: false } });

/** Finds violations of the specification. */
async function findInvalid(source: OpenAPIV3.Document): Promise<Mistake[]> {
  const { errors = [] } = await VALIDATOR.validate(structuredClone(source) as never);
  // A string is about a reference, for which the validator also takes data in examples. findUnsupported checks all references.
  if (typeof errors === 'string' && source.openapi !== undefined) return [];
  return readMistakes(errors, 'what the specification does not allow');
}

/** Creates the validators of requests with openapi-backend. Throws DocumentError for a schema that Ajv refuses. */
function createValidators(
  definition: OpenAPIV3.Document,
  operations: ReadonlyMap<string, Operation>,
  ajv: Ajv,
): ReadonlyMap<string, readonly ValidateFunction[]> {
  const sources = writeRequests([...operations.values()], ajv);
  // The backend's own validator also compiles the response schemas, which takes longer than everything else together.
  const validator = new OpenAPIValidator({ definition, lazyCompileValidators: true, customizeAjv: () => ajv });
  const validators = new Map<string, readonly ValidateFunction[]>();
  const mistakes: Mistake[] = [];
  for (const [index, { id, source }] of [...operations.values()].entries()) {
    try {
      validators.set(id, validator.buildRequestValidatorsForOperation(sources[index] as never) ?? []);
    } catch (error) {
      mistakes.push({ text: (error as Error).message, place: ['paths', source.path, source.method] });
    }
  }
  if (mistakes.length > 0) throw new DocumentError(describeMistakes(definition, mistakes));
  return validators;
}

/**
 * Rewrites the schemas of requests for Ajv. A schema that several operations use is compiled once. Throws DocumentError if the
 * recursion would exceed the stack.
 */
function writeRequests(operations: readonly Operation[], ajv: Ajv): object[] {
  const roots = operations.flatMap(({ source, body }) => [
    ...source.parameters.flatMap(({ schema }) => schema ?? []),
    ...(body ? [body.schema] : []),
  ]);
  try {
    const { write, definitions } = writeSchemas(roots, SHARED);
    ajv.addSchema({ $id: SHARED, $defs: definitions });
    // Compile each definition once; Ajv would compile it for each operation, and those within it recursively.
    for (const name of Object.keys(definitions)) ajv.getSchema(`${SHARED}#/$defs/${name}`);
    return operations.map(({ source, body }) => {
      const parameters = source.parameters.map((parameter) => {
        // openapi-backend would apply this keyword of one parameter to all: undeclared parameters would be accepted.
        const { additionalProperties: _unused, ...schema } = write(parameter.schema) as Schema;
        return { ...parameter, schema };
      });
      const content = body && { 'application/json': { schema: write(body.schema) } };
      return { ...source, parameters, ...(body ? { requestBody: { required: body.isRequired, content } } : {}) };
    });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const text = 'schemas are nested too deeply, or refer to each other in too long a ring: leave one of these out';
    throw new DocumentError([{ text, place: ['components', 'schemas'] }]);
  }
}

/** Compiles a schema, which may contain itself: Ajv alone would recurse without end. */
export function compileSchema(ajv: Ajv, schema: object): ValidateFunction {
  const { write, definitions } = writeSchemas([schema], '');
  return ajv.compile({ ...write(schema), $defs: definitions });
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
 * Creates the validator for requests and responses. It reports all errors and converts nothing. It throws for an unknown format.
 */
export function createAjv(options: Options = {}): Ajv {
  const ajv = new Ajv2020({
    ...options,
    // Both are slow for a large document, and not needed: its schemas are validated before, and V8 optimizes the code.
    validateSchema: false,
    code: { ...(options.code ?? { optimize: false }), process: appendErrors },
    allErrors: true,
    verbose: true,
    coerceTypes: false,
    // OpenAPI adds keywords to JSON Schema. Validating the document finds unknown ones.
    strict: false,
    strictNumbers: true,
    // Otherwise each object has a property named constructor or toString.
    ownProperties: true,
    formats,
    logger: { log: () => {}, warn: fail, error: fail },
  });
  const own = (name: string) => ajv.getKeyword(name) as CodeKeywordDefinition;
  const rewritten = [withinLength(own('pattern')), comparingTexts(own('const')), comparingTexts(own('enum'))];
  for (const keyword of [multipleOf, uniqueItems, ...rewritten])
    ajv.removeKeyword(keyword.keyword as string).addKeyword(keyword);
  ajv.addKeyword(once);
  return ajv as unknown as Ajv;
}

/** Ajv's own code copies all errors at each reference to a schema: a body of 100 kB with an error in each item would take seconds. */
function appendErrors(code: string): string {
  const copying = /vErrors === null \? (\S+) : vErrors\.concat\(\1\)/g;
  return code.replaceAll(copying, 'vErrors === null ? $1 : ($1.forEach((error) => vErrors.push(error)), vErrors)');
}

/** Ajv's own multipleOf divides binary fractions: 19.99 is no multiple of 0.01. Doubles hold 15 digits, and integers to 2 ** 53. */
const multipleOf: CodeKeywordDefinition = {
  keyword: 'multipleOf',
  type: 'number',
  schemaType: 'number',
  error: {
    message: ({ schemaCode }) => str`must be multiple of ${schemaCode}`,
    params: ({ schemaCode }) => _`{ multipleOf: ${schemaCode} }`,
  },
  code: (context) => {
    const { data, schemaCode } = context;
    const isExact = _`Number.isInteger(${data}) && Number.isInteger(${schemaCode})`;
    context.fail(
      _`(${isExact} ? ${data} % ${schemaCode} : Number((${data} / ${schemaCode}).toPrecision(15)) % 1) !== 0`,
    );
  },
};

/** The code of a value's JSON text. Equal objects may have their names in another order. */
const toText = (value: Name) => {
  const sort = _`(_name, part) => typeof part !== "object" || part === null || Array.isArray(part) ? part
    : Object.fromEntries(Object.keys(part).sort().map((name) => [name, part[name]]))`;
  return _`JSON.stringify(${value}, ${sort})`;
};

/** Ajv's own uniqueItems compares all pairs of items: a body of 100 kB with small objects would take 20 s. */
const uniqueItems: CodeKeywordDefinition = {
  keyword: 'uniqueItems',
  type: 'array',
  schemaType: 'boolean',
  error: { message: 'must NOT have duplicate items' },
  code: (context) => {
    const { data, schema } = context;
    if (schema) context.fail(_`new Set(${data}.map((item) => ${toText(new Name('item'))})).size < ${data}.length`);
  },
};

/** Compares objects by their texts: Ajv's own `const` and `enum` would call `toString`, which may be a property of the value. */
function comparingTexts(keyword: CodeKeywordDefinition): CodeKeywordDefinition {
  return {
    ...keyword,
    code: (context) => {
      const { data, schema, schemaCode } = context;
      const hasObjects = [schema].flat().some((value) => typeof value === 'object' && value !== null);
      const values = keyword.keyword === 'enum' ? schemaCode : _`[${schemaCode}]`;
      if (hasObjects)
        context.fail(_`!${values}.map((value) => ${toText(new Name('value'))}).includes(${toText(data)})`);
      else keyword.code(context);
    },
  };
}

/** Validates each object once, and repeats its first error after that. The objects come from a request, and do not change. */
const once: CodeKeywordDefinition = {
  keyword: ONCE,
  schemaType: 'object',
  code: (context) => {
    const { gen, data } = context;
    const [vErrors, errors] = [new Name('vErrors'), new Name('errors')];
    const known = gen.scopeValue('obj', { ref: new WeakMap(), code: _`new WeakMap()` });
    const result = gen.let('result', _`${known}.get(${data})`);
    const validate = () => {
      const before = gen.const('before', errors);
      const valid = gen.name('valid');
      context.subschema({ keyword: ONCE }, valid);
      gen.assign(result, _`${valid} || ${vErrors}[${before}]`);
      gen.if(_`typeof ${data} === "object" && ${data} !== null`, () => gen.code(_`${known}.set(${data}, ${result})`));
    };
    const repeat = () => {
      gen.if(_`${vErrors} === null`, () => gen.assign(vErrors, _`[]`)).code(_`${vErrors}.push(${result})`);
      gen.assign(errors, _`${vErrors}.length`);
    };
    gen.if(_`${result} === undefined`, validate, () => gen.if(_`${result} !== true`, repeat));
  },
};

/** Module-level like VALIDATOR: compiling the schema of schemas takes most of the time for a small document. */
const SCHEMAS = createAjv();

const validateSchema: ValidateSchema = ({ $schema: _dialect, ...schema }) =>
  SCHEMAS.validateSchema(schema) === true ? [] : (SCHEMAS.errors ?? []);

/** Skips the pattern of a text that maxLength refuses anyway: a regular expression may take quadratic time. */
function withinLength(pattern: CodeKeywordDefinition): CodeKeywordDefinition {
  return {
    ...pattern,
    code: (context) => {
      const { gen, data, parentSchema } = context;
      const { maxLength = Infinity } = parentSchema;
      // A character may be a surrogate pair.
      gen.if(_`${data}.length <= ${2 * maxLength}`, () => pattern.code(context));
    },
  };
}

function fail(message: unknown): never {
  throw new Error(String(message));
}
