// Compresses bodies for clients that accept it (RFC 9110, 12.5.3). Hand-written, because compression middleware creates
// a stream on a libuv thread for each body: that doubles the CPU time of a short body, and the streams leave tens of
// megabytes of garbage that only a full collection frees.

import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import {
  type BrotliOptions,
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

/** Our order of preference, for clients that state none. */
const ENCODINGS = ['br', 'gzip', 'deflate'] as const;
/** A content coding, by its registered name. */
export type Encoding = (typeof ENCODINGS)[number];

/**
 * An option that Negotiator's types lack: our preference decides between encodings of equal weight. Browsers list gzip
 * first without preferring it.
 */
type PreferenceNegotiator = {
  encoding(available: readonly string[], options: { preferred: readonly string[] }): string;
};

/** From this size on, compression saves more than its header takes, and can save a packet. */
const MIN_BYTES = 1_024;
/** The largest text that is encoded synchronously, which takes a fraction of a millisecond. */
const MAX_SYNC_BYTES = 32_768;
/** The number of libuv's threads. */
const MAX_ASYNC = 4;
/** Parsing a longer Accept-Encoding takes longer than compressing; no real client sends one. */
const MAX_HEADER_LENGTH = 200;

/**
 * Brotli parameters for answers, which are compressed for each request: a higher quality takes several times as long to
 * save another tenth. A larger window takes megabytes for each text and saves nothing at these sizes.
 */
const BROTLI = { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 18 };
// Small chunks, because the memory of the last chunk lives until a full collection. gzip and deflate ignore Brotli's parameters.
const SYNC_OPTIONS = { chunkSize: 2_048, params: BROTLI };

const syncEncoders = { br: brotliCompressSync, gzip: gzipSync, deflate: deflateSync } as const;
const asyncEncoders = { br: promisify(brotliCompress), gzip: promisify(gzip), deflate: promisify(deflate) } as const;

/** Holds the text during synchronous encoding: a new buffer for each text would also live until a full collection. */
const input = Buffer.alloc(MAX_SYNC_BYTES);

/** Chooses the encoding that the client prefers for an answer of so many bytes; undefined for none, as for a short answer. */
export function chooseEncoding({ headers }: IncomingMessage, bytes = MIN_BYTES): Encoding | undefined {
  const { 'accept-encoding': accepted } = headers;
  // A short answer, such as a refusal, needs no negotiation.
  if (accepted === undefined || accepted.length > MAX_HEADER_LENGTH || bytes < MIN_BYTES) return undefined;
  const negotiator = new Negotiator({ headers }) as unknown as PreferenceNegotiator;
  const chosen = negotiator.encoding([...ENCODINGS, 'identity'], { preferred: ENCODINGS });
  return ENCODINGS.find((encoding) => encoding === chosen);
}

/** The number of texts that libuv's threads encode now. Module-level, because the process shares its threads. */
let asyncEncodings = 0;

/**
 * Encodes a short text synchronously and a long one on a libuv thread. Returns undefined if all threads are encoding:
 * more texts would slow each other down and stay in memory longer.
 */
export function encodeText(text: string, encoding: Encoding): Buffer | Promise<Buffer> | undefined {
  if (Buffer.byteLength(text) <= MAX_SYNC_BYTES) {
    return syncEncoders[encoding](input.subarray(0, input.write(text)), SYNC_OPTIONS);
  }
  if (asyncEncodings >= MAX_ASYNC) return undefined;
  asyncEncodings += 1;
  return encode(text, encoding, BROTLI).finally(() => {
    asyncEncodings -= 1;
  });
}

/** Encodes bytes on a libuv thread; `params` are Brotli's. */
export function encode(bytes: InputType, encoding: Encoding, params: BrotliOptions['params'] = {}): Promise<Buffer> {
  return asyncEncoders[encoding](bytes, { params });
}
