// Fixed bounds on inputs, and the messages of a 422 in English and Portuguese: the gateway's own and Ajv's. The document's
// x-translations has the messages of the document and of SQL. English messages are for developers and follow the field's
// name. Portuguese messages are for people: a form shows them unchanged.

import type { IncomingHttpHeaders } from 'node:http';
import type { ErrorObject } from 'ajv';
import Negotiator from 'negotiator';
import { type InvalidInput, type Message, mapMessages, toEnglish } from '../errors.ts';
import type { Translations } from '../openapi/translations.ts';

/** The maximum nesting of JSON. Postgres refuses JSON nested some 7,000 levels deep. */
export const MAX_DEPTH = 64;

/** A Postgres function takes at most 100 arguments, so no operation can have more inputs. */
export const MAX_INPUTS = 100;

/** The maximum number of names in a 422, besides `body`: the document promises at most 300. Each item of a list has its own name. */
export const MAX_NAMES = 299;

/** The maximum number of errors in an answer: a body can contain thousands of invalid items. */
export const MAX_ERRORS = 1_000;

/** The gateway's own messages. Each describes a parameter or field. */
export const messages = {
  isRequired: { en: 'is required', 'pt-BR': 'Preencha este campo' },
  isNoField: { en: 'is not a field of this operation', 'pt-BR': 'Este campo não existe nesta operação' },
  isNoParameter: { en: 'is not a parameter of this operation', 'pt-BR': 'Este parâmetro não existe nesta operação' },
  isRepeated: { en: 'must be given once', 'pt-BR': 'Informe uma única vez' },
  isWithOffset: { en: 'must not be given with offset', 'pt-BR': 'Não informe junto com offset' },
  isNoScalar: { en: 'must be a string, a number or a boolean', 'pt-BR': 'Informe um texto, um número, true ou false' },
  isNoObject: { en: 'must be object', 'pt-BR': 'Informe um objeto' },
  isTooDeep: {
    en: `must not be nested deeper than ${MAX_DEPTH} levels`,
    'pt-BR': `Use no máximo ${MAX_DEPTH} níveis de aninhamento`,
  },
  hasTooManyParameters: {
    en: `must not have more than ${MAX_INPUTS} parameters`,
    'pt-BR': `Informe no máximo ${MAX_INPUTS} parâmetros`,
  },
  hasTooManyFields: {
    en: `must not have more than ${MAX_INPUTS} fields`,
    'pt-BR': `Informe no máximo ${MAX_INPUTS} campos`,
  },
  isNoText: {
    en: 'must not contain U+0000 or an unpaired surrogate',
    'pt-BR': 'Remova os caracteres inválidos (U+0000 ou surrogate sem par)',
  },
  isTooLong: { en: 'must not contain a text of several MB here', 'pt-BR': 'Informe um texto menor que alguns MB' },
  isOutOfRange: {
    en: 'must not contain a number out of range',
    'pt-BR': 'Informe um número dentro do intervalo permitido',
  },
} as const satisfies Record<string, Message>;

/** The message for a body with more errors than an answer lists. */
export function describeManyErrors(count: number): Message {
  return {
    en: `has ${count} errors, of which not all are listed`,
    'pt-BR': `Há ${count} erros, e nem todos estão listados`,
  };
}

/** The message for a list's limit when its records exceed the configured size. */
export function describeLargeAnswer(answerLimit: number): Message {
  return {
    en: `must be smaller: these records take more than ${answerLimit} bytes`,
    'pt-BR': `Informe um número menor: estes registros ocupam mais de ${answerLimit} bytes`,
  };
}

/** The Portuguese names of JSON Schema's types, and of the formats that people enter. */
const TYPES: Readonly<Record<string, string>> = {
  string: 'um texto',
  number: 'um número',
  integer: 'um número inteiro',
  boolean: 'true ou false',
  object: 'um objeto',
  array: 'uma lista',
  null: 'null',
};
const FORMATS: Readonly<Record<string, string>> = {
  email: 'um e-mail válido',
  uuid: 'um identificador (UUID) válido',
  date: 'uma data válida, como 2026-12-31',
  time: 'um horário válido, como 23:59:59Z',
  'date-time': 'uma data e hora válidas, como 2026-12-31T23:59:59Z',
  duration: 'uma duração válida, como P1DT12H',
  uri: 'um endereço (URL) válido',
  url: 'um endereço (URL) válido',
  hostname: 'um nome de servidor válido',
  ipv4: 'um endereço IPv4 válido',
  ipv6: 'um endereço IPv6 válido',
  byte: 'um valor em Base64',
  int64: 'um número inteiro de 64 bits',
};

type Params = ErrorObject['params'];

/** The message of an Ajv error: the document's own (`x-pattern-message`, for example), or else Ajv's. */
export function describeError({ keyword, message = 'is invalid', params, parentSchema }: ErrorObject): Message {
  // Ajv's message does not list the values.
  const en = keyword === 'enum' ? `${message}: ${params.allowedValues.map(toText).join(', ')}` : message;
  return parentSchema?.[`x-${keyword}-message`] ?? describeKeyword(keyword, params, en);
}

/** Returns a string unchanged, and any other value as JSON. */
function toText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The message for a violated keyword of JSON Schema, from the text and the params of its Ajv error. */
export function describeKeyword(keyword: string, params: Params, en: string): Message {
  return { en, 'pt-BR': KEYWORDS[keyword]?.(params) ?? 'Informe um valor válido' };
}

const count = ({ limit }: Params, one: string, many: string) => `${limit} ${limit === 1 ? one : many}`;

/** The Portuguese message for each keyword of JSON Schema, from the params of its Ajv error. */
const KEYWORDS: Readonly<Record<string, (params: Params) => string>> = {
  type: ({ type }) =>
    `Informe ${[type]
      .flat()
      .map((name) => TYPES[name])
      .join(' ou ')}`,
  format: ({ format }) => `Informe ${FORMATS[format] ?? `um valor no formato "${format}"`}`,
  const: ({ allowedValue }) => `Informe ${JSON.stringify(allowedValue)}`,
  enum: ({ allowedValues }) => `Escolha um destes valores: ${allowedValues.map(toText).join(', ')}`,
  pattern: ({ pattern }) => `Informe um valor que corresponda ao padrão "${pattern}"`,
  minLength: (params) => `Informe pelo menos ${count(params, 'caractere', 'caracteres')}`,
  maxLength: (params) => `Informe no máximo ${count(params, 'caractere', 'caracteres')}`,
  minItems: (params) => `Informe pelo menos ${count(params, 'item', 'itens')}`,
  maxItems: (params) => `Informe no máximo ${count(params, 'item', 'itens')}`,
  minProperties: (params) => `Informe pelo menos ${count(params, 'campo', 'campos')}`,
  maxProperties: (params) => `Informe no máximo ${count(params, 'campo', 'campos')}`,
  minimum: ({ limit }) => `Informe um número maior ou igual a ${limit}`,
  maximum: ({ limit }) => `Informe um número menor ou igual a ${limit}`,
  exclusiveMinimum: ({ limit }) => `Informe um número maior que ${limit}`,
  exclusiveMaximum: ({ limit }) => `Informe um número menor que ${limit}`,
  multipleOf: ({ multipleOf }) => `Informe um múltiplo de ${multipleOf}`,
  uniqueItems: () => 'Não repita itens',
  dependentRequired: ({ missingProperty }) => `Informe também ${missingProperty}`,
  oneOf: () => 'Informe um valor em uma das formas previstas',
  anyOf: () => 'Informe um valor em uma das formas previstas',
};

/** Writes the messages in the client's preferred language. A message without a translation stays English. */
export function localizeErrors(
  failure: InvalidInput,
  headers: IncomingHttpHeaders,
  translations: Translations,
): InvalidInput {
  if (headers['accept-language'] === undefined || !prefersPortuguese(headers)) return failure;
  const languages = new Set<string>();
  const fields = mapMessages(failure.fields, (message) => {
    const portuguese = typeof message === 'string' ? translations.get(message) : message['pt-BR'];
    languages.add(portuguese === undefined ? 'en' : 'pt-BR');
    return portuguese ?? toEnglish(message);
  });
  return { kind: 'invalidInput', fields, languages: ['pt-BR', 'en'].filter((language) => languages.has(language)) };
}

/** Whether Accept-Language (RFC 9110, 12.5.4) ranks any kind of Portuguese above English. */
export function prefersPortuguese(headers: IncomingHttpHeaders): boolean {
  const negotiator = new Negotiator({ headers });
  const first = negotiator.languages().find((language) => /^(en|pt|\*)(-|$)/i.test(language));
  // `*` stands for English, unless the client also names English with a lower weight.
  if (first === '*') return negotiator.language(['en', 'pt-BR']) === 'pt-BR';
  return /^pt/i.test(first ?? '');
}
