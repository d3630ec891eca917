// Normalizes documents: OpenAPI has several spellings for what the gateway serves in the same way.

import { isDeepStrictEqual } from 'node:util';
import { resolveRef } from 'api-smart-diff';
import type { OpenAPIV3 } from 'openapi-types';
import { readApiRoot } from '../../src/openapi/document.ts';
import { METHODS, normalizeTemplate } from '../../src/openapi/path.ts';
import { createConverter } from '../../src/openapi/schema.ts';
import { readStyle } from '../../src/openapi/styles.ts';

type Document = OpenAPIV3.Document;
type Operation = OpenAPIV3.OperationObject;
type Parameter = OpenAPIV3.ParameterObject;
type Node = Record<string, unknown>;
type Use = 'request' | 'answer';

const SCHEMAS = '#/components/schemas/';
/** Replaces `$ref` while the converter runs, which would resolve it. */
const REFERENCE = 'x-reference';
/** The component groups of shared schemas, as requests and as answers have them. */
export const PARTS = { request: 'x-request', answer: 'x-answer' } as const;

/** Normalizes schemas and the styles of arrays, and resolves all references except those to schemas. */
export function toServed(source: Document): Document {
  const document = structuredClone(source);
  const { security = [], components: { schemas = {}, securitySchemes = {} } = {}, ...rest } = document;
  const resolve = <T>(node: unknown): T => (node === undefined ? {} : resolveRef(node as never, document)) as T;
  const converters = { request: createConverter('request', source), answer: createConverter('answer', source) };
  const convert = (schema: unknown, use: Use) => joinTypes(converters[use](prepare(schema, use, resolve)), use);

  const convertContent = (node: unknown, use: Use): Node => {
    const resolved = resolve<Pick<OpenAPIV3.ResponseObject, 'content' | 'headers'>>(node);
    const content = mapValues(resolved.content ?? {}, (media) =>
      media.schema ? { ...media, schema: convert(media.schema, use) } : media,
    );
    const headers = Object.entries(resolved.headers ?? {}).map(([name, node]) => {
      const { schema = {}, ...header } = resolve<OpenAPIV3.HeaderObject>(node);
      return [name.toLowerCase(), { ...header, schema: convert(schema, 'answer') }];
    });
    return {
      ...resolved,
      ...(resolved.content ? { content } : {}),
      ...(resolved.headers ? { headers: Object.fromEntries(headers) } : {}),
    };
  };

  const toParameter = (node: unknown): Parameter => {
    const { style: _style, explode: _explode, required, schema = {}, ...parameter } = resolve<Parameter>(node);
    const { style, isExploded } = readStyle(resolve<Parameter>(node));
    // The style matters for arrays only. The library assumes that every form explodes.
    const written = { style: isExploded ? 'form, exploded' : style };
    return {
      ...parameter,
      ...(required ? { required } : {}),
      ...(isArray(schema, resolve) ? written : {}),
      schema: convert(schema, 'request') as object,
    };
  };

  const toOperation = (item: OpenAPIV3.PathItemObject, operation: Operation): Operation => {
    const own = (operation.parameters ?? []).map(toParameter);
    const inherited = (item.parameters ?? []).map(toParameter);
    const isReplaced = (one: Parameter) => own.some((other) => other.name === one.name && other.in === one.in);
    return {
      security,
      ...operation,
      parameters: [...own, ...inherited.filter((parameter) => !isReplaced(parameter))],
      ...(operation.requestBody ? { requestBody: convertContent(operation.requestBody, 'request') as never } : {}),
      responses: mapValues(operation.responses ?? {}, (response) => convertContent(response, 'answer')) as never,
    };
  };

  const paths = mapValues(document.paths ?? {}, (source) => {
    const item = resolve<OpenAPIV3.PathItemObject>(source);
    const own = METHODS.flatMap((method) => (item[method] ? [[method, toOperation(item, item[method])]] : []));
    return Object.fromEntries(own);
  });
  const shared = Object.entries(PARTS).map(([use, part]) => [
    part,
    mapValues(schemas, (schema) => convert(schema, use as Use)),
  ]);
  return {
    ...rest,
    // The normalized schemas use the keywords of 3.0.
    openapi: '3.0.3',
    servers: [{ url: readApiRoot(document) || '/' }],
    paths,
    components: { securitySchemes, ...Object.fromEntries(shared) },
  };
}

/**
 * Takes over the names of an earlier document where they mean the same: path parameters by position, headers ignoring case, and
 * security schemes by header.
 */
export function nameAs(earlier: Document, document: Document): Document {
  const root = readApiRoot(earlier);
  const ownRoot = readApiRoot(document);
  const isBelow = Object.keys(document.paths).every((path) => `${ownRoot}${path}`.startsWith(`${root}/`));
  const paths = Object.entries(document.paths).map(([path, item]) => {
    const route = isBelow ? `${ownRoot}${path}`.slice(root.length) : path;
    const known = Object.keys(earlier.paths).find((other) => toShape(other) === toShape(route)) ?? route;
    const before = (earlier.paths[known] ?? {}) as Record<string, Operation>;
    const operations = mapValues(item as Record<string, Operation>, (operation, method) => {
      const others = (before[method]?.parameters ?? []) as Parameter[];
      const parameters = (operation.parameters as Parameter[]).map((parameter) => {
        const { name, in: place } = parameter;
        const same = others.find((other) => other.in === place && other.name.toLowerCase() === name.toLowerCase());
        if (place === 'header') return { ...parameter, name: same?.name ?? name };
        const index = toNames(path).indexOf(name);
        return place === 'path' ? { ...parameter, name: toNames(known)[index] ?? name } : parameter;
      });
      return { ...operation, parameters };
    });
    return [known, operations];
  });
  const renamed = { ...document, paths: Object.fromEntries(paths), ...(isBelow ? { servers: earlier.servers } : {}) };
  return nameSchemes(earlier, renamed as Document);
}

type Schemes = Record<string, OpenAPIV3.ApiKeySecurityScheme>;

function nameSchemes(earlier: Document, document: Document): Document {
  const [before, own] = [earlier, document].map(({ components }) => (components?.securitySchemes ?? {}) as Schemes);
  const isSame = (known: string, scheme?: OpenAPIV3.ApiKeySecurityScheme) =>
    before?.[known]?.name?.toLowerCase() === scheme?.name?.toLowerCase();
  const toName = (name: string) => Object.keys(before ?? {}).find((known) => isSame(known, own?.[name])) ?? name;
  const rename = <T>(map: Record<string, T>) =>
    Object.fromEntries(Object.entries(map).map(([name, value]) => [toName(name), value]));
  const paths = mapValues(document.paths, (item) =>
    mapValues(item as Record<string, Operation>, ({ security = [], ...operation }) => {
      return { ...operation, security: security.map(rename) };
    }),
  );
  const securitySchemes = mapValues(rename(own ?? {}), (scheme, name) =>
    isSame(name, scheme) ? { ...scheme, name: before?.[name]?.name ?? scheme.name } : scheme,
  );
  return { ...document, paths, components: { ...document.components, securitySchemes } };
}

/** Equal for templates that match the same paths. */
function toShape(template: string): string {
  return normalizeTemplate(template).replace(/\{[^}]+\}/g, '{}');
}

function toNames(template: string): string[] {
  return [...template.matchAll(/\{([^}]+)\}/g)].map(([, name = '']) => name);
}

function isArray(schema: object, resolve: <T>(node: unknown) => T): boolean {
  const { type, allOf = [] } = resolve<{ type?: string | string[]; allOf?: object[] }>(schema);
  return [type].flat().includes('array') || allOf.some((part) => isArray(part, resolve));
}

/**
 * Copies a schema for the converter. References are resolved, because a schema may move to the components and back. Within itself a
 * schema is a reference, as a keyword that the converter ignores.
 */
function prepare<T>(source: T, use: Use, resolve: <T>(node: unknown) => T, around: readonly unknown[] = []): T {
  if (Array.isArray(source)) return source.map((part) => prepare(part, use, resolve, around)) as T;
  if (typeof source !== 'object' || source === null) return source;
  const { $ref, ...own } = source as Node;
  const node = mapValues(own, (part) => prepare(part, use, resolve, around)) as Node;
  if (typeof $ref === 'string') {
    const found = resolve<Node>(source);
    const target = around.includes(found)
      ? { [REFERENCE]: $ref.replace(SCHEMAS, `#/components/${PARTS[use]}/`) }
      : prepare(found, use, resolve, [...around, found]);
    const { readOnly, writeOnly } = found;
    const flags = { ...(readOnly ? { readOnly } : {}), ...(writeOnly ? { writeOnly } : {}) };
    return (Object.keys(node).length > 0 ? { ...flags, ...node, allOf: [target] } : { ...flags, ...target }) as T;
  }
  for (const name of ['anyOf', 'oneOf']) {
    const choices = (node[name] ?? []) as Node[];
    const isType = (choice: Node) => Object.keys(choice).join() === 'type';
    if (name === 'anyOf' && !node.type && choices.length > 1 && choices.every(isType)) {
      const { anyOf: _anyOf, ...rest } = node;
      return { ...rest, type: [...new Set(choices.flatMap(({ type }) => type))] } as T;
    }
    const others = choices.filter(({ type }) => type !== 'null');
    if (choices.length !== 2 || others.length !== 1) continue;
    const { [name]: _choices, ...rest } = node;
    return { ...rest, allOf: others, nullable: true } as T;
  }
  return node as T;
}

/** Joins several types into one sorted text, restores references, and leaves out properties that are never there. */
function joinTypes<T>(schema: T, use: Use): T {
  if (Array.isArray(schema)) return schema.map((part) => joinTypes(part, use)) as T;
  if (typeof schema !== 'object' || schema === null) return schema;
  const { type, [REFERENCE]: $ref, properties, ...others } = schema as Node;
  const isLeftOut = (property: unknown) =>
    (use === 'answer' || others.additionalProperties === false) && isDeepStrictEqual((property as Node).not, {});
  const named = Object.entries(properties ?? {}).filter(([, property]) => !isLeftOut(property));
  return {
    ...mapValues(others, (part) => joinTypes(part, use)),
    ...(properties === undefined ? {} : { properties: joinTypes(Object.fromEntries(named), use) }),
    ...($ref === undefined ? {} : { $ref }),
    ...(type === undefined ? {} : { type }),
    ...(Array.isArray(type) ? { type: type.sort().join('|') } : {}),
  } as T;
}

function mapValues<T, R>(map: Readonly<Record<string, T>>, change: (value: T, name: string) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(map).map(([name, value]) => [name, change(value, name)]));
}
