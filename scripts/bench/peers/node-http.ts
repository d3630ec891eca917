// The minimum for any gateway in Node: node:http and `pg` with the same calls, and nothing else that a service needs.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { parse } from 'node:querystring';
import { json } from 'node:stream/consumers';
import { createStatementWriter } from '../../../src/store/statement.ts';
import type { Call, Json } from '../../../src/store/store.ts';
import { openPool, query } from './pool.ts';

const writeStatement = createStatementWriter();
/** The gateway's own statements, which return rows as JSON. */
const LIST = prepare('listar_alunos', 'rows', ['p_api_key', 'p_limit', 'p_offset']);
const CREATE = prepare('criar_aluno', 'row', ['p_api_key', 'p_nome', 'p_email', 'p_data_nascimento', 'p_modalidade']);

// JSON from the database is passed on as text.
const pool = openPool(() => (text) => text);

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const p_api_key = String(req.headers['x-api-key']);
  const isCreate = req.method === 'POST';
  const input = isCreate ? ((await json(req)) as Record<string, Json>) : readQuery(req.url ?? '');
  const args: Record<string, Json> = { p_api_key, ...input };
  const { names, ...statement } = isCreate ? CREATE : LIST;
  const config = { ...statement, values: names.map((name) => args[name]), rowMode: 'array' };
  const [row] = await query<string[]>(pool, config);
  send(res, isCreate ? 201 : 200, row?.[0] ?? '');
}

function prepare(name: string, returns: Call['returns'], names: readonly string[]) {
  const args = Object.fromEntries(names.map((argument) => [argument, '']));
  return { name, names, text: writeStatement({ function: name, args, returns, readOnly: true }, returns).text };
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
