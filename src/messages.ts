// What the gateway itself says of an input, in the languages that it speaks. What a validator says is in portuguese.ts,
// what the document and SQL say in the document's x-translations.

type Message = { readonly en: string; readonly 'pt-BR': string };

/** JSON nested deeper than this is refused: a database of 7,000 levels' depth answers nothing and then hangs. */
export const MAX_DEPTH = 64;

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
  isNoText: {
    en: 'must not contain U+0000 or an unpaired surrogate',
    'pt-BR': 'não deve conter U+0000 nem um surrogate sem par',
  },
  isOutOfRange: {
    en: 'must not contain a number out of range',
    'pt-BR': 'não deve conter um número fora do intervalo permitido',
  },
} as const satisfies Record<string, Message>;
