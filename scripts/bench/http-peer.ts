// Peers that answer over HTTP: the API, and PostgREST, which has a form of its own.

import { type Case, type HttpRequest, toApiRequest, toRpcRequest } from './cases.ts';
import type { Generator } from './generator.ts';
import type { Answer, Peer } from './peer.ts';

type Parts = Pick<Peer, 'id' | 'title' | 'pid' | 'validates'>;

/** A peer that has the API at an origin. */
export function openApi(parts: Parts, origin: string, generator: Generator): Peer {
  return open(parts, origin, generator, toApiRequest, (_case, answer) => answer);
}

/** PostgREST at an origin, which the token lets in. */
export function openRpc(parts: Parts, origin: string, generator: Generator, token: string): Peer {
  return open(parts, origin, generator, (case_, key) => toRpcRequest(case_, key, token), toApiAnswer);
}

function open(
  parts: Parts,
  origin: string,
  generator: Generator,
  toRequest: (case_: Case, key: string) => HttpRequest,
  toAnswer: (case_: Case, answer: Answer) => Answer,
): Peer {
  return {
    ...parts,
    origin,
    ask: async (case_, key) => {
      const { method, path, headers, body } = toRequest(case_, key);
      const res = await fetch(origin + path, { method, headers, ...(body ? { body } : {}) });
      return toAnswer(case_, { status: res.status, body: await res.json() });
    },
    load: (case_, keys, load) => {
      const requests = keys.map((key) => toRequest(case_, key));
      return generator.run(origin, requests, load);
    },
  };
}

/** PostgREST gives one row as an array, always with status 200, and errors under Postgres's names. */
function toApiAnswer(case_: Case, { status, body }: Answer): Answer {
  if (status !== 200) return { status, body: { error: (body as { message: string }).message } };
  return case_.body ? { status: 201, body: (body as unknown[])[0] } : { status, body };
}
