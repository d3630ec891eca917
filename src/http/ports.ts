// Listening on PORT and METRICS_PORT, and closing them.

import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Server } from 'node:net';
import { getSystemErrorMessage } from 'node:util';
import type { Config } from '../config.ts';
import { OperatorError } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import { createOperationalApp } from './app.ts';
import { createContexts, createFaultHandler } from './context.ts';
import type { Endpoints } from './respond.ts';
import { createServer, type GatewayServer } from './server.ts';

/** The time for requests in progress after the port is closed, in milliseconds. */
const FINISH_MS = 10_000;

/** Checks the ports before a store is created. Throws OperatorError if the gateway cannot listen on one. */
export async function checkPorts({ port, metricsPort, host }: Config): Promise<void> {
  for (const [variable, number] of [
    ['PORT', port],
    ['METRICS_PORT', metricsPort],
  ] as const) {
    if (number === undefined) continue;
    const probe = createNetServer();
    await listen(probe, variable, number, host);
    await new Promise((resolve) => probe.close(resolve));
  }
}

/** Opens METRICS_PORT, if it is set, with these endpoints. Throws OperatorError if it cannot listen. */
export async function openOperationalServer(
  config: Config,
  endpoints: readonly Endpoints[],
  log: Pick<Log, 'request' | 'fault'>,
): Promise<GatewayServer | undefined> {
  const { metricsPort, host } = config;
  if (metricsPort === undefined) return undefined;
  const sinks = [log.request];
  const contexts = createContexts({ sinks, addressOf: () => '', bodyLimit: 0 });
  const app = createOperationalApp({ contexts, operational: endpoints, onFault: createFaultHandler(log) });
  const server = createServer(app, config, sinks);
  await listen(server, 'METRICS_PORT', metricsPort, host);
  return server;
}

/** Listens on the port that an environment variable gives. Throws OperatorError if it cannot. */
export async function listen(server: Server, variable: string, port: number, host: string): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const { code, errno = 0 } = cause as NodeJS.ErrnoException;
    const message =
      code === 'EADDRINUSE'
        ? `port ${port} of ${host} is in use: set ${variable} to another port`
        : `cannot listen on ${host} port ${port}: ${getSystemErrorMessage(errno)} (${code})`;
    throw new OperatorError(message, { cause });
  }
}

/** Closes a port, if it is open: serves on for `noticeMs` milliseconds, and finishes the requests in progress. */
export async function close(server: GatewayServer | undefined, noticeMs = 0): Promise<void> {
  if (server?.listening) await server.drain({ noticeMs, finishMs: FINISH_MS });
}

/** The origin of a listening server, for clients on this machine. */
export function toOrigin(server: HttpServer): string {
  const { address, family, port } = server.address() as AddressInfo;
  const reachable = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `http://${family === 'IPv6' ? `[${reachable}]` : reachable}:${port}`;
}
