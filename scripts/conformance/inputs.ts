// What an operation accepts and refuses, generated from the schemas of its inputs.

import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Check, describeReply, expectAnswer, forAll, Mismatch, type Setting } from './check.ts';
import type { Input, Operation } from './operations.ts';
import { type Assignment, isRead, type Request, toRequest } from './request.ts';
import { assignRequired, createValid, type Values } from './values.ts';
import { createViolations } from './violations.ts';

/** Few unknown keys: a gateway may slow down a client that guesses keys. */
const UNKNOWN_KEYS = 3;
/** Generated values for one creation: created records stay. */
const RUNS_PER_CREATION = 10;

/** The checks of all inputs. The first one, whether the operation accepts the key, decides if the others make sense. */
export function createInputChecks(setting: Setting, operation: Operation): Check[] {
  const { inputs, body, method, status } = operation;
  const { runs } = setting;
  const base = assignRequired(operation);
  const validRuns = isRead(operation) ? runs : Math.ceil(runs / RUNS_PER_CREATION);

  /** A request with these values, and with required ones. */
  const request = (assignments: readonly Assignment[] = []): Request => {
    const names = new Set(assignments.map(({ input }) => `${input.in} ${input.name}`));
    return toRequest(operation, [
      ...base.filter(({ input }) => !names.has(`${input.in} ${input.name}`)),
      ...assignments,
    ]);
  };
  const refuses = (request: Request, status: number, fields?: readonly string[]) =>
    expectAnswer(setting, operation, request, { status, ...(fields ? { fields } : {}) });
  const accepts = (assignments: readonly { input: Input; value: Json }[] = []) => {
    const rules = [...base, ...assignments].filter(({ input }) => input.rule).map(({ input }) => input.name);
    return expectAnswer(setting, operation, request(assignments), {
      status,
      rules: [...new Set(rules)],
      mayRaise: true,
    });
  };
  const check = (name: string, run: () => Promise<unknown>): Check => ({ name, run: () => run().then(() => {}) });
  const checkAll = <T>(
    name: string,
    count: number,
    values: { readonly some: fc.Arbitrary<T>; readonly edges?: readonly T[] },
    test: (value: T) => Promise<unknown>,
  ) => check(name, () => forAll(setting, operation, count, values, test));

  const shows = (input: Input, keyword: string, { name, run }: Check): Check => ({
    name,
    run: () => run().then(() => setting.coverage.showInput(operation, input, keyword)),
  });

  const checkInput = (input: Input): Check[] => {
    const { name } = input;
    const valid = createValid(input);
    const without = base.filter((assignment) => assignment.input !== input);
    return [
      shows(
        input,
        '',
        checkAll(`takes ${name}`, validRuns, valid, (value) => accepts([{ input, value }])),
      ),
      ...createViolations(input).map((violation) => {
        const { constraint } = violation;
        const refusesAll = checkAll(
          `refuses ${name} ${describeViolation(input, constraint)}`,
          runs,
          violation,
          (value) => refuses(request([{ input, value }]), 422, [name]),
        );
        return shows(input, constraint, refusesAll);
      }),
      ...(input.in === 'query' && input.schema.type !== 'array'
        ? [
            checkAll(`refuses ${name} twice`, Math.ceil(runs / 2), { some: fc.tuple(valid.some, valid.some) }, (pair) =>
              refuses(request(pair.map((value) => ({ input, value }))), 422, [name]),
            ),
          ]
        : []),
      ...(input.required && input.in !== 'path'
        ? [check(`refuses a request without ${name}`, () => refuses(toRequest(operation, without), 422, [name]))]
        : []),
    ];
  };

  const unknown = (place: Input['in'], kind: string) => {
    const isNew = (name: string) => !inputs.some((input) => input.name === name);
    const some = fc.stringMatching(/^[a-z][a-z_]{0,9}$/).filter(isNew);
    const edges = ['sort', 'Limit', 'limit[]', 'p_limit', 'p_api_key', 'constructor', '__proto__'].filter(isNew);
    return checkAll(`refuses an unknown ${kind}`, runs, { some, edges }, (name) =>
      refuses(request([{ input: { name, in: place }, value: '1' }]), 422, [name]),
    );
  };

  return [
    check('accepts the key', () => accepts()),
    check('refuses a request without a key', () => refuses({ ...request(), key: null }, 400)),
    checkAll('refuses an unknown key', UNKNOWN_KEYS, { some: fc.stringMatching(/^unknown_[0-9a-f]{32}$/) }, (key) =>
      refuses({ ...request(), key }, 401),
    ),
    ...inputs.flatMap(checkInput),
    checkAll('takes all inputs together', validRuns, { some: someOf(inputs) }, accepts),
    checkAll('names all of several errors', runs, { some: severalBroken(operation) }, (assignments) =>
      refuses(
        request(assignments),
        422,
        assignments.map(({ input }) => input.name),
      ),
    ),
    unknown('query', 'parameter'),
    ...(body
      ? [
          ...(isClosed(operation) ? [unknown('body', 'field')] : []),
          checkAll('refuses a body that is not JSON', runs, NOT_JSON, (body) => refuses({ ...request(), body }, 400)),
          ...(isClosed(operation)
            ? [
                checkAll('refuses a body that is not an object', 0, NOT_OBJECTS, (value) =>
                  refuses({ ...request(), body: JSON.stringify(value) }, 422, ['body']),
                ),
              ]
            : []),
        ]
      : []),
    ...(method === 'GET' ? [createHeadCheck(setting, operation, { ...request(), method: 'HEAD' })] : []),
  ];
}

const NOT_JSON = {
  some: fc.string({ maxLength: 12 }).filter((text) => !isJson(text)),
  edges: ['', '{', '{"a":', "{'a':1}"],
};
const OTHER_VALUES = [[], [{}], 'text', 1, true, null];
const NOT_OBJECTS: Values = { some: fc.constantFrom<Json>(...OTHER_VALUES), edges: OTHER_VALUES };

/** Any number of the inputs with valid values; shrinks to none. */
function someOf(inputs: readonly Input[]): fc.Arbitrary<{ input: Input; value: Json }[]> {
  const options = inputs.map((input) =>
    fc.option(
      createValid(input).some.map((value) => ({ input, value })),
      { nil: undefined },
    ),
  );
  return fc.tuple(...options).map((values) => values.filter((value) => value !== undefined));
}

/** At least two of the inputs with invalid values, and an unknown one. */
function severalBroken({ inputs, body }: Operation): fc.Arbitrary<Assignment[]> {
  const broken = inputs.flatMap((input): Assignment[] => {
    const [value] = createViolations(input).flatMap(({ edges }) => edges);
    return value === undefined ? [] : [{ input, value }];
  });
  const unknown: Assignment = { input: { name: 'nobody_knows', in: body?.fields ? 'body' : 'query' }, value: '1' };
  return fc.subarray([...broken, unknown], { minLength: Math.min(2, broken.length + 1) });
}

/** Whether the body takes only the declared fields. */
function isClosed({ body }: Operation): boolean {
  return body?.fields !== undefined;
}

/** HEAD is GET without the content (RFC 9110, section 9.3.2). */
function createHeadCheck({ client }: Setting, { status, raised }: Operation, request: Request): Check {
  return {
    name: 'answers HEAD like GET, without the body',
    run: async () => {
      const reply = await client.send(request);
      if ('status' in reply && [status, ...raised].includes(reply.status) && reply.text === '') return;
      throw new Mismatch(request, `${status} without a body`, describeReply(reply));
    },
  };
}

function describeViolation({ schema }: Input, constraint: string): string {
  const texts: Record<string, string> = {
    type: `that is not ${schema.type}`,
    enum: 'that is not one of its values',
    minimum: `less than ${schema.minimum}`,
    maximum: `more than ${schema.maximum}`,
    minLength: `shorter than ${schema.minLength}`,
    maxLength: `longer than ${schema.maxLength}`,
    pattern: 'that does not match its pattern',
    format: `that is not ${schema.format}`,
  };
  return texts[constraint] ?? constraint;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
