import { expect, test } from 'vitest';
import { messages } from '../../src/api/messages.ts';
import { createToolReader } from '../../src/api/tool-reader.ts';
import type { Operation } from '../../src/openapi/operations.ts';

test('an array in a text with 50,000 levels is refused on its name', async () => {
  const input = { in: 'query', name: 'ids', argument: 'p_ids', form: 'array', type: 'integer' };
  const operation = { inputs: [input], path: '/a' } as unknown as Operation;
  const ids = '['.repeat(50_000) + ']'.repeat(50_000);
  const reader = createToolReader({ operation, args: { ids }, texts: new Map() });
  const request = reader.read({ method: '', url: '', headers: {} });
  const incoming = { method: '', url: '', headers: {}, readBody: async () => new Uint8Array() };
  await reader.takeInputs(incoming, operation, request);
  expect(request.problems).toEqual(new Map([['ids', [messages.isTooDeep]]]));
});
