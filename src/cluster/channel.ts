/** The end of an IPC channel: a process, or what one has of a worker. */
export type ChannelEnd = {
  send(message: unknown, callback: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
};

/** A channel to another process, which can be told things and asked for them. */
export type Channel<Message> = {
  tell(message: Message): void;
  /** What the other process gives for a message. Fails where it gives nothing within `ms` milliseconds, or ends. */
  ask<Answer>(message: Message, ms: number): Promise<Answer>;
};

type Envelope = { readonly id?: number } & ({ readonly message: unknown } | { readonly answer: unknown });

/** Opens a channel; what comes in is given to `answer`, and what that gives goes back to whoever has asked. */
export function openChannel<Outgoing, Incoming>(
  end: ChannelEnd,
  answer: (message: Incoming) => unknown,
): Channel<Outgoing> {
  const asked = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  // Without a callback a channel that is closed already would end this process.
  const send = (envelope: Envelope) => void end.send(envelope, () => {});
  const receive = async (envelope: Envelope) => {
    const { id } = envelope;
    if ('answer' in envelope) return asked.get(id ?? 0)?.resolve(envelope.answer);
    const given = await answer(envelope.message as Incoming);
    if (id !== undefined) send({ id, answer: given });
  };
  // What cannot be answered is as good as lost: whoever has asked does not wait for ever.
  end.on('message', (envelope) => void receive(envelope as Envelope).catch(() => {}));
  end.once('disconnect', () => {
    for (const { reject } of asked.values()) reject(new Error('the other process has ended'));
  });

  const ask = async <Answer>(message: Outgoing, ms: number): Promise<Answer> => {
    lastId += 1;
    const id = lastId;
    const waiting = Promise.withResolvers<unknown>();
    asked.set(id, waiting);
    // Not before answers were read that came while this process was busy.
    const late = () => setImmediate(waiting.reject, new Error(`no answer from the other process within ${ms} ms`));
    const timer = setTimeout(late, ms);
    send({ id, message });
    try {
      return (await waiting.promise) as Answer;
    } finally {
      clearTimeout(timer);
      asked.delete(id);
    }
  };
  return { tell: (message) => send({ message }), ask };
}
