// Sends the document's examples and compares the answers.

import { isDeepStrictEqual } from 'node:util';
import { type Example, expectedBody, findKeyScheme, readExamples } from '../../src/openapi/examples.ts';
import { type Check, check, expectAnswer, findFormFault, refused, type Setting, skip, Unknown } from './check.ts';
import { Mismatch } from './client.ts';
import { isRaised, type Operation } from './contract.ts';
import { isRead, OWN_KEY, type Request } from './request.ts';

/** Statuses with which a proxy with lower limits may refuse a request itself. */
const TOO_LARGE = [413, 431];

/** The checks of an operation's examples. */
export function* createExampleChecks(setting: Setting, operation: Operation): Generator<Check> {
  const { demo = false, contract, coverage } = setting;
  const scheme = findKeyScheme(contract.document, operation.source.security);
  const knownKeys = [undefined, '', scheme?.['x-example'], scheme?.['x-unknown-example']];
  const rules = demo ? [] : operation.inputs.filter(({ rule }) => rule).map(({ name }) => name);
  const examples = readExamples(contract.document).filter(({ operationId }) => operationId === operation.id);

  const keyOf = ({ request }: Example) => scheme && request.headers[scheme.name];
  const toRequest = (example: Example): Request => {
    const { [scheme?.name ?? '']: key, ...headers } = example.request.headers;
    // If the document has no key, all examples use the run's own, except those of a missing key.
    const isOwn = key === scheme?.['x-example'] && (key !== undefined || example.status !== 400);
    return { ...example.request, headers, key: isOwn ? OWN_KEY : (key ?? null) };
  };
  const findObstacle = (example: Example): string | undefined => {
    const { store, rateLimit, connection, isCaused } = example;
    if (!isCaused) return 'the document does not say which request leads to it';
    if (store === 'unavailable') return 'the data store would have to be down';
    if (rateLimit) return 'the rate limit would have to be reached, and other clients would be refused too';
    if (connection) return 'a proxy in front may wait longer than the gateway does';
    return demo || (store !== 'demo' && knownKeys.includes(keyOf(example))) ? undefined : 'sent only with --demo';
  };
  // Of the successes, only reads depend on the deployment's data.
  const isExact = ({ status, request }: Example) => demo || status >= 400 || !isRead(request);
  const replay = async (example: Example) => {
    const before = examples.find(({ name }) => name === example.after);
    if (before) {
      const expected = { status: before.status, rules, mayRaise: true };
      const { status, text } = await expectAnswer(setting, operation, toRequest(before), expected);
      if (status !== before.status)
        throw new Unknown(`the example ${before.name}, sent first, led to ${status} ${text}`);
    }
    const request = toRequest(example);
    const { status } = example;
    if (TOO_LARGE.includes(status)) {
      const answer = await setting.client.send(request);
      const reason = 'a proxy refused it first';
      if (answer.status >= 400 && answer.status < 500 && (findFormFault(answer) || !('error' in Object(answer.body)))) {
        coverage.excuse(operation, status, reason);
        throw new Unknown(reason);
      }
    }
    // An earlier run may have created or deleted the same record, and other data may lack it.
    const mayRaise = status < 400 && !(demo && isRead(request));
    const isRuled = status < 400 || isRaised(operation, status);
    const expected = { status, mayRaise, rules: isRuled ? rules : [] };
    const answer = await expectAnswer(setting, operation, request, expected);
    const value = expectedBody(example, answer.body);
    const isSame = isDeepStrictEqual(answer.body, value) || (value === '' && answer.body === undefined);
    if (answer.status !== status) throw refused(answer);
    if (!isExact(example) || isSame) return;
    throw new Mismatch(request, `${status} ${JSON.stringify(value)}`, `${status} ${JSON.stringify(answer.body)}`);
  };

  for (const example of examples) {
    const name = `answers the example ${example.name} with`;
    const reason = findObstacle(example);
    if (reason) {
      coverage.excuse(operation, example.status, reason);
      yield skip(`${name} ${example.status}`, reason);
      continue;
    }
    yield check(`${name} ${example.status}`, () => replay(example));
    if (!isExact(example)) yield skip(`${name} its data`, 'the exact data is known only with --demo');
  }
}
