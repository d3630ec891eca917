import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Program } from './api/handler.ts';
import { readApiRoot } from './openapi/document.ts';
import { readExamples } from './openapi/examples.ts';
import type { Store } from './store/store.ts';
import type { Log } from './telemetry/log.ts';

/** What a person is told at the start. */
export type WelcomeOptions = {
  readonly server: Server;
  /** The server of the port of the metrics, where there is one. */
  readonly management?: Server | undefined;
  readonly program: Program;
  readonly store: Store;
  /** How many processes serve. */
  readonly workers: number;
  /** Whether the documentation page is served. */
  readonly docs: boolean;
  /** Whether the store was meant to have the demo data. */
  readonly isDemoWanted: boolean;
  readonly log: Pick<Log, 'info' | 'warn'>;
};

/** How long the store may take to say whether it has the demo data, in milliseconds. */
const FIRST_CALL_MS = 5_000;

/** Says where the gateway listens, and how to make a first call: only one that was just seen to work. */
export async function welcome(options: WelcomeOptions): Promise<void> {
  const { server, management, program, store, workers, docs, isDemoWanted, log } = options;
  const { document, operations } = program;
  const origin = toOrigin(server);
  // A server that is stopped meanwhile has none.
  const { address } = server.address() as AddressInfo;
  const url = origin + readApiRoot(document);
  log.info(`Listening on ${url}`);
  if (docs) log.info(`Documentation: ${origin}/docs`);
  if (management) log.info(`Metrics: ${toOrigin(management)}/metrics`);
  if (workers > 1) log.info(`Workers: ${workers}`);
  log.info(`Store: ${store.description}`);

  const example = readExamples(document).find(({ request, status }) => request.method === 'GET' && status === 200);
  if (!example) return;
  const { target, headers } = example.request;
  const { function: name = '', key } = operations.get(example.operationId) ?? {};
  const value = Object.entries(headers).find(([header]) => header.toLowerCase() === key?.header)?.[1];
  if (!key || value === undefined) return;
  // By the store alone: in the log a request that nobody has sent would be a riddle.
  const call = { function: name, args: { [key.argument]: value }, returns: 'rows', readOnly: true } as const;
  if ('failure' in (await store.call(call, AbortSignal.timeout(FIRST_CALL_MS)))) return;
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
