import { Ajv, type ErrorObject, type Options } from 'ajv';
import ajvFormats from 'ajv-formats';
import type { FieldErrors } from '../errors.ts';
import { unescapePointer } from '../openapi/document.ts';
import type { Input } from '../openapi/operations.ts';
import type { Translations } from './localize.ts';
import { describeManyErrors, MAX_ERRORS, messages } from './messages.ts';
import { toPortuguese } from './portuguese.ts';
import type { Problems } from './problems.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const YEAR_ZERO = /^0000/;

/**
 * Builds the validator of requests and responses: all errors, no coercion (request.ts has done it), and formats that
 * accept exactly what Postgres takes. Throws for a format that it does not know.
 */
export function createAjv(options: Options = {}): Ajv {
  const ajv = new Ajv({
    ...options,
    allErrors: true,
    verbose: true,
    coerceTypes: false,
    // OpenAPI has keywords of its own; those that are none are found when the document is validated.
    strict: false,
    strictNumbers: true,
    logger: { log: () => {}, warn: fail, error: fail },
  });
  ajvFormats.default(ajv);
  // The package's own format takes urn:uuid: before it, which Postgres does not.
  ajv.addFormat('uuid', UUID);
  // An integer of this format has bounds, which say the same and more: contract-types.ts and the document's linter ask
  // for them. A value out of bounds would have two messages.
  ajv.addFormat('int32', true);
  const date = ajvFormats.default.get('date') as { validate: (text: string) => boolean };
  // Nor has Postgres a year zero.
  ajv.addFormat('date', { ...date, validate: (text: string) => !YEAR_ZERO.test(text) && date.validate(text) });
  return ajv;
}

function fail(message: unknown): never {
  throw new Error(String(message));
}

/**
 * The errors of a validation by parameter or field, under the names that the inputs have in the document. What is
 * said of a field already replaces what ajv says.
 */
export function toFieldErrors(
  errors: readonly ErrorObject[],
  problems: Problems,
  inputs: readonly Input[],
): FieldErrors {
  const result = new Map<string, string[]>(problems);
  const told = errors.slice(0, MAX_ERRORS);
  const misshapen = new Set(told.filter(({ keyword }) => keyword === 'format').map((error) => error.instancePath));
  for (const error of told) {
    // The format of a date or a uuid says its length.
    if (error.keyword === 'maxLength' && misshapen.has(error.instancePath)) continue;
    const [source, name, message] = toFieldError(error);
    // openapi-backend validates headers by their names in lower case.
    const header =
      source === 'header' && inputs.find((input) => input.in === 'header' && input.name.toLowerCase() === name);
    const field = header ? header.name : name;
    if (problems.has(field)) continue;
    const earlier = result.get(field);
    if (earlier) earlier.push(message);
    else result.set(field, [message]);
  }
  if (errors.length > MAX_ERRORS) {
    result.set('body', [...(result.get('body') ?? []), describeManyErrors(errors.length).en]);
  }
  return Object.fromEntries(result);
}

/** What toFieldErrors says of the errors, in Portuguese by the English; what has no translation is left out. */
export function translateErrors(errors: readonly ErrorObject[], translations: Translations): Map<string, string> {
  const texts = errors.slice(0, MAX_ERRORS).map((error) => {
    const [, , english] = toFieldError(error);
    const [, , portuguese] = toFieldError(translatePattern(toPortuguese(error), translations));
    return [english, portuguese] as const;
  });
  const many = describeManyErrors(errors.length);
  texts.push([many.en, many['pt-BR']]);
  return new Map(texts.filter(([english, portuguese]) => english !== portuguese));
}

function translatePattern(error: ErrorObject, translations: Translations): ErrorObject {
  const text = error.parentSchema?.['x-pattern-message'];
  return { ...error, parentSchema: { ...error.parentSchema, 'x-pattern-message': translations.get(text) ?? text } };
}

/** `/query/limit` → query, limit; a missing or undeclared field is named by the error's params, not by its path. */
function toFieldError(error: ErrorObject): [source: string, name: string, message: string] {
  const [, source = '', field, ...rest] = error.instancePath.split('/').map(unescapePointer);
  const place = rest.length > 0 ? `/${rest.join('/')} ` : '';
  if (field !== undefined) return [source, field, place + toMessage(error)];
  const name = error.params.missingProperty ?? error.params.additionalProperty ?? 'body';
  if (error.keyword === 'required') return [source, name, messages.isRequired.en];
  if (error.keyword !== 'additionalProperties') return [source, name, toMessage(error)];
  return [source, name, (source === 'requestBody' ? messages.isNoField : messages.isNoParameter).en];
}

function toMessage(error: ErrorObject): string {
  const message = error.message ?? 'is invalid';
  if (error.keyword === 'enum') return `${message}: ${error.params.allowedValues.join(', ')}`;
  if (error.keyword === 'pattern') return error.parentSchema?.['x-pattern-message'] ?? message;
  return message;
}
