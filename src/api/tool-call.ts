// The call of an operation by MCP: arguments by name, in place of a path, a query, headers and a body.

import type { Body, Input } from '../openapi/operations.ts';
import { isNullable, type Scalar, type Schema } from '../openapi/schema.ts';
import type { Json, JsonObject } from '../store/store.ts';
import { MAX_INPUTS, messages } from './messages.ts';
import { type ApiRequest, convert, findProblem, sourceOf, type ToolCall, takeJson } from './request.ts';

/** The schema of the arguments that become the body. */
export function readBodySchema(body: Body | undefined): Schema {
  if (!body || body.fields) return body?.schema ?? {};
  return { properties: { body: body.schema }, required: body.isRequired ? ['body'] : [] };
}

/**
 * Takes the arguments of a tool call as the parts of a request. One that the document does not declare becomes an unknown field
 * or parameter, which is refused. Throws RequestFailed with `invalidInput`.
 */
export function takeArguments(request: ApiRequest, { operation, args, texts }: ToolCall): void {
  const { inputs, body } = operation;
  const fields: [string, Json][] = [];
  // With one argument more than an operation can have, one of them is unknown.
  for (const name of Object.keys(args).slice(0, MAX_INPUTS + 1)) {
    const value = args[name] as Json;
    const input = inputs.find((one) => one.name === name);
    // Where null is no value, a model means that the argument is left out.
    if (value === null && (input || isOptional(body, name))) continue;
    if (input) takeArgument(request, input, value);
    else if (!body) request.query[name] = value;
    else if (body.fields || name === 'body') fields.push([name, value]);
    else request.problems.set(name, [messages.isNoField]);
  }
  if (!body) return;
  const sent: JsonObject = Object.fromEntries(fields);
  const value = body.fields ? sent : sent.body;
  if (value === undefined && !body.isRequired) return;
  if (value === undefined) request.problems.set('body', [messages.isRequired]);
  takeJson(request, body, value ?? null, texts);
}

function takeArgument(request: ApiRequest, input: Input, value: Json): void {
  const isMisfit = typeof value === 'object' && input.form !== 'array';
  const problem = isMisfit ? messages.isNoScalar : findProblem(value);
  if (problem) request.problems.set(input.name, [problem]);
  const [source, name] = sourceOf(request, input);
  source[name] = Array.isArray(value) ? value.map((item) => toTyped(item, input.type)) : toTyped(value, input.type);
}

/** Models also send texts for numbers, and numbers for texts. */
function toTyped(value: Json, type: Scalar): Json {
  const isText = typeof value === 'string' || (type === 'string' && typeof value !== 'object');
  return isText ? convert(String(value), type) : value;
}

/** Whether an argument of the body may be left out, and cannot be null. */
function isOptional(body: Body | undefined, name: string): boolean {
  const { properties = {}, required = [] } = readBodySchema(body);
  const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return schema !== undefined && !required.includes(name) && !isNullable(schema);
}
