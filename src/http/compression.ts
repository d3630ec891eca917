// Encodes bodies for clients that take it (RFC 9110, 12.5.3). By hand, because middleware that does so has a thread of
// libuv encode a stream of each body: for a short one that takes twice the processor, and what the streams leave behind,
// tens of megabytes, waits for the whole heap to be collected.

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

/** In the order of preference, where a client has none. */
const ENCODINGS = ['br', 'gzip', 'deflate'] as const;
/** A content coding, by its registered name. */
export type Encoding = (typeof ENCODINGS)[number];

/** What its types leave out. Browsers name gzip first, and mean nothing by it. */
type Preferring = { encoding(available: readonly string[], options: { preferred: readonly string[] }): string };

/** From how many bytes on a text is made shorter by more than the header takes, and a packet is saved. */
const LEAST = 1_024;
/** Up to how many bytes a text is encoded at once, which takes a fraction of a millisecond. */
const MOST_AT_ONCE = 32_768;
/** As many threads as libuv has. */
const MAX_ASIDE = 4;
/** To compare what is longer with all encodings takes longer than to encode; no client sends that. */
const LONGEST_HEADER = 200;

/**
 * Brotli's for what is encoded anew each time: higher qualities take several times as long to save another tenth, and a
 * larger window takes megabytes for each text, to save nothing in those of that length.
 */
const BROTLI = { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 18 };
// In small parts, because the memory of the last one lives until the whole heap is collected.
const AT_ONCE = { chunkSize: 2_048 };

const encodersAtOnce = {
  br: (bytes: InputType) => brotliCompressSync(bytes, { ...AT_ONCE, params: BROTLI }),
  gzip: (bytes: InputType) => gzipSync(bytes, AT_ONCE),
  deflate: (bytes: InputType) => deflateSync(bytes, AT_ONCE),
} as const;
const encodersAside = { br: promisify(brotliCompress), gzip: promisify(gzip), deflate: promisify(deflate) } as const;

/** Where a text is while it is encoded at once: a buffer of its own would live as long. */
const input = Buffer.alloc(MOST_AT_ONCE);

/** The encoding that the client of a request likes best; undefined where that is none. */
export function chooseEncoding({ headers }: IncomingMessage): Encoding | undefined {
  const { 'accept-encoding': accepted } = headers;
  if (accepted === undefined || accepted.length > LONGEST_HEADER) return undefined;
  const negotiator = new Negotiator({ headers }) as unknown as Preferring;
  const chosen = negotiator.encoding([...ENCODINGS, 'identity'], { preferred: ENCODINGS });
  return ENCODINGS.find((encoding) => encoding === chosen);
}

/** The encoding for a text; undefined also where it is too short for any. */
export function chooseEncodingOf(text: string, req: IncomingMessage): Encoding | undefined {
  // Its length first: for a short answer, such as a refusal, nothing is compared.
  if (req.headers['accept-encoding'] === undefined || Buffer.byteLength(text) < LEAST) return undefined;
  return chooseEncoding(req);
}

/** How many texts are encoded aside now: of the process, as libuv's threads are. */
let encodedAside = 0;

/**
 * Encodes a text, a short one at once and a long one aside; undefined where as many as libuv has threads are encoded
 * already. More of them would take turns, so that each takes longer, and all are in memory until then.
 */
export function encodeText(text: string, encoding: Encoding): Buffer | Promise<Buffer> | undefined {
  if (Buffer.byteLength(text) <= MOST_AT_ONCE) return encodersAtOnce[encoding](input.subarray(0, input.write(text)));
  if (encodedAside >= MAX_ASIDE) return undefined;
  encodedAside += 1;
  return encode(text, encoding, BROTLI).finally(() => {
    encodedAside -= 1;
  });
}

/** Encodes bytes on a thread of libuv; the parameters are Brotli's. */
export function encode(bytes: InputType, encoding: Encoding, params: BrotliOptions['params'] = {}): Promise<Buffer> {
  return encoding === 'br' ? encodersAside.br(bytes, { params }) : encodersAside[encoding](bytes);
}
