import { storeFault } from '../../src/errors.ts';
import type { Call, Result, Store } from '../../src/store/store.ts';

/** A store that answers as it is told, and tells what it was asked; what it is told of the use of keys is not counted. */
export type StubStore = Store & { readonly calls: Call[] };

/** Makes a store of one function, which by default gives no rows. */
export function createStubStore(
  answer: (call: Call) => Result | Promise<Result> = () => ({ json: '[]', count: 0 }),
): StubStore {
  const calls: Call[] = [];
  return {
    description: 'stub',
    calls,
    call: async (call) => {
      if (call.function === 'record_usage') return { json: '[]', count: 0 };
      calls.push(call);
      return answer(call);
    },
    check: async () => undefined,
    describe: async () => ({ functions: [] }),
    close: async () => {},
  };
}

/** A store in which every list has this many students. */
export function createStudents(count: number): StubStore {
  const all = Array.from({ length: count }, (_, n) => ({
    id: `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
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

/** Students whose creation succeeds; the key `refused` is refused, and the key `unlucky` finds no database. */
export function createStudentsAndFailures(count: number): StubStore {
  const students = createStudents(count);
  return createStubStore((call) => {
    if (call.args.p_api_key === 'refused') return { failure: { kind: 'refusedKey', text: 'API Key inválida' } };
    if (call.args.p_api_key === 'unlucky') return storeFault('storeUnavailable', 'down');
    return call.returns === 'row' ? { json: '{}' } : students.call(call, new AbortController().signal);
  });
}

/** Another store, with the calls that it was asked for. */
export function recordCalls(store: Store): StubStore {
  const stub = createStubStore();
  const call: Store['call'] = (asked, signal, origin) => {
    if (asked.readOnly) stub.calls.push(asked);
    return store.call(asked, signal, origin);
  };
  return { ...stub, call };
}
