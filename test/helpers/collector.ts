// What receives traces in the tests: OTLP over HTTP, of which it reads as much as the tests ask for.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';

/** A span as it was sent; ids are in hexadecimal. */
export type SentSpan = {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty where the trace begins here. */
  readonly parentId: string;
  readonly name: string;
  /** 2 is a server's, 3 a client's. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** 2 is an error. */
  readonly status: number;
};

export type Collector = {
  readonly url: string;
  /** The path and the type of each request. */
  readonly requests: { readonly path: string; readonly type: string }[];
  readonly spans: SentSpan[];
  /** All that was sent, as text. */
  text(): string;
  close(): Promise<void>;
};

/** Starts a collector; one that hangs takes everything and answers nothing. */
export async function startCollector({ hangs = false, status = 200 } = {}): Promise<Collector> {
  const requests: Collector['requests'] = [];
  const spans: SentSpan[] = [];
  let text = '';
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    const sent = Buffer.concat(chunks);
    const body = req.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
    requests.push({ path: req.url ?? '', type: req.headers['content-type'] ?? '' });
    spans.push(...readSpans(body));
    text += body.toString('latin1');
    if (!hangs) res.writeHead(status).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    spans,
    text: () => text,
    close: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The fields of a message of protobuf by number: bytes, or a number where it is a varint; fixed ones are left out. */
function readFields(message: Buffer): [number, Buffer | number][] {
  const fields: [number, Buffer | number][] = [];
  let at = 0;
  const readVarint = () => {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = message[at] ?? 0;
      at += 1;
      value += (byte & 127) * factor;
      factor *= 128;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = readVarint();
    const [field, type] = [tag >> 3, tag & 7];
    if (type === 0) fields.push([field, readVarint()]);
    else if (type === 1) at += 8;
    else if (type === 5) at += 4;
    else {
      const length = readVarint();
      fields.push([field, message.subarray(at, at + length)]);
      at += length;
    }
  }
  return fields;
}

const readAll = (message: Buffer, field: number) =>
  readFields(message).flatMap(([number, value]) => (number === field ? [value] : []));
const readMessages = (message: Buffer, field: number) => readAll(message, field) as Buffer[];

function readSpans(request: Buffer): SentSpan[] {
  const scopes = readMessages(request, 1).flatMap((resource) => readMessages(resource, 2));
  return scopes.flatMap((scope) => readMessages(scope, 2)).map(readSpan);
}

function readSpan(message: Buffer): SentSpan {
  const fields = new Map(readFields(message));
  const hex = (field: number) => (fields.get(field) as Buffer | undefined)?.toString('hex') ?? '';
  const attributes = readMessages(message, 9).map((attribute) => {
    const [[name], [value]] = [readMessages(attribute, 1), readMessages(attribute, 2)];
    const [[, content] = [0, '']] = readFields(value as Buffer);
    return [String(name), typeof content === 'number' ? content : String(content)];
  });
  const [status] = readMessages(message, 15);
  return {
    traceId: hex(1),
    spanId: hex(2),
    parentId: hex(4),
    name: String(fields.get(5)),
    kind: Number(fields.get(6)),
    attributes: Object.fromEntries(attributes),
    status: Number((status && readAll(status, 3)[0]) ?? 0),
  };
}
