import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { CompiledDocument } from '../openapi/compile.ts';
import { readApiRoot } from '../openapi/document.ts';
import { readExamples } from '../openapi/examples.ts';
import type { Store } from '../store/store.ts';
import type { Log } from '../telemetry/log.ts';
import { toOrigin } from './ports.ts';

/** What the start message says of other processes. */
export type Welcome = {
  /** The number of processes that serve. */
  readonly workers: number;
  /** The origin of METRICS_PORT, if another process serves it. */
  readonly metricsOrigin?: string | undefined;
};

/** What the start message needs. */
export type WelcomeOptions = Welcome & {
  readonly server: Server;
  readonly document: CompiledDocument;
  readonly store: Store;
  /** Whether the documentation page is served. */
  readonly docs: boolean;
  /** Whether the Model Context Protocol is served. */
  readonly mcp: boolean;
  /** Whether DEMO_DATA asks for the demo data. */
  readonly isDemoWanted: boolean;
  readonly log: Pick<Log, 'info' | 'warn'>;
};

/** Timeout of the call that looks for the demo data, in milliseconds. */
const FIRST_CALL_MS = 5_000;

/** Logs the listen address and an example request, after checking that its call succeeds. */
export async function welcome(options: WelcomeOptions): Promise<void> {
  const { server, metricsOrigin, store, workers, docs, mcp, isDemoWanted, log } = options;
  const { source: document, operations } = options.document;
  const origin = toOrigin(server);
  // A stopped server has no address.
  const { address } = server.address() as AddressInfo;
  const url = origin + readApiRoot(document);
  log.info(`Listening on ${url}`);
  if (docs) log.info(`Documentation: ${origin}/docs`);
  if (mcp) log.info(`MCP: ${origin}/mcp`);
  if (metricsOrigin) log.info(`Metrics: ${metricsOrigin}/metrics`);
  if (workers > 1) log.info(`Workers: ${workers}`);
  log.info(`Store: ${store.description}`);

  const example = readExamples(document).find(({ request, status }) => request.method === 'GET' && status === 200);
  if (!example) return;
  const { target, headers } = example.request;
  const { function: name = '', key } = operations.get(example.operationId) ?? {};
  const value = Object.entries(headers).find(([header]) => header.toLowerCase() === key?.header)?.[1];
  if (!key || value === undefined) return;
  // Calls the store directly: a logged request that nobody sent would be confusing.
  const call = { function: name, args: { [key.argument]: value }, returns: 'rows', readOnly: true } as const;
  if ('failure' in (await store.call(call, AbortSignal.timeout(FIRST_CALL_MS)))) return;
  const header = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  log.info(`Demo data: try curl${header.join('')} '${url}${target}'`);
  const isPublic = !['127.0.0.1', '::1'].includes(address);
  if (isPublic || !isDemoWanted) log.warn('The demo data is in this store, and everybody knows its keys');
}
