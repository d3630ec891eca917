// What the gateway itself says of an input, in the languages that it speaks. What a validator says is in portuguese.ts,
// what the document and SQL say in the document's x-translations.

type Message = { readonly en: string; readonly 'pt-BR': string };

/** JSON nested deeper than this is refused: a database of 7,000 levels' depth answers nothing and then hangs. */
export const MAX_DEPTH = 64;

/** A function of Postgres takes at most 100 arguments, so no operation can have more inputs. */
export const MAX_INPUTS = 100;

/** The most errors that an answer lists: a body may hold a list of thousands of invalid items. */
export const MAX_ERRORS = 1_000;

/** The closed table of the gateway's own texts; each follows the name of the parameter or field. */
export const messages = {
  isRequired: { en: 'is required', 'pt-BR': 'é obrigatório' },
  isNoField: { en: 'is not a field of this operation', 'pt-BR': 'não é um campo desta operação' },
  isNoParameter: { en: 'is not a parameter of this operation', 'pt-BR': 'não é um parâmetro desta operação' },
  isRepeated: { en: 'must be given once', 'pt-BR': 'deve ser informado uma única vez' },
  isNoObject: { en: 'must be object', 'pt-BR': 'deve ser um objeto' },
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

/** Said of a body that has more errors than an answer lists. */
export function describeManyErrors(count: number): Message {
  return {
    en: `has ${count} errors, of which ${MAX_ERRORS} are listed`,
    'pt-BR': `tem ${count} erros, dos quais ${MAX_ERRORS} estão listados`,
  };
}

/** Said of a list's limit where its records would take more bytes than the configuration allows. */
export function describeLargeAnswer(answerLimit: number): Message {
  return {
    en: `must be smaller: these records take more than ${answerLimit} bytes`,
    'pt-BR': `deve ser menor: estes registros ocupam mais de ${answerLimit} bytes`,
  };
}
