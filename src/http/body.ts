import type { IncomingMessage, ServerResponse } from 'node:http';
import { MAX_INPUTS, messages } from '../api/messages.ts';
import { findProblem, inspectText, type Problems } from '../api/problems.ts';
import { RequestFailed } from '../errors.ts';
import type { Json } from '../store/store.ts';

/** A JSON object that a client sent, with what is wrong with its fields beyond their schemas. */
export type Body = { readonly fields: Readonly<Record<string, Json>>; readonly problems: Problems };

/** A chunk of a body costs as much as so many bytes, so there may be one for each so many of the largest body. */
const BYTES_PER_CHUNK = 40;
/** So many chunks are always taken. */
const MIN_CHUNKS = 100;

/**
 * Reads a request's body, whatever its Content-Type says. Fails with `bodyTooLarge` as soon as it is known to have
 * more than `limit` bytes, or more chunks than such a body may have, and with `invalidJson` where the client does not
 * send all of it.
 */
export function readBytes(req: IncomingMessage, res: ServerResponse, limit: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const fail = (kind: 'bodyTooLarge' | 'invalidJson') => {
      // What is still to come is read and dropped, or the client, busy sending, would never see the answer.
      req.off('data', onData).resume();
      reject(new RequestFailed({ kind }));
    };
    const chunks: Buffer[] = [];
    let size = 0;
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > limit) fail('bodyTooLarge');
      else if (isChunked && chunks.length > maxChunks) {
        // To read on would cost more than the rest is worth.
        res.setHeader('Connection', 'close');
        fail('bodyTooLarge');
      }
    };
    const isChunked = req.headers['transfer-encoding'] !== undefined;
    const maxChunks = Math.max(MIN_CHUNKS, limit / BYTES_PER_CHUNK);
    if (Number(req.headers['content-length'] ?? 0) > limit) {
      fail('bodyTooLarge');
      return;
    }
    if (req.headers.expect) res.writeContinue();
    req.on('data', onData);
    req.once('end', () => resolve(Buffer.concat(chunks)));
    req.once('error', () => fail('invalidJson'));
  });
}

/** Parses a body that has to be a JSON object; throws RequestFailed where it is not. */
export function parseBody(bytes: Uint8Array): Body {
  const text = decodeUtf8(bytes);
  const fields = parseJson(text);
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    throw new RequestFailed({ kind: 'invalidInput', fields: { body: [messages.isNoObject.en] } });
  }
  if (Object.keys(fields).length > MAX_INPUTS) {
    throw new RequestFailed({ kind: 'invalidInput', fields: { body: [messages.hasTooManyFields.en] } });
  }
  const problems = inspectText(text);
  for (const [name, value] of Object.entries(fields as Body['fields'])) {
    const problem = problems.has(name) ? undefined : findProblem(value);
    if (problem !== undefined) problems.set(name, [problem]);
  }
  return { fields: fields as Body['fields'], problems };
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new RequestFailed({ kind: 'invalidJson' });
  }
}

function parseJson(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    throw new RequestFailed({ kind: 'invalidJson' });
  }
}
