import type { Call } from '../../src/store/store.ts';

/** A store call that lists students. */
export function listCall(args: Call['args'] = {}): Call {
  return {
    function: 'listar_alunos',
    args: { p_api_key: 'wms_demo_aurora', ...args },
    returns: 'rows',
    readOnly: true,
  };
}

/** A store call that creates a student. */
export function createCall(args: Call['args'] = {}): Call {
  const all = { p_api_key: 'wms_demo_aurora', p_nome: 'Ana', p_email: 'a@b.co', ...args };
  return { function: 'criar_aluno', args: all, returns: 'row', readOnly: false };
}
