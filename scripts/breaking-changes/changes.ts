import { apiCompare, type Diff, resolveRef } from 'api-smart-diff';
import type { OpenAPIV3 } from 'openapi-types';
import { createRules } from './rules.ts';
import { nameAs, toServed } from './served.ts';

/** A difference between two documents, as a line of the report. */
export type Change = { readonly isBreaking: boolean; readonly line: string };

const MAX_VALUE = 80;

/** Finds the changes from one document to another, breaking ones first. */
export function findChanges(before: OpenAPIV3.Document, after: OpenAPIV3.Document): Change[] {
  const served = toServed(before);
  const { diffs, merged } = apiCompare(served, nameAs(served, toServed(after)), { rules: createRules() });
  const changes = diffs.map((diff) => ({ isBreaking: diff.type === 'breaking', line: describe(diff, merged) }));
  return changes.sort((a, b) => Number(b.isBreaking) - Number(a.isBreaking));
}

function describe({ type, path, before, after }: Diff, merged: OpenAPIV3.Document): string {
  const [place, ...rest] = path[0] === 'paths' ? splitPath(path.slice(1), merged) : path;
  return [type, place, ...(rest.length > 0 ? [rest.join('.')] : []), `${format(before)} → ${format(after)}`].join(': ');
}

/** Splits a path into a place, such as `GET /alunos 200` or `GET /alunos query limit`, and the path below it. */
function splitPath([url = '', method = '', ...path]: Diff['path'], merged: OpenAPIV3.Document): Diff['path'] {
  const operation = [...(method ? [String(method).toUpperCase()] : []), url].join(' ');
  const [part, name, ...rest] = path;
  if (part === 'requestBody') return [`${operation} body`, ...below(path.slice(1))];
  if (name === undefined) return [operation, ...path];
  if (part === 'responses') return [`${operation} ${name}`, ...below(rest)];
  if (part !== 'parameters') return [operation, ...path];
  const item = merged.paths[url] as Record<string, OpenAPIV3.OperationObject>;
  const parameter = resolveRef(item[method]?.parameters?.[Number(name)], merged) as OpenAPIV3.ParameterObject;
  return [`${operation} ${parameter.in} ${parameter.name}`, ...rest];
}

/** The path below the schema of a JSON body. */
function below(path: Diff['path']): Diff['path'] {
  return path.slice(0, 3).join() === 'content,application/json,schema' && path.length > 3 ? path.slice(3) : path;
}

function format(value: unknown): string {
  if (value === undefined) return 'none';
  const text = JSON.stringify(value);
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}
