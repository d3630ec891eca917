// The document's examples, sent unchanged.

import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { type Example, findKeyScheme, readExamples } from '../../src/openapi/examples.ts';
import type { Json } from '../../src/store/store.ts';
import { type Check, expectAnswer, Mismatch, type Setting, type Skipped } from './check.ts';
import type { Operation } from './operations.ts';
import { isRead, OWN_KEY, type Request } from './request.ts';

const NEEDS_DEMO = 'sent only with --demo';

/** The checks of an operation's examples, and the examples that cannot be sent. */
export function createExampleChecks(
  setting: Setting,
  operation: Operation,
  document: OpenAPIV3.Document,
): { checks: Check[]; skipped: Skipped[] } {
  const { demo } = setting;
  const scheme = findKeyScheme(document);
  const knownKeys = [undefined, '', scheme?.['x-example'], scheme?.['x-unknown-example']];
  const rules = demo ? [] : operation.inputs.filter(({ rule }) => rule).map(({ name }) => name);
  const examples = readExamples(document).filter(({ operationId }) => operationId === operation.id);
  const checks: Check[] = [];
  const skipped: Skipped[] = [];

  const keyOf = ({ request }: Example) => scheme && request.headers[scheme.name];
  const toRequest = (example: Example): Request => {
    const { [scheme?.name ?? '']: key, ...headers } = example.request.headers;
    const isOwn = key !== undefined && key === scheme?.['x-example'];
    return { ...example.request, headers, key: isOwn ? OWN_KEY : (key ?? null) };
  };
  const findObstacle = (example: Example): string | undefined => {
    const { store, rateLimit, connection } = example;
    if (store === 'unavailable') return 'the data store would have to be down';
    if (rateLimit) return 'the rate limit would have to be reached, and other clients would be refused too';
    if (connection) return 'a proxy in front may wait longer than the gateway does';
    return demo || (store !== 'demo' && knownKeys.includes(keyOf(example))) ? undefined : NEEDS_DEMO;
  };
  // What is read depends on the deployment's data; what is created or refused does not.
  const isExact = ({ status, request }: Example) => demo || status >= 400 || !isRead(request);
  const replay = async (example: Example) => {
    const before = examples.find(({ name }) => name === example.after);
    if (before) await expectAnswer(setting, operation, toRequest(before), { status: before.status, rules });
    const request = toRequest(example);
    const { status } = example;
    // What was created or deleted before cannot be again, and other data may lack the record.
    const mayRaise = status < 400 && !(demo && isRead(request));
    const isRuled = status < 400 || operation.raised.includes(status);
    const answer = await expectAnswer(setting, operation, request, {
      status,
      mayRaise,
      ...(isRuled ? { rules } : {}),
    });
    const expected = withGenerated(example, answer.body);
    const isSame = isDeepStrictEqual(answer.body, expected) || (expected === '' && answer.body === undefined);
    if (answer.status !== status || !isExact(example) || isSame) return;
    const [wanted, got] = [expected, answer.body].map((body) => `${status} ${JSON.stringify(body)}`);
    throw new Mismatch(request, wanted ?? '', got ?? '');
  };

  for (const example of examples) {
    const name = `answers the example ${example.name} with`;
    const reason = findObstacle(example);
    if (reason) {
      skipped.push({ name: `${name} ${example.status}`, reason });
      setting.coverage.excuse(operation, example.status, reason);
    } else checks.push({ name: `${name} ${example.status}`, run: () => replay(example) });
    if (!reason && !isExact(example)) {
      skipped.push({ name: `${name} its data`, reason: 'the exact data is known only with --demo' });
    }
  }
  return { checks, skipped };
}

/** The example's body with the generated values of the answer; the schema has checked their form. */
function withGenerated({ value, generated }: Example, body: Json): Json {
  if (generated.length === 0) return value as Json;
  const values = generated.map((name) => [name, (body as Record<string, Json>)[name] ?? null]);
  return { ...(value as Record<string, Json>), ...Object.fromEntries(values) };
}
