// What an operation takes and what it refuses, generated from the schemas of its inputs.

import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Check, describeReply, expectAnswer, forAll, Mismatch, type Setting } from './check.ts';
import { type Input, isRead, type Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';
import { createValid, pickValid } from './values.ts';
import { createViolations, type Violation } from './violations.ts';

/** Refusals of unknown keys are few, for a gateway that slows down who guesses keys. */
const UNKNOWN_KEYS = 3;
/** Creating is done more rarely than reading: what it makes stays. */
const RUNS_PER_CREATION = 10;

/** The checks of everything that an operation may be sent. */
export function createInputChecks(setting: Setting, operation: Operation): Check[] {
  const checks = new InputChecks(setting, operation);
  return [
    ...(operation.needsKey ? checks.ofKeys() : []),
    ...operation.inputs.flatMap((input) => checks.ofInput(input)),
    ...checks.together(),
    ...checks.unknown(),
    ...(operation.hasBody ? checks.ofBody() : []),
    ...(operation.method === 'GET' ? [checks.ofHead()] : []),
  ];
}

/** Whether the key is accepted for an operation at all. */
export function createEntryCheck(setting: Setting, operation: Operation): Check {
  return new InputChecks(setting, operation).ofEntry();
}

class InputChecks {
  readonly #setting: Setting;
  readonly #operation: Operation;
  /** What has to be sent at least. */
  readonly #base: readonly { input: Input; value: Json }[];

  constructor(setting: Setting, operation: Operation) {
    this.#setting = setting;
    this.#operation = operation;
    this.#base = operation.inputs
      .filter(({ required }) => required)
      .map((input) => ({ input, value: pickValid(input) }));
  }

  ofEntry(): Check {
    return { name: 'accepts the key', run: () => this.#expectSuccess([]).then(() => {}) };
  }

  ofKeys(): Check[] {
    const unknown = fc.stringMatching(/^unknown_[0-9a-f]{32}$/);
    return [
      {
        name: 'refuses a request without a key',
        run: () => this.#expect({ ...this.#request([]), key: null }, 400),
      },
      {
        name: 'refuses an unknown key',
        run: () =>
          forAll(this.#setting, this.#operation, UNKNOWN_KEYS, { some: unknown }, (key) =>
            this.#expect({ ...this.#request([]), key }, 401),
          ),
      },
    ];
  }

  ofInput(input: Input): Check[] {
    const violations = createViolations(input).map((violation) => this.#refuses(input, violation));
    const once = input.in === 'query' ? [this.#refusesTwice(input)] : [];
    const missing = input.required && input.in !== 'path' ? [this.#refusesWithout(input)] : [];
    return [this.#takes(input), ...violations, ...once, ...missing];
  }

  #takes(input: Input): Check {
    return {
      name: `takes ${input.name}`,
      run: () =>
        forAll(this.#setting, this.#operation, this.#runs(), createValid(input), (value) =>
          this.#expectSuccess([{ input, value }]),
        ),
    };
  }

  #refuses(input: Input, violation: Violation): Check {
    return {
      name: `refuses ${input.name} ${describeViolation(input, violation.constraint)}`,
      run: () =>
        forAll(this.#setting, this.#operation, this.#setting.runs, violation, (value) =>
          this.#expect(this.#request([{ input, value }]), 422, [input.name]),
        ),
    };
  }

  #refusesTwice(input: Input): Check {
    const pairs = fc.tuple(createValid(input).some, createValid(input).some);
    return {
      name: `refuses ${input.name} twice`,
      run: () =>
        forAll(this.#setting, this.#operation, Math.ceil(this.#setting.runs / 2), { some: pairs }, (pair) =>
          this.#expect(this.#request(pair.map((value) => ({ input, value }))), 422, [input.name]),
        ),
    };
  }

  #refusesWithout(input: Input): Check {
    const rest = this.#base.filter((assignment) => assignment.input !== input);
    return {
      name: `refuses a request without ${input.name}`,
      run: () => this.#expect(toRequest(this.#operation, rest), 422, [input.name]),
    };
  }

  /** Every choice of inputs with valid values, and with several that are not. */
  together(): Check[] {
    const valid = this.#operation.inputs.map((input) => createValid(input).some.map((value) => ({ input, value })));
    const broken = this.#operation.inputs.flatMap((input) => {
      const [value] = createViolations(input).flatMap(({ edges }) => edges);
      return value === undefined ? [] : [{ input, value }];
    });
    const all = {
      name: 'takes all inputs together',
      run: () =>
        forAll(this.#setting, this.#operation, this.#runs(), { some: someOf(valid) }, (assignments) =>
          this.#expectSuccess(assignments),
        ),
    };
    return broken.length < 2 ? [all] : [all, this.#namesAll(broken)];
  }

  #namesAll(broken: readonly Assignment[]): Check {
    const several = fc.subarray([...broken, { input: this.#stranger('nobody_knows'), value: '1' }], { minLength: 2 });
    return {
      name: 'names all of several errors',
      run: () =>
        forAll(this.#setting, this.#operation, this.#setting.runs, { some: several }, (assignments) =>
          this.#expect(
            this.#request(assignments),
            422,
            assignments.map(({ input }) => input.name),
          ),
        ),
    };
  }

  unknown(): Check[] {
    const { hasBody, isOpen, inputs } = this.#operation;
    const isNew = (name: string) => !inputs.some((input) => input.name === name);
    const names = fc.stringMatching(/^[a-z][a-z_]{0,9}$/).filter(isNew);
    const edges = ['sort', 'Limit', 'limit[]', 'p_limit', 'p_api_key', 'constructor', '__proto__'].filter(isNew);
    const of = (place: Input['in'], kind: string) => ({
      name: `refuses an unknown ${kind}`,
      run: () =>
        forAll(this.#setting, this.#operation, this.#setting.runs, { some: names, edges }, (name) =>
          this.#expect(this.#request([{ input: { name, in: place }, value: '1' }]), 422, [name]),
        ),
    });
    return [of('query', 'parameter'), ...(hasBody && !isOpen ? [of('body', 'field')] : [])];
  }

  ofBody(): Check[] {
    const request = this.#request([]);
    const noJson = fc.string({ maxLength: 12 }).filter((text) => !isJson(text));
    const noObject: Json[] = [[], [{}], 'text', 1, true, null];
    return [
      {
        name: 'refuses a body that is no JSON',
        run: () =>
          forAll(
            this.#setting,
            this.#operation,
            this.#setting.runs,
            { some: noJson, edges: ['', '{', '{"a":', "{'a':1}"] },
            (body) => this.#expect({ ...request, body }, 400),
          ),
      },
      {
        name: 'refuses a body that is no object',
        run: () =>
          forAll(this.#setting, this.#operation, 0, { some: fc.constantFrom(...noObject), edges: noObject }, (body) =>
            this.#expect({ ...request, body: JSON.stringify(body) }, 422, ['body']),
          ),
      },
    ];
  }

  /** HEAD is GET without the content (RFC 9110, 9.3.2). */
  ofHead(): Check {
    const request = { ...this.#request([]), method: 'HEAD' };
    return {
      name: 'answers HEAD as GET, without the body',
      run: async () => {
        const reply = await this.#setting.client.send(request);
        const { status } = this.#operation;
        if ('status' in reply && reply.status === status && reply.text === '') return;
        throw new Mismatch(request, `${status} without a body`, describeReply(reply));
      },
    };
  }

  #runs(): number {
    const { runs } = this.#setting;
    return isRead(this.#operation) ? runs : Math.ceil(runs / RUNS_PER_CREATION);
  }

  #stranger(name: string): Pick<Input, 'name' | 'in'> {
    return { name, in: this.#operation.hasBody && !this.#operation.isOpen ? 'body' : 'query' };
  }

  /** The request with these values, and with those that cannot lack. */
  #request(assignments: readonly Assignment[]): Request {
    const given = new Set(assignments.map(({ input }) => `${input.in} ${input.name}`));
    const rest = this.#base.filter(({ input }) => !given.has(`${input.in} ${input.name}`));
    return toRequest(this.#operation, [...rest, ...assignments]);
  }

  #expectSuccess(assignments: readonly { input: Input; value: Json }[]): Promise<unknown> {
    const rules = [...this.#base, ...assignments].filter(({ input }) => input.rule).map(({ input }) => input.name);
    return expectAnswer(this.#setting, this.#operation, this.#request(assignments), {
      status: this.#operation.status,
      rules: [...new Set(rules)],
    });
  }

  async #expect(request: Request, status: number, fields?: readonly string[]): Promise<void> {
    await expectAnswer(this.#setting, this.#operation, request, { status, ...(fields ? { fields } : {}) });
  }
}

/** Any of these, and any number of them; shrinks to none. */
function someOf<T>(arbitraries: readonly fc.Arbitrary<T>[]): fc.Arbitrary<T[]> {
  const options = arbitraries.map((arbitrary) => fc.option(arbitrary, { nil: undefined }));
  return fc.tuple(...options).map((values) => values.filter((value) => value !== undefined) as T[]);
}

function describeViolation({ schema }: Input, constraint: string): string {
  const told: Record<string, string> = {
    type: `that is no ${schema.type}`,
    enum: 'that is none of its values',
    minimum: `less than ${schema.minimum}`,
    maximum: `more than ${schema.maximum}`,
    minLength: `shorter than ${schema.minLength}`,
    maxLength: `longer than ${schema.maxLength}`,
    pattern: 'against its pattern',
    format: `that is no ${schema.format}`,
  };
  return told[constraint] ?? constraint;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
