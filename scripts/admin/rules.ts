import type { OpenAPIV3 } from 'openapi-types';
import { findProblem, type Problems } from '../../src/api/request.ts';
import { toFieldErrors } from '../../src/api/validate.ts';
import type { FieldErrors } from '../../src/errors.ts';
import { createAjv } from '../../src/openapi/compile.ts';

const OPERATION = 'criarAluno';

type Fields = Readonly<Record<string, string>>;
type Schema = OpenAPIV3.SchemaObject | OpenAPIV3.ReferenceObject;

/** What the document says of the fields of a student. */
export type Rules = {
  readonly fields: readonly string[];
  readonly required: readonly string[];
  /** What is wrong with the fields of a line, by field. */
  check(fields: Fields): FieldErrors;
};

/** Reads the rules from the document. */
export function readRules(document: OpenAPIV3.Document): Rules {
  const schema = findBody(document);
  const { properties = {}, required = [] } = resolve(document, schema);
  // References are to the components of the schema that they stand in.
  const components = document.components ?? {};
  const validate = createAjv().compile({ type: 'object', properties: { requestBody: schema }, components });
  const check = (fields: Fields) => {
    validate({ requestBody: fields });
    return toFieldErrors(validate.errors ?? [], findProblems(fields), []);
  };
  return { fields: Object.keys(properties), required, check };
}

function findBody(document: OpenAPIV3.Document): Schema {
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path ?? {}));
  const isOurs = (one: unknown) => (one as OpenAPIV3.OperationObject).operationId === OPERATION;
  const operation = operations.find(isOurs) as OpenAPIV3.OperationObject | undefined;
  const body = operation?.requestBody as OpenAPIV3.RequestBodyObject | undefined;
  const schema = body?.content['application/json']?.schema;
  if (!schema) throw new Error(`the document has no ${OPERATION} with a body`);
  return schema;
}

function findProblems(fields: Fields): Problems {
  const problems: Problems = new Map();
  for (const [field, text] of Object.entries(fields)) {
    const problem = findProblem(text);
    if (problem) problems.set(field, [problem]);
  }
  return problems;
}

function resolve(document: OpenAPIV3.Document, schema: Schema): OpenAPIV3.SchemaObject {
  if (!('$ref' in schema)) return schema;
  const target = document.components?.schemas?.[schema.$ref.replace('#/components/schemas/', '')];
  if (!target) throw new Error(`${schema.$ref} is not in the document`);
  return resolve(document, target);
}
