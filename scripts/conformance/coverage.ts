// The parts of the document that a run has tested: statuses, inputs, and the keywords of the inputs' schemas. The keywords of an answer
// are tested with its status.

import { mapChildren } from '../../src/openapi/structure.ts';
import type { Input, Operation, Schema } from './contract.ts';

/** A part of the document, such as the keyword `minimum` of an input, with the reason if it was not tested. */
export type Part = {
  readonly operation: string;
  readonly kind: 'status' | 'input' | 'keyword';
  readonly name: string;
  readonly reason?: string;
};

/** Default reasons. */
const REASONS = {
  status: 'no request of the run led to it',
  input: 'no value of it was taken',
  keyword: 'no check breaks it',
};

/** Keywords that can refuse a value. */
const ASSERTIONS =
  `additionalProperties const contains dependentRequired enum exclusiveMaximum exclusiveMinimum format maxItems
  maxLength maxProperties maximum minItems minLength minProperties minimum multipleOf not pattern propertyNames required type
  uniqueItems`.split(/\s+/);

/** Records the tested parts of a run. */
export class Coverage {
  /** Why a part is not tested; undefined if it is. */
  readonly #reasons = new Map<string, string | undefined>();

  /** Records a correct status, an accepted input, or a keyword that refused a value. */
  show({ id }: Operation, kind: Part['kind'], name: string): void {
    this.#reasons.set(`${id} ${kind} ${name}`, undefined);
  }

  /** Records why a status is not tested. */
  excuse({ id }: Operation, status: number, reason: string): void {
    const key = `${id} status ${status}`;
    if (!this.#reasons.has(key)) this.#reasons.set(key, reason);
  }

  /** Lists all parts of these operations. */
  report(operations: readonly Operation[]): Part[] {
    return operations.flatMap((operation) => {
      const toPart = (kind: Part['kind'], name: string): Part => {
        const key = `${operation.id} ${kind} ${name}`;
        const reason = this.#reasons.has(key) ? this.#reasons.get(key) : REASONS[kind];
        return { operation: operation.id, kind, name, ...(reason === undefined ? {} : { reason }) };
      };
      return [
        ...[...operation.answers.keys()].map((code) => toPart('status', code)),
        ...operation.inputs.flatMap((input) => [
          toPart('input', input.name),
          ...keywordsOf(input).map((keyword) => toPart('keyword', `${input.name} ${keyword}`)),
        ]),
      ];
    });
  }
}

/** The keywords of an input's schema that can refuse a value; nested ones as paths such as `items.format`. */
function keywordsOf(input: Input): string[] {
  const isText = ({ type }: Schema) => input.in !== 'body' && type === 'string';
  // A schema may contain itself.
  const seen = new Set<unknown>();
  const walk = (schema: Schema, prefix: string): string[] => {
    if (seen.has(schema)) return [];
    seen.add(schema);
    const own = ASSERTIONS.filter((name) => name in schema && !(name === 'type' && isText(schema)));
    const all = own.map((name) => prefix + name);
    mapChildren('schema', { ...schema }, (_kind, part, place) => {
      if (typeof part === 'object') all.push(...walk(part as Schema, `${prefix}${place.join('.')}.`));
    });
    return all;
  };
  return walk(input.schema, '');
}
