// A check, its failure, and how an answer is compared with the document.

import { isDeepStrictEqual } from 'node:util';
import type { ErrorObject } from 'ajv';
import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Answer, type Client, type Reply, Unreachable } from './client.ts';
import type { Coverage } from './coverage.ts';
import { type DescribedAnswer, findAnswer, type Operation } from './operations.ts';
import { isRead, OWN_KEY, type Request } from './request.ts';

/** What the checks of a run share. */
export type Setting = {
  readonly client: Client;
  readonly coverage: Coverage;
  /** Another key for the requests of the run's own. */
  readonly key?: symbol;
  readonly seed: number;
  /** Values generated for each check, besides those at the bounds. */
  readonly runs: number;
  /** Whether the deployment has the demo data. */
  readonly demo: boolean;
  readonly readOnly: boolean;
};

/** Throws Mismatch if the deployment fails it; gives a reason if there is nothing to check. */
export type Check = { readonly name: string; readonly run: () => Promise<unknown> };

export type Skipped = { readonly name: string; readonly reason: string };

/** The deployment gave a wrong answer. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch';
  readonly request: Request;
  readonly expected: string;
  readonly got: string;

  constructor(request: Request, expected: string, got: string) {
    super(`expected ${expected}, got ${got}`);
    this.request = request;
    this.expected = expected;
    this.got = got;
  }
}

/** What an answer has to be. */
type Expected = {
  readonly status: number;
  /** The fields that a 422 names, and no others. */
  readonly fields?: readonly string[];
  /** Inputs with rules of the database: a 422 that names only some of them is right too. */
  readonly rules?: readonly string[];
  /** Whether the database may refuse it, with a declared status such as 404. */
  readonly mayRaise?: boolean;
};

/** Sends a request and compares the answer with the document and with what is expected; throws Mismatch. */
export async function expectAnswer(
  { client, key, coverage }: Pick<Setting, 'client' | 'key' | 'coverage'>,
  operation: Operation,
  built: Request,
  expected: Expected,
): Promise<{ status: number; body: Json; headers: Answer['headers'] }> {
  const request = key && built.key === OWN_KEY ? { ...built, key } : built;
  const reply = await client.send(request);
  const fault = 'missing' in reply ? '' : findFault(operation, reply, expected);
  if (fault === undefined) {
    const answer = reply as Answer & { body: Json };
    coverage.showStatus(operation, answer.status);
    return answer;
  }
  throw new Mismatch(request, describe(expected), [fault, describeReply(reply)].filter(Boolean).join('\n'));
}

/** What is wrong with an answer; an empty text if the answer itself shows it. */
function findFault(
  operation: Operation,
  reply: Answer,
  { status, fields, rules = [], mayRaise = false }: Expected,
): string | undefined {
  const described = findAnswer(operation, reply.status);
  if (!described) return `${operation.id} does not declare this status`;
  const named = fieldsOf(reply.body);
  const isRefusedByRule = reply.status === 422 && named.length > 0 && named.every((name) => rules.includes(name));
  const isRaised = mayRaise && operation.raised.includes(reply.status);
  if (reply.status !== status && !isRefusedByRule && !isRaised) return '';
  const isEmpty = described.isEmpty && reply.text === '';
  const fault = isEmpty ? undefined : (findFormFault(reply) ?? findSchemaFault(described, reply));
  if (fault) return fault;
  return !fields || isDeepStrictEqual(named.sort(), [...fields].sort()) ? undefined : '';
}

function findSchemaFault({ validate, headers }: DescribedAnswer, reply: Answer): string | undefined {
  if (!validate(reply.body)) return `not the schema of ${reply.status}: ${describeErrors(validate.errors)}`;
  for (const [name, { schema, validate }] of headers) {
    const text = reply.headers[name];
    const value = schema.type === 'integer' && /^\d+$/.test(text ?? '') ? Number(text) : text;
    // A proxy may have removed it.
    if (text !== undefined && !validate(value)) {
      return `not the schema of the header ${name}: ${describeErrors(validate.errors)}`;
    }
  }
  return undefined;
}

function describeErrors(errors: readonly ErrorObject[] | null | undefined): string {
  const [error] = errors ?? [];
  if (!error) return 'is invalid';
  const value = typeof error.data === 'object' && error.data !== null ? '' : `, and is ${JSON.stringify(error.data)}`;
  return `${error.instancePath || 'the value'} ${error.message}${value}`;
}

/** Why an answer is not JSON; undefined if it is. */
export function findFormFault(reply: { contentType: string; body: Json | undefined }): string | undefined {
  if (!/^application\/json\s*(;|$)/i.test(reply.contentType)) {
    return `Content-Type is ${reply.contentType || 'missing'}, expected application/json`;
  }
  return reply.body === undefined ? 'the body is not JSON' : undefined;
}

function fieldsOf(body: Json | undefined): string[] {
  const { error } = (body ?? {}) as { error?: Json };
  return typeof error === 'object' && error !== null ? Object.keys(error) : [];
}

function describe({ status, fields, rules = [] }: Expected): string {
  if (fields) return `${status} that names ${fields.join(', ')}${fields.length > 1 ? '' : ' alone'}`;
  return rules.length > 0 ? `${status}, or 422 that names ${rules.join(' or ')}` : `${status} as in the document`;
}

export function describeReply(reply: Reply): string {
  return 'missing' in reply ? `no answer: ${reply.missing}` : `${reply.status} ${reply.text}`;
}

/** Sends a request and gives whatever is answered; throws Mismatch if nothing is. */
export async function receiveAnswer(client: Client, request: Request): Promise<Answer> {
  const reply = await client.send(request);
  if ('missing' in reply) throw new Mismatch(request, 'an answer', describeReply(reply));
  return reply;
}

/** A check ends after this time with what it has found, in ms. */
const MAX_MS = 60_000;
/** Attempts to find a smaller failing request; those that write may create records. */
const MAX_SHRINKS = { reading: 500, writing: 30 };

/** Tests the edges and then generated values. Throws the Mismatch of the smallest value that fails, and Unreachable. */
export async function forAll<T>(
  { seed }: Setting,
  operation: Operation,
  runs: number,
  { some, edges = [] }: { readonly some: fc.Arbitrary<T>; readonly edges?: readonly T[] },
  test: (value: T) => Promise<unknown>,
): Promise<void> {
  let shrinks = isRead(operation) ? MAX_SHRINKS.reading : MAX_SHRINKS.writing;
  let hasFailed = false;
  const property = fc.asyncProperty(some, async (value) => {
    if (hasFailed && shrinks-- <= 0) return;
    try {
      await test(value);
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  });
  const examples = edges.map((edge): [T] => [edge]);
  const details = await fc.check(property, {
    seed,
    examples,
    numRuns: edges.length + runs,
    interruptAfterTimeLimit: MAX_MS,
  });
  if (!details.failed) return;
  const { errorInstance } = details;
  throw errorInstance instanceof Mismatch || errorInstance instanceof Unreachable
    ? errorInstance
    : new Error('a check is faulty', { cause: errorInstance });
}
