// The metrics of all workers and of the primary process. Loaded at the first request for metrics.

import { AggregatorRegistry } from 'prom-client';
import { createMetrics, type Figures, type Metrics } from '../telemetry/metrics.ts';

/**
 * Creates the metrics of all processes, which the label `worker` tells apart. `askEach` asks each worker for its figures. One
 * that does not answer is not ready, and has no other series.
 */
export function createGroupMetrics(askEach: () => readonly Promise<Figures>[]): Pick<Metrics, 'contentType' | 'read'> {
  const own = createMetrics('primary');
  return {
    contentType: own.contentType,
    read: async () => {
      const asked = askEach().map((figures, n) => figures.catch(() => toNotReady(`${n + 1}`)));
      const all = await Promise.all([...asked, own.readFigures()]);
      // Each series is of one process, so nothing is added up.
      const toSums = (figures: Figures) => figures.map((metric) => ({ ...metric, aggregator: 'sum' as const }));
      return AggregatorRegistry.aggregate(all.map(toSums)).metrics();
    },
  };
}

function toNotReady(worker: string): Figures {
  const name = 'gateway_ready';
  // prom-client's types require fields that its JSON does not have.
  return [{ name, help: name, type: 'gauge', values: [{ value: 0, labels: { worker } }] }] as unknown as Figures;
}
