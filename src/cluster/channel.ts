// Questions and answers between two processes, over Node's IPC.

import { within } from '../deadline.ts';

/** One end of an IPC channel: a process, or a worker as the primary process sees it. */
type ChannelEnd = {
  send(message: unknown, callback: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
};

/** A channel to another process. */
export type Channel<Message> = {
  tell(message: Message): void;
  /** Returns the other process's answer. Rejects if none arrives within `ms` milliseconds, or the process ends. */
  ask<Answer>(message: Message, ms: number): Promise<Answer>;
};

type Envelope = { readonly id?: number } & ({ readonly message: unknown } | { readonly answer: unknown });

const ENDED = 'the other process has ended';

/** Opens a channel. `answer` handles incoming messages; its result goes back if the other process asked for one. */
export function openChannel<Outgoing, Incoming>(
  end: ChannelEnd,
  answer: (message: Incoming) => unknown,
): Channel<Outgoing> {
  const asked = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  let hasEnded = false;
  // Without a callback, sending on a closed channel would crash this process.
  const send = (envelope: Envelope) => void end.send(envelope, () => {});
  const receive = async (envelope: Envelope) => {
    const { id } = envelope;
    if ('answer' in envelope) return asked.get(id ?? 0)?.resolve(envelope.answer);
    const given = await answer(envelope.message as Incoming);
    if (id !== undefined) send({ id, answer: given });
  };
  // A failed answer is not sent: the other process times out.
  end.on('message', (envelope) => void receive(envelope as Envelope).catch(() => {}));
  end.once('disconnect', () => {
    hasEnded = true;
    for (const { reject } of asked.values()) reject(new Error(ENDED));
  });

  const ask = async <Answer>(message: Outgoing, ms: number): Promise<Answer> => {
    if (hasEnded) throw new Error(ENDED);
    lastId += 1;
    const id = lastId;
    const waiting = Promise.withResolvers<unknown>();
    asked.set(id, waiting);
    send({ id, message });
    try {
      return (await within(ms, () => waiting.promise)) as Answer;
    } finally {
      asked.delete(id);
    }
  };
  return { tell: (message) => send({ message }), ask };
}
