// The statements of the peers that do not validate: the gateway's own, which return rows as JSON.

import { createStatementWriter, type NamedStatement } from '../../../src/store/statement.ts';
import type { Call, Json } from '../../../src/store/store.ts';

const writeStatement = createStatementWriter();
const LIST = prepare('listar_alunos', 'rows', ['p_api_key', 'p_limit', 'p_offset']);
const CREATE = prepare('criar_aluno', 'row', ['p_api_key', 'p_nome', 'p_email', 'p_data_nascimento', 'p_modalidade']);

/** The statement of a call of one of the two functions, with its arguments. */
export function toPrepared({ function: name, args }: Pick<Call, 'function' | 'args'>): NamedStatement {
  const { names, ...statement } = name === 'criar_aluno' ? CREATE : LIST;
  return { ...statement, values: names.map((argument) => toText(args[argument])) };
}

function prepare(name: string, returns: Call['returns'], names: readonly string[]) {
  const args = Object.fromEntries(names.map((argument) => [argument, '']));
  return { name, names, text: writeStatement({ function: name, args, returns, readOnly: true }, returns).text };
}

function toText(value: Json | undefined): string | null {
  return value === undefined || value === null ? null : String(value);
}
