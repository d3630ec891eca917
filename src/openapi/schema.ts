// Normalizes the schemas of every version of OpenAPI: nullable instead of a type null, enum instead of const, exclusive bounds
// as numbers, no references.

import type { OpenAPIV3 } from 'openapi-types';
import { isJsonObject } from '../store/store.ts';
import { find, follow, isReference, readReference, toPointer } from './pointer.ts';
import { mapChildren, SUBSCHEMAS } from './structure.ts';

/** A normalized schema of the document. It may contain itself. */
export type Schema = {
  readonly type?: string | readonly string[];
  readonly nullable?: boolean;
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly example?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly then?: Schema;
  readonly else?: Schema;
  readonly dependentSchemas?: Readonly<Record<string, Schema>>;
  readonly unevaluatedItems?: Schema;
  readonly unevaluatedProperties?: boolean | Schema;
  readonly 'x-never-null'?: unknown;
};

const SCALARS = ['string', 'integer', 'number', 'boolean'] as const;
/** A type of JSON whose values a URL can carry. */
export type Scalar = (typeof SCALARS)[number];

/** How values of a schema become an argument: as their text, as bytes, as an SQL array, or as JSON. */
export type Form = 'text' | 'bytes' | 'array' | 'json';

/** The keywords whose schemas apply to the same value as the schema around them. */
export const IN_PLACE = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'dependentSchemas'];
/** The keywords whose schemas apply to the same value, whatever its type. */
export const APPLIED = [...IN_PLACE, 'not'];
/** The keywords that validate nothing. */
export const ANNOTATIONS: readonly string[] =
  `title summary description default deprecated example examples externalDocs
  readOnly writeOnly xml discriminator $comment contentEncoding contentMediaType`.split(/\s+/);

/** Integers beyond these are rounded by JSON readers (RFC 8259, 6). */
export const EXACT: readonly [number, number] = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
export const INT32: readonly [number, number] = [-(2 ** 31), 2 ** 31 - 1];

const READ_ONLY = { en: 'is read-only', 'pt-BR': 'Este campo não pode ser alterado' };
/** Replaces a hidden property: a readOnly one of a request, which is refused with this message, or a writeOnly one of an answer. */
const HIDDEN: Readonly<Record<'request' | 'answer', Schema>> = {
  request: { not: {}, 'x-not-message': READ_ONLY } as object,
  answer: { not: {} } as object,
};

type Source = Record<string, unknown>;

/**
 * Creates the function that normalizes the schemas of requests or those of answers. An int32 gets its bounds, and any other
 * integer of a request those of exact JSON integers, so that none is rounded.
 */
export function createConverter(
  use: 'request' | 'answer',
  document: Pick<OpenAPIV3.Document, 'openapi'>,
): (schema: unknown) => Schema {
  /** The converted schemas, by the names of the properties that are hidden around them. */
  const converted = new Map<string, Map<object, Schema>>();
  const marker = use === 'request' ? 'readOnly' : 'writeOnly';
  const isVersion30 = String(document.openapi).startsWith('3.0');
  /** A queue of steps that fill the schemas: recursion would be too deep for long chains of references. */
  const waiting: (() => void)[] = [];
  /** The steps that run once all schemas are filled. */
  const finishing: (() => void)[] = [];

  function convert(source: unknown, around: readonly string[] = []): Schema {
    if (source === false) return { not: {} } as Schema;
    if (typeof source !== 'object' || source === null) return {};
    const key = around.join();
    const known = converted.get(key) ?? new Map<object, Schema>();
    converted.set(key, known);
    const earlier = known.get(source);
    if (earlier) return earlier;
    if (isReference(source)) {
      if (follow(document, source) === undefined) return {};
      const isAlone = isVersion30 || Object.keys(source).length === 1;
      // One reference at a time: the next one may have keywords beside it.
      if (isAlone) return convert(find(document, readReference(source.$ref)).node, around);
    }
    const schema: Source = {};
    // Registered before its parts are converted, because they may contain it.
    known.set(source, schema);
    waiting.push(() => fill(schema, source as Source, around));
    return schema;
  }

  function fill(
    schema: Source,
    { $ref, $schema, $defs, definitions, ...all }: Source,
    around: readonly string[],
  ): void {
    const own = pick(all, (name) => hasForm(name, all[name]));
    if (typeof $ref === 'string') {
      // OpenAPI 3.1 has keywords beside a reference: both apply, and `unevaluatedProperties` knows the properties of both.
      const others = Array.isArray(own.allOf) ? own.allOf : [];
      fill(schema, { ...own, allOf: [{ $ref }, ...others] }, around);
      return;
    }
    const names = [...new Set([...around, ...findHidden(own)])].sort();
    Object.assign(
      schema,
      mapChildren('schema', own, (_kind, part, [name]) => convert(part, IN_PLACE.includes(`${name}`) ? names : [])),
    );
    hideProperties(schema, names, own.properties as Source | undefined);
    const inner = unifyNull(schema, own);
    if ('const' in schema) {
      schema.enum = [schema.const];
      delete schema.const;
    }
    unifyBounds(schema);
    boundInteger(schema, use);
    finishing.push(() => {
      mergeParts(schema);
      tagChoices(inner, own);
    });
  }

  /** The names of the properties that are hidden on this side, in a schema and in its parts for the same value. */
  function findHidden(source: unknown, nesting = 0): readonly string[] {
    const node = follow(document, source as Source);
    if (typeof node !== 'object' || node === null || nesting > MAX_NESTING) return [];
    const own = findMarked(node.properties as Source | undefined);
    const ofParts = (keyword: string) =>
      Array.isArray(node[keyword]) ? node[keyword].map((part) => findHidden(part, nesting + 1)) : [];
    const choices = ['anyOf', 'oneOf'].map(ofParts);
    return [
      ...own,
      ...ofParts('allOf').flat(),
      ...choices.flatMap(([first = [], ...others]) =>
        first.filter((name) => others.every((all) => all.includes(name))),
      ),
    ];
  }

  function findMarked(properties: Source | null | undefined): readonly string[] {
    return Object.keys(properties ?? {}).filter((name) => isMarked(document, properties?.[name], marker));
  }

  /** Refuses properties that are hidden on this side, and requires none of them. */
  function hideProperties(schema: Source, names: readonly string[], properties?: Source): void {
    if (names.length === 0) return;
    const own = findMarked(properties).map((name) => [name, HIDDEN[use]]);
    if (own.length > 0) schema.properties = { ...(schema.properties as object), ...Object.fromEntries(own) };
    const isShown = (name: unknown) => !names.includes(String(name));
    if (Array.isArray(schema.required)) schema.required = schema.required.filter(isShown);
    if (typeof schema.dependentRequired === 'object' && schema.dependentRequired !== null) {
      const entries = Object.entries(schema.dependentRequired);
      schema.dependentRequired = Object.fromEntries(entries.map(([name, all]) => [name, [all].flat().filter(isShown)]));
    }
  }

  return (source) => {
    const schema = convert(source);
    for (const fillNext of waiting) fillNext();
    waiting.length = 0;
    for (const finishNext of finishing.splice(0)) finishNext();
    return schema;
  };
}

/** Whether a property is `readOnly` or `writeOnly`, by itself, by what it refers to, or by a part of an allOf. */
export function isMarked(document: object, property: unknown, marker: 'readOnly' | 'writeOnly', nesting = 0): boolean {
  if (typeof property !== 'object' || property === null || nesting > MAX_NESTING) return false;
  const { [marker]: isOwn, allOf } = property as Source;
  const parts = [
    ...(isReference(property) ? [find(document, readReference(property.$ref)).node] : []),
    ...(Array.isArray(allOf) ? allOf : []),
  ];
  return isOwn === true || parts.some((part) => isMarked(document, part, marker, nesting + 1));
}

/**
 * Turns null in a list of types into `nullable`. Beside other schemas, or without a type, `nullable` need not allow null in OpenAPI.
 * Authors mean that it does, so it becomes a choice of the schema and null. Returns the schema besides null.
 */
function unifyNull(schema: Source, { type, nullable }: Source): Source {
  if ([type].flat().every((name) => name === 'null')) {
    delete schema.type;
    schema.enum = [null];
  } else if (Array.isArray(type)) Object.assign(schema, toType(type));
  const isOfType = type !== undefined && !['allOf', 'anyOf', 'oneOf'].some((name) => name in schema);
  if (nullable === undefined || isOfType) return schema;
  const { nullable: _nullable, ...inner } = schema;
  if (nullable === true) replace(schema, { anyOf: [inner, { enum: [null] }], ...pick(inner, isAnnotation) });
  else replace(schema, inner);
  return nullable === true ? inner : schema;
}

/** Whether a keyword validates nothing. */
export function isAnnotation(name: string): boolean {
  return ANNOTATIONS.includes(name) || name.startsWith('x-');
}

/** Whether a keyword has a list or a map if it must. Others are left out, so that they hide no mistakes; validation reports them. */
function hasForm(name: string, value: unknown): boolean {
  if ([...SUBSCHEMAS.list, 'enum', 'required'].includes(name)) return Array.isArray(value);
  return !SUBSCHEMAS.map.includes(name) || isJsonObject(value);
}

/** Picks the entries of an object with the wanted names. */
export function pick(schema: object, isWanted: (name: string) => boolean): Source {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => isWanted(name)));
}

function replace(schema: Source, other: object): void {
  for (const name of Object.keys(schema)) delete schema[name];
  Object.assign(schema, other);
}

/** The values that a schema of objects allows for a required property; none if it does not limit them. */
export function readTags(schema: Schema, name: string): readonly unknown[] {
  const isTag = typesOf(schema).join() === 'object' && readProperties(schema).required.includes(name);
  const [first = [], ...others] = isTag ? readEnums(schema, name) : [];
  const values = first.filter((value) => others.every((list) => list.includes(value)));
  return values.every((value) => typeof value !== 'object') ? values : [];
}

/** Lists the values that a schema, and each part of its allOf, allows for a property. */
function readEnums({ properties, allOf = [] }: Schema, name: string, nesting = 0): readonly (readonly unknown[])[] {
  const parts = nesting > MAX_NESTING ? [] : allOf.flatMap((part) => readEnums(part, name, nesting + 1));
  return [...(properties?.[name]?.enum ? [properties[name].enum] : []), ...parts];
}

/** The schema of objects with one of these values in a property. */
export function toTagged(name: string, values: readonly unknown[]): Schema {
  return { type: 'object', required: [name], properties: { [name]: { enum: values } } };
}

/** The keywords that allow these types. */
export function toType(types: readonly string[]): Pick<Schema, 'type' | 'nullable' | 'enum'> {
  const others = types.filter((type) => type !== 'null' && !(type === 'integer' && types.includes('number')));
  if (others.length === 0) return { enum: [null] };
  const type = others.length === 1 ? others[0] : others;
  return { ...(type === undefined ? {} : { type }), ...(types.includes('null') ? { nullable: true } : {}) };
}

/** The values that a choice allows for the property of a discriminator, required or not. */
const readAllowed = (choice: Schema, name: string) => readTags({ ...choice, type: 'object', required: [name] }, name);

/** The values that only one choice allows, for each choice. A schema that all choices extend may list the values of all. */
export function readOwnTags(choices: readonly Schema[], name: string): readonly (readonly unknown[])[] {
  const all = choices.map((choice) => readAllowed(choice, name));
  const isShared = (value: unknown) => all.filter((values) => values.includes(value)).length > 1;
  return all.map((values) => values.filter((value) => !isShared(value)));
}

/**
 * Requires the discriminator's property in each choice, with the values that identify the choice (OpenAPI, "Discriminator Object"):
 * its own, those of the mapping, or its name, as far as the choice allows them. Skips choices that are not references.
 */
function tagChoices(schema: Source, { discriminator, ...source }: Source): void {
  const { propertyName: name, mapping = {} } = (discriminator ?? {}) as { propertyName?: unknown; mapping?: object };
  if (typeof name !== 'string') return;
  const mapped = Object.entries(mapping).map(([value, target]) => [value, toSchemaReference(String(target))] as const);
  for (const keyword of ['anyOf', 'oneOf']) {
    const [parts, choices] = [source[keyword], schema[keyword]] as [unknown, Schema[]];
    if (!Array.isArray(parts) || !Array.isArray(choices)) continue;
    const ownTags = readOwnTags(choices, name);
    // Changes the list in place, because a schema that was merged with this one as its only part shares it.
    for (const [index, choice] of choices.entries()) {
      const { $ref } = parts[index] ?? {};
      if (typeof $ref !== 'string' || isHidden(readProperties(choice).properties[name] ?? {})) continue;
      const allowed = readAllowed(choice, name);
      const byMapping = mapped.filter(([, target]) => target === $ref).map(([value]) => value);
      const lists = [byMapping, [readReference($ref).at(-1)]].map((list) =>
        allowed.length > 0 ? list.filter((value) => allowed.includes(value)) : list,
      );
      const values = [ownTags[index] ?? [], ...lists, allowed].find((list) => list.length > 0) ?? [];
      const isTagged = readTags(choice, name).length === values.length;
      if (!isTagged) choices[index] = { allOf: [choice, toTagged(name, values)] };
    }
  }
}

/** Converts a target in a discriminator's mapping, which may be the name of a component, to a reference. */
export function toSchemaReference(target: string): string {
  return /[#/]/.test(target) ? target : toPointer(['components', 'schemas', target]);
}

/** The functions that return the stricter of two values, by keyword. */
const STRICTER: Readonly<Record<string, (one: never, other: never) => unknown>> = {
  ...Object.fromEntries(['minimum', 'exclusiveMinimum', 'minLength', 'minItems'].map((name) => [name, Math.max])),
  ...Object.fromEntries(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems'].map((name) => [name, Math.min])),
  enum: (one: unknown[], other: unknown[]) => one.filter((value) => other.includes(value)),
};
/** Keywords whose effect depends on others of their schema. */
const DEPENDENT = /^(if|then|else|contains|(min|max)Contains|prefixItems|unevaluatedItems)$/;

/**
 * Merges parts into their schema, so that its type, format and bounds are its own: its only part besides null, or, for a scalar or
 * an array, all parts of its allOf, such as a reference with keywords beside it. Leaves parts that cannot be merged.
 */
function mergeParts(schema: Source, nesting = 0): void {
  const { allOf, ...beside } = schema as Schema;
  const { anyOf, oneOf, ...own } = beside;
  const lists = [allOf, anyOf, oneOf].filter((list) => list !== undefined);
  if (lists.length === 0 || nesting > MAX_NESTING) return;
  for (const part of lists.flat()) mergeParts(part, nesting + 1);
  if (lists.length === 1 && mergeOnly(schema, own, lists[0] ?? [], allOf === undefined)) return;
  const types = allOf ? typesOf(schema) : [];
  if (!allOf || types.length === 0 || types.includes('object')) return;
  const merged: Source = {};
  for (const [name, value] of [beside, ...allOf].flatMap((part) => Object.entries(part))) {
    if (DEPENDENT.test(name)) return;
    const earlier = merged[name];
    if (earlier === undefined) merged[name] = value;
    else if (STRICTER[name]) merged[name] = STRICTER[name](earlier as never, value as never);
    else if (!isAnnotation(name) && !['type', 'nullable'].includes(name) && earlier !== value) return;
  }
  // Ajv refuses an empty enum with an error that names no place.
  if (Array.isArray(merged.enum) && merged.enum.length === 0) return;
  const { type: _type, nullable: _nullable, ...others } = merged;
  replace(schema, { ...others, ...toType(types) });
}

/** Merges the only part of a schema, or the only choice besides null, unless the schema has keywords of its own. Returns whether it did. */
function mergeOnly(schema: Source, own: Schema, parts: readonly Schema[], isChoice: boolean): boolean {
  const isNull = ({ enum: values }: Schema) => values?.length === 1 && values[0] === null;
  const [only, ...others] = parts.filter((part) => !isNull(part));
  const hasNull = parts.length > 1;
  if (!only || others.length > 0) return false;
  // `nullable` affects only the type: schemas for values of any type would still refuse null.
  if (hasNull && (!isChoice || only.type === undefined || APPLIED.some((name) => name in only))) return false;
  const isSame = ([name, value]: [string, unknown]) =>
    isAnnotation(name) || (!hasNull && only[name as 'type'] === value);
  if (!Object.entries(own).every(isSame)) return false;
  const values = only.enum ? { enum: [...new Set([...only.enum, null])] } : {};
  replace(schema, { ...only, ...own, ...(hasNull ? { nullable: true, ...values } : {}) });
  return true;
}

/** In OpenAPI 3.0 an exclusive bound is a flag beside the bound. */
function unifyBounds(schema: Record<string, unknown>): void {
  for (const end of ['Minimum', 'Maximum']) {
    const { [`exclusive${end}`]: flag, [end.toLowerCase()]: bound, ...others } = schema;
    if (typeof flag !== 'boolean') continue;
    const name = flag ? `exclusive${end}` : end.toLowerCase();
    replace(schema, bound === undefined ? others : { ...others, [name]: bound });
  }
}

function boundInteger(schema: Source, use: 'request' | 'answer'): void {
  const isInteger = schema.type === 'integer';
  // Another part of an allOf may have the type; support.ts refuses other types.
  const isInt32 = schema.format === 'int32';
  if (schema.enum !== undefined || !(isInt32 || (isInteger && use === 'request'))) return;
  const [least, greatest] = isInt32 ? INT32 : EXACT;
  schema.minimum = Math.max(Number(schema.minimum ?? least), least);
  schema.maximum = Math.min(Number(schema.maximum ?? greatest), greatest);
}

/** The types of JSON Schema. */
export const TYPES: readonly string[] = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];
/** Schemas nested deeper in allOf, anyOf and oneOf count as schemas of any type: they may contain themselves. */
export const MAX_NESTING = 16;

/** The types of JSON that a schema allows. */
export function typesOf(schema: Schema, nesting = 0): readonly string[] {
  if (nesting > MAX_NESTING) return TYPES;
  const own = readTypes(schema);
  const parts = (schema.allOf ?? []).map((part) => typesOf(part, nesting + 1));
  const choices = [schema.anyOf, schema.oneOf].flatMap((list) =>
    list ? [list.flatMap((part) => typesOf(part, nesting + 1))] : [],
  );
  return [own, ...parts, ...choices].reduce((types, others) => types.filter((type) => others.includes(type)));
}

/** The types of JSON that the own keywords of a schema allow. */
export function readTypes({ type, nullable, enum: values }: Schema): readonly string[] {
  const types = [type ?? values?.map(typeOf) ?? TYPES].flat() as string[];
  const all = [...new Set(types.includes('number') ? [...types, 'integer'] : types)];
  // An enum without null does not allow it (OpenAPI 3.0.3, "Schema Object", and JSON Schema).
  return nullable && (values?.includes(null) ?? true) ? [...all, 'null'] : all;
}

/** The type of a JSON value. */
export function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

/** Whether a schema allows null. */
export function isNullable(schema: Schema): boolean {
  return typesOf(schema).includes('null');
}

/** Whether the document states that the function never returns null here, which the database cannot state. */
export function isNeverNull(schema: Schema): boolean {
  return schema['x-never-null'] === true;
}

/** The one scalar type of a schema, null aside; undefined for any other schema. */
export function scalarOf(schema: Schema): Scalar | undefined {
  const { type } = toType(typesOf(schema));
  return SCALARS.find((scalar) => scalar === type);
}

/** The schema of all items, if a schema allows only arrays, null aside; undefined for any other schema. */
export function itemsOf(schema: Schema): Schema | undefined {
  const isArray = typesOf(schema).every((type) => type === 'array' || type === 'null');
  return isArray && !('prefixItems' in schema) ? schema.items : undefined;
}

/** Whether a schema allows only objects, null aside. */
export function allowsOnlyObjects(schema: Schema): boolean {
  const types = typesOf(schema);
  return types.includes('object') && types.every((type) => type === 'object' || type === 'null');
}

/** How values of a schema become an argument. */
export function formOf(schema: Schema): Form {
  if (scalarOf(schema)) return schema.format === 'byte' ? 'bytes' : 'text';
  const items = itemsOf(schema);
  return items && scalarOf(items) && items.format !== 'byte' ? 'array' : 'json';
}

/** An object's properties and the required ones, from all parts of an allOf; none if it has a choice of shapes. */
export function readProperties(
  schema: Schema,
  nesting = 0,
): { readonly properties: Readonly<Record<string, Schema>>; readonly required: readonly string[] } {
  const parts = nesting > MAX_NESTING ? [] : (schema.allOf ?? []).map((part) => readProperties(part, nesting + 1));
  const properties = new Map<string, Schema>();
  const all = [...parts.map((part) => part.properties), schema.properties ?? {}].flatMap(Object.entries<Schema>);
  for (const [name, property] of all) properties.set(name, combine(properties.get(name) ?? property, property));
  return {
    properties: Object.fromEntries(properties),
    required: [...new Set([...parts.flatMap(({ required }) => required), ...(schema.required ?? [])])],
  };
}

/** The schema of a property that two parts of an allOf declare. */
function combine(one: Schema, other: Schema): Schema {
  if (one === other || isHidden(one)) return one;
  if (isHidden(other)) return other;
  const both: Source = { ...pick({ ...one, ...other }, isAnnotation), allOf: [one, other] };
  mergeParts(both);
  return both;
}

/** Whether a property is hidden: readOnly in a request, or writeOnly in an answer. */
export function isHidden(schema: Schema): boolean {
  return Object.values(HIDDEN).includes(schema);
}
