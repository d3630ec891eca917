// A TCP proxy between a gateway and its store, which simulates faults of networks and servers on demand.

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

type Direction = 'request' | 'response';

/** A fault. It applies to open connections and to new ones. */
export type ProxyFault = {
  /** Where it happens: when a connection is made, on the way to the target, or on the way back. */
  readonly on: 'connect' | Direction;
  /**
   * `refuse` is for `connect` only, `reset` for all three. The others are for the two directions: they hold bytes back, send one each
   * second, send each by itself, or replace them.
   */
  readonly does: 'refuse' | 'reset' | 'stall' | 'trickle' | 'split' | 'garble';
  /** What still passes: a number of bytes, or everything up to the end of a text. */
  readonly after?: number | string;
  /** Whether it happens to one connection only. */
  readonly once?: boolean;
};

export type Address = { readonly host: string; readonly port: number };

/** The address in a URL. */
export function toAddress(url: string): Address {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

export type FaultProxy = {
  readonly port: number;
  /** Starts a fault, which replaces the one before. */
  fail(fault: ProxyFault): void;
  /** Ends the fault, and forwards what was held back. */
  pass(): Promise<void>;
  /** Makes new connections to another target from now on. */
  redirect(target: Address): void;
  /** Resets every connection, and makes new ones to another target if one is given. */
  cut(target?: Address): void;
  /** The number of connections. */
  connections(): number;
  /** Whether the fault has happened. */
  hasHappened(): boolean;
  /** How often a text was forwarded to the target, in one piece or in several. */
  sent(text: string): number;
  close(): Promise<void>;
};

/** The state that the directions of all connections share. */
type State = {
  fault: ProxyFault | undefined;
  /** The direction that the fault happened to first, or the connection that it refused. */
  victim: Flow | Socket | undefined;
  /** Everything that was forwarded to the target. */
  sent: string;
};

/** Starts a proxy that forwards to a target until it is told to fail. */
export async function startFaultProxy(firstTarget: Address): Promise<FaultProxy> {
  const flows = new Set<Flow>();
  const state: State = { fault: undefined, victim: undefined, sent: '' };
  let target = firstTarget;

  const server = createServer({ noDelay: true }, (client) => {
    if (findFault(state, 'connect')) {
      client.on('error', () => {}).resetAndDestroy();
      state.victim = client;
      return;
    }
    const upstream = connect({ ...target, noDelay: true });
    for (const flow of [new Flow('request', client, upstream, state), new Flow('response', upstream, client, state)]) {
      flows.add(flow);
      flow.from.on('close', () => flows.delete(flow));
    }
  });

  const change = (fault: ProxyFault | undefined) => {
    Object.assign(state, { fault, victim: undefined });
    for (const flow of flows) flow.restart();
  };
  const reset = () => {
    for (const flow of flows) flow.reset();
  };
  const listen = (port: number) => once(server.listen(port, '127.0.0.1'), 'listening');

  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    port,
    fail: (fault) => {
      if (fault.does === 'refuse') server.close();
      change(fault);
    },
    pass: async () => {
      change(undefined);
      if (!server.listening) await listen(port);
    },
    redirect: (next) => {
      target = next;
    },
    cut: (next = target) => {
      target = next;
      reset();
    },
    connections: () => flows.size / 2,
    hasHappened: () => state.victim !== undefined,
    sent: (text) => state.sent.split(text).length - 1,
    close: async () => {
      reset();
      server.close();
    },
  };
}

/** The fault that now applies to a direction, or to a new connection. */
function findFault({ fault, victim }: State, on: ProxyFault['on'], flow?: Flow): ProxyFault | undefined {
  const isOver = fault?.once && victim && victim !== flow;
  return fault?.on === on && !isOver ? fault : undefined;
}

/** One direction of one connection. */
class Flow {
  readonly from: Socket;
  readonly #direction: Direction;
  readonly #to: Socket;
  readonly #state: State;
  #held = Buffer.alloc(0);
  /** The bytes that passed since the fault began. */
  #passed = '';
  #timer: NodeJS.Timeout | undefined;

  constructor(direction: Direction, from: Socket, to: Socket, state: State) {
    this.from = from;
    this.#direction = direction;
    this.#to = to;
    this.#state = state;
    from.on('data', (chunk) => {
      this.#held = Buffer.concat([this.#held, chunk]);
      this.#pump();
    });
    from.on('error', () => {});
    from.on('close', (hadError) => {
      clearInterval(this.#timer);
      if (hadError) resetSocket(to);
      else to.end();
    });
  }

  restart(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#passed = '';
    this.#pump();
  }

  reset(): void {
    resetSocket(this.from);
    resetSocket(this.#to);
  }

  #pump(): void {
    const fault = findFault(this.#state, this.#direction, this);
    const room = fault ? this.#roomBefore(fault.after ?? 0) : Number.POSITIVE_INFINITY;
    this.#forward(room);
    if (!fault || this.#held.length === 0) return;
    this.#state.victim ??= this;
    if (fault.does === 'reset') this.reset();
    else if (fault.does === 'trickle') this.#timer ??= setInterval(() => this.#forward(1), 1_000);
    else if (fault.does === 'split') while (this.#held.length > 0) this.#forward(1);
    else if (fault.does === 'garble') this.#forward(this.#held.fill(0xee).length);
  }

  /** How many of the bytes that are held may pass. */
  #roomBefore(after: number | string): number {
    if (typeof after === 'number') return Math.max(0, after - this.#passed.length);
    const found = (this.#passed + this.#held.toString('latin1')).indexOf(after);
    return found < 0 ? Number.POSITIVE_INFINITY : Math.max(0, found + after.length - this.#passed.length);
  }

  #forward(count: number): void {
    const bytes = this.#held.subarray(0, count);
    if (bytes.length === 0) return;
    this.#held = this.#held.subarray(bytes.length);
    this.#passed += bytes.toString('latin1');
    if (this.#direction === 'request') this.#state.sent += bytes;
    if (this.#to.writable) this.#to.write(bytes);
  }
}

/** A socket that is being ended cannot be reset any more: Node would never close it. */
function resetSocket(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
