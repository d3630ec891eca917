import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { expect } from 'vitest';
import { compileSchema, createAjv } from '../../src/openapi/compile.ts';
import { compileOnce, type TestGateway } from './gateway.ts';

/** Matches method, target and body; headers; the status and the body of the answer. */
const CALL = /^([A-Z]+) (\S+)(?: (.+))?\n((?:[\w-]+: .*\n)*)(\d{3})(?: (.+))?$/gm;

const parse = (text = '') => (text === '' ? undefined : JSON.parse(text));

/** Sends the calls of an .http file, and checks the answers, also against their schemas. Returns the operations that succeeded. */
export async function replay(gateway: TestGateway, document: OpenAPIV3.Document, file: string): Promise<Set<string>> {
  const { match } = await compileOnce(document);
  const ajv = createAjv();
  const succeeded = new Set<string>();
  const calls = readFileSync(file, 'utf8');
  for (const [call, method = '', target, body, headers = '', status, answer] of calls.matchAll(CALL)) {
    const url = new URL(gateway.url.replace(/\/$/, '') + target);
    const { id, key, source, ...operation } = match(method.toLowerCase(), url.pathname);
    const own = [...headers.matchAll(/^(.*?): (.*)$/gm)].map(([, name = '', value = '']) => [name, value]);
    const init = { method, headers: { [key.name]: 'wms_demo_aurora', ...Object.fromEntries(own) }, body: body ?? null };
    const response = await fetch(url, init);
    const value = parse(await response.text());
    expect([response.status, value], call).toEqual([Number(status), parse(answer)]);
    if (response.status !== operation.status) continue;
    succeeded.add(id);
    const { content } = source.responses[response.status] as OpenAPIV3.ResponseObject;
    const isValid = compileSchema(ajv, content?.['application/json']?.schema ?? {});
    expect([isValid(value), isValid.errors], call).toEqual([true, null]);
  }
  return succeeded;
}
