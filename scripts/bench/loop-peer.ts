// A peer without HTTP: a process that makes the calls itself, and is told by messages which.

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Call } from '../../src/store/store.ts';
import { toCall } from './cases.ts';
import type { Generated } from './generator.ts';
import type { Answer, Peer } from './peer.ts';

/** What the process is told: to make one call, or for some seconds all of them in turn, so many at once. */
export type LoopRequest = { readonly calls: readonly Call[]; readonly connections: number; readonly seconds?: number };

/** What the process tells. */
export type LoopReply = 'ready' | Answer | Generated;

/** A peer in a process that serves a loop; waits until it does. */
export async function openLoop(parts: Pick<Peer, 'id' | 'title'>, child: ChildProcess): Promise<Peer> {
  const send = async (request?: LoopRequest): Promise<unknown> => {
    const ended = new AbortController();
    const onExit = () => ended.abort(new Error(`${parts.title} has ended`));
    child.once('exit', onExit);
    try {
      const reply = once(child, 'message', { signal: ended.signal });
      if (request) child.send(request);
      return (await reply)[0];
    } finally {
      child.off('exit', onExit);
    }
  };
  await send();
  return {
    ...parts,
    pid: child.pid ?? 0,
    validates: false,
    ask: async (case_, key) => (await send({ calls: [toCall(case_, key)], connections: 1 })) as Answer,
    load: async (case_, keys, { connections, seconds }) => {
      const calls = keys.map((key) => toCall(case_, key));
      return (await send({ calls, connections, seconds })) as Generated;
    },
  };
}
