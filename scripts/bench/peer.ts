import type { Case } from './cases.ts';
import type { Generated, Load } from './generator.ts';

export type PeerId =
  | 'postgres-loop'
  | 'node-http'
  | 'gateway-postgres'
  | 'gateway-silent'
  | 'gateway-workers'
  | 'fastify'
  | 'postgrest'
  | 'gateway-supabase'
  | 'gateway-fetch'
  | 'gateway-embedded'
  | 'pglite-loop';

/** Status and JSON of an answer, in the API's form. */
export type Answer = { readonly status: number; readonly body: unknown };

/** One of those that are compared: a process that answers the cases. */
export type Peer = {
  readonly id: PeerId;
  readonly title: string;
  /** The process whose processor time and memory are told, with those of its children. */
  readonly pid: number;
  /** Where it answers, of a peer that does so over HTTP. */
  readonly origin?: string;
  /** Whether it validates requests. */
  readonly validates: boolean;
  /** Makes one request with a key. */
  ask(case_: Case, key: string): Promise<Answer>;
  /** Makes requests with the keys in turn. */
  load(case_: Case, keys: readonly string[], load: Load): Promise<Generated>;
};

/** Whether a peer has a case. */
export function hasCase(peer: Pick<Peer, 'validates'>, case_: Case): boolean {
  return peer.validates || case_.isForValidating !== true;
}
