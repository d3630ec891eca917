// Reads a request: its parts, their declared types, and the problems that no schema can describe. Runs in browsers too, in
// the client's handlers for msw.

import { type FieldErrors, type Message, RequestFailed } from '../errors.ts';
import type { Admission } from '../limits/account.ts';
import type { Body, Input, Operation } from '../openapi/operations.ts';
import type { Scalar } from '../openapi/schema.ts';
import { type Match, normalizePath } from '../openapi/url.ts';
import { isJsonObject, type Json, type JsonObject } from '../store/store.ts';
import type { EndedRequest, RequestRecord } from '../telemetry/record.ts';
import { MAX_DEPTH, MAX_INPUTS, messages } from './messages.ts';

/** The fields of a request's record that its stages set. */
type Learned = { [Name in 'key' | 'storeMs' | 'fault' | 'span']: EndedRequest[Name] };

/** A request without its socket, and the results of its stages. The log, metrics, traces and usage read it at the end. */
export interface RequestContext extends RequestRecord, Learned {
  /** The client's network: the address range that a single client controls. */
  readonly network: string;
  /** Aborted with ClientGone when the client disconnects, and with DeadlineError after the deadline. */
  readonly controller: AbortController;
  /** Reads the body; rejects with RequestFailed. */
  readBody(): Promise<Uint8Array>;
  operation: Operation | undefined;
  /** The decision of the key's limits. */
  admission: Admission | undefined;
  /** Whether the answer was sent. */
  readonly hasEnded: boolean;
}

/** A request that has arrived. */
export type Incoming = Arrived & Pick<RequestContext, 'readBody'>;
type Arrived = Pick<RequestRecord, 'method' | 'url' | 'headers'>;

/** Reads a request: from the parts of HTTP, or from a tool call. */
export type Reader = {
  /** Splits a request into its parts, without the body. Throws RequestFailed with `malformedUrl`. */
  read(arrived: Arrived): ApiRequest;
  /** Finds the operation. Throws RequestFailed with `notFound`, `withoutRoot` or `methodNotAllowed`. */
  route(match: Match, request: ApiRequest): Operation;
  /** Converts the inputs to their declared types, and reads the body. Throws RequestFailed. */
  takeInputs(incoming: Incoming, operation: Operation, request: ApiRequest): Promise<void>;
};

/** Reads an HTTP request: path, query, headers and body. */
export const httpReader: Reader = {
  read: readRequest,
  route: (match, { method, path }) => match(method, path),
  takeInputs: async (incoming, operation, request) => {
    if (operation.path.includes('{')) readPathParameters(request, operation.path, operation.inputs);
    convertInputs(request, operation);
    if (operation.body) takeBody(request, operation.body, await incoming.readBody());
  },
};

/** The parts of a request, with openapi-backend's names. */
export type ApiRequest = {
  readonly method: string;
  /** Normalized, so that equal paths are equal strings; empty for a tool call. */
  readonly path: string;
  readonly headers: Record<string, Json>;
  readonly query: Record<string, Json>;
  /** The query as it was sent. */
  readonly rawQuery: string;
  readonly params: Record<string, Json>;
  /** Undefined if an optional body was not sent. */
  requestBody?: Json;
  /**
   * The JSON of body fields and numeric parameters as it was sent, by argument, because a number may have more digits than
   * JavaScript holds. A body that becomes one argument is under `body`.
   */
  texts: Map<string, string>;
  /** Problems with inputs that their schemas cannot describe. */
  readonly problems: Problems;
};

/** Messages by the name of the parameter or field. */
export type Problems = Map<string, Message[]>;

/** Splits a request into its parts, without the body. Throws RequestFailed with `malformedUrl`. */
export function readRequest({ method, url, headers }: Arrived): ApiRequest {
  const end = url.includes('?') ? url.indexOf('?') : url.length;
  const rawQuery = url.slice(end + 1);
  return {
    method: method.toLowerCase(),
    path: parse('malformedUrl', () => normalizePath(url.slice(0, end))),
    // Node joins repeated headers with a comma, except set-cookie, which is not an input.
    headers: headers as Record<string, Json>,
    query: parseQuery(rawQuery),
    rawQuery,
    params: Object.create(null),
    texts: new Map(),
    problems: new Map(),
  };
}

/** Parses the query by name. A repeated name gets an array of values. */
function parseQuery(query: string): Record<string, Json> {
  // URLSearchParams ignores malformed escapes. No escape spans a separator, so decoding the whole query finds them.
  if (query.includes('%')) parse('malformedUrl', () => decodeURIComponent(query));
  const result: Record<string, string | string[]> = Object.create(null);
  // Without the ampersand, URLSearchParams would drop a leading question mark.
  for (const [name, value] of new URLSearchParams(`&${query}`)) {
    const earlier = result[name];
    if (earlier === undefined) result[name] = value;
    else if (Array.isArray(earlier)) earlier.push(value);
    else result[name] = [earlier, value];
  }
  return result;
}

/** Runs a parser. Throws RequestFailed of this kind if the parser throws. */
function parse<T>(kind: 'malformedUrl' | 'invalidJson', parser: () => T): T {
  try {
    return parser();
  } catch {
    throw new RequestFailed({ kind });
  }
}

/** Refuses a request with messages by the name of the parameter or field. */
export function refuse(fields: FieldErrors): never {
  throw new RequestFailed({ kind: 'invalidInput', fields });
}

/** The API key of a request; empty without one. */
export function readKey(request: Pick<ApiRequest, 'headers'>, { key }: Operation): string {
  decodeHeader(request, key.header);
  return String(request.headers[key.header] ?? '');
}

/** The API key of a request. Throws RequestFailed with `missingKey`, before the request costs more. */
export function takeKey(request: ApiRequest, operation: Operation): string {
  const key = readKey(request, operation);
  if (key === '') throw new RequestFailed({ kind: 'missingKey', header: operation.key.name });
  return key;
}

/** Converts the operation's inputs to their declared types, in place. */
export function convertInputs(request: ApiRequest, { inputs }: Operation): void {
  for (const input of inputs) {
    const [source, name] = sourceOf(request, input);
    if (input.in === 'header') decodeHeader(request, name);
    const value = source[name];
    if (value === undefined) continue;
    const isList = input.form === 'array';
    // Only an array that explodes may be repeated. An array in the path is already split.
    const isSeveral = Array.isArray(value) && !(isList && (input.separator === undefined || input.in === 'path'));
    const problem = isSeveral ? messages.isRepeated : findProblem(value);
    if (problem !== undefined) request.problems.set(input.name, [problem]);
    else if (isList) {
      const items = readItems(request, input, value);
      source[name] = items.map((item) => convert(item, input.type));
      if (input.type === 'number') request.texts.set(input.argument, `[${items}]`);
    } else if (typeof value === 'string') {
      source[name] = convert(value, input.type);
      if (input.type === 'number') request.texts.set(input.argument, value);
    }
  }
}

/** Reads the items of an array, from one parameter or from several. */
function readItems({ rawQuery }: ApiRequest, { in: place, name, type, separator }: Input, value: Json): string[] {
  if (separator === undefined || Array.isArray(value)) return [value].flat().map(String);
  if (place === 'header')
    return String(value)
      .split(separator)
      .map((item) => item.trim());
  // Only a string may contain a comma. Otherwise each comma separates items, even if a browser's form has encoded it.
  if (separator !== ',' || type !== 'string') return String(value).split(separator);
  // A comma separates before decoding, so that an item may contain one as %2C (RFC 6570, 3.2.1).
  const pairs = rawQuery.split('&').map((pair) => pair.split(/=(.*)/s));
  const [, raw = ''] = pairs.find(([written = '']) => decodePlus(written) === name) ?? [];
  return raw.split(',').map(decodePlus);
}

function decodePlus(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '));
}

/** Reads the path parameters. A segment has at most one, with optional literals before and after it. An array is split into items. */
function readPathParameters({ path, params }: ApiRequest, template: string, inputs: readonly Input[]): void {
  const segments = path.split('/').reverse();
  for (const [index, part] of template.split('/').reverse().entries()) {
    const [before = '', name, after = ''] = part.split(/[{}]/);
    if (!name) continue;
    const segment = segments[index] ?? '';
    const text = segment.slice(before.length, segment.length - after.length);
    const list = inputs.find((input) => input.in === 'path' && input.name === name && input.form === 'array');
    const whole = decodeURIComponent(text);
    if (!list) params[name] = whole;
    else params[name] = list.type === 'string' ? text.split(',').map(decodeURIComponent) : whole.split(',');
  }
}

/** Node decodes headers as Latin-1, but clients send letters outside ASCII as UTF-8. */
function decodeHeader({ headers }: Pick<ApiRequest, 'headers'>, name: string): void {
  const value = headers[name];
  if (typeof value !== 'string' || !/[\x80-\xff]/.test(value)) return;
  const bytes = Uint8Array.from(value, (letter) => letter.charCodeAt(0));
  const decoded = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  if (!decoded.includes('\ufffd')) headers[name] = decoded;
}

/** Returns the part of a request that contains an input, and the input's name in it. */
export function sourceOf(request: ApiRequest, input: Input): [Record<string, Json>, string] {
  if (input.in === 'header') return [request.headers, input.name.toLowerCase()];
  return [input.in === 'path' ? request.params : request.query, input.name];
}

/**
 * Converts a text to a type. The coercion is strict: a text that is not exactly the JSON form of the type stays a string and fails
 * validation.
 */
export function convert(text: string, type: Scalar): Json {
  if (type === 'integer') return /^(0|-?[1-9]\d*)$/.test(text) ? Number(text) : text;
  if (type === 'number') return /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' || (text === 'false' ? false : text);
  return text;
}

/**
 * Parses the body; ignores its Content-Type. If the body's fields become arguments, it must be a JSON object. Throws RequestFailed
 * with `invalidJson` or `invalidInput`.
 */
function takeBody(request: ApiRequest, body: Body, bytes: Uint8Array): void {
  if (bytes.length === 0 && !body.isRequired) return;
  const hasJsonFields = body.fields?.some(({ form }) => form === 'json') === true;
  const { value, text, problems, texts } = readJson(bytes, hasJsonFields);
  for (const [field, found] of problems) request.problems.set(field, found);
  // A body that is one argument may have a field named body, so the texts of its fields are not kept.
  takeJson(request, body, value, body.fields ? texts : new Map([['body', text]]));
}

/** Takes a parsed body, and its text or those of its fields. Throws RequestFailed with `invalidInput`. */
export function takeJson(request: ApiRequest, { fields: known }: Body, value: Json, texts: Inspection['texts']): void {
  if (known && !isJsonObject(value)) refuse({ body: [messages.isNoObject] });
  if (known && Object.keys(value as object).length > MAX_INPUTS) refuse({ body: [messages.hasTooManyFields] });
  for (const [name, part] of isJsonObject(value) ? Object.entries(value) : [['body', value] as const]) {
    // A part that is nested too deep has a problem already.
    if (request.problems.has(name)) continue;
    const problem = findProblem(part) ?? (known ? undefined : findProblem(name));
    if (problem !== undefined) request.problems.set(name, [problem]);
  }
  const isTooDeep = [...request.problems.values()].some((list) => list.includes(messages.isTooDeep));
  // Validators recurse at each level, so they do not get what is nested too deep.
  request.requestBody = isTooDeep ? withoutProblems(value, request.problems) : value;
  request.texts = new Map([...texts, ...request.texts]);
}

/** The fields that have no problem yet. */
function withoutProblems(value: Json, problems: Problems): Json {
  if (!isJsonObject(value)) return null;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !problems.has(name)));
}

/** Parses a JSON object. Throws RequestFailed with `invalidJson` or `invalidInput`. */
export function readObject(bytes: Uint8Array): { readonly fields: JsonObject } & Inspection {
  const { value, ...inspection } = readJson(bytes, true);
  if (!isJsonObject(value)) refuse({ body: [messages.isNoObject] });
  return { fields: value, ...inspection };
}

/** The text of each field of a JSON object. */
export function readTexts(json: string): Map<string, string> {
  return inspectText(json, true).texts;
}

/** Parses JSON in UTF-8. Throws RequestFailed with `invalidJson`. */
function readJson(bytes: Uint8Array, hasJsonFields: boolean): Parsed {
  const text = parse('invalidJson', () => new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  return readJsonText(text, hasJsonFields);
}

/** Parses JSON. Throws RequestFailed with `invalidJson`. */
export function readJsonText(text: string, hasJsonFields: boolean): Parsed {
  const value: Json = parse('invalidJson', () => JSON.parse(text));
  const inspection = inspectText(text, hasJsonFields || LONG_NUMBER.test(text));
  // With a reviver JSON.parse recurses, so JSON with problems, such as deep nesting, is not parsed again.
  const isExact = inspection.problems.size > 0 || !LONG_FRACTION.test(text);
  return { value: isExact ? value : JSON.parse(text, keepFraction), text, ...inspection };
}

/** The problems that JSON.parse does not report, and the text of each field if requested. */
type Inspection = { readonly problems: Problems; readonly texts: Map<string, string> };
type Parsed = Inspection & { readonly value: Json; readonly text: string };

/** Matches numbers that String(number) may not reproduce. */
const LONG_NUMBER = /\d[.e]|\d{16}/i;

/** Matches fractions that a double may round to an integer. */
const LONG_FRACTION = /[\d.]{17}/;

/** The largest integer for which keepFraction finds a fraction next to it. */
const MAX_FRACTION = 2 ** 51;

/** Replaces an integer that was rounded from a fraction by the next double: Postgres would refuse the fraction's digits as an integer. */
function keepFraction(_name: string, value: Json, { source = '' }: { readonly source?: string } = {}): Json {
  if (typeof value !== 'number' || !Number.isInteger(value) || Math.abs(value) > MAX_FRACTION) return value;
  const [whole = '', fraction] = toPlainNumber(source).split('.');
  const isAbove = Math.abs(Number(whole)) === Math.abs(value);
  return fraction === undefined ? value : value * (1 + (isAbove ? Number.EPSILON : -Number.EPSILON));
}

const NUMBER = /-?\d[\d.]*(e[+-]?\d+)?/iy;

/**
 * Finds the fields of a JSON object that contain a repeated name or a number too close to 0, or are nested too deep.
 * JSON.parse does not report repeated names; it keeps the last value. Hand-written, because libraries that report them are
 * recursive, and a body of 100 kB can have 50,000 levels.
 */
function inspectText(text: string, hasJsonFields: boolean): Inspection {
  const problems: Problems = new Map();
  const texts = new Map<string, string>();
  /** The names seen so far in each open object; undefined for an open array. */
  const open: (Set<string> | undefined)[] = [];
  /** The current field, and the start of its value. A body without fields counts as one field. */
  let field = 'body';
  let begin = 0;
  let string = '';
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '"') {
      const end = findStringEnd(text, at);
      string = text.slice(at, end + 1);
      at = end;
    } else if (sign === '-' || (sign !== undefined && sign >= '0' && sign <= '9')) {
      NUMBER.lastIndex = at;
      const [number = ''] = NUMBER.exec(text) ?? [];
      // JSON.parse reads 1e-400 as 0; Postgres refuses it as a double.
      const isLost = Number(number) === 0 && /^[^e]*[1-9]/i.test(number);
      if (isLost && !problems.has(field)) problems.set(field, [messages.isOutOfRange]);
      at += number.length - 1;
    } else if (sign === '{' || sign === '[') {
      open.push(sign === '{' ? new Set() : undefined);
      // The body itself is one level; MAX_DEPTH applies to a field's value.
      if (open.length === MAX_DEPTH + 2) problems.set(field, [messages.isTooDeep]);
    } else if (sign === ',' || sign === '}' || sign === ']') {
      if (open.length === 1 && begin > 0) texts.set(field, text.slice(begin, at));
      if (sign !== ',') open.pop();
    } else if (sign === ':') {
      const name: string = string.includes('\\') ? JSON.parse(string) : string.slice(1, -1);
      const names = open.at(-1);
      if (open.length === 1) {
        field = name;
        if (hasJsonFields) begin = at + 1;
      }
      if (names?.has(name) && !problems.has(field)) problems.set(field, [messages.isRepeated]);
      names?.add(name);
    }
  }
  return { problems, texts };
}

/** Returns the index of a string's closing quote. The text must be valid JSON. */
export function findStringEnd(text: string, begin: number): number {
  let at = begin + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}

/** Describes why Postgres cannot store a value unchanged; undefined if it can. */
export function findProblem(value: Json): Message | undefined {
  if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())) {
    return messages.isNoText;
  }
  // JSON.parse reads 1e400 as Infinity, which JSON cannot represent.
  if (typeof value === 'number' && !Number.isFinite(value)) return messages.isOutOfRange;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const parts of Array.isArray(value) ? [value] : [Object.keys(value), Object.values(value)]) {
    for (const part of parts) {
      const problem = findProblem(part);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}

/** The maximum number of zeros to write for an exponent: no integer type has more digits, and a short body must not grow. */
const MAX_ZEROS = 20;

/** Writes a JSON number without exponent and trailing zeros of a fraction, because Postgres refuses 7.0 and 1e2 as integers. */
export function toPlainNumber(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  const shift = Number(exponent);
  const point = whole.length + shift;
  if (whole === '' || point < -MAX_ZEROS || point > whole.length + fraction.length + MAX_ZEROS) return text;
  const digits = `${'0'.repeat(Math.max(0, -point))}${whole}${fraction}`.padEnd(point, '0');
  const end = Math.max(0, point);
  // A regular expression would search for the end from each zero, in quadratic time.
  let last = digits.length;
  while (last > end && digits[last - 1] === '0') last -= 1;
  const rest = last > end ? `.${digits.slice(end, last)}` : '';
  return sign + (digits.slice(0, end).replace(/^0+(?=\d)/, '') || '0') + rest;
}

/** Writes the integers in a JSON text as toPlainNumber does. */
export function toPlainIntegers(json: string): string {
  if (!LONG_NUMBER.test(json)) return json;
  let stringEnd = -1;
  return json.replace(/"|-?\d[\d.e+-]*/gi, (token, at: number) => {
    if (at <= stringEnd) return token;
    // A pattern for a whole string would overflow the stack.
    if (token === '"') stringEnd = findStringEnd(json, at);
    const plain = token === '"' ? token : toPlainNumber(token);
    return plain.includes('.') ? token : plain;
  });
}
