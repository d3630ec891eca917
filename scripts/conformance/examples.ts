// The document's examples, sent as they are.

import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { type Example, findKeyScheme, type KeyScheme, readExamples } from '../../src/openapi/examples.ts';
import type { Json } from '../../src/store/store.ts';
import { type Check, expectAnswer, Mismatch, type Setting, type Skipped } from './check.ts';
import { isRead, type Operation } from './operations.ts';
import { OWN_KEY, type Request } from './request.ts';

const NEEDS_DEMO = 'sent only with --demo';

/** The checks of an operation's examples, and the examples that cannot be reached. */
export function createExampleChecks(
  setting: Setting,
  operation: Operation,
  document: OpenAPIV3.Document,
): { checks: Check[]; skipped: Skipped[] } {
  const scheme = findKeyScheme(document);
  const examples = readExamples(document).filter(({ operationId }) => operationId === operation.id);
  const checks: Check[] = [];
  const skipped: Skipped[] = [];
  for (const example of examples) {
    const name = `answers the example ${example.name} with ${example.status}`;
    const reason = findObstacle(setting, example, scheme);
    if (reason) skipped.push({ name, reason });
    else checks.push({ name, run: () => replay(setting, operation, examples, example, scheme) });
    if (!reason && !isExact(setting, example)) {
      skipped.push({
        name: `answers the example ${example.name} with its data`,
        reason: 'the exact data is known only with --demo',
      });
    }
  }
  return { checks, skipped };
}

function findObstacle(
  { demo }: Setting,
  { store, rateLimit, connection, request }: Example,
  scheme: KeyScheme | undefined,
): string | undefined {
  if (store === 'unavailable') return 'the data store would have to be down';
  if (rateLimit) return 'the rate limit would have to be reached, and other clients would be refused too';
  if (connection) return 'a proxy in front may wait longer than the gateway does';
  if (store === 'demo' && !demo) return NEEDS_DEMO;
  const key = scheme && request.headers[scheme.name];
  const known = [undefined, '', scheme?.['x-example'], scheme?.['x-unknown-example']];
  return demo || known.includes(key) ? undefined : NEEDS_DEMO;
}

/** What is read depends on the deployment's data; what is created, and what is refused, does not. */
function isExact({ demo }: Setting, { status, request }: Example): boolean {
  return demo || status >= 400 || !isRead(request);
}

async function replay(
  setting: Setting,
  operation: Operation,
  examples: readonly Example[],
  example: Example,
  scheme: KeyScheme | undefined,
): Promise<void> {
  const rules = setting.demo ? [] : rulesOf(operation);
  const before = examples.find(({ name }) => name === example.after);
  if (before) await expectAnswer(setting, operation, toRequest(before, scheme), { status: before.status, rules });
  const request = toRequest(example, scheme);
  const answer = await expectAnswer(setting, operation, request, {
    status: example.status,
    ...(example.status < 400 ? { rules } : {}),
  });
  if (answer.status !== example.status || !isExact(setting, example)) return;
  const expected = withGenerated(example, answer.body);
  if (isDeepStrictEqual(answer.body, expected)) return;
  throw new Mismatch(
    request,
    `${example.status} ${JSON.stringify(expected)}`,
    `${answer.status} ${JSON.stringify(answer.body)}`,
  );
}

function rulesOf({ inputs }: Operation): string[] {
  return inputs.filter(({ rule }) => rule).map(({ name }) => name);
}

function toRequest({ request }: Example, scheme: KeyScheme | undefined): Request {
  const keyHeader = scheme?.name ?? '';
  const { [keyHeader]: key, ...headers } = request.headers;
  const ownKey = key !== undefined && key === scheme?.['x-example'];
  return { ...request, headers, key: ownKey ? OWN_KEY : (key ?? null) };
}

/** The example's value, with what the server makes taken from the answer: the schema has checked its form. */
function withGenerated({ value, generated }: Example, body: Json): Json {
  if (generated.length === 0) return value as Json;
  const made = generated.map((name) => [name, (body as Record<string, Json>)[name] ?? null]);
  return { ...(value as Record<string, Json>), ...Object.fromEntries(made) };
}
