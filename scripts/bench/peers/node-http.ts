// The minimum for any gateway in Node: node:http and `pg` with the same calls, and nothing else that a service needs.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { parse } from 'node:querystring';
import { json } from 'node:stream/consumers';
import type { Json } from '../../../src/store/store.ts';
import { openPool, queryJson } from './pool.ts';
import { toPrepared } from './statements.ts';

// JSON from the database is passed on as text.
const pool = openPool(() => (text) => text);

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const p_api_key = String(req.headers['x-api-key']);
  const isCreate = req.method === 'POST';
  const call = isCreate
    ? { function: 'criar_aluno', args: { p_api_key, ...((await json(req)) as Record<string, Json>) } }
    : { function: 'listar_alunos', args: { p_api_key, ...readQuery(req.url ?? '') } };
  send(res, isCreate ? 201 : 200, await queryJson(pool, toPrepared(call)));
}

function readQuery(url: string): Record<string, Json> {
  const start = url.indexOf('?');
  const { limit = 100, offset = 0 } = start < 0 ? {} : parse(url.slice(start + 1));
  return { p_limit: limit, p_offset: offset } as Record<string, Json>;
}

function send(res: ServerResponse, status: number, body: string): void {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }).end(body);
}

createServer((req, res) => {
  answer(req, res).catch(({ code, message }) =>
    send(res, code === 'PT401' ? 401 : 502, JSON.stringify({ error: message })),
  );
}).listen(Number(process.env.PORT), '127.0.0.1');
process.once('disconnect', () => process.exit());
