// Before it is measured how fast they are: that all peers answer the same.

import { isDeepStrictEqual } from 'node:util';
import type { Case } from './cases.ts';
import { type Answer, hasCase, type Peer, type PeerId } from './peer.ts';
import { toKeys } from './run.ts';

/** What a server makes anew for each student. */
const GENERATED = ['id', 'criado_em'];

/** Throws where a peer does not answer a case as it has to, or not as the first one that has the case. */
export async function checkAgreement(peers: readonly Peer[], cases: readonly Case[], tenants: number): Promise<void> {
  for (const case_ of cases) {
    const answers = await askAll(peers, case_, tenants);
    const [first] = answers.values();
    for (const [peer, answer] of answers) {
      if (answer.status === case_.status && isDeepStrictEqual(answer, first)) continue;
      const expected = `${case_.status}, as ${[...answers.keys()][0]} has it: ${toExcerpt(first)}`;
      throw new Error(`${peer}, ${case_.title}: expected ${expected}; got ${toExcerpt(answer)}`);
    }
  }
}

/** What each peer that has the case answers to the request of one tenant, but for what is made anew. */
export async function askAll(peers: readonly Peer[], case_: Case, tenants: number): Promise<Map<PeerId, Answer>> {
  const key = toKeys(case_, tenants).at(-1) ?? '';
  const answers = new Map<PeerId, Answer>();
  for (const peer of peers.filter((peer) => hasCase(peer, case_))) {
    answers.set(peer.id, withoutGenerated(case_, await peer.ask(case_, key)));
  }
  return answers;
}

function withoutGenerated({ body: isCreate }: Case, { status, body }: Answer): Answer {
  if (!isCreate || typeof body !== 'object' || body === null) return { status, body };
  const kept = Object.entries(body).filter(([name]) => !GENERATED.includes(name));
  return { status, body: Object.fromEntries(kept) };
}

function toExcerpt(answer: Answer | undefined): string {
  return JSON.stringify(answer)?.slice(0, 300) ?? 'nothing';
}
