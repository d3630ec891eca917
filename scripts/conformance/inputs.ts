// Checks which inputs an operation accepts and refuses, with values generated from their schemas.

import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Check, check, expectAnswer, forAll, type Setting, Unknown } from './check.ts';
import { parseJson } from './client.ts';
import type { Input, Operation } from './contract.ts';
import { CREATED, compareSent } from './creations.ts';
import {
  type Assignment,
  assignRequired,
  isRead,
  isValidBody,
  type Request,
  toRequest,
  toValidRequest,
  withRequired,
} from './request.ts';
import type { Row } from './rows.ts';
import { createValid, createViolations, findUnused, someOf, type Values } from './values.ts';

/** The number of unknown keys is small, because a gateway may slow down a client that guesses keys. */
const UNKNOWN_KEYS = 3;
/** One record is created for this number of runs, because created records stay. */
const RUNS_PER_CREATION = 10;

const UNKNOWN_KEY = fc.stringMatching(/^unknown_[0-9a-f]{32}$/);
const NAME = fc.stringMatching(/^[a-z][a-z_]{0,9}$/);
const NAMES = ['sort', 'Limit', 'limit[]', 'p_limit', 'p_api_key', 'constructor', '__proto__'];
const NOT_JSON = {
  some: fc.string({ minLength: 1, maxLength: 12 }).filter((text) => parseJson(text) === undefined),
  edges: ['', '{', '{"a":', "{'a':1}"],
};
const NOT_OBJECTS: readonly Json[] = [[], [{}], 'text', 1, true, null];

/** The checks of all inputs. The first one checks that the operation accepts the key. If it fails, all others would fail too. */
export function* createInputChecks(setting: Setting, operation: Operation): Generator<Check> {
  const { inputs, body, isComposed } = operation;
  const { runs, coverage } = setting;
  const required = inputs.filter((input) => input.required);
  const validRuns = isRead(operation) ? runs : Math.ceil(runs / RUNS_PER_CREATION);
  const valuesFor = (input: Input): Values => {
    const unused = isRead(operation) ? undefined : findUnused(input);
    return unused === undefined ? createValid(input) : { some: fc.constant(unused), edges: [] };
  };
  const request = (assignments?: readonly Assignment[]) => toValidRequest(operation, assignments);

  const accepts = async (assignments: readonly Assignment<Input>[] = []) => {
    if (!isValidBody(operation, withRequired(operation, assignments))) return false;
    const given = assignments.map(({ input }) => input);
    // The gateway refuses `after` beside `offset`.
    const hasRule = (input: Input) => input.rule || input === operation.list?.after;
    const sent = [...required, ...given].filter(hasRule);
    // A rule on several fields also applies to those that are left out, with their defaults or the values of the record.
    const absent = sent.length > 0 ? inputs.filter((input) => input.in === 'body' && hasRule(input)) : [];
    const rules = [...new Set([...sent, ...absent])].map(({ name }) => name);
    const answer = await expectAnswer(setting, operation, request(assignments), { rules, mayRaise: true });
    if (answer.status === CREATED) compareSent(request(assignments), assignments, answer.body as Row);
    for (const { name } of given) coverage.show(operation, 'input', name);
    return true;
  };
  const refuses = (request: Request, status: number) => expectAnswer(setting, operation, request, { status });
  /** Expects a 422 that names exactly these inputs; a composed body may be refused as a whole, and for other fields too. */
  const refusesInputs = (request: Request, refused: readonly Assignment['input'][]) => {
    const isOfBody = isComposed && refused.some((input) => input.in === 'body');
    const fields = [...new Set(refused.map(({ name }) => name))];
    return expectAnswer(setting, operation, request, { status: 422, ...(isOfBody ? {} : { fields }) });
  };
  const refusesValues = (assignments: readonly Assignment[]) =>
    refusesInputs(
      request(assignments),
      assignments.map(({ input }) => input),
    );
  const checkAll = <T>(name: string, values: Values<T>, test: (value: T) => Promise<unknown>, count = runs) =>
    check(name, async () => {
      const checked = await forAll(setting, operation, values, test, count);
      if (checked === 0) throw new Unknown('none of the values makes a valid body');
    });
  const refusesUnknown = (kind: string, place: 'query' | 'body') => {
    const isNew = (name: string) => !inputs.some((input) => input.name === name);
    return checkAll(`refuses an unknown ${kind}`, { some: NAME.filter(isNew), edges: NAMES.filter(isNew) }, (name) =>
      refusesValues([{ input: { name, in: place }, value: '1' }]),
    );
  };

  yield check('accepts the key', () => accepts());
  yield check('refuses a request without a key', () => refuses({ ...request(), key: null }, 400));
  yield checkAll(
    'refuses an unknown key',
    { some: UNKNOWN_KEY, edges: setting.nearKeys } as Values<string | symbol>,
    (key) => refuses({ ...request(), key }, 401),
    UNKNOWN_KEYS,
  );

  for (const input of inputs) {
    const { name } = input;
    const valid = valuesFor(input);
    yield checkAll(`takes ${name}`, valid, (value) => accepts([{ input, value }]), validRuns);
    for (const violation of createViolations(input)) {
      yield checkAll(`refuses ${name} ${violation.text}`, violation, async (value) => {
        await refusesValues([{ input, value }]);
        coverage.show(operation, 'keyword', `${name} ${violation.constraint}`);
      });
    }
    if (input.in === 'query' && input.schema.type !== 'array') {
      const twice = fc.tuple(valid.some, valid.some).map((pair) => pair.map((value) => ({ input, value })));
      yield checkAll(`refuses ${name} twice`, { some: twice, edges: [] }, refusesValues, Math.ceil(runs / 2));
    }
    if (input.required && input.in !== 'path') {
      const others = assignRequired(operation).filter((assignment) => assignment.input !== input);
      yield check(`refuses a request without ${name}`, () => refusesInputs(toRequest(operation, others), [input]));
    }
  }

  const valid = inputs.map((input) => valuesFor(input).some.map((value) => ({ input, value })));
  yield checkAll('takes all inputs together', { some: someOf(valid), edges: [] }, accepts, validRuns);
  yield checkAll('names all of several errors', { some: severalBroken(operation), edges: [] }, refusesValues);
  yield refusesUnknown('parameter', 'query');
  if (!body) return;
  if (operation.whole && isComposed) {
    const toBody = (value: Json) => ({ ...request(), body: JSON.stringify(value) });
    const rules = inputs.filter(({ rule }) => rule).map(({ name }) => name);
    yield checkAll(
      'takes bodies of every form',
      createValid(operation.whole),
      (value) => expectAnswer(setting, operation, toBody(value), { rules, mayRaise: true }),
      validRuns,
    );
  }
  // An empty body is valid if the body is optional.
  const notJson = { ...NOT_JSON, edges: NOT_JSON.edges.filter((text) => text !== '' || body.isRequired) };
  yield checkAll('refuses a body that is not JSON', notJson, (body) => refuses({ ...request(), body }, 400));
  if (!body.fields) return;
  yield refusesUnknown('field', 'body');
  yield check('refuses a body that is not an object', async () => {
    for (const value of NOT_OBJECTS) {
      const sent = { ...request(), body: JSON.stringify(value) };
      await expectAnswer(setting, operation, sent, { status: 422, fields: ['body'] });
    }
  });
  const [first] = withRequired(operation, []).filter(({ input }) => input.in === 'body');
  if (!first) return;
  yield check('refuses a repeated field', () => {
    const { body: text = '', ...others } = request();
    const repeated = text.replace('{', () => `{${JSON.stringify(first.input.name)}:1,`);
    return refusesInputs({ ...others, body: repeated }, [first.input]);
  });
}

/** At least two errors: invalid values of some inputs, and perhaps an unknown input. */
function severalBroken({ inputs, body }: Operation): fc.Arbitrary<Assignment[]> {
  const broken = inputs.flatMap((input): Assignment[] => {
    const [value] = createViolations(input).flatMap(({ edges }) => edges);
    return value === undefined ? [] : [{ input, value }];
  });
  const unknown: Assignment = { input: { name: 'nobody_knows', in: body?.fields ? 'body' : 'query' }, value: '1' };
  return fc.subarray([...broken, unknown], { minLength: Math.min(2, broken.length + 1) });
}
