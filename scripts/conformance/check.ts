// A check, and how an answer is compared with the document.

import { isDeepStrictEqual } from 'node:util';
import type { ErrorObject } from 'ajv';
import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Answer, type Client, Mismatch } from './client.ts';
import type { Coverage } from './coverage.ts';
import {
  type Contract,
  type DescribedAnswer,
  findAnswer,
  isRaised,
  type ListOperation,
  type Operation,
} from './operations.ts';
import { isRead, OWN_KEY, type Request } from './request.ts';
import type { Row } from './rows.ts';

/** What the checks of a run share. */
export type Setting = {
  readonly contract: Contract;
  /** Those of the contract that are checked. */
  readonly operations: readonly Operation[];
  readonly client: Client;
  readonly coverage: Coverage;
  /** Another tenant's key, one that may only read, and one over its limit. */
  readonly otherKey?: string;
  readonly readKey?: string;
  readonly limitedKey?: string;
  /** Another key for the requests of the run's own. */
  readonly sender?: symbol;
  /** The records of another tenant's lists, as they were when they were first read. */
  readonly foreign: Map<ListOperation, Promise<readonly Row[]>>;
  readonly seed: number;
  /** Values generated for each check, besides those at the bounds. */
  readonly runs: number;
  /** Whether the deployment has the demo data. */
  readonly demo?: boolean;
  readonly readOnly?: boolean;
};

/** Throws Mismatch if the deployment fails it; gives a text, the reason, if there is nothing to check. */
export type Check = { readonly name: string; readonly run: () => Promise<unknown> };

export function check(name: string, run: () => Promise<unknown>): Check {
  return { name, run };
}

/** A check that is not made. */
export function skip(name: string, reason: string): Check {
  return { name, run: async () => reason };
}

/** What an answer has to be. */
export type Expected = {
  /** The operation's success by default. */
  readonly status?: number;
  /** The fields that a 422 names, and no others. */
  readonly fields?: readonly string[];
  /** Inputs with rules of the database: a 422 that names only some of them is right too. */
  readonly rules?: readonly string[];
  /** Whether the database may refuse it, with a declared status such as 404. */
  readonly mayRaise?: boolean;
};

/** Sends a request and compares the answer with the document and with what is expected; throws Mismatch. */
export async function expectAnswer(
  { client, sender, coverage }: Setting,
  operation: Operation,
  built: Request,
  { status = operation.status, fields, rules = [], mayRaise = false }: Expected = {},
): Promise<Answer & { body: Json }> {
  const request = sender && built.key === OWN_KEY ? { ...built, key: sender } : built;
  const answer = await client.send(request);
  const fail = (fault?: string): never => {
    const got = fault ? `${fault}\n${describeAnswer(answer)}` : describeAnswer(answer);
    throw new Mismatch(request, describeExpected(status, fields, rules), got);
  };
  const described = findAnswer(operation, answer.status) ?? fail(`${operation.id} does not declare this status`);
  const named = fieldsOf(answer.body);
  const isRefusedByRule = answer.status === 422 && named.length > 0 && named.every((name) => rules.includes(name));
  const isRefused = isRefusedByRule || (mayRaise && isRaised(operation, answer.status));
  if (answer.status !== status && !isRefused) fail();
  const isEmpty = described.isEmpty && answer.text === '';
  const fault = isEmpty ? undefined : (findFormFault(answer) ?? findSchemaFault(described, answer));
  if (fault) fail(fault);
  if (fields && !isDeepStrictEqual(named.sort(), fields.toSorted())) fail();
  coverage.show(operation, 'status', described.code);
  return answer as Answer & { body: Json };
}

function describeExpected(status: number, fields: Expected['fields'], rules: readonly string[]): string {
  if (fields) return `${status} that names ${fields.join(', ')}${fields.length > 1 ? '' : ' alone'}`;
  return rules.length > 0 ? `${status}, or 422 that names ${rules.join(' or ')}` : `${status} as in the document`;
}

export function describeAnswer({ status, text }: Answer): string {
  return `${status} ${text}`;
}

/** Why an answer is not JSON; undefined if it is. */
export function findFormFault({ headers, body }: Answer): string | undefined {
  const type = headers['content-type'] ?? 'missing';
  if (!/^application\/json\s*(;|$)/i.test(type)) return `Content-Type is ${type}, expected application/json`;
  return body === undefined ? 'the body is not JSON' : undefined;
}

function findSchemaFault({ validate, headers }: DescribedAnswer, answer: Answer): string | undefined {
  if (!validate(answer.body)) return `not the schema of ${answer.status}: ${describeErrors(validate.errors)}`;
  for (const [name, { schema, validate }] of headers) {
    const text = answer.headers[name];
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

function fieldsOf(body: Json | undefined): string[] {
  const { error } = (body ?? {}) as { error?: Json };
  return typeof error === 'object' && error !== null ? Object.keys(error) : [];
}

/** A check ends after this time with what it has found, in ms. */
const MAX_MS = 60_000;
/** Attempts to find a smaller failing request; those that write may create records. */
const MAX_SHRINKS = { reading: 500, writing: 30 };

/** Generated values, and those that are tested before them. */
export type Tested<T> = { readonly some: fc.Arbitrary<T>; readonly edges?: readonly T[] };

/** Tests the edges and then generated values. Throws what the smallest value that fails throws. */
export async function forAll<T>(
  { seed, runs }: Setting,
  operation: Operation,
  { some, edges = [] }: Tested<T>,
  test: (value: T) => Promise<unknown>,
  count = runs,
): Promise<void> {
  let attempts = Number.POSITIVE_INFINITY;
  const property = fc.asyncProperty(some, async (value) => {
    if (attempts-- <= 0) return;
    await test(value).catch((error) => {
      attempts = Math.min(attempts, isRead(operation) ? MAX_SHRINKS.reading : MAX_SHRINKS.writing);
      throw error;
    });
  });
  const examples = edges.map((edge): [T] => [edge]);
  const options = { seed, examples, numRuns: edges.length + count, interruptAfterTimeLimit: MAX_MS };
  const { failed, errorInstance } = await fc.check(property, options);
  if (failed) throw errorInstance;
}
