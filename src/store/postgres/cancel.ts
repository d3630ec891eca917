import pg from 'pg';
import { type Client, guardParser } from './client.ts';

/** How long the server may take to confirm a request, in milliseconds. */
const CONFIRM_MS = 500;

/** What a server asks for to cancel a connection's query. */
export type BackendKey = { readonly processID: number; readonly secretKey: number };

/** Parts of pg's connections that its types leave out. */
type CancelConnection = Parameters<typeof guardParser>[0] & {
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
};

/**
 * Asks to cancel the running query of a client's connection (the protocol's CancelRequest, which poolers understand too). Gives
 * whether the server has confirmed in time that it passed the request on: by closing the connection.
 */
export async function requestCancel(client: Client, { processID, secretKey }: BackendKey): Promise<boolean> {
  const { host, port, ssl, sslNegotiation } = client as Client & { readonly sslNegotiation: string };
  const request = new pg.Connection({ ssl, sslNegotiation } as pg.ConnectionConfig) as CancelConnection;
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
  const isConfirmed = await promise;
  clearTimeout(timer);
  return isConfirmed;
}
