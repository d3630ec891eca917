// The minimum for a gateway in Node: node:http and the same calls, without validation, limits, logs and metrics.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { parse } from 'node:querystring';
import { json } from 'node:stream/consumers';
import type { Call } from '../../../src/store/store.ts';

export class KeyRefused extends Error {}

/** Serves the JSON answers of calls. */
export function serve(answer: (call: Call) => Promise<string>): void {
  createServer((req, res) => {
    toCall(req)
      .then(async (call) => send(res, call.readOnly ? 200 : 201, await answer(call)))
      .catch((error) => send(res, error instanceof KeyRefused ? 401 : 502, JSON.stringify({ error: error.message })));
  }).listen(Number(process.env.PORT), '127.0.0.1');
}

async function toCall(req: IncomingMessage): Promise<Call> {
  const p_api_key = String(req.headers['x-api-key']);
  if (req.method === 'POST') {
    const args = { p_api_key, ...((await json(req)) as Call['args']) };
    return { function: 'criar_aluno', returns: 'row', readOnly: false, args };
  }
  const start = req.url?.indexOf('?') ?? -1;
  const { limit = '100', offset = '0' } = start < 0 ? {} : parse(req.url?.slice(start + 1) ?? '');
  const args = { p_api_key, p_limit: String(limit), p_offset: String(offset) };
  return { function: 'listar_alunos', returns: 'rows', readOnly: true, args };
}

function send(res: ServerResponse, status: number, body: string): void {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }).end(body);
}
