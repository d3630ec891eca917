// The messages of a 422 in English and Portuguese: the gateway's own and Ajv's. The document's x-translations has those
// of the document and of SQL.

import type { ErrorObject } from 'ajv';
import ajvI18n from 'ajv-i18n/localize/pt-BR/index.js';

type Message = { readonly en: string; readonly 'pt-BR': string };

/** The maximum nesting of JSON: PGlite does not answer JSON with 7,000 levels, and then hangs. */
export const MAX_DEPTH = 64;

/** A Postgres function takes at most 100 arguments, so no operation can have more inputs. */
export const MAX_INPUTS = 100;

/** The maximum number of names in an answer, as the document promises: each item of a list has one. */
export const MAX_NAMES = 299;

/** The maximum number of errors in an answer: a body can contain thousands of invalid items. */
export const MAX_ERRORS = 1_000;

/** The gateway's own messages. Each describes a parameter or field, whose name precedes it. */
export const messages = {
  isRequired: { en: 'is required', 'pt-BR': 'é obrigatório' },
  isNoField: { en: 'is not a field of this operation', 'pt-BR': 'não é um campo desta operação' },
  isNoParameter: { en: 'is not a parameter of this operation', 'pt-BR': 'não é um parâmetro desta operação' },
  isRepeated: { en: 'must be given once', 'pt-BR': 'deve ser informado uma única vez' },
  isWithOffset: { en: 'must not be given with offset', 'pt-BR': 'não deve ser informado com offset' },
  isNoScalar: { en: 'must be a string, a number or a boolean', 'pt-BR': 'deve ser um texto, um número ou um booleano' },
  isNoObject: { en: 'must be object', 'pt-BR': 'deve ser um objeto' },
  isReadOnly: { en: 'is read-only', 'pt-BR': 'é somente leitura' },
  isTooDeep: {
    en: `must not be nested deeper than ${MAX_DEPTH} levels`,
    'pt-BR': `não deve ter mais de ${MAX_DEPTH} níveis de aninhamento`,
  },
  hasTooManyParameters: {
    en: `must not have more than ${MAX_INPUTS} parameters`,
    'pt-BR': `não deve ter mais de ${MAX_INPUTS} parâmetros`,
  },
  hasTooManyFields: {
    en: `must not have more than ${MAX_INPUTS} fields`,
    'pt-BR': `não deve ter mais de ${MAX_INPUTS} campos`,
  },
  isNoText: {
    en: 'must not contain U+0000 or an unpaired surrogate',
    'pt-BR': 'não deve conter U+0000 nem um surrogate sem par',
  },
  isOutOfRange: {
    en: 'must not contain a number out of range',
    'pt-BR': 'não deve conter um número fora do intervalo permitido',
  },
} as const satisfies Record<string, Message>;

/** The message for a body with more errors than an answer lists. */
export function describeManyErrors(count: number): Message {
  return {
    en: `has ${count} errors, of which not all are listed`,
    'pt-BR': `tem ${count} erros, dos quais nem todos estão listados`,
  };
}

/** The message for a list's limit when its records exceed the configured size. */
export function describeLargeAnswer(answerLimit: number): Message {
  return {
    en: `must be smaller: these records take more than ${answerLimit} bytes`,
    'pt-BR': `deve ser menor: estes registros ocupam mais de ${answerLimit} bytes`,
  };
}

// The types declare a property `default`, which the CommonJS module does not have.
const localize = ajvI18n as unknown as typeof ajvI18n.default;

/** Translates the message of an Ajv error to Brazilian Portuguese. */
export function toPortuguese(error: ErrorObject): ErrorObject {
  const copy = { ...error };
  localize([copy]);
  const message = correct(error);
  return message === undefined ? copy : { ...copy, message };
}

/** Replaces texts of ajv-i18n that are wrong, or that cannot follow a field's name. */
function correct({ keyword, params }: ErrorObject): string | undefined {
  switch (keyword) {
    // ajv-i18n leaves these types in English, without an article.
    case 'type':
      return { object: messages.isNoObject['pt-BR'], array: 'deve ser uma lista' }[params.type as string];
    // "caracter" is misspelt, and "curta" has the wrong gender.
    case 'minLength':
      return `não deve ter menos de ${countCharacters(params.limit)}`;
    case 'maxLength':
      return `não deve ter mais de ${countCharacters(params.limit)}`;
    case 'additionalProperties':
      return 'não deve ter propriedades adicionais';
    // "exatamente com um" is ambiguous: it can mean an exact match with any of them.
    case 'oneOf':
      return 'deve corresponder a um único schema de "oneOf"';
    case 'anyOf':
      return 'deve corresponder a um schema de "anyOf"';
    // ajv-i18n's text lacks an accent.
    case 'not':
      return 'não deve ser válido segundo o schema em "not"';
    default:
      return undefined;
  }
}

function countCharacters(count: number): string {
  return count === 1 ? '1 caractere' : `${count} caracteres`;
}
