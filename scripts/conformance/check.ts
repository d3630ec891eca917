// Checks, and the comparison of an answer with the document.

import { isDeepStrictEqual } from 'node:util';
import type { ErrorObject } from 'ajv';
import fc from 'fast-check';
import { convert } from '../../src/api/request.ts';
import { itemsOf, scalarOf } from '../../src/openapi/schema.ts';
import type { Json } from '../../src/store/store.ts';
import { type Answer, type Client, Mismatch } from './client.ts';
import {
  type Contract,
  type DescribedAnswer,
  findAnswer,
  isRaised,
  type ListOperation,
  type Operation,
  type Schema,
} from './contract.ts';
import type { Coverage } from './coverage.ts';
import { isRead, OWN_KEY, type Request } from './request.ts';
import type { Row } from './rows.ts';
import type { Values } from './values.ts';

/** The context of a run's checks. */
export type Setting = {
  readonly contract: Contract;
  /** The checked operations. */
  readonly operations: readonly Operation[];
  readonly client: Client;
  /** The URL before the operations' paths, without a slash at its end. */
  readonly url: string;
  readonly coverage: Coverage;
  /** Another tenant's key, a key that may only read, and a key over its limit. */
  readonly otherKey?: string;
  readonly readKey?: string;
  readonly limitedKey?: string;
  /** Keys that differ little from the run's own. */
  readonly nearKeys: readonly symbol[];
  /** Replaces the run's own key. */
  readonly sender?: symbol;
  /** The other tenant's records by list, as read at the beginning. */
  readonly foreign: Map<ListOperation, Promise<readonly Row[]>>;
  /** The records that the checks of lists have read with the run's own key, each with its request, by list. */
  readonly shown: Map<ListOperation, Map<string, Request>>;
  readonly seed: number;
  /** Generated values per check, in addition to those at the bounds. */
  readonly runs: number;
  /** The deployment has the demo data. */
  readonly demo?: boolean;
  readonly readOnly?: boolean;
};

/** `run` throws Mismatch if the deployment fails, and Unknown with the reason if it checked nothing. */
export type Check = { readonly name: string; readonly run: () => Promise<unknown> };

/** Skips a check that cannot tell; the message says why. */
export class Unknown extends Error {}

/** Skips a check because the database refused its request with a declared status. */
export function refused(answer: Answer): Unknown {
  return new Unknown(`the database refused it, with ${describeAnswer(answer)}`);
}

export function check(name: string, run: () => Promise<unknown>): Check {
  return { name, run };
}

/** A skipped check. */
export function skip(name: string, reason: string): Check {
  return check(name, () => Promise.reject(new Unknown(reason)));
}

/** Creates checks. If that fails, returns a single check that throws the reason. */
export function createOrExplain(name: string, create: () => Iterable<Check>): readonly Check[] {
  try {
    return [...create()];
  } catch (error) {
    return [check(name, () => Promise.reject(error))];
  }
}

/** The expected answer. */
export type Expected = {
  /** By default the success status of the operation. */
  readonly status?: number;
  /** Exactly the fields that a 422 names. */
  readonly fields?: readonly string[];
  /** Inputs with rules of the database: a 422 that names only these is accepted too. */
  readonly rules?: readonly string[];
  /** Accepts a declared refusal of the database too, such as a 404. */
  readonly mayRaise?: boolean;
};

/** Sends a request, and throws Mismatch unless the answer is as expected and as the document describes it. */
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

export function describeAnswer({ status, text, headers }: Answer): string {
  return status >= 300 && status < 400 && headers.location ? `${status} to ${headers.location}` : `${status} ${text}`;
}

/** Why an answer is not JSON; undefined for JSON. */
export function findFormFault({ headers, body }: Answer): string | undefined {
  const type = headers['content-type'] ?? 'missing';
  if (!/^application\/json\s*(;|$)/i.test(type)) return `Content-Type is ${type}, expected application/json`;
  return body === undefined ? 'the body is not JSON' : undefined;
}

function findSchemaFault({ validate, headers }: DescribedAnswer, answer: Answer): string | undefined {
  if (!validate(answer.body)) return `not the schema of ${answer.status}: ${describeErrors(validate.errors)}`;
  for (const [name, { schema, validate, isRequired }] of headers) {
    const text = answer.headers[name];
    // A proxy may remove headers that the document does not require.
    if (text === undefined && isRequired) return `the header ${name} is missing, which the document requires`;
    if (text !== undefined && !validate(readHeader(schema, text))) {
      return `not the schema of the header ${name}: ${describeErrors(validate.errors)}`;
    }
  }
  return undefined;
}

/** The value of a header in the style `simple`: commas separate the items of an array. */
function readHeader(schema: Schema, text: string): Json {
  const items = itemsOf(schema);
  if (!items) return convert(text, scalarOf(schema) ?? 'string');
  const texts = text === '' ? [] : text.split(',');
  return texts.map((item) => convert(item.trim(), scalarOf(items) ?? 'string'));
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

/** Maximum time of a check, in ms; then it ends with what it has found until then. */
const MAX_MS = 60_000;
/** Attempts to shrink a failing request; few if each may create a record. */
const MAX_SHRINKS = { reading: 500, writing: 30 };

/**
 * Runs `test` on the edge cases, then on generated values. Returns for how many it checked something; it returns false for the others.
 * Throws the error of the smallest failing value.
 */
export async function forAll<T>(
  { seed, runs }: Setting,
  operation: Operation,
  { some, edges }: Values<T>,
  test: (value: T) => Promise<unknown>,
  count = runs,
): Promise<number> {
  let attempts = Number.POSITIVE_INFINITY;
  let checked = 0;
  const property = fc.asyncProperty(some, async (value) => {
    if (attempts-- <= 0) return;
    const result = await test(value).catch((error) => {
      attempts = Math.min(attempts, isRead(operation) ? MAX_SHRINKS.reading : MAX_SHRINKS.writing);
      throw error;
    });
    if (result !== false) checked += 1;
  });
  const examples = edges.map((edge): [T] => [edge]);
  const options = { seed, examples, numRuns: edges.length + count, interruptAfterTimeLimit: MAX_MS };
  const { failed, errorInstance } = await fc.check(property, options);
  if (failed) throw errorInstance;
  return checked;
}
