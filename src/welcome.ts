import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { OpenAPIV3 } from 'openapi-types';
import { readApiRoot } from './document.ts';
import { readExamples } from './examples.ts';
import type { Log } from './log.ts';

/** What a person is told at the start. */
export type WelcomeOptions = {
  readonly server: Server;
  /** The server of the port of the metrics, where there is one. */
  readonly management?: Server | undefined;
  readonly document: OpenAPIV3.Document;
  /** The store, in words. */
  readonly store: string;
  /** Whether the documentation page is served. */
  readonly docs: boolean;
  /** Whether the store was meant to have the demo data. */
  readonly isDemoWanted: boolean;
  readonly log: Pick<Log, 'info' | 'warn'>;
};

/** Says where the gateway listens, and how to make a first call: only one that was just seen to work. */
export async function welcome(options: WelcomeOptions): Promise<void> {
  const { server, management, document, store, docs, isDemoWanted, log } = options;
  const origin = toOrigin(server);
  // A server that is stopped meanwhile has none.
  const { address } = server.address() as AddressInfo;
  const url = origin + readApiRoot(document);
  log.info(`Listening on ${url}`);
  if (docs) log.info(`Documentation: ${origin}/docs`);
  if (management) log.info(`Metrics: ${toOrigin(management)}/metrics`);
  log.info(`Store: ${store}`);

  const example = readExamples(document).find(({ request, status }) => request.method === 'GET' && status === 200);
  if (!example) return;
  const { target, headers } = example.request;
  const answer = await fetch(url + target, { headers }).catch(() => undefined);
  if (!answer?.ok) return;
  const header = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  log.info(`Demo data: try curl${header.join('')} '${url}${target}'`);
  const isPublic = !['127.0.0.1', '::1'].includes(address);
  if (isPublic || !isDemoWanted) log.warn('The demo data is in this store, and everybody knows its keys');
}

function toOrigin(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  const reachable = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `http://${family === 'IPv6' ? `[${reachable}]` : reachable}:${port}`;
}
