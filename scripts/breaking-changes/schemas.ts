// Compares schemas in the normal form of schema.ts. Clients break if a request allows less, or an answer more.

import { isDeepStrictEqual } from 'node:util';
import {
  EXACT,
  isAnnotation,
  isHidden,
  isNullable,
  MAX_NESTING,
  readProperties,
  readTypes,
  type Schema,
  typeOf,
} from '../../src/openapi/schema.ts';
import { type Node, SUBSCHEMAS } from '../../src/openapi/structure.ts';
import { splitChoice } from '../../src/openapi/written-schemas.ts';

export type Use = 'request' | 'answer';

export type Difference = {
  readonly path: readonly string[];
  readonly isBreaking: boolean;
  readonly before: unknown;
  readonly after: unknown;
};

/** The names in either of two objects. */
export function namesOf(one: object, other: object): string[] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])];
}

/** Adds a name before the paths of differences. */
export function below(name: string, differences: readonly Difference[]): Difference[] {
  return differences.map(({ path, ...difference }) => ({ ...difference, path: [name, ...path] }));
}

/** Lists of alternatives: a value has to be one of them, or match one. */
const CHOICES = ['enum', 'anyOf', 'oneOf'];
const LISTS = [...CHOICES, 'allOf', 'required'];
/** If one of these inner schemas allows less, so does the outer one. A change of any other may allow less and more. */
const INNER = SUBSCHEMAS.one.filter((name) => !['if', 'not'].includes(name));

/** Creates the function that finds the differences of two schemas, which may contain themselves. */
export function createComparison(): (use: Use, before: Schema, after: Schema) => Difference[] {
  const known = { request: new Map<Schema, Map<Schema, Difference[]>>(), answer: new Map() };

  function compare(use: Use, before: Schema, after: Schema): Difference[] {
    const found: Map<Schema, Difference[]> = known[use].get(before) ?? new Map();
    known[use].set(before, found);
    if (!found.has(after)) {
      found.set(after, []);
      const [one, other] = [simplify(use, before), simplify(use, after)];
      const all = namesOf(one, other)
        .filter((name) => name !== 'type' || !(one.enum && other.enum))
        .flatMap((name) => below(name, compareKeyword(use, name, one, other)));
      found.set(after, all);
    }
    return found.get(after) ?? [];
  }

  function compareKeyword(use: Use, name: string, one: Node, other: Node): Difference[] {
    const [before, after] = [one[name], other[name]] as [never, never];
    if (SUBSCHEMAS.map.includes(name)) return compareMaps(use, name, one, other);
    if (['oneOf', 'anyOf'].includes(name)) {
      const isWider = isLooser(one, other);
      // Both keywords differ: report one.
      if (isWider || isLooser(other, one)) {
        return name === 'oneOf' ? toDifference(isWider === (use === 'answer'), before, after) : [];
      }
    }
    if (LISTS.includes(name)) {
      const found = compareLists(use, name, before, after);
      return name === 'oneOf' && use === 'request' && !isApart(other) ? asBreaking(found) : found;
    }
    if (name === 'prefixItems') return comparePositions(use, one, other);
    if (typeof before === 'object' && typeof after === 'object') {
      const isCounted = name === 'contains' && ('maxContains' in one || 'maxContains' in other);
      if (isCounted) return asBreaking(compare(use, before, after));
      if (INNER.includes(name)) return compare(use, before, after);
      if (name === 'not') return compare(use === 'request' ? 'answer' : 'request', before, after);
    }
    const isDefault = name === 'default' && use === 'request';
    if (isDeepStrictEqual(before, after) || (isAnnotation(name) && !isDefault)) return [];
    const narrows = NARROWING[name] ?? ((_, after) => after !== undefined);
    const isNarrower =
      use === 'request' ? narrows(before, after, one, other, use) : narrows(after, before, other, one, use);
    return toDifference(isDefault ? before !== undefined : isNarrower, before, after);
  }

  function compareMaps(use: Use, keyword: string, one: Schema, other: Schema): Difference[] {
    const mapOf = (schema: Schema) => schema[keyword as 'properties'] ?? {};
    const [before, after] = [mapOf(one), mapOf(other)];
    return namesOf(before, after).flatMap((name) => {
      const [from, to] = [before[name], after[name]].map((part) => (part && isHidden(part) ? undefined : part));
      if (from && to) {
        const differences = compare(use, from, to);
        // Its properties are often those of the outer schema too: a change may allow less and more.
        return below(name, keyword === 'dependentSchemas' ? asBreaking(differences) : differences);
      }
      if (!from && !to) return [];
      const hidden = (from ? after : before)[name];
      const { additionalProperties } = from ? other : one;
      // The schema of a property that is not declared.
      const rest = keyword === 'dependentSchemas' ? undefined : additionalProperties;
      const isMap = typeof rest === 'object' && !hidden;
      if (isMap && (use === 'request' || to)) return below(name, compare(use, from ?? rest, to ?? rest));
      const isNeeded = keyword === 'properties' ? (other.required ?? []).includes(name) : rest !== false;
      const isNarrower = from ? hidden !== undefined || rest === false : isNeeded;
      return below(name, toDifference(use === 'request' ? isNarrower : !to, from, to));
    });
  }

  /** Compares items by position. If only one list declares a position, the `items` of the other apply to it. */
  function comparePositions(use: Use, one: Node, other: Node): Difference[] {
    const [before, after] = [one, other].map(({ prefixItems = [] }) => prefixItems as Schema[]) as [Schema[], Schema[]];
    const [from, to] = [one, other].map(({ items = {} }) => (items || { not: {} }) as Schema) as [Schema, Schema];
    return (before.length > after.length ? before : after).flatMap((_, index) =>
      below(`${index}`, compare(use, before[index] ?? from, after[index] ?? to)),
    );
  }

  /** Compares the items that only one list has. A new schema counts as the replacement of one that is gone. */
  function compareLists(use: Use, keyword: string, before: unknown[] = [], after: unknown[] = []): Difference[] {
    const isOfSchemas = SUBSCHEMAS.list.includes(keyword);
    const isSame = (one: unknown, other: unknown) =>
      isOfSchemas ? compare(use, one as Schema, other as Schema).length === 0 : isDeepStrictEqual(one, other);
    const gone = before.filter((one) => !after.some((other) => isSame(one, other)));
    const added = after.filter((other) => !before.some((one) => isSame(one, other)));
    const replaced = isOfSchemas ? Math.min(gone.length, added.length) : 0;
    const hasMore = (others: unknown[]) => CHOICES.includes(keyword) && others.length > 0;
    const toBreaking = (isNarrower: boolean) => isNarrower === (use === 'request');
    return [
      ...gone.flatMap((one, index) => {
        const removed = toDifference(toBreaking(hasMore(after)), one, undefined);
        const found = index < replaced ? compare(use, one as Schema, added[index] as Schema) : removed;
        return below(`${before.indexOf(one)}`, found);
      }),
      ...added.slice(replaced).flatMap((other) => {
        return below(`${after.indexOf(other)}`, toDifference(toBreaking(!hasMore(before)), undefined, other));
      }),
    ];
  }

  return compare;
}

/** Whether a oneOf has become an anyOf of the same schemas, of which a value may match several. */
function isLooser({ oneOf, anyOf }: Node, other: Node): boolean {
  return oneOf !== undefined && !anyOf && !other.oneOf && isDeepStrictEqual(oneOf, other.anyOf);
}

/** Whether types, values or a required property show that no value matches two schemas of a oneOf: such a value is invalid. */
function isApart(schema: Schema): boolean {
  const isSplit = (choice: Schema) => !choice.oneOf || splitChoice(choice) !== undefined;
  return isSplit(schema) && (splitChoice(schema)?.cases ?? []).every(({ choice }) => isSplit(choice));
}

/** Makes differences breaking that may allow less and more at once. */
function asBreaking(differences: readonly Difference[]): Difference[] {
  return differences.map((one) => ({ ...one, isBreaking: true }));
}

function toDifference(isBreaking: boolean, before: unknown, after: unknown): Difference[] {
  return [{ path: [], isBreaking, before, after }];
}

/** Returns a schema with its allOf merged, its types as one text, and one keyword each for other properties and other items. */
function simplify(use: Use, schema: Schema): Node {
  const { type, anyOf, unevaluatedItems, unevaluatedProperties, ...merged } = joinNull(mergeAll(schema));
  const { additionalProperties = unevaluatedProperties, items = unevaluatedItems, ...own } = merged;
  const isOfTypes = type === undefined && anyOf?.every(isType);
  const types = [(isOfTypes ? anyOf?.map((choice) => choice.type) : type) ?? []].flat(2);
  // Clients must ignore unknown properties, but those of a map have a type.
  const isAny = additionalProperties !== false && Object.keys(Object(additionalProperties)).every(isAnnotation);
  const isIgnored = isAny || (additionalProperties === false && use === 'answer');
  // A type also limits the values of an enum.
  const isOfType = (value: unknown) => type === undefined || readTypes(schema).includes(typeOf(value));
  return {
    ...own,
    ...(own.enum ? { enum: own.enum.filter(isOfType) } : {}),
    ...(types.length > 0 ? { type: [...new Set(types)].sort().join('|') } : {}),
    ...(anyOf && !isOfTypes ? { anyOf } : {}),
    ...(items === undefined ? {} : { items }),
    ...(isIgnored ? {} : { additionalProperties }),
  };
}

/** Joins a choice of null with the choice beside it: `nullable` of OpenAPI 3.0 becomes two choices, and 3.1 writes one. */
function joinNull({ anyOf = [], ...own }: Schema): Schema {
  const [choice = {}, none] = anyOf;
  const keyword = choice.oneOf ? 'oneOf' : 'anyOf';
  const parts = choice[keyword] ?? [];
  const isJoinable =
    anyOf.length === 2 &&
    isDeepStrictEqual(none, { enum: [null] }) &&
    Object.keys(choice).every((name) => name === keyword || isAnnotation(name)) &&
    !(own.oneOf || parts.length === 0 || parts.some(isNullable));
  if (isJoinable) return { ...own, [keyword]: [...parts, none] };
  return anyOf.length > 0 ? { ...own, anyOf } : own;
}

/** Whether a schema has only a type. The bounds that every integer of a request has do not count. */
function isType({ minimum = EXACT[0], maximum = EXACT[1], ...own }: Schema): boolean {
  return Object.keys(own).join() === 'type' && minimum === EXACT[0] && maximum === EXACT[1];
}

/** Merges the parts of a schema's allOf into it, except keywords on which they differ. */
function mergeAll(schema: Schema, nesting = 0): Schema {
  const { allOf = [], ...own } = schema;
  if (allOf.length === 0 || nesting > MAX_NESTING) return own;
  const merged: Record<string, unknown> = { ...own, ...readProperties(schema) };
  const others: Schema[] = [];
  for (const [name, value] of allOf.flatMap((part) => Object.entries(mergeAll(part, nesting + 1)))) {
    merged[name] ??= value;
    const isMerged = ['properties', 'required'].includes(name) || isAnnotation(name);
    if (!isMerged && !isDeepStrictEqual(merged[name], value)) others.push({ [name]: value });
  }
  return others.length > 0 ? { ...merged, allOf: others } : merged;
}

/** Whether a keyword allows less than before. `one` and `other` are the schemas that contain it. */
type Narrows = (before: never, after: never, one: Schema, other: Schema, use: Use) => boolean;

const isMore = (before = 0, after = 0) => after > before;
const isLess = (before = Infinity, after = Infinity) => after < before;
const isOnlyNow = (before?: boolean, after?: boolean) => after === true && before !== true;

/** Whether an end has a stricter bound; either may be exclusive. An integer above 0 is at least 1. */
function narrowsBound(end: 'minimum' | 'maximum'): Narrows {
  const [open, sign] = end === 'minimum' ? (['exclusiveMinimum', 1] as const) : (['exclusiveMaximum', -1] as const);
  const read = (schema: Schema) => {
    const [closed = -Infinity, excluded = -Infinity] = [schema[end], schema[open]].map(
      (bound) => bound && bound * sign,
    );
    if (schema.type === 'integer') return { bound: Math.max(closed, Math.floor(excluded) + 1), isOpen: false };
    return { bound: Math.max(closed, excluded), isOpen: excluded >= closed && excluded > -Infinity };
  };
  return (_before, _after, one, other) => {
    const [from, to] = [read(one), read(other)];
    return to.bound > from.bound || (to.bound === from.bound && to.isOpen && !from.isOpen);
  };
}

/** The maximum lengths that formats imply. */
const LENGTHS: Readonly<Record<string, number>> = { uuid: 36, date: 10 };

const BITS: Readonly<Record<string, number>> = { int32: 32, float: 32, int64: 64, double: 64 };

/** The bits of a number, 64 without a format; undefined for any other value. */
function bitsOf(format = 'double', { type }: Schema): number | undefined {
  return type === 'string' ? undefined : BITS[format];
}

/** Whether every value of one type is also of the other; `|` joins several types. */
function isWithin(one: string, other: string): boolean {
  const types = other.split('|');
  return one.split('|').every((type) => types.includes(type) || (type === 'integer' && types.includes('number')));
}

/** Ranks what other properties are allowed: none, those of a schema, or any. */
function toOpenness(additional: unknown): number {
  return typeof additional === 'object' ? 1 : additional === false ? 0 : 2;
}

/** Whether a quotient of decimals, which doubles round, is an integer. */
function isInteger(quotient: number): boolean {
  return Number.isInteger(Number(quotient.toPrecision(15)));
}

/** Any other keyword allows less if it is new or different. */
const NARROWING: Readonly<Record<string, Narrows>> = {
  type: (before?: string, after?: string) => after !== undefined && !(before && isWithin(before, after)),
  format: (before: string | undefined, after: string | undefined, one, other, use) => {
    // The value is written in another way, as base64.
    if ([before, after].includes('byte')) return true;
    const [from, to] = [bitsOf(before, one), bitsOf(after, other)];
    // A request's schema already has the bounds that its format implies.
    return from && to ? use === 'answer' && to < from : after !== undefined;
  },
  minimum: narrowsBound('minimum'),
  exclusiveMinimum: narrowsBound('minimum'),
  maximum: narrowsBound('maximum'),
  exclusiveMaximum: narrowsBound('maximum'),
  multipleOf: (before?: number, after?: number) => after !== undefined && !(before && isInteger(before / after)),
  minLength: isMore,
  minItems: isMore,
  minProperties: isMore,
  maxLength: (before: number | undefined, after: number | undefined, _one, { format = '' }) =>
    isLess(before ?? LENGTHS[format], after),
  maxItems: isLess,
  maxProperties: isLess,
  // Without a type null is allowed too.
  nullable: (before: boolean | undefined, after: boolean | undefined, _one, { type }) =>
    type !== undefined && isOnlyNow(after, before),
  uniqueItems: isOnlyNow,
  minContains: (before = 1, after = 1) => after > before,
  maxContains: isLess,
  additionalProperties: (before: unknown, after: unknown) => toOpenness(after) < toOpenness(before),
};
