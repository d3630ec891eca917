// What of the document a run has shown: the statuses of its operations, their inputs, and the keywords of the inputs' schemas. An
// answer is compared with its whole schema, so its keywords are shown with its status.

import { SUBSCHEMAS } from '../../src/openapi/structure.ts';
import type { Input, Operation, Schema } from './operations.ts';

/** A part of the document, such as the keyword `minimum` of an input; with a reason if the run has not shown it. */
export type Part = {
  readonly operation: string;
  readonly kind: 'status' | 'input' | 'keyword';
  readonly name: string;
  readonly reason?: string;
};

/** Keywords that refuse a value. */
const ASSERTIONS =
  `additionalProperties const contains dependentRequired enum exclusiveMaximum exclusiveMinimum format maxItems
  maxLength maxProperties maximum minItems minLength minProperties minimum multipleOf not pattern propertyNames required type
  uniqueItems`.split(/\s+/);

/** Collects what a run shows. */
export class Coverage {
  readonly #shown = new Set<string>();
  readonly #reasons = new Map<string, string>();

  /** An answer of this status was as the document says. */
  showStatus({ id }: Operation, status: number): void {
    this.#shown.add(`${id} ${status}`);
  }

  /** An operation takes what a schema allows, or refuses what a keyword of it does not. */
  showInput({ id }: Operation, { name }: Input, keyword = ''): void {
    this.#shown.add(`${id} ${name} ${keyword}`);
  }

  /** Why a status is not asked for. */
  excuse({ id }: Operation, status: number, reason: string): void {
    this.#reasons.set(`${id} ${status}`, reason);
  }

  /** All parts of these operations. */
  report(operations: readonly Operation[]): Part[] {
    return operations.flatMap((operation) => {
      const { id, answers, ranges, inputs } = operation;
      const part = (kind: Part['kind'], name: string, key: string, reason: string): Part => ({
        ...{ operation: id, kind, name },
        ...(this.#shown.has(`${id} ${key}`) ? {} : { reason: this.#reasons.get(`${id} ${key}`) ?? reason }),
      });
      const NOT_SEEN = 'no request of the run led to it';
      return [
        ...[...answers.keys()].filter(Number).map((status) => part('status', `${status}`, `${status}`, NOT_SEEN)),
        ...[...ranges.keys()].map((range) => part('status', range, range, NOT_SEEN)),
        ...inputs.flatMap((input) => [
          part('input', input.name, `${input.name} `, 'no value of it was taken'),
          ...keywordsOf(input).map((keyword) =>
            part('keyword', `${input.name} ${keyword}`, `${input.name} ${keyword}`, 'no check breaks it'),
          ),
        ]),
      ];
    });
  }
}

/** The keywords of an input's schema that may refuse a value, with those inside as paths such as `items.format`. */
function keywordsOf(input: Input): string[] {
  const isText = ({ type }: Schema) => input.in !== 'body' && type === 'string';
  // A schema may contain itself.
  const seen = new Set<Schema>();
  const walk = (schema: Schema, prefix: string): string[] => {
    if (seen.has(schema)) return [];
    seen.add(schema);
    const own = ASSERTIONS.filter((name) => name in schema && !(name === 'type' && isText(schema)));
    const inside = (name: string, part: unknown) => walk((part ?? {}) as Schema, `${prefix}${name}.`);
    const value = (name: string) => (schema as Record<string, unknown>)[name];
    return [
      ...own.map((name) => prefix + name),
      ...SUBSCHEMAS.one.flatMap((name) => (typeof value(name) === 'object' ? inside(name, value(name)) : [])),
      ...[...SUBSCHEMAS.list, ...SUBSCHEMAS.map].flatMap((name) =>
        Object.entries(value(name) ?? {}).flatMap(([key, part]) => inside(`${name}.${key}`, part)),
      ),
    ];
  };
  return walk(input.schema, '');
}
