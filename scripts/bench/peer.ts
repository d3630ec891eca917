// What is compared: servers that have the API, PostgREST, and Postgres alone.

import { type Case, type HttpRequest, toApiRequest, toRpcRequest } from './cases.ts';
import { type Generated, type Load, runWrk } from './wrk.ts';

/** Every peer in the order of measuring, with its title: peers that a goal compares are next to each other. */
export const TITLES = {
  pgbench: 'Postgres alone, by pgbench',
  'node-http': 'bare node:http + pg',
  'gateway-postgres': 'gateway, postgres store',
  'gateway-flooded': 'gateway, beside a flooder',
  fastify: 'Fastify + pg, by hand',
  postgrest: 'PostgREST',
  'gateway-supabase': 'gateway, supabase store',
  'gateway-embedded': 'gateway, embedded store',
} as const;

export type PeerId = keyof typeof TITLES;

export const PEERS = Object.keys(TITLES) as readonly PeerId[];

/** Status and JSON of an answer, in the API's form. */
export type Answer = { readonly status: number; readonly body: unknown };

export type Peer = {
  readonly id: PeerId;
  readonly title: string;
  /** The process whose processor time and memory are reported. */
  readonly pid: number;
  /** Sends one request with a key. */
  ask(case_: Case, key: string): Promise<Answer>;
  /** Sends requests with the keys in turn. */
  load(case_: Case, keys: readonly string[], load: Load): Promise<Generated>;
};

/** Whether a peer can answer a case: some only make sense for peers that validate, pgbench ends at an error, and the flooded gateway delays refusals. */
export function hasCase({ id }: Pick<Peer, 'id'>, { isForValidating = false, isRefused = false }: Case): boolean {
  if (id === 'pgbench' || id === 'gateway-flooded') return !isForValidating && !isRefused;
  return !isForValidating || id === 'fastify' || id.startsWith('gateway-');
}

type Place = Pick<Peer, 'id' | 'pid'> & { readonly origin: string };

/** A peer that has the API. */
export function createApiPeer(place: Place): Peer {
  return createHttpPeer(place, toApiRequest, (_case, answer) => answer);
}

/** A peer under the same load from one more client, which never slows down: its answers do not count. */
export function flood(peer: Peer, key: string): Peer {
  return {
    ...peer,
    load: async (case_, keys, load) => {
      const [generated] = await Promise.all([peer.load(case_, keys, load), peer.load(case_, [key], load)]);
      return generated;
    },
  };
}

/** PostgREST, which the token lets in. */
export function createRpcPeer(place: Place, token: string): Peer {
  return createHttpPeer(place, (case_, key) => toRpcRequest(case_, key, token), toApiAnswer);
}

function createHttpPeer(
  place: Place,
  toRequest: (case_: Case, key: string) => HttpRequest,
  toAnswer: (case_: Case, answer: Answer) => Answer,
): Peer {
  return {
    ...place,
    title: TITLES[place.id],
    ask: async (case_, key) => {
      const { path, ...init } = toRequest(case_, key);
      const res = await fetch(place.origin + path, init);
      return toAnswer(case_, { status: res.status, body: await res.json() });
    },
    load: (case_, keys, load) =>
      runWrk(
        place.origin,
        keys.map((key) => toRequest(case_, key)),
        load,
      ),
  };
}

/** PostgREST returns one row as an array, always with status 200, and errors in Postgres's form. */
function toApiAnswer(case_: Case, { status, body }: Answer): Answer {
  if (status !== 200) return { status, body: { error: (body as { message: string }).message } };
  return case_.body ? { status: 201, body: (body as unknown[])[0] } : { status, body };
}
