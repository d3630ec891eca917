// What the headers of answers promise, as far as proxies in front of a deployment keep them.

import { randomUUID } from 'node:crypto';
import { type Check, describeReply, Mismatch, receiveAnswer, type Setting } from './check.ts';
import type { Operation } from './operations.ts';
import { type Assignment, isRead, type Request, toRequest } from './request.ts';
import { assignRequired } from './values.ts';

const ID = 'X-Request-Id';
const PORTUGUESE = 'pt-BR';
/** Attempts to see an unchanged list while others change it. */
const MAX_TRIES = 3;

/** The checks of an operation's headers. `translates`: its messages exist in Portuguese. */
export function createHeaderChecks({ client, coverage }: Setting, operation: Operation, translates: boolean): Check[] {
  const { list, status, answers, raised } = operation;
  const base = assignRequired(operation);
  const unknown: Assignment = { input: { name: 'contract_test', in: 'query' }, value: '1' };
  const valid = toRequest(operation, base);
  const invalid = toRequest(operation, [...base, unknown]);
  // Different results, and nothing created.
  const requests = [...(isRead(operation) ? [valid] : []), invalid, { ...valid, key: null }];

  const send = (request: Request) => receiveAnswer(client, request);
  const revalidates = async () => {
    // The first record stays the first, whatever others create meanwhile.
    const smallest = list ? [{ input: list.limit, value: list.limit.schema.minimum ?? 1 }] : [];
    const request = toRequest(operation, [...base, ...smallest]);
    for (let tries = 1; ; tries++) {
      const first = await send(request);
      // Whether the record exists is known only of the demo data.
      if (raised.includes(first.status)) return;
      const tag = first.headers.etag;
      if (!tag) throw new Mismatch(request, 'an ETag', 'none');
      const repeated = withHeader(request, 'If-None-Match', tag);
      const answer = await send(repeated);
      if (answer.status === 304 && answer.text === '') return coverage.showStatus(operation, 304);
      const hasChanged = answer.status === status && answer.headers.etag !== tag;
      if (!hasChanged || tries >= MAX_TRIES) throw new Mismatch(repeated, '304 without a body', describeReply(answer));
    }
  };
  // A proxy may replace the client's id by its own, but no two requests have the same.
  const identifies = async () => {
    const seen = new Set<string>();
    for (const request of requests) {
      const identified = withHeader(request, ID, `contract-${randomUUID()}`);
      const id = (await send(identified)).headers[ID.toLowerCase()];
      if (!id || seen.has(id)) {
        const got = id ? `${id}, as for another request` : 'none';
        throw new Mismatch(identified, `${ID}: ${identified.headers[ID]}, or a proxy's own`, got);
      }
      seen.add(id);
    }
  };
  const forbidsSniffing = async () => {
    for (const request of requests) {
      const value = (await send(request)).headers['x-content-type-options'];
      if (value?.toLowerCase() !== 'nosniff') {
        throw new Mismatch(request, 'X-Content-Type-Options: nosniff', value ?? 'none');
      }
    }
  };
  const translatesMessages = async () => {
    const request = withHeader(invalid, 'Accept-Language', PORTUGUESE);
    const languages = (await send(request)).headers['content-language'];
    if (languages?.split(/\s*,\s*/).includes(PORTUGUESE)) return;
    throw new Mismatch(request, `Content-Language: ${PORTUGUESE}`, languages ?? 'none');
  };

  const readsAnyType = async () => {
    const [expected, got] = [await send(invalid), await send(withHeader(invalid, 'Content-Type', 'text/plain'))];
    if (got.status === expected.status && got.text === expected.text) return;
    throw new Mismatch(withHeader(invalid, 'Content-Type', 'text/plain'), describeReply(expected), describeReply(got));
  };

  const hasTags = operation.method === 'GET' && answers.get(status)?.headers.has('etag');
  return [
    ...(hasTags ? [{ name: 'answers 304 to the ETag of an unchanged answer', run: revalidates }] : []),
    { name: `returns the request's ${ID}`, run: identifies },
    { name: 'forbids content type sniffing', run: forbidsSniffing },
    ...(operation.body ? [{ name: 'reads a body whatever its Content-Type', run: readsAnyType }] : []),
    ...(translates ? [{ name: 'declares the language of its messages', run: translatesMessages }] : []),
  ];
}

function withHeader(request: Request, name: string, value: string): Request {
  return { ...request, headers: { ...request.headers, [name]: value } };
}
