// Sends each request as a part of a trace, by OpenTelemetry's protocol. Loaded only where that is configured.

import {
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  SpanKind,
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
import type { BeginSpan } from '../http/observer.ts';
import { type Observation, readPath, type Span } from './record.ts';

/** Where traces are sent, and what is told where they cannot be. */
export type TracingOptions = {
  /** The collector, for OTLP over HTTP: `/v1/traces` comes behind it. */
  readonly url: string;
  /** The part of the traces that begin here which is sent, from 0 to 1; of others their sender decides. */
  readonly ratio: number;
  readonly warn: (text: string) => void;
};

/** The sending of traces. */
export type Tracing = {
  readonly begin: BeginSpan;
  /** Sends what is left. */
  close(): Promise<void>;
};

const SERVICE = 'wellness-gateway';
/** The longest that spans are tried to be sent, and so that a stop waits for a collector, in milliseconds. */
const EXPORT_MS = 3_000;

/**
 * Starts the sending of traces. The exporter reads OpenTelemetry's own variables beside the URL, such as
 * OTEL_EXPORTER_OTLP_HEADERS; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say what the sender is called.
 */
export function openTracing({ url, ratio, warn }: TracingOptions): Tracing {
  const ignore = () => {};
  const toLog = (text: string) => warn(`Traces: ${text}`);
  diag.setLogger({ error: toLog, warn: toLog, info: ignore, debug: ignore, verbose: ignore }, DiagLogLevel.WARN);
  const target = `${url.replace(/\/$/, '')}/v1/traces`;
  const exporter = watch(new OTLPTraceExporter({ url: target, timeoutMillis: EXPORT_MS }), {
    onLost: (cause) => toLog(`they cannot be sent to ${new URL(target).host}: ${cause}`),
    onBack: () => toLog('they are sent again'),
  });
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': SERVICE }))
      .merge(detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] })),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer(SERVICE);
  return {
    begin: (observation) => beginSpan(tracer, observation),
    // That the last ones cannot be sent is no reason for a stop to fail.
    close: () => provider.shutdown().catch((error: Error) => toLog(messageOf(error))),
  };
}

/** Tells once that spans cannot be sent, and once that they can again, however many are lost in between. */
function watch(exporter: SpanExporter, { onLost, onBack }: ExportWatch): SpanExporter {
  let isLost = false;
  return {
    export: (spans, callback) =>
      exporter.export(spans, ({ code, error }) => {
        const hasFailed = code !== SUCCESS;
        if (hasFailed && !isLost) onLost(error ? messageOf(error) : 'no reason is given');
        if (!hasFailed && isLost) onBack();
        isLost = hasFailed;
        callback({ code: SUCCESS });
      }),
    shutdown: () => exporter.shutdown(),
  };
}

type ExportWatch = { readonly onLost: (cause: string) => void; readonly onBack: () => void };

/** ExportResultCode of OpenTelemetry's core: 0 for success, 1 for failure. */
const SUCCESS = 0;

function beginSpan(tracer: Tracer, { req, traceparent }: Observation): Span {
  const attributes = { 'http.request.method': req.method ?? '', 'url.path': readPath(req) };
  return toSpan(tracer, `${req.method}`, SpanKind.SERVER, attributes, toContext(traceparent));
}

function toContext(traceparent: string | undefined): Context {
  if (traceparent === undefined) return ROOT_CONTEXT;
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
  });
}

function toSpan(
  tracer: Tracer,
  name: string,
  kind: SpanKind,
  attributes: Readonly<Record<string, string>>,
  parent: Context,
): Span {
  const span = tracer.startSpan(name, { kind, attributes }, parent);
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    child: (name) => {
      const call = { 'db.system.name': 'postgresql', 'db.stored_procedure.name': name };
      return toSpan(tracer, name, SpanKind.CLIENT, call, trace.setSpan(parent, span));
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
