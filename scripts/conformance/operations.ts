// The document as the checks need it: operations with their inputs, answers and lists.

import type { ErrorObject, ValidateFunction } from 'ajv';
import type { OpenAPIV3 } from 'openapi-types';
import { messageOf } from '../../src/errors.ts';
import { createAjv } from '../../src/openapi/compile.ts';
import { DocumentError } from '../../src/openapi/document.ts';
import { findKeyScheme, resolve } from '../../src/openapi/examples.ts';

export type Schema = OpenAPIV3.SchemaObject;

/** A value that a request may carry: a parameter, or a field of the body. */
export type Input = {
  readonly name: string;
  readonly in: 'query' | 'header' | 'path' | 'body';
  readonly required: boolean;
  /** Without references at its top. */
  readonly schema: Schema;
  readonly validate: ValidateFunction;
  /** What only the database can tell of a value: one that is valid otherwise may be refused for it. */
  readonly rule?: string;
};

/** What a filter of a list is held against: a property of the records. */
export type Filter = {
  readonly input: Input;
  readonly property: string;
  readonly match: 'equals' | 'contains' | 'from' | 'none';
};

/** What an answer of one status is described as. */
export type Described = {
  readonly body: ValidateFunction;
  /** By their names in lower case. */
  readonly headers: ReadonlyMap<string, Pick<Input, 'schema' | 'validate'>>;
};

/** What makes an operation a list in pages. */
export type List = {
  readonly limit: Input;
  readonly offset: Input;
  readonly filters: readonly Filter[];
  /** The names of the records' properties. */
  readonly properties: readonly string[];
};

export type Operation = {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly inputs: readonly Input[];
  readonly hasBody: boolean;
  /** Whether the body, or else the query, may have what is not described. */
  readonly isOpen: boolean;
  readonly needsKey: boolean;
  /** The status of success. */
  readonly status: number;
  /** Every status that is declared. */
  readonly answers: ReadonlyMap<number, Described>;
  /** The headers that the success is described with, in lower case. */
  readonly headers: ReadonlySet<string>;
  readonly list?: List;
};

/** The document's operations, and the header of its key. */
export type Contract = { readonly operations: readonly Operation[]; readonly keyHeader: string };

type Extended = { 'x-rule'?: string; 'x-filter'?: Partial<Omit<Filter, 'input'>> };

const METHODS = ['get', 'put', 'post', 'delete', 'patch'] as const;

/** Reads the operations of a document. Throws DocumentError for what is no OpenAPI document. */
export function readContract(document: OpenAPIV3.Document): Contract {
  try {
    return readOperations(document);
  } catch (error) {
    const text = `The document is no OpenAPI 3.0 document that can be tested: ${messageOf(error as Error)}`;
    throw new DocumentError([{ text }], { cause: error });
  }
}

function readOperations(document: OpenAPIV3.Document): Contract {
  const reader = new Reader(document);
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item?.[method];
      return operation ? [reader.readOperation(path, method, operation, item.parameters)] : [];
    }),
  );
  return { operations, keyHeader: findKeyScheme(document)?.name ?? 'X-Api-Key' };
}

/** Whether an operation changes nothing. */
export function isRead({ method }: { readonly method: string }): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** What a validation says, in words. */
export function describeErrors(errors: readonly ErrorObject[] | null | undefined): string {
  const [error] = errors ?? [];
  if (!error) return 'is invalid';
  const value = typeof error.data === 'object' && error.data !== null ? '' : `, and is ${JSON.stringify(error.data)}`;
  return `${error.instancePath || 'the body'} ${error.message}${value}`;
}

class Reader {
  readonly #document: OpenAPIV3.Document;
  readonly #ajv = createAjv();

  constructor(document: OpenAPIV3.Document) {
    this.#document = document;
  }

  readOperation(
    path: string,
    method: string,
    source: OpenAPIV3.OperationObject,
    shared: OpenAPIV3.PathItemObject['parameters'] = [],
  ): Operation {
    const parameters = [...shared, ...(source.parameters ?? [])].map((parameter) => this.#readParameter(parameter));
    const body = source.requestBody && this.#resolve(source.requestBody).content['application/json']?.schema;
    const status = Math.min(
      ...Object.keys(source.responses)
        .map(Number)
        .filter((code) => code >= 200),
    );
    const answers = this.#readAnswers(source);
    const inputs = [...parameters.map(({ input }) => input), ...(body ? this.#readFields(body) : [])];
    const list = method === 'get' ? this.#readList(source, status, parameters) : undefined;
    return {
      id: source.operationId ?? `${method} ${path}`,
      method: method.toUpperCase(),
      path,
      inputs,
      hasBody: body !== undefined,
      isOpen: body !== undefined && this.#resolve(body).additionalProperties !== false,
      needsKey: (source.security ?? this.#document.security ?? []).length > 0,
      status,
      answers,
      headers: new Set(answers.get(status)?.headers.keys()),
      ...(list ? { list } : {}),
    };
  }

  #readParameter(source: OpenAPIV3.ParameterObject | OpenAPIV3.ReferenceObject) {
    const parameter = this.#resolve(source);
    const { 'x-rule': rule, 'x-filter': filter } = parameter as Extended;
    const place = { name: parameter.name, in: parameter.in as Input['in'], required: parameter.required ?? false };
    return { input: this.#createInput(place, parameter.schema ?? {}, rule), filter };
  }

  #readFields(source: Schema | OpenAPIV3.ReferenceObject): Input[] {
    const { properties = {}, required = [] } = this.#resolve(source);
    return Object.entries(properties).map(([name, schema]) =>
      this.#createInput({ name, in: 'body', required: required.includes(name) }, schema),
    );
  }

  #createInput(
    place: Pick<Input, 'name' | 'in' | 'required'>,
    source: Schema | OpenAPIV3.ReferenceObject,
    ruleOfParameter?: string,
  ): Input {
    const schema = this.#resolve(source);
    const rule = ruleOfParameter ?? (schema as Extended)['x-rule'];
    return { ...place, schema, validate: this.#compile(source), ...(rule ? { rule } : {}) };
  }

  #readAnswers({ responses }: OpenAPIV3.OperationObject): Map<number, Described> {
    const described = Object.entries(responses).map(([status, source]) => {
      const { content, headers = {} } = this.#resolve(source);
      const body = this.#compile(content?.['application/json']?.schema ?? {});
      return [Number(status), { body, headers: this.#readHeaders(headers) }] as const;
    });
    return new Map(described);
  }

  #readHeaders(headers: NonNullable<OpenAPIV3.ResponseObject['headers']>): Described['headers'] {
    const entries = Object.entries(headers).map(([name, header]) => {
      const source = this.#resolve(header).schema ?? {};
      return [name.toLowerCase(), { schema: this.#resolve(source), validate: this.#compile(source) }] as const;
    });
    return new Map(entries);
  }

  #readList(
    source: OpenAPIV3.OperationObject,
    status: number,
    parameters: readonly { input: Input; filter: Extended['x-filter'] }[],
  ): List | undefined {
    const queries = parameters.filter(({ input }) => input.in === 'query');
    const [limit, offset] = ['limit', 'offset'].map((name) => queries.find(({ input }) => input.name === name)?.input);
    const properties = this.#recordProperties(source, status);
    if (!limit || !offset || !properties) return undefined;
    const filters = queries
      .filter(({ input }) => input !== limit && input !== offset)
      .map(({ input, filter }) => toFilter(input, filter, properties));
    return { limit, offset, filters, properties };
  }

  /** The names of the properties of a list's records; undefined where the answer is no list of objects. */
  #recordProperties(source: OpenAPIV3.OperationObject, status: number): string[] | undefined {
    const response = source.responses[status];
    const schema = response && this.#resolve(response).content?.['application/json']?.schema;
    const array = schema && this.#resolve(schema);
    if (array?.type !== 'array') return undefined;
    return Object.keys(this.#resolve(array.items).properties ?? {});
  }

  #compile(schema: Schema | OpenAPIV3.ReferenceObject): ValidateFunction {
    // References in a schema are relative to the document's root.
    return this.#ajv.compile({ ...schema, components: this.#document.components });
  }

  #resolve<T extends object>(value: T | OpenAPIV3.ReferenceObject): T {
    return resolve(this.#document, value);
  }
}

function toFilter(input: Input, told: Extended['x-filter'], properties: readonly string[]): Filter {
  const property = told?.property ?? input.name;
  return { input, property, match: properties.includes(property) ? (told?.match ?? 'equals') : 'none' };
}
