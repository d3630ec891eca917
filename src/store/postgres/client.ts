// A pg client that connects as DATABASE_URL says. Its promises reject even if pg cannot read what the server sends.

import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import pg from 'pg';
import { LOOPBACK } from '../../config.ts';
import type { ClientConfig, DatabaseAddress } from '../../database-url.ts';

/** Parts of pg's connections that its types leave out. */
type ClientConnection = pg.Connection & {
  attachListeners(stream: Duplex): void;
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
};

/** How long the server may take to confirm a cancellation, in milliseconds. */
const CONFIRM_MS = 500;
/** The maximum scram_iterations that a server may ask for. A login with that many takes seconds. */
const MAX_ITERATIONS = 10_000_000;

const UNTRUSTED =
  'set sslrootcert to the file of the authority that signed it, or sslmode=no-verify to check no certificate';
/** What to do if TLS fails: Node's own advice is for programmers. */
const ADVICE: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID:
    'use a name of the certificate as the host, or sslmode=verify-ca with sslrootcert, or sslmode=no-verify',
  'The server does not support SSL connections': 'sslmode=disable connects in plain text',
};

/** PgBouncer refuses a login with the code of a protocol violation; these are Postgres's codes for its messages. */
const BREACH = '08P01';
const POOLER_CODES = [
  [/ authentication failed$/, '28P01'],
  [/^no such database: /, '3D000'],
] as const;

/** The message of pg if the server asks for a password and there is none. */
const NO_PASSWORD = /client password must be /;

export class Client extends pg.Client {
  /** The server's process, and the key that cancels its query. A pooler invents both. */
  declare readonly processID: number;
  declare readonly secretKey: number;
  declare readonly sslNegotiation: string;
  /** Why the connection was lost. */
  lost?: Error;
  /** The settings of the session that Postgres reports, while pg reads its messages. */
  readonly settings = new Map<string, string>();

  /** Throws if a TLS file cannot be read. */
  constructor({ sslFiles = {}, mustBind = false, ...config }: ClientConfig) {
    const files = Object.entries(sslFiles).map(([use, path]) => [use, readFileSync(path)]);
    const ssl = files.length > 0 ? { ssl: { ...config.ssl, ...Object.fromEntries(files) } } : {};
    const options: pg.ClientConfig & { scramMaxIterations: number } = {
      scramMaxIterations: MAX_ITERATIONS,
      ...config,
      ...ssl,
    };
    super(options);
    // Without a listener a lost connection would end the process.
    this.on('error', (error) => {
      this.lost ??= error;
    });
    this.connection.on('parameterStatus', ({ parameterName, parameterValue }) => {
      this.settings.set(parameterName, parameterValue);
    });
    guardParser(this.connection as ClientConnection);
    if (mustBind) requireBinding(this.connection);
  }

  override async connect(): Promise<this> {
    try {
      await super.connect();
      return this;
    } catch (error) {
      const { code = '', message } = error as NodeJS.ErrnoException;
      const [, refusal] = (code === BREACH && POOLER_CODES.find(([text]) => text.test(message))) || [];
      if (refusal) Object.assign(error as Error, { code: refusal });
      if (NO_PASSWORD.test(message)) {
        const text = 'there is no password: write it in DATABASE_URL, PGPASSWORD or a pgpass file with mode 600';
        throw Object.assign(error as Error, { code: '28P01', message: text });
      }
      const advice = ADVICE[code] ?? ADVICE[message];
      if (advice) (error as Error).message = `${message.split('; if the root CA')[0]}: ${advice}`;
      throw error;
    }
  }

  /**
   * Asks the server to cancel the running query (the protocol's CancelRequest, which poolers understand too). Returns whether the
   * server has confirmed in time, by closing the connection, that it has passed the request on.
   */
  async requestCancel(): Promise<boolean> {
    const { host, port, ssl, sslNegotiation, processID, secretKey } = this;
    const request = new pg.Connection({ ssl, sslNegotiation } as pg.ConnectionConfig) as ClientConnection;
    guardParser(request);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    let isSent = false;
    const send = () => {
      request.cancel(processID, secretKey);
      isSent = true;
    };
    const requestSsl = () => void (sslNegotiation === 'direct' || request.requestSsl());
    request.once('connect', ssl ? requestSsl : send).once('sslconnect', send);
    request.on('error', () => resolve(false)).once('end', () => resolve(isSent));
    const timer = setTimeout(() => {
      resolve(false);
      request.stream.destroy();
    }, CONFIRM_MS);
    if (host.startsWith('/')) request.connect(`${host}/.s.PGSQL.${port}`);
    else request.connect(port, host);
    return promise.finally(() => clearTimeout(timer));
  }
}

/** Ends a connection whose messages pg cannot read: its parser throws where nobody catches the error. */
function guardParser(connection: ClientConnection): void {
  const attach = connection.attachListeners.bind(connection);
  connection.attachListeners = (stream) => {
    attach(stream);
    const [parse] = stream.listeners('data').slice(-1) as [(chunk: Buffer) => void];
    stream.off('data', parse).on('data', (chunk: Buffer) => {
      try {
        parse(chunk);
      } catch (error) {
        stream.destroy(error as Error);
      }
    });
  };
}

/** Ends a login without channel binding before a password is sent (RFC 5802, section 6). */
function requireBinding(connection: pg.Connection): void {
  const refuse = () => {
    // Without this event, the error would come too late: a server that asks for no password has the client ready before the socket ends.
    connection.emit('error', new Error('the server offers no channel binding: channel_binding=require'));
    connection.stream.destroy();
  };
  let isProven = false;
  connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: readonly string[] }) => {
    if (!mechanisms.includes('SCRAM-SHA-256-PLUS')) refuse();
  });
  connection.on('authenticationCleartextPassword', refuse).on('authenticationMD5Password', refuse);
  connection.on('authenticationSASLFinal', () => {
    isProven = true;
  });
  connection.on('authenticationOk', () => isProven || refuse());
}

/** Names the servers and the database, without a password. */
export function describeServers({ servers }: DatabaseAddress): string {
  const clients = servers.map(({ config }) => new pg.Client(config));
  return `Postgres at ${clients.map(({ host, port }) => `${host}:${port}`).join()}/${clients[0]?.database}`;
}

/** The first server to which rows travel over a network in plain text, although nobody has asked for that. */
export function findPlainText({ servers }: DatabaseAddress): string | undefined {
  return servers.find(({ config }) => {
    const { host, ssl } = new pg.Client(config);
    return config.ssl === undefined && !ssl && !(host.startsWith('/') || LOOPBACK.test(host));
  })?.name;
}
