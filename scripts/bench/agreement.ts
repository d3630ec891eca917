// Checks that all peers give the same answers, before their speed is compared.

import { isDeepStrictEqual } from 'node:util';
import type { Case } from './cases.ts';
import { toKeys } from './measure.ts';
import { type Answer, hasCase, type Peer, type PeerId } from './peer.ts';

/** What a server generates for each student. */
const GENERATED = ['id', 'criado_em'];

/** Throws if a peer's answer is not the expected status, or not the same as the first peer's. */
export async function checkAgreement(peers: readonly Peer[], cases: readonly Case[], tenants: number): Promise<void> {
  for (const case_ of cases) {
    const answers = await askAll(peers, case_, tenants);
    const [first] = answers.values();
    for (const [peer, answer] of answers) {
      if (answer.status === case_.status && isDeepStrictEqual(answer, first)) continue;
      const expected = `${case_.status}, like ${[...answers.keys()][0]}: ${toExcerpt(first)}`;
      throw new Error(`${peer}, ${case_.title}: expected ${expected}; got ${toExcerpt(answer)}`);
    }
  }
}

/** The answer of each peer to one tenant's request, without what is generated. */
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
