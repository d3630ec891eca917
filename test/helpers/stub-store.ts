import { hash } from 'node:crypto';
import { stat } from 'node:fs';
import type { Call, Result, Store } from '../../src/store/store.ts';

/** A store that gives the answers of a test, and keeps the calls that it got. */
type StubStore = Store & { readonly calls: Call[] };

/** Creates a store that answers each call with this function, by default with no rows. */
export function createStubStore(
  answer: (call: Call) => Result | Promise<Result> = () => ({ json: '[]', count: 0 }),
): StubStore {
  const calls: Call[] = [];
  return {
    description: 'stub',
    calls,
    call: async (call) => {
      calls.push(call);
      // The answers of a real store arrive when the event loop polls, and a request is logged in the same turn.
      await new Promise((resolve) => stat('.', resolve));
      return answer(call);
    },
    check: async () => undefined,
    describe: async () => ({ functions: [] }),
    close: async () => {},
  };
}

/** A store's answer to the call that records the use of a key, which has these limits. */
export const limitsOf = (key: string, limits: object): Result => {
  const row = { key: hash('sha256', key, 'hex'), original_id: key, limits, today: 0, month: 0 };
  return { json: JSON.stringify([row]), count: 1 };
};

/** The id of a student of createStudents. */
export const idOfStudent = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;

/** A store in which every list has this many students. */
export function createStudents(count: number): StubStore {
  const all = Array.from({ length: count }, (_, n) => ({
    id: idOfStudent(n),
    nome: `Aluna nº ${n}`,
    email: `aluna${n}@aurora.example`,
    ativo: true,
    academia_id: null,
    criado_em: '2024-02-01T09:00:00+00:00',
  }));
  return createStubStore(({ args: { p_limit, p_offset, p_after } }) => {
    const begin = Number(p_offset) + 1 + all.findIndex(({ id }) => id === p_after);
    const page = all.slice(begin, begin + Number(p_limit));
    return { json: JSON.stringify(page), count: page.length };
  });
}
