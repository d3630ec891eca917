// Finds schemas that take twice the time for each level of a value: two of their parts lead to them again, for the same value within.

import { IN_PLACE, readProperties, readTags, type Schema } from './schema.ts';
import { splitChoice } from './written-schemas.ts';

/** The name of a property, or the index of an item. */
type Key = string | number;

/** How a schema leads to another one, for the values within its value that have some keys. */
type Step = {
  readonly target: Schema;
  readonly label: string;
  readonly takes: (key: Key) => boolean;
  /** Keys that it may take. */
  readonly samples: readonly Key[];
  /** What the value has to meet, or not to meet, for the schema to be validated. */
  readonly conditions: readonly Condition[];
};
type Condition = { readonly schema: Schema; readonly isMet: boolean };

/** Names that patterns match: whether two patterns match the same one is only tried. */
const LIKELY = ['a', 'A', '0', 'a_b', 'a-b'];
/** The keywords whose schemas apply to the same value, and are all validated. */
const TOGETHER = [...IN_PLACE, 'not'].filter((name) => name !== 'then' && name !== 'else');

/**
 * Creates the function that gives the name of a property by which a schema leads to itself in two ways at once; undefined if none does.
 * It examines each schema once, also for several roots.
 */
export function createFindDoubling(): (root: Schema) => string | undefined {
  const known = new Map<Schema, readonly Step[]>();
  const stepsOf = (schema: Schema): readonly Step[] => {
    const steps = known.get(schema) ?? readSteps(schema, stepsOf);
    known.set(schema, steps);
    return steps;
  };
  const examined = new Set<Schema>();
  /** Most schemas end: these lead to a schema that contains itself. */
  const endless = new Set<Schema>();
  const goesOn = ({ target }: Step) => endless.has(target);
  const endlessOf = (schema: Schema) => stepsOf(schema).filter(goesOn);
  return (root) => {
    const left = new Set([root].filter((schema) => !examined.has(schema)));
    for (const schema of left) for (const { target } of stepsOf(schema)) if (!examined.has(target)) left.add(target);
    for (const schema of left) {
      examined.add(schema);
      endless.add(schema);
    }
    for (let size = Infinity; left.size < size; ) {
      size = left.size;
      for (const schema of [...left].reverse()) {
        if (!stepsOf(schema).some(goesOn) && endless.delete(schema)) left.delete(schema);
      }
    }
    for (const schema of left) {
      const steps = endlessOf(schema);
      const twice = steps.find((one, index) => {
        const others = steps.slice(index + 1).filter((other) => areTogether(one, other));
        return others.some((other) => meetAgain([one.target, other.target], schema, endlessOf));
      });
      if (twice) return twice.label;
    }
    return undefined;
  };
}

/** Whether two schemas of one value both lead to a schema for one value within. */
function meetAgain(
  start: readonly [Schema, Schema],
  goal: Schema,
  stepsOf: (schema: Schema) => readonly Step[],
): boolean {
  const seen = new Map<Schema, Set<Schema>>();
  const open = [start];
  for (const [one, other] of open) {
    if (one === goal && other === goal) return true;
    const met = seen.get(one) ?? new Set();
    if (met.has(other)) continue;
    seen.set(one, met.add(other));
    for (const first of stepsOf(one)) {
      const together = stepsOf(other).filter((second) => areTogether(first, second));
      open.push(...together.map((second) => [first.target, second.target] as const));
    }
  }
  return false;
}

/** Whether two steps are both taken for one value. */
function areTogether(one: Step, other: Step): boolean {
  // Keys first: to compare conditions takes much longer.
  const areOfOneKey = [...one.samples, ...other.samples].some((key) => one.takes(key) && other.takes(key));
  return areOfOneKey && !one.conditions.some((own) => other.conditions.some((another) => exclude(own, another)));
}

/** Whether no value meets two conditions: they are opposite, or require a property with different values. */
function exclude(one: Condition, other: Condition): boolean {
  if (one.schema === other.schema) return one.isMet !== other.isMet;
  const tagsOf = ({ schema }: Condition, name: string) => readTags({ ...schema, type: 'object' }, name);
  const areApart = (name: string) => {
    const [tags, others] = [tagsOf(one, name), tagsOf(other, name)];
    return tags.length > 0 && others.length > 0 && !tags.some((tag) => others.includes(tag));
  };
  return one.isMet && other.isMet && Object.keys(readProperties(one.schema).properties).some(areApart);
}

/** The steps of a schema, and of the schemas that apply to the same value. */
function readSteps(schema: Schema, stepsOf: (part: Schema) => readonly Step[]): readonly Step[] {
  const node = schema as Readonly<Record<string, unknown>>;
  const partsOf = (name: string) =>
    Object.entries(Object(node[name])).filter((entry): entry is [string, Schema] => isSchema(entry[1]));
  const to = (name: string, samples: readonly Key[], takes: Step['takes'], target = node[name]): Step[] =>
    isSchema(target) ? [{ target, label: name, samples, takes, conditions: [] }] : [];
  /** The values that no other schema is for. */
  const toRest = (name: string, kind: 'string' | 'number', known: readonly Step[]) => {
    const samples = kind === 'number' ? [known.length] : LIKELY;
    return to(name, samples, (key) => typeof key === kind && !known.some(({ takes }) => takes(key)));
  };
  const properties = [
    ...partsOf('properties').flatMap(([name, part]) => to(name, [name], (key) => key === name, part)),
    ...partsOf('patternProperties').flatMap(([text, part]) => {
      const pattern = new RegExp(text, 'u');
      const samples = [...LIKELY, text.replace(/^\^|\$$/g, '')];
      return to(text, samples, (key) => typeof key === 'string' && pattern.test(key), part);
    }),
  ];
  const items = partsOf('prefixItems').flatMap(([index, part]) =>
    to('prefixItems', [Number(index)], (key) => key === Number(index), part),
  );
  const split = splitChoice(schema);
  const together = TOGETHER.filter((name) => name !== split?.keyword).flatMap((name) =>
    name === 'if' || name === 'not' ? [node[name]] : partsOf(name).map(([, part]) => part),
  );
  const under = (when: unknown, part: unknown, isMet = true): Step[] => {
    if (!isSchema(when) || !isSchema(part)) return [];
    return stepsOf(part).map((step) => ({ ...step, conditions: [...step.conditions, { schema: when, isMet }] }));
  };
  const own = [
    ...[...properties, ...toRest('additionalProperties', 'string', properties)],
    ...[...items, ...toRest('items', 'number', items), ...to('contains', [0], (key) => typeof key === 'number')],
    ...together.filter(isSchema).flatMap(stepsOf),
    ...(split?.cases ?? []).flatMap(({ when, choice }) => under(when, choice)),
    ...[...under(node.if, node.then), ...under(node.if, node.else, false)],
  ];
  const unknown = [...toRest('unevaluatedProperties', 'string', own), ...toRest('unevaluatedItems', 'number', own)];
  return [...own, ...unknown];
}

function isSchema(part: unknown): part is Schema {
  return typeof part === 'object' && part !== null;
}
