// The rules of api-smart-diff, with corrections.

import {
  allAnnotation,
  allBreaking,
  breaking,
  breakingIf,
  type ClassifyRule,
  type CompareRules,
  type DiffTypeClassifier,
  getParentContext,
  type NodeContext,
  nonBreaking,
  openApiSchemaRules,
  openapi3Rules,
  propertyClassifyRule,
  resolveRef,
  reverseClassifyRuleTransformer,
  transformComapreRules,
} from 'api-smart-diff';
import type { OpenAPIV3 } from 'openapi-types';
import { PARTS } from './served.ts';

/** Narrower inputs and wider outputs break clients. */
export function createRules(): CompareRules {
  // Separate rules for each direction: they cache the comparison of shared schemas.
  const request = createRequestRules();
  const response = transformComapreRules(createRequestRules(), reverseClassifyRuleTransformer);
  return change(openapi3Rules(), {
    '/paths/*/*/parameters/*': { $: [when((_, after) => isRequired(after)), breaking, breaking] },
    '/paths/*/*/requestBody': { $: [when((_, after) => isRequired(after)), breaking, breaking] },
    '/paths/*/*/parameters/*/style': { $: allBreaking },
    '/paths/*/*/parameters/*/schema': { ...request, $: allBreaking },
    '/paths/*/*/requestBody/content/*/schema': { ...request, $: allBreaking },
    // The library treats the schema of a shared response as a request's.
    '/paths/*/*/responses/*/content/*/schema': { ...response, $: allBreaking },
    '/paths/*/*/responses/*/headers/*/schema': { ...response, $: allBreaking },
    '/paths/*/*/responses/*/headers/*/required': { $: [nonBreaking, when(isTrue), when(isTrue)] },
    '/servers/*': { $: [nonBreaking, breaking, breaking], '/url': { $: allBreaking } },
    // Shared schemas are compared where they are used, as input or output.
    ...Object.fromEntries(
      Object.values(PARTS).map((part) => [`/components/${part}`, { $: allAnnotation, skip: true }]),
    ),
  });
}

function createRequestRules(): CompareRules {
  return transformComapreRules(openApiSchemaRules({ version: '3.0.x' }), (rules) =>
    '/nullable' in rules ? { ...change(rules, KEYWORDS), '/not': narrowing } : rules,
  );
}

type Changes = Readonly<Record<string, CompareRules>>;

/** Replaces rules at some paths. */
function change(rules: CompareRules, changes: Changes): CompareRules {
  return Object.entries(changes).reduce((all, [path, rule]) => changeAt(all, path.slice(1).split('/'), rule), rules);
}

function changeAt(rules: CompareRules, [name, ...rest]: string[], rule: CompareRules): CompareRules {
  if (name === undefined) return { ...rules, ...rule };
  const key = `/${name}` as const;
  const child = rules[key] ?? {};
  const changed = (old: CompareRules) => changeAt(old, rest, rule);
  return { ...rules, [key]: typeof child === 'function' ? (context) => changed(child(context)) : changed(child) };
}

function when(isBreaking: (before: NodeContext, after: NodeContext) => boolean): DiffTypeClassifier {
  return ({ before, after }) => breakingIf(isBreaking(before, after));
}

const isRequired = ({ value, root }: Pick<NodeContext, 'value' | 'root'>) =>
  (resolveRef(value, root) as { required?: boolean }).required === true;

const isTrue = ({ value }: NodeContext) => value === true;
// The library gives an empty list to a side without one.
const hasValues = ({ parent }: NodeContext) => (parent as unknown[]).length > 0;
const isClosed = (property: NodeContext) => getParentContext(property, '', 'additionalProperties')?.value === false;
/** Whether a format only repeats the bounds of a number, which requests always have. */
const isOfNumber = ({ value, parent }: NodeContext) =>
  ['int32', 'int64', 'float', 'double'].includes(String(value)) && (parent as OpenAPIV3.SchemaObject).type !== 'string';
const LENGTHS: Readonly<Record<string, number>> = { uuid: 36, date: 10 };
/** Whether a maximum length allows every text of the format. */
const isLengthOfFormat = ({ value, parent }: NodeContext) =>
  (value as number) >= (LENGTHS[(parent as OpenAPIV3.SchemaObject).format ?? ''] ?? Infinity);
/** Whether every value of one type is also of the other; `|` joins several types. */
const isWithin = (one: unknown, other: unknown) => {
  const types = String(other).split('|');
  return String(one)
    .split('|')
    .every((type) => types.includes(type) || (type === 'integer' && types.includes('number')));
};
/** Whether `after` has a stricter bound than `before`; either may be exclusive. An integer above 0 is at least 1. */
const isNarrower = (end: 'minimum' | 'maximum', { parent: before }: NodeContext, { parent: after }: NodeContext) => {
  const [open, sign] = end === 'minimum' ? (['exclusiveMinimum', 1] as const) : (['exclusiveMaximum', -1] as const);
  const [one, other] = ([before, after] as OpenAPIV3.SchemaObject[]).map((schema) => {
    const [closed = -Infinity, excluded = -Infinity] = [schema[end], schema[open]].map((n) =>
      n === undefined ? n : Number(n) * sign,
    );
    if (schema.type === 'integer') return { bound: Math.max(closed, Math.floor(excluded) + 1), isOpen: false };
    return { bound: Math.max(closed, excluded), isOpen: excluded >= closed && excluded > -Infinity };
  }) as [{ bound: number; isOpen: boolean }, { bound: number; isOpen: boolean }];
  return other.bound > one.bound || (other.bound === one.bound && other.isOpen && !one.isOpen);
};

const [addInput, , , addOutput] = propertyClassifyRule as Extract<ClassifyRule, { length: 6 }>;

const bound = (end: 'minimum' | 'maximum'): CompareRules => {
  const narrower = when((before, after) => isNarrower(end, before, after));
  const wider = when((before, after) => isNarrower(end, after, before));
  return { $: [narrower, narrower, narrower, wider, wider, wider] };
};

/** A keyword that only narrows. A change within it may do both. */
const narrowing: CompareRules = {
  $: [breaking, nonBreaking, breaking, nonBreaking, breaking, breaking],
  '/**': { $: allBreaking },
};
/** The rule of a number of characters, items or properties: every value has at least 0. */
const least: CompareRules = {
  $: [
    when((_, after) => (after.value as number) > 0),
    nonBreaking,
    when((before, after) => (after.value as number) > (before.value as number)),
    nonBreaking,
    when((before) => (before.value as number) > 0),
    when((before, after) => (after.value as number) < (before.value as number)),
  ],
};
/** The rule of a value or schema in a list of which one has to fit. */
const oneOfSeveral: CompareRules = {
  $: [
    when((before) => !hasValues(before)),
    when((_, after) => hasValues(after)),
    breaking,
    when((before) => hasValues(before)),
    when((_, after) => !hasValues(after)),
    breaking,
  ],
};
/** The keywords of 3.1 that the library does not know. */
const KEYWORDS_OF_3_1 = `if then else contains minContains maxContains prefixItems dependentRequired dependentSchemas
  patternProperties unevaluatedItems unevaluatedProperties`.split(/\s+/);

/** By keyword: the effect of adding, removing and replacing it, in a request and in a response. */
const KEYWORDS: Changes = {
  '/minimum': bound('minimum'),
  '/exclusiveMinimum': bound('minimum'),
  '/maximum': bound('maximum'),
  '/exclusiveMaximum': bound('maximum'),
  '/type': {
    $: [
      breaking,
      nonBreaking,
      when((before, after) => !isWithin(before.value, after.value)),
      nonBreaking,
      breaking,
      when((before, after) => !isWithin(after.value, before.value)),
    ],
  },
  '/format': {
    $: [
      when((_, after) => !isOfNumber(after)),
      nonBreaking,
      when((before, after) => !isOfNumber(before) || !isOfNumber(after)),
      nonBreaking,
      breaking,
      breaking,
    ],
  },
  '/maxLength': {
    $: [
      when((_, after) => !isLengthOfFormat(after)),
      nonBreaking,
      when((before, after) => (after.value as number) < (before.value as number)),
      nonBreaking,
      breaking,
      when((before, after) => (after.value as number) > (before.value as number)),
    ],
  },
  '/pattern': narrowing,
  // What they do is in the schemas: a request or an answer lacks the property.
  '/readOnly': { $: allAnnotation },
  '/writeOnly': { $: allAnnotation },
  ...Object.fromEntries(KEYWORDS_OF_3_1.map((keyword) => [`/${keyword}`, narrowing])),
  '/minLength': least,
  '/minItems': least,
  '/minProperties': least,
  '/nullable': {
    $: [
      nonBreaking,
      when(isTrue),
      when(isTrue),
      when((_, after) => isTrue(after)),
      nonBreaking,
      when((_, after) => isTrue(after)),
    ],
  },
  '/enum/*': oneOfSeveral,
  '/anyOf/*': oneOfSeveral,
  '/oneOf/*': oneOfSeveral,
  '/default': { $: [nonBreaking, breaking, breaking, nonBreaking, nonBreaking, nonBreaking] },
  // In a response, clients must ignore unknown fields, but those of a map have a type.
  '/additionalProperties': {
    $: [
      when((_, { value }) => value !== true),
      nonBreaking,
      when((before, after) => before.value === true || after.value === false),
      nonBreaking,
      when((before) => typeof before.value === 'object'),
      when((_, after) => isTrue(after)),
    ],
  },
  '/properties/*': { $: [addInput, when((_, after) => isClosed(after)), breaking, addOutput, breaking, breaking] },
};
