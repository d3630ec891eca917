// The document's operations as the checks need them: the gateway's own model, with validators for values and answers.

import type { ValidateFunction } from 'ajv';
import type { OpenAPIV3 } from 'openapi-types';
import { compile, compileSchema, createAjv } from '../../src/openapi/compile.ts';
import { DocumentError } from '../../src/openapi/document.ts';
import { findKeyScheme } from '../../src/openapi/examples.ts';
import type { Operation as Compiled } from '../../src/openapi/operations.ts';
import {
  allowsOnlyObjects,
  isResponseOnly,
  type Schema as ModelSchema,
  readProperties,
} from '../../src/openapi/schema.ts';
import type { Styled } from '../../src/openapi/styles.ts';
import type { Json } from '../../src/store/store.ts';

export type Schema = OpenAPIV3.SchemaObject & ModelSchema;

/** What an input or an answer has to be. */
type Described = { readonly schema: Schema; readonly validate: ValidateFunction };

/** A parameter, or a field of the body. */
export type Input = Described &
  Pick<Styled, 'style' | 'explode'> & {
    readonly name: string;
    readonly in: 'query' | 'header' | 'path' | 'body';
    readonly required: boolean;
    /** Whether it is the whole body, which is no object. */
    readonly isWhole?: boolean;
    /** Of a path's parameter: the value of its first example. */
    readonly example?: Json;
    /** `x-rule`: a rule of the database. It may refuse a value that the schema allows. */
    readonly rule?: string;
  };

/** A filter of a list, and the property that it is compared with; `none`: no property shows it. */
export type Filter = {
  readonly input: Input;
  readonly property: string;
  readonly match: (typeof MATCHES)[number];
  /** Whether neither `x-filter` nor a property of its name says what it compares. */
  readonly isUndescribed: boolean;
};

const MATCHES = ['equals', 'contains', 'from', 'until', 'none'] as const;

/** Headers are in lower case. */
export type DescribedAnswer = Described & {
  readonly headers: ReadonlyMap<string, Described>;
  readonly isEmpty: boolean;
};

/** What makes an operation a list in pages. */
export type List = {
  readonly limit: Input;
  readonly offset: Input;
  readonly after?: Input;
  readonly filters: readonly Filter[];
  /** The properties of its records. */
  readonly properties: readonly string[];
};

export type Operation = Pick<Compiled, 'id' | 'status' | 'body' | 'conflicts'> & {
  readonly method: string;
  readonly path: string;
  readonly inputs: readonly Input[];
  /** By status; those that the document declares by itself. */
  readonly answers: ReadonlyMap<number, DescribedAnswer>;
  /** Those that it declares for a range, such as `4XX` or `default`. */
  readonly ranges: ReadonlyMap<string, DescribedAnswer>;
  /** The declared statuses that only the database gives a reason for, such as 404. */
  readonly raised: readonly number[];
  readonly list?: List;
};

export type Contract = {
  readonly document: OpenAPIV3.Document;
  readonly operations: readonly Operation[];
  readonly keyHeader: string;
};

type Extended = { 'x-rule'?: string; 'x-filter'?: Partial<Pick<Filter, 'property' | 'match'>> };
type Parameter = OpenAPIV3.ParameterObject & { schema: Schema & Extended } & Extended;

/** Refusals of the gateway itself, and of a key. */
const BY_GATEWAY = [400, 401, 405, 408, 413, 417, 422, 429, 431];

/** Statuses that SQL raises, where the document declares a range. */
const RAISED = [403, 404, 409];

const ajv = createAjv();

const REFUSAL: DescribedAnswer = {
  ...describe({ type: 'object', required: ['error'] } as Schema),
  headers: new Map(),
  isEmpty: false,
};

/** Reads the operations of a document. Throws DocumentError if the gateway could not serve it. */
export async function readContract(document: OpenAPIV3.Document): Promise<Contract> {
  const compiled = [...(await compile(document)).operations.values()];
  return { document, operations: compiled.map(readOperation), keyHeader: findKeyScheme(document)?.name ?? '' };
}

function readOperation({ id, status, body, conflicts, page, source }: Compiled): Operation {
  // They are dereferenced.
  const parameters = (source.parameters ?? []) as Parameter[];
  const inputs = parameters.map(readParameter);
  const described = Object.entries(source.responses).map(([code, response]) => [code, readAnswer(response)] as const);
  const answers = new Map(described.map(([code, answer]) => [Number(code), answer] as const));
  const ranges = new Map(described.filter(([code]) => Number.isNaN(Number(code))));
  const records = answers.get(status)?.schema as Schema | undefined;
  const find = (name: string) => inputs.find((input) => input.in === 'query' && input.name === name);
  const [limit, offset] = page ? [find(page.limit.name), find(page.offset.name)] : [];
  const after = page?.after && find(page.after.name);
  const properties = Object.keys(records?.items ? readProperties(records.items).properties : {});
  const filters = parameters.flatMap((parameter, index) => {
    const input = inputs[index];
    const isFilter = input?.in === 'query' && ![limit, offset, after].includes(input);
    return isFilter ? [toFilter(input, parameter, properties)] : [];
  });
  return {
    ranges,
    raised: [
      ...(ranges.size > 0 ? RAISED : []),
      ...[...answers.keys()].filter((code) => code >= 400 && code < 500 && !BY_GATEWAY.includes(code)),
    ],
    ...{
      id,
      status,
      ...(body ? { body } : {}),
      ...(conflicts ? { conflicts } : {}),
      method: source.method.toUpperCase(),
      path: source.path,
      answers,
    },
    inputs: [...inputs, ...readFields(body)],
    ...(limit && offset ? { list: { limit, offset, ...(after ? { after } : {}), filters, properties } } : {}),
  };
}

function readParameter(source: Parameter): Input {
  const { name, in: place, required = false, schema, examples = {}, style, explode, 'x-rule': own } = source;
  const rule = own ?? schema['x-rule'];
  const [example] = place === 'path' ? (Object.values(examples) as OpenAPIV3.ExampleObject[]) : [];
  return {
    ...{ name, in: place as Input['in'], required, ...describe(schema) },
    ...(style ? { style } : {}),
    ...(explode === undefined ? {} : { explode }),
    ...(example ? { example: example.value } : {}),
    ...(rule ? { rule } : {}),
  };
}

function readFields(body: Compiled['body']): Input[] {
  if (!body) return [];
  const { isRequired } = body;
  const schema = body.schema as Schema;
  if (!allowsOnlyObjects(schema))
    return [{ ...readParameter({ name: 'body', in: 'body', required: isRequired, schema }), isWhole: true }];
  const { properties, required } = readProperties(schema);
  const sent = Object.entries(properties).filter(([, schema]) => !isResponseOnly(schema));
  return sent.map(([name, schema]) =>
    readParameter({ name, in: 'body', required: isRequired && required.includes(name), schema: schema as Schema }),
  );
}

function readAnswer(source: OpenAPIV3.ResponseObject | OpenAPIV3.ReferenceObject): DescribedAnswer {
  const { content, headers = {} } = source as OpenAPIV3.ResponseObject;
  const described = Object.entries(headers).map(([name, header]) => {
    const { schema = {} } = header as OpenAPIV3.HeaderObject;
    return [name.toLowerCase(), describe(schema as Schema)] as const;
  });
  const schema = (content?.['application/json']?.schema ?? {}) as Schema;
  return { ...describe(schema), headers: new Map(described), isEmpty: content === undefined };
}

function describe(schema: Schema): Described {
  return { schema, validate: compileSchema(ajv, schema) };
}

/** How an answer is described. Of a refusal of the gateway that the document does not declare only the form is known. */
export function findAnswer({ answers, ranges }: Operation, status: number): DescribedAnswer | undefined {
  const declared = answers.get(status) ?? ranges.get(`${Math.floor(status / 100)}XX`) ?? ranges.get('default');
  return declared ?? (BY_GATEWAY.includes(status) ? REFUSAL : undefined);
}

function toFilter(input: Input, { 'x-filter': filter }: Extended, properties: readonly string[]): Filter {
  const { property = input.name, match: wanted = 'equals' } = filter ?? {};
  const match = MATCHES.find((one) => one === wanted);
  if (!match) {
    throw new DocumentError([
      { text: `x-filter of ${input.name}: match is ${MATCHES.join(' or ')}, and not ${wanted}` },
    ]);
  }
  const isShown = properties.includes(property);
  return { input, property, match: isShown ? match : 'none', isUndescribed: !isShown && match !== 'none' };
}
