// Writes normalized schemas for a validator.

import {
  IN_PLACE,
  isAnnotation,
  pick,
  readProperties,
  readTags,
  readTypes,
  type Schema,
  toTagged,
  toType,
  typeOf,
  typesOf,
} from './schema.ts';
import { mapChildren, type Node, SUBSCHEMAS } from './structure.ts';

/**
 * The keyword around a schema that validates each value once. Two parts of a recursive schema can reach the same inner value, and the
 * time would double with each level.
 */
export const ONCE = 'once';

/**
 * Prepares schemas for a validator, without annotations. A schema that is used several times, or within itself, becomes a definition,
 * and its uses become references with `base`. Definitions follow those within them. No two places share an object.
 */
export function writeSchemas(roots: readonly Schema[], base: string) {
  const uses = new Map<unknown, number>();
  const simplified = new Map<unknown, Node>();
  /** All schemas, each after those within it, unless they contain each other. */
  const ordered = new Set<unknown>();
  /** The schemas that contain themselves, or lead to one that does. */
  const endless = new Set<unknown>();
  const open: unknown[] = [];
  const use = (schema: unknown) => {
    uses.set(schema, (uses.get(schema) ?? 0) + 1);
    if (!simplified.has(schema)) open.push(schema);
  };
  roots.forEach(use);
  // A loop, because recursion would be too deep for long chains of schemas.
  for (let schema = open.at(-1); open.length > 0; schema = open.at(-1)) {
    const known = simplified.get(schema);
    if (known) {
      mapChildren('schema', known, (_kind, part) => {
        if (!ordered.has(part) || endless.has(part)) endless.add(schema);
      });
      ordered.add(open.pop());
      continue;
    }
    const own = simplifyChoice(schema as Schema);
    simplified.set(schema, own);
    mapChildren('schema', own, (_kind, part) => use(part));
  }
  const shared = [...ordered].filter((schema) => uses.get(schema) !== 1);
  const names = new Map(shared.map((schema, index) => [schema, `s${index}`]));
  const write = (schema: unknown): object => {
    const name = names.get(schema);
    return name === undefined ? writeHere(schema) : { $ref: `${base}#/$defs/${name}` };
  };
  const writeHere = (source: unknown): object => {
    const schema = simplified.get(source) ?? {};
    // openapi-backend would not require a field of the format binary.
    const validates = (name: string) => !isAnnotation(name) && !(name === 'format' && schema.format === 'binary');
    const kept = pick(schema, (name) => validates(name) || name.endsWith('-message'));
    const data = pick(kept, (name) => !Object.values(SUBSCHEMAS).flat().includes(name));
    const parts = mapChildren('schema', kept, (_kind, part, [keyword]) =>
      endless.has(part) && !IN_PLACE.includes(`${keyword}`) ? { [ONCE]: write(part) } : write(part),
    );
    const { patternProperties, allOf = [], ...others } = parts as Schema;
    // Ajv adds the properties that a pattern matches to those that the choices beside it know. Its code fails if no choice matches.
    const isApart = patternProperties !== undefined && !('additionalProperties' in parts);
    const own = isApart ? { ...others, allOf: [...allOf, { patternProperties }] } : parts;
    return { ...own, ...structuredClone(data) };
  };
  return { write, definitions: Object.fromEntries(shared.map((schema) => [names.get(schema), writeHere(schema)])) };
}

/**
 * Rewrites a choice between types, between values, or between objects that a required property tells apart. The result allows the
 * same values, but reports only the errors of the schema that applies instead of those of every schema.
 */
function simplifyChoice(schema: Schema): Node {
  const split = splitChoice(schema);
  if (!split) return schema;
  const { keyword, known, cases } = split;
  const { [keyword]: _choices, ...own } = schema;
  const parts = cases.map(({ when, choice }) => ({ if: { not: when }, else: choice }));
  const first = parts.length > 0 ? { if: known, else: known } : known;
  return { ...own, allOf: [...(own.allOf ?? []), first, ...parts] };
}

/** Splits a choice into cases, each with a schema. `known` allows the values that select a case. Undefined if all schemas must be tried. */
export function splitChoice(schema: Schema) {
  const keyword = schema.oneOf ? 'oneOf' : 'anyOf';
  const choices = schema[keyword] ?? [];
  if (choices.length === 0) return undefined;
  const groups = [...Map.groupBy(choices, (choice) => typesOf(choice).join()).values()].map((group): Schema[] => {
    const [first = {}, ...others] = group;
    return others.length > 0 ? [first, { [keyword]: group }] : [first, first];
  });
  const types = joinValues(groups.map(([first = {}]) => typesOf(first)));
  if (groups.length > 1 && types.length > 0) {
    const cases = groups.map(([first = {}, choice = {}]) => ({ when: toType(typesOf(first)), choice }));
    return { keyword, known: toType(types), cases } as const;
  }
  const values = joinValues(choices.map(readEnum));
  if (values.length > 0) return { keyword, known: { enum: values }, cases: [] } as const;
  const tagsOf = (name: string) => choices.map((choice) => readTags(choice, name));
  const tag = Object.keys(readProperties(choices[0] ?? {}).properties).find(
    (name) => joinValues(tagsOf(name)).length > 0,
  );
  if (tag === undefined) return undefined;
  const cases = choices.map((choice) => ({ when: toTagged(tag, readTags(choice, tag)), choice }));
  return { keyword, known: toTagged(tag, joinValues(tagsOf(tag))), cases } as const;
}

/** Joins lists of values; empty if a list is empty or two have a value in common. */
function joinValues<T>(lists: readonly (readonly T[])[]): readonly T[] {
  const all = lists.flat();
  return lists.every((list) => list.length > 0) && new Set(all).size === all.length ? all : [];
}

/** The values of a schema that is only an enum; none for any other schema. */
function readEnum(schema: Schema): readonly unknown[] {
  const isAlone = Object.keys(schema).every((name) => name === 'enum' || name === 'type' || isAnnotation(name));
  return isAlone ? (schema.enum?.filter((value) => readTypes(schema).includes(typeOf(value))) ?? []) : [];
}
