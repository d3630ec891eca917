import pg from 'pg';

/** What a server asks for to cancel a connection's query. */
export type BackendKey = { readonly processID: number; readonly secretKey: number };

/** Parts of pg's connections that its types leave out. */
type CancelConnection = pg.Connection & {
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
};

/**
 * Asks to cancel the running query of a client's connection (the protocol's CancelRequest, which poolers understand too).
 * Resolves when the server has taken the request, when it has failed, or after `ms` milliseconds: success shows in the query.
 */
export async function requestCancel(
  client: pg.Client,
  { processID, secretKey }: BackendKey,
  ms: number,
): Promise<void> {
  const { host, port, ssl } = client;
  const request = new pg.Connection({ ssl }) as CancelConnection;
  const taken = Promise.withResolvers<void>();
  const send = () => request.cancel(processID, secretKey);
  request.once('connect', ssl ? () => request.requestSsl() : send).once('sslconnect', send);
  request.on('error', () => taken.resolve()).once('end', () => taken.resolve());
  const timer = setTimeout(() => request.stream.destroy(), ms);
  if (host.startsWith('/')) request.connect(`${host}/.s.PGSQL.${port}`);
  else request.connect(port, host);
  await taken.promise;
  clearTimeout(timer);
}
