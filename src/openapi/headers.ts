// The headers of answers: constant values, when the other headers are sent, and which of them pages of other origins may read.

/** An answer that a document describes. */
export type DescribedAnswer = {
  /** As the document writes it, such as 422, 4XX or default. */
  readonly status: string;
  readonly method: string;
  /** Whether it is the operation's success. */
  readonly isSuccess: boolean;
  readonly isPage: boolean;
  readonly hasLocation: boolean;
};

type Header = {
  /** The value in every answer. */
  readonly value?: string;
  /** Whether pages of other origins may read it. */
  readonly isExposed?: true;
  /** Whether such an answer can have the header; by default any can. */
  readonly isSent?: (answer: DescribedAnswer) => boolean;
};

const HEADERS: Readonly<Record<string, Header>> = {
  'Access-Control-Allow-Origin': {},
  'Access-Control-Expose-Headers': {},
  Allow: { isExposed: true, isSent: () => false },
  'Cache-Control': {},
  Connection: {},
  'Content-Encoding': {},
  'Content-Language': { isExposed: true, isSent: ({ status }) => /^(422|4XX|default)$/.test(status) },
  'Content-Length': {},
  'Content-Security-Policy': { value: "default-src 'none';frame-ancestors 'none'" },
  'Content-Type': {},
  'Cross-Origin-Resource-Policy': { value: 'same-origin' },
  Date: {},
  // A 304 repeats the headers of the success. Operations with and without pages may share its description.
  ETag: {
    isExposed: true,
    isSent: ({ status, isSuccess, method }) => status === '304' || (isSuccess && method === 'get'),
  },
  'Idempotent-Replayed': { isExposed: true, isSent: ({ isSuccess, method }) => isSuccess && method !== 'get' },
  Link: { isExposed: true, isSent: ({ status, isSuccess, isPage }) => status === '304' || (isSuccess && isPage) },
  Location: { isExposed: true, isSent: ({ isSuccess, hasLocation }) => isSuccess && hasLocation },
  RateLimit: { isExposed: true },
  'RateLimit-Policy': { isExposed: true },
  'Referrer-Policy': { value: 'no-referrer' },
  'Retry-After': { isExposed: true, isSent: ({ status }) => /^(429|502|4XX|5XX|default)$/.test(status) },
  // Without includeSubDomains: other hosts of the domain do not belong to the gateway.
  'Strict-Transport-Security': { value: 'max-age=31536000' },
  Vary: {},
  'X-Content-Type-Options': { value: 'nosniff' },
  'X-Request-Id': { isExposed: true },
};

/** The headers with the same value in every answer: security headers. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(HEADERS).flatMap(([name, { value }]) => (value === undefined ? [] : [[name, value]])),
);

/** The names of the headers that a page of another origin may read. */
export const EXPOSED_HEADERS: readonly string[] = Object.keys(HEADERS).filter((name) => HEADERS[name]?.isExposed);

/** Whether the gateway can send a header with an answer. */
export function isSent(name: string, answer: DescribedAnswer): boolean {
  const [, header] = Object.entries(HEADERS).find(([own]) => own.toLowerCase() === name.toLowerCase()) ?? [];
  return header !== undefined && (header.isSent?.(answer) ?? true);
}
