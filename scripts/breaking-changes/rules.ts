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
  operationSecurityItemClassifyRule,
  propertyClassifyRule,
  resolveRef,
  reverseClassifyRuleTransformer,
  transformComapreRules,
} from 'api-smart-diff';
import type { OpenAPIV3 } from 'openapi-types';

/** What breaks a client: narrower inputs and wider outputs. */
export function createRules(): CompareRules {
  // Separate rules for each direction: they cache the comparison of shared schemas.
  const request = createRequestRules();
  const response = transformComapreRules(createRequestRules(), reverseClassifyRuleTransformer);
  return change(openapi3Rules(), {
    '/paths/*/*/parameters': { $: [when((_, after) => hasRequiredItem(after)), breaking, breaking] },
    '/paths/*/*/parameters/*': { $: [when((_, after) => isRequired(after)), breaking, breaking] },
    '/paths/*/*/requestBody': { $: [when((_, after) => isRequired(after)), breaking, breaking] },
    '/paths/*/*/parameters/*/schema': { ...request, $: allBreaking },
    '/paths/*/*/requestBody/content/*/schema': { ...request, $: allBreaking },
    // The library treats the schema of a shared response as a request's.
    '/paths/*/*/responses/*/content/*/schema': { ...response, $: allBreaking },
    '/security/*': { $: operationSecurityItemClassifyRule },
    '/servers/*': { $: [nonBreaking, breaking, breaking], '/url': { $: allBreaking } },
    ...Object.fromEntries(SHARED.map((kind) => [`/components/${kind}`, { $: allAnnotation, skip: true }])),
  });
}

/** Compared where they are used, because only there they are input or output. */
const SHARED = ['schemas', 'responses', 'parameters', 'requestBodies', 'headers', 'examples'];

function createRequestRules(): CompareRules {
  return transformComapreRules(openApiSchemaRules({ version: '3.0.x' }), (rules) =>
    '/nullable' in rules ? change(rules, KEYWORDS) : rules,
  );
}

type Changes = Readonly<Record<string, CompareRules>>;

/** Rules with changes at some paths. */
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
const hasRequiredItem = ({ value, root }: NodeContext) =>
  (value as unknown[]).some((item) => isRequired({ value: item, root }));

// The library gives an empty enum to a side without one.
const hasValues = ({ parent }: NodeContext) => (parent as unknown[]).length > 0;
const isClosed = (property: NodeContext) => getParentContext(property, '', 'additionalProperties')?.value === false;
/** Whether an integer's bounds are within its format. */
const isWithinFormat = ({ value, parent }: NodeContext) => {
  const { type, minimum = -Infinity, maximum = Infinity } = parent as OpenAPIV3.SchemaObject;
  return type === 'integer' && value === 'int32' && minimum >= -(2 ** 31) && maximum < 2 ** 31;
};
const LENGTHS: Readonly<Record<string, number>> = { uuid: 36, date: 10 };
/** Whether a length allows every text of the format. */
const isLengthOfFormat = ({ value, parent }: NodeContext) =>
  (value as number) >= (LENGTHS[(parent as OpenAPIV3.SchemaObject).format ?? ''] ?? Infinity);
const isWidening = (before: unknown, after: unknown) => before === 'integer' && after === 'number';

const [addInput, , , addOutput, removeOutput] = propertyClassifyRule as Extract<ClassifyRule, { length: 6 }>;

/** For each keyword: adding, removing and replacing it in a request, then in a response. */
const KEYWORDS: Changes = {
  '/type': {
    $: [
      breaking,
      nonBreaking,
      when((before, after) => !isWidening(before.value, after.value)),
      nonBreaking,
      breaking,
      when((before, after) => !isWidening(after.value, before.value)),
    ],
  },
  '/format': {
    $: [when((_, after) => !isWithinFormat(after)), nonBreaking, breaking, nonBreaking, breaking, breaking],
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
  '/pattern': { $: [breaking, nonBreaking, breaking, nonBreaking, breaking, breaking] },
  '/nullable': {
    $: [
      nonBreaking,
      when(({ value }) => value === true),
      when(({ value }) => value === true),
      when((_, { value }) => value === true),
      nonBreaking,
      when((_, { value }) => value === true),
    ],
  },
  '/enum/*': {
    $: [
      when((before) => !hasValues(before)),
      when((_, after) => hasValues(after)),
      breaking,
      when((before) => hasValues(before)),
      when((_, after) => !hasValues(after)),
      breaking,
    ],
  },
  '/default': { $: [nonBreaking, breaking, breaking, nonBreaking, nonBreaking, nonBreaking] },
  // Clients must ignore unknown fields, so nothing breaks in a response.
  '/additionalProperties': {
    $: [
      when((_, { value }) => value !== true),
      nonBreaking,
      when((before, after) => before.value === true || after.value === false),
      nonBreaking,
      nonBreaking,
      nonBreaking,
    ],
  },
  '/properties/*': { $: [addInput, when((_, after) => isClosed(after)), breaking, addOutput, removeOutput, breaking] },
};
