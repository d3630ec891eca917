import type { ErrorObject } from 'ajv';
import ajvI18n from 'ajv-i18n/localize/pt-BR/index.js';
import { messages } from './messages.ts';

// Its types tell of a property `default`, which its CommonJS does not have.
const localize = ajvI18n as unknown as typeof ajvI18n.default;

/** An error of ajv's with its message in Brazilian Portuguese. */
export function toPortuguese(error: ErrorObject): ErrorObject {
  const copy = { ...error };
  localize([copy]);
  const message = correct(error);
  return message === undefined ? copy : { ...copy, message };
}

/** What to say instead of ajv-i18n, where its text is wrong or is no predicate of the field's name before it. */
function correct({ keyword, params }: ErrorObject): string | undefined {
  switch (keyword) {
    // It leaves these types in English, without an article.
    case 'type':
      return { object: messages.isNoObject['pt-BR'], array: 'deve ser uma lista' }[params.type as string];
    // "caracter" is no word, and "curta" is feminine.
    case 'minLength':
      return `não deve ter menos de ${countCharacters(params.limit)}`;
    case 'maxLength':
      return `não deve ter mais de ${countCharacters(params.limit)}`;
    case 'additionalProperties':
      return 'não deve ter propriedades adicionais';
    // "exatamente com um" can be read as "exactly", of any of them.
    case 'oneOf':
      return 'deve corresponder a um único schema de "oneOf"';
    case 'anyOf':
      return 'deve corresponder a um schema de "anyOf"';
    // It lacks an accent.
    case 'not':
      return 'não deve ser válido segundo o schema em "not"';
    default:
      return undefined;
  }
}

function countCharacters(count: number): string {
  return count === 1 ? '1 caractere' : `${count} caracteres`;
}
