// The document as the checks need it: the gateway's own model, with validators for inputs and answers.

import type { ValidateFunction } from 'ajv';
import type { OpenAPIV3 } from 'openapi-types';
import { compile, compileSchema, createAjv } from '../../src/openapi/compile.ts';
import { DocumentError } from '../../src/openapi/document.ts';
import { findKeyScheme } from '../../src/openapi/examples.ts';
import { type Operation as Compiled, type DocumentParameter, declares } from '../../src/openapi/operations.ts';
import { allowsOnlyObjects, isHidden, type Schema as ModelSchema, readProperties } from '../../src/openapi/schema.ts';
import { normalizePath, type Styled } from '../../src/openapi/url.ts';
import type { Json } from '../../src/store/store.ts';

export type Schema = OpenAPIV3.SchemaObject & ModelSchema;

type Described = { readonly schema: Schema; readonly validate: ValidateFunction };

/** A parameter, or a field of the body. */
export type Input = Described &
  Pick<Styled, 'style' | 'explode'> & {
    readonly name: string;
    readonly in: 'query' | 'header' | 'path' | 'body';
    readonly required: boolean;
    /** The first example of a required input. */
    readonly example: Json | undefined;
    /** `x-rule`: the database may refuse values that the schema allows. */
    readonly rule: string | undefined;
    readonly 'x-filter'?: Extended['x-filter'];
  };

/** A filter of a list, and the property it applies to. `match` is `none` if no property shows it. */
export type Filter = Input & {
  readonly property: string;
  readonly match: (typeof MATCHES)[number];
};

const MATCHES = ['equals', 'contains', 'from', 'until', 'none'] as const;

export type DescribedAnswer = ReturnType<typeof readAnswer>;
export type Operation = ReturnType<typeof readOperation>;
export type ListOperation = Operation & { readonly list: NonNullable<Operation['list']> };
export type Contract = Awaited<ReturnType<typeof readContract>>;

type Extended = { 'x-rule'?: string; 'x-filter'?: Partial<Pick<Filter, 'property' | 'match'>> };
type Parameter = OpenAPIV3.ParameterObject & {
  schema: Schema & Extended;
  place?: DocumentParameter['place'];
} & Extended;

/** Statuses of the gateway itself, and of a refused key. */
const BY_GATEWAY = [400, 401, 405, 408, 413, 417, 422, 429, 431];

const ajv = createAjv();
/** The validators by schema. Many answers share a schema, which must not change afterwards. A schema may be `true`. */
const validators = new Map<Schema, ValidateFunction>();

/** The form of a gateway's refusal that the document does not declare. */
const REFUSAL = readAnswer('', {
  description: '',
  content: { 'application/json': { schema: { type: 'object', required: ['error'], maxProperties: 1 } } },
});

/** Reads the operations of a document, which may be compiled already. Throws DocumentError if the gateway could not serve it. */
export async function readContract(document: OpenAPIV3.Document, compiling = compile(document)) {
  const { operations: compiled, apiRoot, match } = await compiling;
  const operations = [...compiled.values()].map(readOperation);
  /** The path in the document that matches a request; undefined if none does. */
  const pathOf = (method: string, target: string) => {
    try {
      return match(method.toLowerCase(), normalizePath(apiRoot + target)).source.path;
    } catch {
      return undefined;
    }
  };
  const keyHeader = findKeyScheme(document)?.name ?? '';
  return { document, operations, lists: operations.filter(isList), keyHeader, pathOf };
}

export function isList(operation: Operation): operation is ListOperation {
  return operation.list !== undefined;
}

function readOperation(compiled: Compiled) {
  const { body, page, source, status } = compiled;
  const parameters = source.parameters as readonly Parameter[];
  const whole =
    body && readParameter({ name: 'body', in: 'body', required: body.isRequired, schema: body.schema as Schema });
  const inputs = [...parameters.map(readParameter), ...(whole ? readFields(whole) : [])];
  const answers = new Map(
    Object.entries(source.responses).map(([code, response]) => [code, readAnswer(code, response)]),
  );
  const success = answers.get(String(status)) as DescribedAnswer;
  return {
    ...compiled,
    ...{ method: source.method.toUpperCase(), path: source.path, inputs, success },
    /** The answers by status, or by a range of statuses. */
    answers,
    /** The body as one input. `inputs` has its fields, or the body itself if it is not an object. */
    whole,
    /** Whether the body has conditions on several fields at once, such as `oneOf`. */
    isComposed: body !== undefined && isComposed(body.schema),
    list: page && readList(page, inputs, success),
  };
}

/** Keywords that make the fields of a body depend on each other. */
const CONDITIONS =
  `anyOf oneOf not if dependentRequired dependentSchemas minProperties maxProperties propertyNames`.split(' ');

function isComposed(schema: ModelSchema): boolean {
  return CONDITIONS.some((keyword) => keyword in schema) || (schema.allOf ?? []).some(isComposed);
}

function readParameter({ schema, examples = {}, required = false, 'x-rule': rule, ...source }: Parameter): Input {
  const [named] = Object.values(examples) as OpenAPIV3.ExampleObject[];
  const example = (required ? (named?.value ?? source.example ?? schema.example) : undefined) as Json | undefined;
  return {
    ...source,
    ...describe(schema),
    ...{ in: source.in as Input['in'], required, example, rule: rule ?? schema['x-rule'] },
  };
}

function readFields(whole: Input): Input[] {
  if (!allowsOnlyObjects(whole.schema)) return [whole];
  const { properties, required } = readProperties(whole.schema);
  const sent = Object.entries(properties).filter(([, schema]) => !isHidden(schema));
  return sent.map(([name, schema]) => {
    const isRequired = whole.required && required.includes(name);
    return readParameter({ name, in: 'body', required: isRequired, schema: schema as Schema });
  });
}

/** Reads the answer for a status, or for a range such as `4XX` or `default`. Its headers are by lower-case name. */
function readAnswer(code: string, { content, headers = {} }: OpenAPIV3.ResponseObject) {
  const described = Object.entries(headers).map(([name, header]) => {
    const { schema = {}, required: isRequired = false } = header as OpenAPIV3.HeaderObject;
    return [name.toLowerCase(), { ...describe(schema as Schema), isRequired }] as const;
  });
  const schema = (content?.['application/json']?.schema ?? {}) as Schema;
  return { ...describe(schema), code, headers: new Map(described), isEmpty: content === undefined };
}

/** A schema with its validator. */
export function describe(schema: Schema): Described {
  const validate = validators.get(schema) ?? compileSchema(ajv, schema);
  validators.set(schema, validate);
  return { schema, validate };
}

/** The inputs of a list with pages, and the properties of its records. */
function readList(page: NonNullable<Compiled['page']>, inputs: readonly Input[], { schema }: DescribedAnswer) {
  const inQuery = inputs.filter((input) => input.in === 'query');
  const find = (name: string | undefined) => inQuery.find((input) => input.name === name);
  const [limit, offset, after] = [page.limit.name, page.offset.name, page.after?.name].map(find);
  const properties = Object.keys(readProperties(schema.items ?? {}).properties);
  const filters = inQuery.filter((input) => ![limit, offset, after].includes(input));
  return {
    ...{ limit: limit as Input, offset: offset as Input, after, properties },
    filters: filters.map((input) => toFilter(input, properties)),
  };
}

function toFilter(input: Input, properties: readonly string[]): Filter {
  const { property = input.name, match: wanted = 'equals' } = input['x-filter'] ?? {};
  const match = MATCHES.find((one) => one === wanted);
  const text = `x-filter of ${input.name}: match is ${MATCHES.join(' or ')}, and not ${wanted}`;
  if (!match) throw new DocumentError([{ text }]);
  const isKnown = properties.length === 0 || properties.includes(property) || match === 'none';
  if (input['x-filter']?.property !== undefined && !isKnown) {
    throw new DocumentError([{ text: `x-filter of ${input.name}: the records have no property ${property}` }]);
  }
  return { ...input, property, match: properties.includes(property) ? match : 'none' };
}

/** Finds the description of an answer. */
export function findAnswer({ answers }: Operation, status: number): DescribedAnswer | undefined {
  const declared = answers.get(`${status}`) ?? answers.get(`${Math.floor(status / 100)}XX`) ?? answers.get('default');
  return declared ?? (BY_GATEWAY.includes(status) ? REFUSAL : undefined);
}

/** Whether a declared refusal, such as 404, comes from the database. */
export function isRaised(operation: Operation, status: number): boolean {
  return status >= 400 && status < 500 && !BY_GATEWAY.includes(status) && declares(operation, status);
}
