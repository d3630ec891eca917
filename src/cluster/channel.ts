import { within } from '../deadline.ts';

/** One end of an IPC channel: a process, or a worker as the primary process sees it. */
export type ChannelEnd = {
  send(message: unknown, callback: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
};

/** A channel to another process. */
export type Channel<Message> = {
  tell(message: Message): void;
  /** Gives the other process's answer to a message. Fails if there is none within `ms` milliseconds, or it ends. */
  ask<Answer>(message: Message, ms: number): Promise<Answer>;
};

type Envelope = { readonly id?: number } & ({ readonly message: unknown } | { readonly answer: unknown });

/** Opens a channel; `answer` handles incoming messages, and its result is sent back to a process that asked. */
export function openChannel<Outgoing, Incoming>(
  end: ChannelEnd,
  answer: (message: Incoming) => unknown,
): Channel<Outgoing> {
  const asked = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  // Without a callback, an error of a closed channel would end this process.
  const send = (envelope: Envelope) => void end.send(envelope, () => {});
  const receive = async (envelope: Envelope) => {
    const { id } = envelope;
    if ('answer' in envelope) return asked.get(id ?? 0)?.resolve(envelope.answer);
    const given = await answer(envelope.message as Incoming);
    if (id !== undefined) send({ id, answer: given });
  };
  // A message without an answer counts as lost: the other process waits for a limited time.
  end.on('message', (envelope) => void receive(envelope as Envelope).catch(() => {}));
  end.once('disconnect', () => {
    for (const { reject } of asked.values()) reject(new Error('the other process has ended'));
  });

  const ask = async <Answer>(message: Outgoing, ms: number): Promise<Answer> => {
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
