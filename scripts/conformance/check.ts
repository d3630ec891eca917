// One check, what it finds, and how an answer is held against the document.

import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Answer, type Client, type Reply, Unreachable } from './client.ts';
import { type Described, describeErrors, isRead, type Operation } from './operations.ts';
import type { Request } from './request.ts';

/** What the checks of a run share. */
export type Setting = {
  readonly client: Client;
  readonly seed: number;
  /** How many values are generated for each check, beside those at the bounds. */
  readonly runs: number;
  /** Whether the deployment has the demo data. */
  readonly demo: boolean;
  readonly readOnly: boolean;
};

/** A check; running it throws Mismatch where the deployment fails it. */
export type Check = { readonly name: string; readonly run: () => Promise<void> };

/** What is not checked, and why. */
export type Skipped = { readonly name: string; readonly reason: string };

/** The deployment gave another answer than it should. */
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
export type Expected = {
  readonly status: number;
  /** The fields that a 422 names: these and no others. */
  readonly fields?: readonly string[];
  /** Inputs that the database may refuse: a 422 that names some of them and nothing else is right too. */
  readonly rules?: readonly string[];
};

/** Sends a request and holds the answer against the document and against what is expected; throws Mismatch. */
export async function expectAnswer(
  { client }: Setting,
  operation: Operation,
  request: Request,
  expected: Expected,
): Promise<{ status: number; body: Json; headers: Answer['headers'] }> {
  const reply = await client.send(request);
  if ('missing' in reply) throw new Mismatch(request, describe(expected), describeReply(reply));
  const fault = findFault(operation, reply, expected);
  if (fault === undefined) return { status: reply.status, body: reply.body as Json, headers: reply.headers };
  throw new Mismatch(request, describe(expected), [fault, describeReply(reply)].filter(Boolean).join('\n'));
}

/** What is wrong with an answer; an empty text where the answer itself says it. */
function findFault(operation: Operation, reply: Answer, expected: Expected): string | undefined {
  const described = operation.answers.get(reply.status);
  if (!described) return `a status that ${operation.id} does not declare`;
  const isRefusedByRule = reply.status === 422 && isWithin(fieldsOf(reply.body), expected.rules ?? []);
  if (reply.status !== expected.status && !isRefusedByRule) return '';
  const form = findFormFault(reply);
  if (form) return form;
  if (!described.body(reply.body)) {
    return `not the schema of ${reply.status}: ${describeErrors(described.body.errors)}`;
  }
  const header = findHeaderFault(described, reply);
  if (header) return header;
  const { fields } = expected;
  return !fields || isDeepStrictEqual(fieldsOf(reply.body).sort(), [...fields].sort()) ? undefined : '';
}

/** What is wrong with the headers of an answer that the document describes, as far as they are there. */
function findHeaderFault(described: Described, reply: Answer): string | undefined {
  for (const [name, { schema, validate }] of described.headers) {
    const text = reply.headers[name];
    if (text === undefined) continue;
    const value = schema.type === 'integer' && /^\d+$/.test(text) ? Number(text) : text;
    if (!validate(value)) return `not the schema of the header ${name}: ${describeErrors(validate.errors)}`;
  }
  return undefined;
}

/** What is wrong with an answer of which nothing is known but that it is JSON. */
export function findFormFault(reply: { contentType: string; body: Json | undefined }): string | undefined {
  if (!/^application\/json\s*(;|$)/i.test(reply.contentType)) {
    return `Content-Type is ${reply.contentType || 'missing'}, and not application/json`;
  }
  return reply.body === undefined ? 'the body is no JSON' : undefined;
}

/** The fields that an error names. */
function fieldsOf(body: Json | undefined): string[] {
  const { error } = (body ?? {}) as { error?: Json };
  return typeof error === 'object' && error !== null ? Object.keys(error) : [];
}

function isWithin(names: readonly string[], rules: readonly string[]): boolean {
  return names.length > 0 && names.every((name) => rules.includes(name));
}

function describe({ status, fields, rules = [] }: Expected): string {
  if (fields) return `${status} that names ${fields.join(', ')}${fields.length > 1 ? '' : ' alone'}`;
  return rules.length > 0 ? `${status}, or 422 that names ${rules.join(' or ')}` : `${status} as the document has it`;
}

/** An answer in a line. */
export function describeReply(reply: Reply): string {
  return 'missing' in reply ? `no answer: ${reply.missing}` : `${reply.status} ${reply.text}`;
}

/** A check that takes longer than this ends with what it has found, in milliseconds. */
const LONGEST = 60_000;
/** So often a smaller request is tried; a smaller one that succeeds in creating leaves something behind. */
const MOST_SHRINKS = { reading: 500, writing: 30 };

/**
 * Tries the edges and then what is generated. Throws the Mismatch of the smallest value that fails, and Unreachable
 * where the deployment went away.
 */
export async function forAll<T>(
  { seed }: Setting,
  operation: Operation,
  runs: number,
  { some, edges = [] }: { readonly some: fc.Arbitrary<T>; readonly edges?: readonly T[] },
  test: (value: T) => Promise<unknown>,
): Promise<void> {
  let shrinks = isRead(operation) ? MOST_SHRINKS.reading : MOST_SHRINKS.writing;
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
    interruptAfterTimeLimit: LONGEST,
  });
  if (!details.failed) return;
  const { errorInstance } = details;
  throw errorInstance instanceof Mismatch || errorInstance instanceof Unreachable
    ? errorInstance
    : new Error('a check is faulty', { cause: errorInstance });
}
