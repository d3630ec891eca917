import type { OpenAPIV3 } from 'openapi-types';
import type { Call } from '../store/store.ts';
import { DocumentError, type Mistake } from './document.ts';

/** A parameter of a request and the function argument that it becomes. */
export type Input = {
  readonly in: 'query' | 'path' | 'header';
  /** The name in the document; header names ignore case. */
  readonly name: string;
  readonly argument: string;
  readonly type: 'string' | 'integer' | 'number' | 'boolean';
  readonly default?: string | number | boolean;
};

/** A field of the body. */
export type Field = Pick<Input, 'argument' | 'default'>;

/** An operation of the document as the gateway needs it, computed once. */
export type Operation = {
  readonly id: string;
  /** The Postgres function in schema public. */
  readonly function: string;
  /** Normalized, so that equal paths are equal strings. */
  readonly path: string;
  /** The success status. */
  readonly status: number;
  /** The statuses that the document declares, `4XX` and `default` among them. */
  readonly statuses: readonly string[];
  /** The texts of a 409 by constraint. */
  readonly conflicts?: Readonly<Record<string, string>>;
  readonly returns: Call['returns'];
  readonly readOnly: boolean;
  readonly hasBody: boolean;
  readonly inputs: readonly Input[];
  /** The inputs that select a page; undefined for an operation without pagination. */
  readonly page?: Page;
  /** The body's fields in the document's order; a field's name is its argument's name. */
  readonly fields: readonly Field[];
  readonly key: Key;
  /** The operation in the document. */
  readonly source: DocumentOperation;
};

/** How a request selects a page: after a record, if the operation has that, or by a number of records to skip. */
export type Page = { readonly limit: Input; readonly offset: Input; readonly after?: Input };

/** How an operation receives its API key. */
export type Key = {
  /** The header's name in lower case. */
  readonly header: string;
  readonly argument: string;
  /** The function that records a key's use. */
  readonly usedFunction?: string;
};

/** An operation from openapi-backend: dereferenced, with path, method, and inherited parameters and security. */
export type DocumentOperation = OpenAPIV3.OperationObject & { path: string; method: string };

const IDENTIFIER = /^[a-z_][a-z0-9_]*$/;
/** Statuses without content. */
const EMPTY = ['204', '205'];
const SCALARS = ['string', 'integer', 'number', 'boolean'];

/**
 * Reads the operations of a dereferenced document, by operationId. Throws DocumentError with all mistakes if the
 * gateway does not support something in it.
 */
export function readOperations(
  document: OpenAPIV3.Document,
  operations: readonly DocumentOperation[],
): Map<string, Operation> {
  const mistakes: Mistake[] = [];
  const result = new Map<string, Operation>();
  for (const source of operations) {
    const reader = new OperationReader(source, document.components?.securitySchemes ?? {});
    const operation = reader.read();
    const place = ['paths', source.path, source.method];
    const name = `${source.method.toUpperCase()} ${source.path}`;
    mistakes.push(...reader.mistakes.map((mistake) => ({ text: `${name}: ${mistake}`, place })));
    if (result.has(operation.id)) {
      mistakes.push({ text: `operationId ${operation.id} is used twice`, place: [...place, 'operationId'] });
    }
    result.set(operation.id, operation);
  }
  if (mistakes.length > 0) throw new DocumentError(mistakes);
  return result;
}

class OperationReader {
  readonly mistakes: string[] = [];
  readonly #source: DocumentOperation;
  readonly #schemes: NonNullable<OpenAPIV3.ComponentsObject['securitySchemes']>;

  constructor(source: DocumentOperation, schemes: NonNullable<OpenAPIV3.ComponentsObject['securitySchemes']>) {
    this.#source = source;
    this.#schemes = schemes;
  }

  read(): Operation {
    const source = this.#source as DocumentOperation & { 'x-rpc'?: unknown; 'x-read-only'?: unknown };
    const rpc = source['x-rpc'];
    if (typeof rpc !== 'string' || !IDENTIFIER.test(rpc)) {
      this.#mistake(`x-rpc must name the Postgres function, in lower case; it is ${JSON.stringify(rpc)}`);
    }
    if (!source.operationId) this.#mistake('operationId is missing');
    // Matching several parameters in one segment can take quadratic time in the path's length.
    if (/\}[^/]*\{/.test(source.path)) this.#mistake('a path segment can have one parameter only');
    const operation: Operation = {
      id: source.operationId ?? '',
      function: String(rpc),
      path: normalizeTemplate(source.path),
      ...this.#readSuccess(),
      statuses: Object.keys(source.responses),
      ...this.#readConflicts(),
      // GET is safe: it changes nothing (RFC 9110, 9.2.1).
      readOnly: source.method === 'get' || source['x-read-only'] === true,
      hasBody: source.requestBody !== undefined,
      inputs: (source.parameters ?? []).flatMap((parameter) => this.#readInput(parameter)),
      fields: this.#readFields(),
      key: this.#readKey(),
      source,
    };
    this.#checkArguments(operation);
    const page = readPage(operation);
    if (page?.after && this.mistakes.length === 0 && !this.#hasIds(operation)) {
      this.#mistake('the parameter after names a record by its id: the records must have the property id, as required');
    }
    return { ...operation, ...(page ? { page } : {}) };
  }

  #readSuccess(): Pick<Operation, 'status' | 'returns'> {
    const statuses = Object.keys(this.#source.responses).filter((status) => status.startsWith('2'));
    const [status] = statuses;
    if (status === undefined || statuses.length > 1 || !/^2\d\d$/.test(status)) {
      this.#mistake(
        `exactly one success response must be declared, such as 200; found ${statuses.join(', ') || 'none'}`,
      );
      return { status: 200, returns: 'rows' };
    }
    const { content } = this.#source.responses[status] as OpenAPIV3.ResponseObject;
    if (!content) return { status: Number(status), returns: 'nothing' };
    if (EMPTY.includes(status)) this.#mistake(`a ${status} has no content (RFC 9110, 15.3): remove its content`);
    const schema = this.#successSchema(status);
    if (!schema) this.#mistake(`the response ${status} must have an application/json schema, or no content`);
    return { status: Number(status), returns: toReturned(schema) };
  }

  #readConflicts(): Pick<Operation, 'conflicts'> {
    const { 'x-conflicts': conflicts } = (this.#source.responses['409'] ?? {}) as { 'x-conflicts'?: unknown };
    if (conflicts === undefined) return {};
    const isMap = typeof conflicts === 'object' && conflicts !== null;
    if (!isMap || Object.values(conflicts).some((text) => typeof text !== 'string')) {
      this.#mistake('x-conflicts of the response 409 must be a map from constraints to texts');
    }
    return { conflicts: conflicts as Record<string, string> };
  }

  #successSchema(status: number | string): OpenAPIV3.SchemaObject | undefined {
    const response = this.#source.responses[status] as OpenAPIV3.ResponseObject;
    return response.content?.['application/json']?.schema as OpenAPIV3.SchemaObject | undefined;
  }

  /** Whether every record of the list has an id. */
  #hasIds({ status }: Operation): boolean {
    const schema = this.#successSchema(status) as Partial<OpenAPIV3.ArraySchemaObject> | undefined;
    const records = schema?.items as OpenAPIV3.SchemaObject | undefined;
    return records?.required?.includes('id') ?? false;
  }

  #readInput(source: OpenAPIV3.ReferenceObject | OpenAPIV3.ParameterObject): Input[] {
    if ('$ref' in source) throw new DocumentError([{ text: `unresolved reference ${source.$ref}` }]);
    const schema = (source.schema ?? {}) as OpenAPIV3.SchemaObject;
    const scalar = SCALARS.includes(schema.type ?? '');
    if ((source.in !== 'query' && source.in !== 'path' && source.in !== 'header') || !scalar) {
      this.#mistake(
        `parameter ${source.name} in ${source.in}: the gateway takes strings, integers, numbers and booleans in query, path and header`,
      );
      return [];
    }
    return [
      {
        in: source.in,
        name: source.name,
        argument: toArgument(source.name),
        type: schema.type as Input['type'],
        ...(schema.default === undefined ? {} : { default: schema.default }),
      },
    ];
  }

  #bodySchema(): OpenAPIV3.SchemaObject | undefined {
    const body = this.#source.requestBody as OpenAPIV3.RequestBodyObject | undefined;
    return body?.content['application/json']?.schema as OpenAPIV3.SchemaObject | undefined;
  }

  #readFields(): Field[] {
    if (this.#source.requestBody === undefined) return [];
    const schema = this.#bodySchema();
    if (schema?.type !== 'object' || schema.additionalProperties !== false) {
      this.#mistake('the body must have an application/json schema of type object with additionalProperties: false');
      return [];
    }
    return Object.entries(schema.properties ?? {}).map(([argument, property]) => {
      const { default: value } = property as OpenAPIV3.SchemaObject;
      return { argument, ...(value === undefined ? {} : { default: value }) };
    });
  }

  #readKey(): Key {
    const names = (this.#source.security ?? []).flatMap((requirement) => Object.keys(requirement));
    const scheme = names.length === 1 ? this.#schemes[names[0] ?? ''] : undefined;
    if (!scheme || '$ref' in scheme || scheme.type !== 'apiKey' || scheme.in !== 'header') {
      this.#mistake('security must require one scheme, of type apiKey in a header');
      return { header: '', argument: '' };
    }
    const { 'x-rpc-used': usedFunction } = scheme as { 'x-rpc-used'?: unknown };
    const isFunction = typeof usedFunction === 'string' && IDENTIFIER.test(usedFunction);
    if (usedFunction !== undefined && !isFunction)
      this.#mistake('x-rpc-used of the security scheme must name a function');
    return {
      header: scheme.name.toLowerCase(),
      argument: toArgument(scheme.name),
      ...(isFunction ? { usedFunction } : {}),
    };
  }

  #checkArguments(operation: Operation): void {
    const fields = Object.keys(this.#bodySchema()?.properties ?? {});
    const names = [operation.key.argument, ...operation.inputs.map((input) => input.argument), ...fields];
    for (const name of names) {
      if (!/^p_[a-z0-9_]+$/.test(name))
        this.#mistake(`${name} cannot be an argument: expected p_ and lower-case letters, digits or underscores`);
    }
    for (const name of names.filter((name, index) => names.indexOf(name) !== index)) {
      this.#mistake(`the argument ${name} would be given twice`);
    }
  }

  #mistake(text: string): void {
    this.mistakes.push(text);
  }
}

/** What the function returns for a response: rows for an array of objects, a row for an object, or one value. */
function toReturned(schema: OpenAPIV3.SchemaObject | undefined): Call['returns'] {
  if (schema?.type === 'object') return 'row';
  const items = schema?.type === 'array' ? (schema.items as OpenAPIV3.SchemaObject) : undefined;
  return items?.type === 'object' ? 'rows' : 'value';
}

/** Whether the document declares a status for an operation, by itself or in a range. */
export function declares({ statuses }: Pick<Operation, 'statuses'>, status: number): boolean {
  return [String(status), `${Math.floor(status / 100)}XX`, 'default'].some((code) => statuses.includes(code));
}

function readPage({ returns, inputs }: Operation): Page | undefined {
  const find = (name: string, hasDefault: boolean) =>
    inputs.find((input) => input.in === 'query' && input.name === name && (input.default !== undefined) === hasDefault);
  const [limit, offset, after] = [find('limit', true), find('offset', true), find('after', false)];
  return returns === 'rows' && limit && offset ? { limit, offset, ...(after ? { after } : {}) } : undefined;
}

/** Derives an argument's name from a parameter's: `limit` → `p_limit`, `X-Api-Key` → `p_api_key`. */
function toArgument(name: string): string {
  return `p_${name.replace(/^X-/i, '').replaceAll('-', '_').toLowerCase()}`;
}

/** Characters that percent-encoding leaves unchanged, and the separator of segments. */
const PLAIN_PATH = /^[\w.!~*'()/-]*$/;

/** Normalizes the percent-encoding of a path. Throws URIError for a malformed escape. */
export function normalizePath(path: string): string {
  if (PLAIN_PATH.test(path)) return path;
  const normalize = (segment: string) => encodeURIComponent(decodeURIComponent(segment));
  return path.split('/').map(normalize).join('/');
}

/** Normalizes the literal parts of a path template. */
export function normalizeTemplate(template: string): string {
  const parts = template.split(/(\{[^}]+\})/);
  return parts.map((part) => (part.startsWith('{') ? part : normalizePath(part))).join('');
}
