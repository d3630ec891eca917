// Reads a tool call, which has named arguments in place of a path, a query and a body.

import type { Body, Input, Operation } from '../openapi/operations.ts';
import { formOf, isNullable, itemsOf, type Schema, typeOf, typesOf } from '../openapi/schema.ts';
import type { Json, JsonObject } from '../store/store.ts';
import { MAX_INPUTS, messages } from './messages.ts';
import {
  type ApiRequest,
  convert,
  convertInputs,
  findProblem,
  type Reader,
  readJsonText,
  readRequest,
  sourceOf,
  takeJson,
} from './request.ts';

/** The types that models may send as strings. number comes first, because types with number also contain integer. */
const SCALARS = ['number', 'integer', 'boolean'] as const;

/** The schema of the arguments that become the body. */
export function readBodySchema(body: Body | undefined): Schema {
  if (!body || body.fields) return body?.schema ?? {};
  return { properties: { body: body.schema }, required: body.isRequired ? ['body'] : [] };
}

/** The name of the tool argument for an input. One model API refuses a whole request for a name such as `filter[name]`. */
export function toToolArgument({ name, argument }: Input): string {
  return /^[\w.-]{1,64}$/.test(name) ? name : argument.replace(/^p_/, '');
}

/** An operation, and the arguments for it. */
export type ToolCall = {
  readonly operation: Operation;
  /** The parameters and body fields by name. A body that becomes one argument is under `body`. */
  readonly args: JsonObject;
  /** The JSON of each argument as it was sent. */
  readonly texts: Map<string, string>;
};

/** Creates the reader of a tool call: its headers are those of the HTTP request, its inputs are the arguments. */
export function createToolReader(call: ToolCall): Reader {
  return {
    read: ({ headers }) => readRequest({ method: '', url: '', headers: { ...headers } }),
    route: () => call.operation,
    takeInputs: async (_incoming, operation, request) => {
      convertInputs(request, operation);
      takeArguments(request, call);
    },
  };
}

/** Assigns the arguments to the inputs. An undeclared argument becomes an unknown field or parameter, which is refused. */
function takeArguments(request: ApiRequest, { operation, args, texts }: ToolCall): void {
  const { inputs, body } = operation;
  const { properties = {}, required = [] } = readBodySchema(body);
  const fields: [string, Json][] = [];
  // One argument more than an operation can have is enough: at least one of them is unknown, and refused.
  for (const name of Object.keys(args).slice(0, MAX_INPUTS + 1)) {
    const value = args[name] as Json;
    const input = inputs.find((one) => toToolArgument(one) === name || one.name === name);
    const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
    // Models send null for an omitted argument. For a body field that is required or nullable it is the value.
    if (value === null && (input || (schema && !required.includes(name) && !isNullable(schema)))) continue;
    if (input) takeArgument(request, input, value, texts.get(name));
    else if (!body) request.query[name] = value;
    else if (!body.fields && name !== 'body') request.problems.set(name, [messages.isNoField]);
    else {
      const [typed, text] = toTyped(request, name, value, typesOf(schema ?? {}), texts.get(name));
      const isList = body.fields !== undefined && schema !== undefined && formOf(schema) === 'array';
      fields.push([name, isList ? toItems(typed, typesOf(itemsOf(schema) ?? {}), text) : typed]);
      if (text !== undefined) texts.set(name, text);
    }
  }
  if (!body) return;
  const sent: JsonObject = Object.fromEntries(fields);
  const value = body.fields ? sent : sent.body;
  if (value === undefined && !body.isRequired) return;
  if (value === undefined) request.problems.set('body', [messages.isRequired]);
  takeJson(request, body, value ?? null, texts);
}

function takeArgument(request: ApiRequest, input: Input, given: Json, givenText: string | undefined): void {
  const { name, type, form } = input;
  const [value, text] = toTyped(request, name, given, [form === 'array' ? 'array' : type], givenText);
  // The checks below would recurse into a value that is nested too deep.
  if (request.problems.has(name)) return;
  const isMisfit = typeof value === 'object' && form !== 'array';
  const problem = isMisfit ? messages.isNoScalar : findProblem(value);
  if (problem) request.problems.set(name, [problem]);
  const [source, key] = sourceOf(request, input);
  source[key] = toItems(value, [type], text);
  if (type === 'number' && text !== undefined) request.texts.set(input.argument, text);
}

/** Converts the items of a list that becomes an SQL array. A list that becomes JSON keeps its text instead. */
function toItems(value: Json, types: readonly string[], text?: string): Json {
  if (!Array.isArray(value)) return value;
  // With a reviver JSON.parse recurses. A list of lists is refused anyway.
  const isFlat = value.every((item) => typeof item !== 'object' || item === null);
  const toText = (_name: string, item: Json, { source }: { readonly source?: string } = {}) => source ?? item;
  const texts: readonly string[] = isFlat && text !== undefined ? JSON.parse(text, toText) : [];
  return value.map((item, index) => toScalar(item, types, texts[index]));
}

/** Converts a value of a tool call, and returns its JSON as it was sent. Models also send arrays and objects as strings. */
function toTyped(
  request: ApiRequest,
  name: string,
  value: Json,
  types: readonly string[],
  text: string | undefined,
): readonly [Json, string | undefined] {
  const isJson = typeof value === 'string' && !types.includes('string') && /^\s*[[{]/.test(value);
  if (!isJson) {
    const typed = toScalar(value, types, text);
    if (typeof typed === typeof value) return [typed, text];
    // A string that was converted is JSON itself. A value that became a string has to be quoted.
    return [typed, typeof value === 'string' ? value : JSON.stringify(typed)];
  }
  try {
    const { value: parsed, problems } = readJsonText(value, false);
    const [found] = problems.values();
    if (found) request.problems.set(name, found);
    return [parsed, value];
  } catch {
    return [value, text];
  }
}

/** Converts a scalar: models also send strings for numbers, and numbers for strings. */
function toScalar(value: Json, types: readonly string[], text?: string): Json {
  if (typeof value === 'object') return value;
  if (types.includes('string')) return types.includes(typeOf(value)) ? value : (text ?? String(value));
  const type = SCALARS.find((scalar) => types.includes(scalar));
  return typeof value === 'string' && type ? convert(value, type) : value;
}
