// A proxy that reads the messages of Postgres's protocol (version 3.0) between a client and its server, and does to one of them
// what a network, a pooler or a proxy can do at its worst.

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposableSync, readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';

/** What happens to a message: it never arrives, comes too late, ends the connection, comes byte by byte, or is not one. */
export const HARMS = ['swallow', 'delay', 'cut', 'split', 'garble'] as const;
export type Harm = (typeof HARMS)[number];

/** A message by its phase, its direction and its code, such as `login > p`; `connect` stands for the connection itself. */
export type Place = string;

/** What goes wrong, for every such message until it ends, or for the first one. */
export type MessageFault = { readonly place: Place; readonly harm: Harm; readonly once: boolean };

export type MessageProxy = {
  readonly port: number;
  /** The places that were passed, in order. */
  readonly places: ReadonlySet<Place>;
  fail(fault: MessageFault): void;
  /** Ends the fault: what was delayed goes on its way. */
  heal(): void;
  /** Whether the fault has happened. */
  hasHappened(): boolean;
  close(): Promise<void>;
};

type Phase = 'tls' | 'login' | 'setup' | 'serve' | 'cancel' | 'end';
type Message = { readonly code: string; readonly bytes: Buffer };
type Pair = { phase: Phase; ready: number };

const STARTUP_CODES: Readonly<Record<number, string>> = {
  196608: 'Startup',
  80877102: 'CancelRequest',
  80877103: 'SSLRequest',
};
/** The messages that begin a phase. */
const PHASES: Readonly<Record<string, Phase>> = {
  SSLRequest: 'tls',
  Startup: 'login',
  CancelRequest: 'cancel',
  X: 'end',
};
/** How often a server is ready before it serves: after the login, and after each of the two queries that set up a session. */
const READY_TO_SERVE = 3;

/** Of all proxies: to make a certificate takes longer than a case. */
let secureContext: SecureContext | undefined;

/** Starts a proxy in front of a server without TLS; its clients may use TLS. */
export async function startMessageProxy(target: {
  readonly host: string;
  readonly port: number;
}): Promise<MessageProxy> {
  secureContext ??= createSecureContext(createCertificate());
  const context = secureContext;
  const places = new Set<Place>();
  const sockets = new Set<Duplex>();
  const held = new Set<() => void>();
  let fault: MessageFault | undefined;
  let hasHappened = false;

  const server = createServer({ noDelay: true }, (client) => {
    client.setMaxListeners(0);
    keep(client);
    if (harmAt('connect')) return client.resetAndDestroy();
    void serve(client);
  });

  function keep(socket: Duplex): void {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  }

  function harmAt(place: Place): Harm | undefined {
    places.add(place);
    if (fault?.place !== place) return undefined;
    const { harm, once } = fault;
    hasHappened = true;
    if (once) fault = undefined;
    return harm;
  }

  async function serve(client: Socket): Promise<void> {
    const pair: Pair = { phase: 'login', ready: 0 };
    const upstream = connect({ ...target, noDelay: true });
    keep(upstream);
    const end = () => {
      client.resetAndDestroy();
      upstream.resetAndDestroy();
    };
    let plain: Duplex = client;
    const first = createPassage('>', pair, end, (message) => {
      if (message.code !== 'SSLRequest') return upstream.write(message.bytes);
      const answer = createPassage('<', pair, end, ({ bytes }) => {
        client.removeAllListeners('data').write(bytes);
        plain = new TLSSocket(client, { isServer: true, secureContext: context });
        keep(plain);
        forward(
          plain,
          createPassage('>', pair, end, ({ bytes }) => upstream.write(bytes)),
          true,
        );
      });
      answer({ code: 'S', bytes: Buffer.from('S') });
    });
    forward(client, first, true);
    forward(
      upstream,
      createPassage('<', pair, end, ({ bytes }) => plain.writable && plain.write(bytes)),
      false,
    );
    client.on('close', () => upstream.end());
    upstream.on('close', () => plain.end());
  }

  /** Gives messages to the next one in their order, unless the fault harms them. */
  function createPassage(direction: '>' | '<', pair: Pair, end: () => void, pass: (message: Message) => unknown) {
    let isHeld = false;
    const waiting: Message[] = [];
    const passOn = ({ code, bytes }: Message): void => {
      if (isHeld) {
        waiting.push({ code, bytes });
        return;
      }
      pair.phase = PHASES[code] ?? pair.phase;
      const harm = harmAt(`${pair.phase} ${direction} ${code}`);
      if (direction === '<' && code === 'Z') {
        pair.ready += 1;
        if (pair.ready === 1) pair.phase = 'setup';
        if (pair.ready === READY_TO_SERVE) pair.phase = 'serve';
      }
      if (harm === undefined) pass({ code, bytes });
      else if (harm === 'cut') end();
      else if (harm === 'split') for (const byte of bytes) pass({ code, bytes: Buffer.from([byte]) });
      // No message has such a code, or is as long.
      else if (harm === 'garble') pass({ code, bytes: Buffer.alloc(bytes.length, 0xee) });
      else if (harm === 'delay') {
        isHeld = true;
        held.add(() => {
          isHeld = false;
          pass({ code, bytes });
          for (const message of waiting.splice(0)) passOn(message);
        });
      }
    };
    return passOn;
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    places,
    fail: (next) => {
      fault = next;
      hasHappened = false;
    },
    heal: () => {
      fault = undefined;
      for (const release of [...held]) release();
      held.clear();
    },
    hasHappened: () => hasHappened,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Takes the bytes of a socket apart into messages. A client's first ones have no code of their own. */
function forward(from: Duplex, pass: (message: Message) => void, isClient: boolean): void {
  let bytes = Buffer.alloc(0);
  let hasStarted = !isClient;
  from.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    for (;;) {
      const lengthAt = hasStarted ? 1 : 0;
      if (bytes.length < lengthAt + 4) return;
      const end = lengthAt + bytes.readUInt32BE(lengthAt);
      if (bytes.length < end) return;
      const code = hasStarted ? String.fromCharCode(bytes[0] as number) : STARTUP_CODES[bytes.readUInt32BE(4)];
      if (code === undefined) {
        from.destroy();
        return;
      }
      // After a request for TLS another first message comes, on the secured socket.
      if (code === 'Startup') hasStarted = true;
      const message = { code, bytes: bytes.subarray(0, end) };
      bytes = bytes.subarray(end);
      pass(message);
    }
  });
}

function createCertificate(): { key: Buffer; cert: Buffer } {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'certificate-'));
  const [key, cert] = [join(folder.path, 'key.pem'), join(folder.path, 'cert.pem')];
  const kind = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost';
  execFileSync('openssl', ['req', ...kind.split(' '), '-keyout', key, '-out', cert], { stdio: 'ignore' });
  return { key: readFileSync(key), cert: readFileSync(cert) };
}
