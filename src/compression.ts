// Encodes bodies for clients that take it (RFC 9110, 12.5.3). By hand, because middleware that does so makes a stream
// of each body: that takes twice the processor, and what the streams leave behind, tens of megabytes, waits for the whole
// heap to be collected.

import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import {
  brotliCompress,
  brotliCompressSync,
  constants,
  deflate,
  deflateSync,
  gzip,
  gzipSync,
  type InputType,
} from 'node:zlib';
import Negotiator from 'negotiator';

/** In the order of preference, where a client has none. */
const ENCODINGS = ['br', 'gzip', 'deflate'] as const;
/** A content coding, by its registered name. */
export type Encoding = (typeof ENCODINGS)[number];

/** Bytes and their encoding. */
export type Encoded = { readonly encoding: Encoding; readonly bytes: Buffer };

/** What its types leave out: browsers name gzip first, and mean nothing by it. */
type Preferring = { encoding(available: readonly string[], options: { preferred: readonly string[] }): string };

/** From how many bytes on a text is made shorter by more than the header takes, and a packet is saved. */
const LEAST = 1_024;
/** Up to how many bytes to encode a text takes less than to have a thread of libuv do so. */
const MOST_AT_ONCE = 32_768;
/** Brotli's higher qualities take several times as long to save another tenth. */
const QUALITY = 4;

const toBrotliOptions = (quality: number) => ({ params: { [constants.BROTLI_PARAM_QUALITY]: quality } });
// In small parts, because the memory of the last one lives until the whole heap is collected.
const AT_ONCE = { chunkSize: 2_048 };

const encodersAtOnce = {
  br: (bytes: InputType) => brotliCompressSync(bytes, { ...AT_ONCE, ...toBrotliOptions(QUALITY) }),
  gzip: (bytes: InputType) => gzipSync(bytes, AT_ONCE),
  deflate: (bytes: InputType) => deflateSync(bytes, AT_ONCE),
} as const;
const encodersAside = { br: promisify(brotliCompress), gzip: promisify(gzip), deflate: promisify(deflate) } as const;

/** Where a text is while it is encoded at once: a buffer of its own would live as long. */
const input = Buffer.alloc(MOST_AT_ONCE);

/** The encoding that the client of a request likes best; undefined where that is none. */
export function chooseEncoding(req: IncomingMessage): Encoding | undefined {
  if (req.headers['accept-encoding'] === undefined) return undefined;
  const negotiator = new Negotiator(req) as unknown as Preferring;
  const chosen = negotiator.encoding([...ENCODINGS, 'identity'], { preferred: ENCODINGS });
  return ENCODINGS.find((encoding) => encoding === chosen);
}

/**
 * A text as the client of a request likes it best, a short one at once and a long one aside; undefined where that is
 * the text as it is.
 */
export function encodeFor(req: IncomingMessage, text: string): Encoded | Promise<Encoded> | undefined {
  const encoding = chooseEncoding(req);
  if (!encoding) return undefined;
  const length = Buffer.byteLength(text);
  if (length < LEAST) return undefined;
  if (length > MOST_AT_ONCE) return encode(text, encoding, QUALITY).then((bytes) => ({ encoding, bytes }));
  return { encoding, bytes: encodersAtOnce[encoding](input.subarray(0, input.write(text))) };
}

/** Encodes bytes aside; the quality is Brotli's, from 0 to 11. */
export function encode(bytes: InputType, encoding: Encoding, quality: number): Promise<Buffer> {
  return encoding === 'br' ? encodersAside.br(bytes, toBrotliOptions(quality)) : encodersAside[encoding](bytes);
}
