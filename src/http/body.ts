// Reads the body of a request, within its limits.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { RequestFailed } from '../errors.ts';

/** Reading one chunk costs as much as this many bytes, so a body may have one chunk for each. */
const BYTES_PER_CHUNK = 40;
/** Every body may have this many chunks. */
const MIN_CHUNKS = 100;

/**
 * Reads the body of a request. Fails with `bodyTooLarge` as soon as it is known to have more than `limit` bytes or too
 * many chunks, and with `invalidJson` if the client does not send all of it.
 */
export function readBody(req: IncomingMessage, res: ServerResponse, limit: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const fail = (kind: 'bodyTooLarge' | 'invalidJson') => {
      // The rest is read and dropped: a client that is busy sending would never see the answer.
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
        // Reading the rest would cost more than a new connection.
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
    // A client of HTTP/1.0 would take it for the answer (RFC 9110, 15.2).
    if (req.headers.expect && req.httpVersion !== '1.0') res.writeContinue();
    req.on('data', onData);
    req.once('end', () => resolve(Buffer.concat(chunks)));
    req.once('error', () => fail('invalidJson'));
  });
}
