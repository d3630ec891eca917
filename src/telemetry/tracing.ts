// Exports a span for each request, by OTLP. Loaded only if configured.

import {
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { messageOf } from '../errors.ts';
import { type RequestRecord, readPath, type Span } from './record.ts';

type TracingOptions = {
  /** The collector's URL for OTLP over HTTP, without `/v1/traces`. */
  readonly url: string;
  /** Sampling ratio for root traces, from 0 to 1; the caller decides about other traces. */
  readonly ratio: number;
  readonly warn: (text: string) => void;
  /** For tests: receives the spans instead of the collector. */
  readonly exporter?: SpanExporter;
};

/** The export of traces. */
export type Tracing = {
  readonly start: (record: RequestRecord) => Span;
  /** Whether the collector took the last spans. */
  readonly isExporting: () => boolean;
  /** Sends the remaining spans. */
  close(): Promise<void>;
};

const SERVICE = 'wellness-gateway';
/** Export timeout in milliseconds; also the longest time that a stop waits for the collector. */
const EXPORT_MS = 3_000;

/**
 * Starts tracing. The exporter also reads OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_HEADERS;
 * OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES name the service.
 */
export function openTracing({ url, ratio, warn, exporter }: TracingOptions): Tracing {
  const ignore = () => {};
  const toLog = (text: string) => warn(`Traces: ${text}`);
  diag.setLogger({ error: toLog, warn: toLog, info: ignore, debug: ignore, verbose: ignore }, DiagLogLevel.WARN);
  const target = `${url.replace(/\/$/, '')}/v1/traces`;
  const { host, pathname } = new URL(target);
  const monitor = watch(
    exporter ?? new OTLPTraceExporter({ url: target, timeoutMillis: EXPORT_MS }),
    (cause) => toLog(`cannot send to ${host}${pathname}: ${cause}`),
    () => toLog('sending again'),
  );
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': SERVICE }))
      .merge(detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] })),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
    spanProcessors: [new BatchSpanProcessor(monitor)],
  });
  const tracer = provider.getTracer(SERVICE);
  return {
    start: (record) => {
      const attributes = { 'http.request.method': record.method, 'url.path': readPath(record) };
      return toSpan(tracer, record.method, { kind: SpanKind.SERVER, attributes }, toContext(record.traceparent));
    },
    isExporting: () => !monitor.isLost(),
    // A stop must not fail because the last spans cannot be sent.
    close: () => provider.shutdown().catch((error: Error) => toLog(messageOf(error))),
  };
}

/** Wraps an exporter: reports once when spans cannot be sent, and once when they can again. */
function watch(exporter: SpanExporter, onLost: (cause: string) => void, onBack: () => void) {
  let isLost = false;
  const watched: SpanExporter = {
    export: (spans, callback) =>
      exporter.export(spans, ({ code, error }) => {
        const hasFailed = code !== SUCCESS;
        if (hasFailed && !isLost) onLost(error ? messageOf(error) : 'no reason given');
        if (!hasFailed && isLost) onBack();
        isLost = hasFailed;
        // The span processor would log a failure again, as a warning.
        callback({ code: SUCCESS });
      }),
    shutdown: () => exporter.shutdown(),
  };
  return { exporter: watched, isLost: () => isLost };
}

/** ExportResultCode of OpenTelemetry's core: 0 for success, 1 for failure. */
const SUCCESS = 0;

function toContext(traceparent: string | undefined): Context {
  if (traceparent === undefined) return ROOT_CONTEXT;
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
  const traceFlags = Number.parseInt(flags, 16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

function toSpan(tracer: Tracer, name: string, options: SpanOptions, parent: Context): Span {
  const span = tracer.startSpan(name, options, parent);
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    child: (name) => {
      const attributes = { 'db.system.name': 'postgresql', 'db.stored_procedure.name': name };
      return toSpan(tracer, name, { kind: SpanKind.CLIENT, attributes }, trace.setSpan(parent, span));
    },
    end: (attributes, fault) => {
      span.setAttributes(attributes);
      const route = attributes['http.route'];
      if (route) span.updateName(`${name} ${route}`);
      if (fault) span.setAttribute('error.type', fault.kind).setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
}
