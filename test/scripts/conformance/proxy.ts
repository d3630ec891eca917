// A proxy in front of a gateway, which changes what is asked or answered as a faulty gateway would.

import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer, text } from 'node:stream/consumers';

/** A request on its way to the gateway. */
type Asked = {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
};

/** An answer on its way to the client. */
type Answered = {
  readonly status: number;
  readonly contentType: string;
  /** The others, but for those of the connection. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** What holds for one connection, or for a body that may be changed. */
const OWN_HEADERS = ['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'content-type', 'date'];

/** A status that stands for the end of the connection. */
export const NO_ANSWER = 0;

/** What is wrong with the gateway. */
export type Fault = {
  readonly ask?: (asked: Asked) => Partial<Asked>;
  readonly answer?: (answered: Answered, asked: Asked) => Partial<Answered>;
};

export type Proxy = {
  /** In the place of the gateway's. */
  readonly url: string;
  /** What was asked, as it came. */
  readonly asked: readonly Asked[];
  close(): void;
};

/** Starts a proxy in front of a gateway. */
export async function startProxy(gatewayUrl: string, { ask, answer }: Fault = {}): Promise<Proxy> {
  const { origin, pathname } = new URL(gatewayUrl);
  const asked: Asked[] = [];
  // What is too large is for the gateway to refuse.
  const server = createServer({ maxHeaderSize: 65_536 }, async (req, res) => {
    const [path = '', query = ''] = splitOnce(req.url ?? '');
    const came = { method: req.method ?? '', path, query, headers: req.headers, body: await text(req) };
    asked.push(came);
    const answered = await forward(origin, { ...came, ...ask?.(came) });
    const { status, contentType, headers, body } = { ...answered, ...answer?.(answered, came) };
    if (status === NO_ANSWER) {
      res.destroy();
      return;
    }
    res.writeHead(status, { ...headers, ...(contentType ? { 'Content-Type': contentType } : {}) }).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${pathname}`,
    asked,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function splitOnce(target: string): [string, string] {
  const at = target.indexOf('?');
  return at < 0 ? [target, ''] : [target.slice(0, at), target.slice(at + 1)];
}

async function forward(origin: string, { method, path, query, headers, body }: Asked): Promise<Answered> {
  const { 'content-length': _length, 'transfer-encoding': _encoding, ...rest } = headers;
  const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) };
  const outgoing = request(`${origin}`, {
    method,
    path: query === '' ? path : `${path}?${query}`,
    headers: { ...rest, ...length },
  });
  outgoing.end(body);
  const [response] = await once(outgoing, 'response');
  const answer = (await buffer(response)).toString();
  const { 'content-type': contentType = '', ...others } = response.headers as Record<string, string>;
  const kept = Object.entries(others).filter(([name]) => !OWN_HEADERS.includes(name));
  return { status: response.statusCode, contentType, headers: Object.fromEntries(kept), body: answer };
}

/** A query with its parameters changed, each given as it is written; undefined takes it away. */
export function mapQuery(query: string, change: (name: string, value: string) => string | undefined): string {
  const pairs = query.split('&').flatMap((pair) => {
    const [name = '', value = ''] = pair.split('=');
    const changed = pair === '' ? undefined : change(name, value);
    return changed === undefined ? [] : [`${name}=${changed}`];
  });
  return pairs.join('&');
}
