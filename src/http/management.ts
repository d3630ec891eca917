// What whoever runs the gateway asks it: outside of the interface, and without a key.

import { Router } from 'express';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Readiness } from './readiness.ts';
import { respond, sendText } from './respond.ts';
import { addPath } from './routes.ts';

/** Exactly the paths below: a rule of a proxy for one of them must not miss another spelling. */
const STRICT = { strict: true, caseSensitive: true };

/** Serves /healthz, whether the process runs, and /readyz, whether it can serve requests. */
export function createHealth(readiness: Pick<Readiness, 'read'>): Router {
  const router = Router(STRICT);
  addPath(router, '/healthz', (_req, res) => respond(res, { status: 200, json: JSON.stringify({ status: 'ok' }) }));
  addPath(router, '/readyz', async (_req, res) => {
    const report = await readiness.read();
    respond(res, { status: report.status === 'ready' ? 200 : 503, json: JSON.stringify(report) });
  });
  return router;
}

/** Serves /metrics for Prometheus. */
export function createMetricsRoute(metrics: Pick<Metrics, 'read' | 'contentType'>): Router {
  const router = Router(STRICT);
  addPath(router, '/metrics', async (_req, res) => {
    const headers = { 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store', Vary: 'Accept-Encoding' };
    sendText(res, { status: 200, headers, body: await metrics.read() });
  });
  return router;
}
