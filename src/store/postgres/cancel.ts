import pg from 'pg';

/** Private parts of pg's clients and connections that are used here. */
type ClientInternals = {
  readonly processID: number;
  readonly secretKey: number;
  readonly host: string;
  readonly port: number;
  readonly ssl: boolean | object;
  readonly connection: Connection;
};
type Connection = NodeJS.EventEmitter & {
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
  readonly stream: { destroy(): void };
};

const { Connection: CancelConnection } = pg as unknown as { Connection: new (config: object) => Connection };

/**
 * Cancels the running query of a connection (the protocol's CancelRequest, which poolers understand too). Resolves when the
 * request was received or has failed. A query that is still running after `ms` milliseconds loses its connection.
 */
export async function cancelQuery(client: pg.PoolClient, running: Promise<unknown>, ms: number): Promise<void> {
  const { processID, secretKey, host, port, ssl, connection } = client as unknown as ClientInternals;
  const request = new CancelConnection({ ssl });
  const send = () => request.cancel(processID, secretKey);
  const taken = Promise.withResolvers<void>();
  request.once('connect', ssl ? () => request.requestSsl() : send).once('sslconnect', send);
  // Success shows in the query itself.
  request.on('error', () => taken.resolve()).once('end', () => taken.resolve());
  if (host.startsWith('/')) request.connect(`${host}/.s.PGSQL.${port}`);
  else request.connect(port, host);

  const cut = setTimeout(() => {
    request.stream.destroy();
    connection.stream.destroy();
  }, ms);
  const stop = () => clearTimeout(cut);
  await Promise.allSettled([running.then(stop, stop), taken.promise]);
}
