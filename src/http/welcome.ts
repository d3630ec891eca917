import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Config, LOOPBACK } from '../config.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import type { Store } from '../store/store.ts';
import type { Log } from '../telemetry/log.ts';
import type { Demo } from './demo.ts';
import { toOrigin } from './ports.ts';

/** The part of the start message that depends on other processes. */
export type Welcome = {
  /** The number of processes that serve. */
  readonly workers: number;
  /** The origin of METRICS_PORT, if another process serves it. */
  readonly metricsOrigin?: string | undefined;
};

type WelcomeOptions = Welcome &
  Pick<Config, 'docs' | 'mcp'> & {
    readonly server: Server;
    readonly document: CompiledDocument;
    readonly store: Pick<Store, 'description'>;
    readonly demo: Promise<Demo | undefined>;
    /** Whether DEMO_DATA asks for the demo data. */
    readonly isDemoWanted: boolean;
    readonly log: Pick<Log, 'info' | 'warn'>;
  };

/** Logs the listen address, and an example request if the demo data is there. */
export async function welcome(options: WelcomeOptions): Promise<void> {
  const { server, metricsOrigin, document, store, workers, docs, mcp, demo, isDemoWanted, log } = options;
  const origin = toOrigin(server);
  // A stopped server has no address.
  const { address } = server.address() as AddressInfo;
  const url = origin + document.apiRoot;
  log.info(`Listening on ${url}`);
  if (docs) log.info(`Documentation: ${origin}/docs`);
  if (mcp) log.info(`MCP: ${origin}/mcp`);
  if (metricsOrigin) log.info(`Metrics: ${metricsOrigin}/metrics`);
  if (workers > 1) log.info(`Workers: ${workers}`);
  log.info(`Store: ${store.description}`);

  const found = await demo;
  if (!found) return;
  const { headers, target } = found;
  const header = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  log.info(`Demo data: try curl${header.join('')} '${url}${target}'`);
  const isPublic = !LOOPBACK.test(address);
  if (isPublic || !isDemoWanted) log.warn('The demo data is in this store, and everybody knows its keys');
}
