import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { OpenAPIV3 } from 'openapi-types';
import { createApp } from '../../src/app.ts';
import { readApiRoot, readDocument } from '../../src/document.ts';
import type { Fault } from '../../src/errors.ts';
import { createGateway } from '../../src/gateway.ts';
import { createServer } from '../../src/server.ts';
import { openEmbedded } from '../../src/store/embedded.ts';
import type { Store } from '../../src/store/store.ts';

export const MIGRATIONS = 'supabase/migrations';
export const SEED = { file: 'supabase/seed.sql', sql: readFileSync('supabase/seed.sql', 'utf8') };

export type TestGateway = {
  /** The URL that the operations' paths come behind. */
  readonly url: string;
  readonly server: Server;
  readonly store: Store;
  /** What was told to the log. */
  readonly faults: Fault[];
  close(): Promise<void>;
};

/** The demo data in a Postgres in memory. */
export function openDemoStore(): Promise<Store> {
  return openEmbedded({ migrationsDir: MIGRATIONS, seed: SEED, statementLimitMs: 5_000 });
}

/** A gateway in this process, on a port of its own; closing it leaves a store that was handed in open. */
export async function startGateway(
  options: { store?: Store; document?: OpenAPIV3.Document; deadlineMs?: number; bodyLimit?: number } = {},
): Promise<TestGateway> {
  const faults: Fault[] = [];
  const document = options.document ?? readDocument('openapi.yaml');
  const store = options.store ?? (await openDemoStore());
  const onFault = (fault: Fault) => faults.push(fault);
  const gateway = await createGateway({ deadlineMs: 5_000, bodyLimit: 100_000, ...options, document, store, onFault });
  const server = createServer(createApp(gateway, onFault));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${readApiRoot(document)}`,
    server,
    store,
    faults,
    close: async () => {
      server.close();
      server.closeAllConnections();
      if (!options.store) await store.close();
    },
  };
}
