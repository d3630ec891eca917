import type { OpenAPIV3 } from 'openapi-types';
import { inject } from 'vitest';
import { useOpened } from './database.ts';
import { compileOnce, openTestStore, startGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';

export const { source: document } = await compileOnce();

type RpcName = { readonly 'x-rpc'?: string };

/** Every operation of the document, with the function that it names. */
export const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  (['get', 'post', 'put', 'patch', 'delete'] as const).flatMap((method) => {
    const operation = item?.[method];
    const { operationId: id = '', 'x-rpc': rpc = '' } = (operation ?? {}) as OpenAPIV3.OperationObject<RpcName>;
    return operation ? [{ id, rpc, method: method.toUpperCase(), path, operation }] : [];
  }),
);

/** The responses of an operation without the 304 and their headers, which another operation may not send. */
export function withoutHeaders({ responses }: OpenAPIV3.OperationObject): OpenAPIV3.ResponsesObject {
  const { 304: _same, ...others } = responses;
  const plain = Object.entries(others).map(
    ([status, { headers: _headers, ...response }]: [string, object & { headers?: unknown }]) => [status, response],
  );
  return Object.fromEntries(plain);
}

/** The document with a single operation, which answers 204 unless its parts say more. */
export function documentOf(parts: object, path = '/um', method = 'post'): OpenAPIV3.Document {
  const operation = { operationId: 'um', 'x-rpc': 'um', responses: { 204: { description: 'Done' } }, ...parts };
  return { ...document, paths: { [path]: { [method]: operation } } } as unknown as OpenAPIV3.Document;
}

/** The part of an operation that takes a body. */
export const jsonBody = (schema: object) => ({
  requestBody: { required: true, content: { 'application/json': { schema } } },
});

/** The operations that return a list in pages. */
export const lists = operations.filter(({ operation }) => {
  const names = (operation.parameters ?? []).map((parameter) => 'name' in parameter && parameter.name);
  return names.includes('limit') && names.includes('offset');
});

/** A body that the creation of a student accepts. */
export const STUDENT = { p_nome: 'Ana Prado', p_email: 'ana@aurora.example' };

/** The keys of the demo data. */
export const KEYS = {
  aurora: 'wms_demo_aurora',
  bosque: 'wms_demo_bosque',
  readOnly: 'wms_demo_leitura',
  inactive: 'wms_demo_inativa',
  expired: 'wms_demo_expirada',
};

type GatewayOptions = Omit<TestGatewayOptions, 'store'> & { readonly sql: string };

/** Gives the tests of a file a gateway of these options, on a store of the running project's kind that has this SQL. */
export function useGateway({ sql, ...options }: GatewayOptions): TestGateway {
  const close = (opened: { close(): Promise<void> }) => opened.close();
  const store = useOpened(() => openTestStore({ sql }), close);
  return useOpened(() => startGateway({ ...options, store }), close);
}

export type Answer = { readonly status: number; readonly headers: Headers; readonly body: unknown };

export type CallOptions = {
  readonly url?: string;
  readonly method?: string;
  /** The API key; null leaves the header out. */
  readonly key?: string | null;
  readonly headers?: Record<string, string>;
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly body?: string | Uint8Array<ArrayBuffer>;
};

/** Sends a request to a gateway, by default the shared one. */
export async function call(target: string, options: CallOptions = {}): Promise<Answer> {
  const { url = inject('url'), key = KEYS.aurora, json, body, headers = {} } = options;
  const method = options.method ?? (json === undefined && body === undefined ? 'GET' : 'POST');
  const response = await fetch(url + target, {
    method,
    headers: { ...(key === null ? {} : { 'X-Api-Key': key }), ...headers },
    ...(method === 'GET' || method === 'HEAD' ? {} : { body: json === undefined ? body : JSON.stringify(json) }),
  } as RequestInit);
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? '' : JSON.parse(text) };
}
