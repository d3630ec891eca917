// Writes what the handlers for msw need of the document as a JavaScript module. Its validators are code: a page whose
// Content-Security-Policy forbids eval could not compile schemas, and Ajv's compiler would be most of the package.

import { fileURLToPath } from 'node:url';
import { _, type ValidateFunction } from 'ajv';
import standalone from 'ajv/dist/standalone/index.js';
import type { OpenAPIV3 } from 'openapi-types';
import { toCall } from '../src/api/call.ts';
import { receiveExample } from '../src/api/validate.ts';
import { type CompiledDocument, compile, createAjv } from '../src/openapi/compile.ts';
import { type Example, examplesOf, readExamples } from '../src/openapi/examples.ts';
import type { DocumentOperation } from '../src/openapi/operations.ts';
import type { Json } from '../src/store/store.ts';
import type { MockAnswer, MockDocument, MockOperation } from './src/mock-document.js';

/** Ajv's code takes the formats from a variable of this name. */
const CODE = { source: true, formats: _`formats` };
const FORMATS_FILE = fileURLToPath(new URL('../src/openapi/formats.ts', import.meta.url));

/** Refusals of a valid request for what is not in its call: its time, its size, or a limit. */
const BESIDE_CALL = [408, 413, 429, 431];

/** Writes the module of a document; it exports a MockDocument. */
export async function writeMockDocument(source: OpenAPIV3.Document): Promise<string> {
  const document = await compile(source, { code: CODE });
  const validators = [...document.validators].map(
    ([id, functions]) => `${JSON.stringify(id)}: [${functions.map(toCode)}]`,
  );
  const data: Omit<MockDocument, 'validators'> = {
    apiRoot: document.apiRoot,
    operations: await readMockOperations(document),
    translations: [...document.translations],
  };
  return `import { formats } from ${JSON.stringify(FORMATS_FILE)};
export const document = { ...${JSON.stringify(data)}, validators: { ${validators} } };`;
}

/** Ajv writes a CommonJS module. */
function toCode(validator: ValidateFunction): string {
  const code = standalone.default(createAjv({ code: CODE }), validator);
  return `((module) => { ${code}; return module.exports; })({})`;
}

async function readMockOperations(document: CompiledDocument): Promise<MockOperation[]> {
  const examples = readExamples(document.source);
  const result: MockOperation[] = [];
  for (const operation of document.operations.values()) {
    const { path, method, operationId, responses } = operation.source;
    const own = examples.filter((example) => example.operationId === operation.id);
    const answers: MockAnswer[] = [];
    for (const [status, response] of Object.entries(responses)) {
      const { headers = {}, content } = response as OpenAPIV3.ResponseObject;
      const answer = { status: Number(status), headers: readHeaders(headers) };
      const named = own.filter((example) => example.status === answer.status);
      if (!content && (answer.status !== operation.status || named.length === 0)) answers.push(answer);
      // An example of a success that no request in the document leads to.
      if (answer.status === operation.status && named.length === 0) {
        answers.push(...Object.values(examplesOf(content)).map(({ value }) => ({ ...answer, value: value as Json })));
      }
      for (const example of named) {
        const { name, value } = example;
        const body = content ? { value: value as Json } : {};
        answers.push({ ...answer, name, ...body, ...(await readCause(document, example)) });
      }
    }
    // Only the router reads the source, and only MCP the body's schema.
    const source = { path, method, operationId, responses: {} } as DocumentOperation;
    const body = operation.body && { body: { ...operation.body, schema: {} } };
    result.push({ ...operation, ...body, source, answers });
  }
  return result;
}

function readHeaders(headers: NonNullable<OpenAPIV3.ResponseObject['headers']>): Record<string, string> {
  const examples = Object.entries(headers).flatMap(([name, header]) => {
    const { example } = header as OpenAPIV3.HeaderObject;
    // The origin of the example is not that of the page under test.
    return example === undefined || /^Access-Control-/i.test(name) ? [] : [[name, String(example)]];
  });
  return Object.fromEntries(examples);
}

async function readCause(document: CompiledDocument, example: Example): Promise<Pick<MockAnswer, 'cause'>> {
  const { request, status, after } = example;
  const received = await receiveExample(document, request);
  if (!received || after !== undefined) return {};
  const { operation, key } = received;
  if (status === 401) return { cause: { key } };
  // A 400 or 422 of a valid request is the database's, because of its arguments.
  if (status >= 500 || BESIDE_CALL.includes(status)) return {};
  const { [operation.key.argument]: _key, ...args } = toCall(operation, received.request).args;
  return { cause: { args } };
}
