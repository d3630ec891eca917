import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import express from 'express';
import type { OpenAPIV3 } from 'openapi-types';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readInstalled } from '../../scripts/scalar.ts';
import { serveOwn } from '../../src/http/app.ts';
import { serveDocs } from '../../src/http/docs.ts';
import { toOrigin } from '../../src/http/server.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { readTexts } from '../../src/openapi/translations.ts';
import type { Store } from '../../src/store/store.ts';
import { canTestInBrowser, launchBrowser } from '../helpers/browser.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { expectSecure } from '../helpers/secure-headers.ts';
import { namesIn, send } from '../helpers/send.ts';

const KEY = 'wms_demo_aurora';

const document = readDocument('openapi.yaml');
const translations = readTexts('openapi.yaml');
let texts = translations;
let served = document;
let demoKey: string | undefined;
let server: Server;
let origin: string;

beforeAll(async () => {
  const app = express().disable('x-powered-by');
  app.use(serveOwn(serveDocs(() => ({ source: served, texts, demoKey }))));
  server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = toOrigin(server);
});

afterEach(() => {
  [served, texts, demoKey] = [document, translations, undefined];
});

afterAll(() => void server.close().closeAllConnections());

const get = (path: string, headers: Record<string, string> = {}) => send(origin + path, { headers });

/** The path of Scalar's script on the page. It contains the hash of the content. */
async function findScript(): Promise<string> {
  const { text } = await get('/docs');
  return `/${/src="(docs\/scalar-[\da-f]{10}\.js)"/.exec(text)?.[1]}`;
}

describe('the document', () => {
  test.each([
    ['/openapi.json', 'application/json; charset=utf-8', (text: string) => JSON.parse(text)],
    ['/openapi.yaml', 'application/yaml', (text: string) => parse(text)],
  ])('is served at %s', async (path, type, read) => {
    const { status, headers, text } = await get(path);
    expect(status).toBe(200);
    expect(headers).toMatchObject({ 'content-type': type, 'cache-control': 'no-cache' });
    expect(read(text)).toEqual(document);
  });

  test.each(['/openapi.json', '/openapi.yaml', '/docs', '/docs/start.js', '/docs/openapi.json'])(
    'is not sent again to a client that has it: %s',
    async (path) => {
      const { headers } = await get(path);
      const { status, text } = await get(path, { 'If-None-Match': headers.etag ?? '' });
      expect([status, text]).toEqual([304, '']);
    },
  );

  test('is the one that is served at the time', async () => {
    const before = await get('/openapi.json');
    served = { ...document, info: { ...document.info, title: 'Edited <b> & "saved"' } };
    const after = await get('/openapi.json', { 'If-None-Match': before.headers.etag ?? '' });
    expect(after.status).toBe(200);
    expect(JSON.parse(after.text)).toEqual(served);
    expect((await get('/docs')).text).toContain('<title>Edited &#60;b&#62; &#38; &#34;saved&#34;</title>');
  });

  test('of the page leaves optional parameters out of the examples of others, even if operations share them', async () => {
    const nome: OpenAPIV3.ParameterObject = { name: 'nome', in: 'query', examples: { byName: { value: 'Ana' } } };
    const content = { 'application/json': { examples: { firstPage: { value: [] } } } };
    const components = { parameters: { nome }, responses: { Alunos: { description: 'Students', content } } };
    const operation = {
      parameters: [{ $ref: '#/components/parameters/nome' }],
      responses: { 200: { $ref: '#/components/responses/Alunos' } },
    };
    served = { ...document, components, paths: { '/alunos': { get: operation } } };
    const shown = JSON.parse((await get('/docs/openapi.json')).text);
    // The response's examples come first.
    expect(Object.entries(shown.paths['/alunos'].get.parameters[0].examples)).toEqual([
      ['firstPage', { value: '', 'x-disabled': true }],
      ['byName', { value: 'Ana' }],
    ]);
    expect(shown.components).toEqual(components);
    const limit = { name: 'limit', in: 'query', example: 5, schema: { type: 'integer', default: 3 } } as const;
    const responses = { 200: { description: 'Students' } };
    served = { ...document, components, paths: { '/alunos': { get: { parameters: [limit], responses } } } };
    const [unnamed] = JSON.parse((await get('/docs/openapi.json')).text).paths['/alunos'].get.parameters;
    expect(unnamed.examples).toEqual({ empty: { value: '', 'x-disabled': true }, example: { value: 5 } });
    const other = { name: 'other', in: 'query', example: 1 } as const;
    const item = { parameters: [{ ...limit, example: 1 }, other], get: { parameters: [limit], responses } };
    served = { ...document, components, paths: { '/alunos': item } };
    const { parameters, get: list } = JSON.parse((await get('/docs/openapi.json')).text).paths['/alunos'];
    expect([parameters, list.parameters]).toEqual([
      undefined,
      [unnamed, { name: 'other', in: 'query', examples: { ...unnamed.examples, example: { value: 1 } } }],
    ]);
  });
});

describe('the page', () => {
  test.each([
    ['https://{region}.wellness.example/v1', '/v1'],
    ['https://wellness.example', '/'],
  ])('sends requests to its own host where the server is %s', async (url, path) => {
    served = { ...document, servers: [{ url, variables: { region: { default: 'br' } } }] };
    expect(JSON.parse((await get('/docs/openapi.json')).text).servers).toEqual([{ url: path }]);
    expect(JSON.parse((await get('/openapi.json')).text)).toEqual(served);
  });

  test('lets no foreign and no inline script run', async () => {
    const { status, headers } = await get('/docs');
    expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expectSecure(headers);
    const policy = headers['content-security-policy']?.split(';');
    expect(policy).toEqual(expect.arrayContaining(["script-src 'self'", "connect-src 'self'"]));
  });

  test('is found with a slash behind it too', async () => {
    const { status, headers } = await get('/docs/');
    expect([status, headers.location]).toEqual([308, '../docs']);
  });

  test.each(['POST', 'OPTIONS'])('is a 405 for %s', async (method) => {
    const { status, headers, text } = await send(`${origin}/docs`, { method });
    expect([status, headers.allow, text]).toEqual([405, 'GET, HEAD', '{"error":"Method not allowed"}']);
  });
});

test('the key of the demo data is filled in where the security of the document needs it', async () => {
  demoKey = KEY;
  const bearer = { type: 'http', scheme: 'bearer' } as const;
  const securitySchemes = { bearer, ...document.components?.securitySchemes };
  served = { ...document, components: { ...document.components, securitySchemes } };
  const { text } = await get('/docs/start.js');
  const authentication = { preferredSecurityScheme: 'apiKey', securitySchemes: { apiKey: { value: KEY } } };
  expect(text).toContain(`"authentication":${JSON.stringify(authentication)}`);
});

describe('in Portuguese', () => {
  const PORTUGUESE = { 'Accept-Language': 'pt-PT, en;q=0.5' };
  const ADDED = 'Count the lockers';
  const read = async (query: string, headers?: Record<string, string>) => {
    const paths = ['/docs', '/docs/start.js', '/docs/openapi.json'];
    const parts = await Promise.all(paths.map((path) => get(path + query, headers)));
    for (const part of parts) expect(part.headers.vary).toContain('Accept-Language');
    const [page = '', start = '', shown = ''] = parts.map(({ text }) => text);
    const { info, paths: shownPaths }: OpenAPIV3.Document = JSON.parse(shown);
    const find = (text: string, pattern: RegExp) => pattern.exec(text)?.[1];
    return {
      languages: [find(page, /<html lang="(.*)">/), find(start, /"locale":"(\w+)"/)],
      urls: [find(page, /src="(docs\/start[^"]*)"/), find(start, /"url":"([^"]*)"/)],
      other: info.description?.split('\n')[0],
      summary: shownPaths['/alunos']?.get?.summary,
    };
  };
  const inEnglish = {
    languages: ['en', 'en'],
    urls: ['docs/start.js?lang=en', 'docs/openapi.json?lang=en'],
    other: '[Esta página em português](?lang=pt-BR)',
    summary: 'List students',
  };
  const inPortuguese = {
    languages: ['pt-BR', 'pt'],
    urls: ['docs/start.js?lang=pt-BR', 'docs/openapi.json?lang=pt-BR'],
    other: '[This page in English](?lang=en)',
    summary: 'Listar alunos',
  };

  test('for a browser that prefers it, or as the URL says', async () => {
    expect(await read('')).toEqual(inEnglish);
    expect(await read('', PORTUGUESE)).toEqual(inPortuguese);
    expect(await read('?lang=pt-BR')).toEqual(inPortuguese);
    expect(await read('?lang=en', PORTUGUESE)).toEqual(inEnglish);
    expect(await read('?lang=fr', { 'Accept-Language': 'fr' })).toEqual(inEnglish);
  });

  test('only if the document has Portuguese texts', async () => {
    texts = new Map();
    const other = document.info.description?.split('\n')[0];
    expect(await read('?lang=pt-BR', PORTUGUESE)).toEqual({ ...inEnglish, other });
  });

  test('except for a text without a translation', async () => {
    const item = document.paths['/alunos'];
    const operation = { ...item?.get, summary: ADDED } as OpenAPIV3.OperationObject;
    served = { ...document, paths: { ...document.paths, '/alunos': { ...item, get: operation } } };
    expect(await read('', PORTUGUESE)).toEqual({ ...inPortuguese, summary: ADDED });
  });

  test('without changes to examples, names and the served document', async () => {
    const shown: OpenAPIV3.Document = JSON.parse((await get('/docs/openapi.json', PORTUGUESE)).text);
    expect(shown.paths['/alunos']?.post?.requestBody).toMatchObject({
      content: {
        'application/json': {
          examples: { createdMinimal: { value: { p_nome: 'Quirino Dantas', p_email: 'quirino@aurora.example' } } },
        },
      },
    });
    expect(JSON.parse((await get('/openapi.json', PORTUGUESE)).text)).toEqual(document);
  });
});

describe("Scalar's script", () => {
  // After an update of Scalar, `npm run generate` writes the file again.
  const installed = readInstalled();

  test.each([
    ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
    ['gzip, br;q=0', 'gzip', gunzipSync],
    ['identity', undefined, (bytes: Buffer) => bytes],
  ])('is compressed for a client that accepts %s', async (accepted, encoding, decode) => {
    const { status, headers, bytes } = await get(await findScript(), { 'Accept-Encoding': accepted });
    expect([status, headers['content-encoding']]).toEqual([200, encoding]);
    expect(headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      'content-length': String(bytes.length),
    });
    expect(namesIn(headers.vary)).toContain('accept-encoding');
    expect(decode(bytes).equals(await installed)).toBe(true);
  });
});

describe.skipIf(!canTestInBrowser())('in a browser', () => {
  let store: Store;
  /** One without a search for the demo data, and one with it. */
  let gateways: readonly [TestGateway, TestGateway];
  let gateway: TestGateway;
  let browser: Browser;
  let page: Page;
  const urls: string[] = [];
  const faults: string[] = [];

  beforeAll(async () => {
    browser = await launchBrowser();
    store = await openTestStore();
    gateways = [await startGateway({ store }), await startGateway({ store, hasWholeStore: true })];
  });

  afterAll(async () => {
    await browser.close();
    for (const { close } of gateways) await close();
    await store.close();
  });

  beforeEach(() => {
    urls.length = 0;
    faults.length = 0;
  });

  afterEach(async () => {
    await page.close();
    expect(faults).toEqual([]);
    const own = new URL(gateway.url).origin;
    expect(urls.filter((url) => new URL(url).origin !== own && !url.startsWith('data:'))).toEqual([]);
  });

  const DESKTOP = { width: 1440, height: 900 };
  const PHONE = { width: 390, height: 844 };

  async function open(opened: TestGateway, viewport: typeof DESKTOP, address = ''): Promise<void> {
    gateway = opened;
    page = await browser.newPage({ viewport, reducedMotion: 'reduce' });
    page.setDefaultTimeout(60_000);
    page.on('request', (sent) => urls.push(sent.url()));
    page.on('requestfailed', (sent) => faults.push(`${sent.url()} failed`));
    page.on('pageerror', (error) => faults.push(error.message));
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) faults.push(message.text());
    });
    await show(address);
  }

  const show = (address: string) => page.goto(new URL(`/docs${address}`, gateway.url).href);

  /** Sends the request of a list, for which the key has to be right. */
  async function sendList(): Promise<void> {
    const { search } = new URL(page.url());
    await show(`${search}#tag/alunos/GET/alunos`);
    await page.getByRole('button', { name: 'Test Request (get /alunos)' }).click();
    const list = page.getByRole('dialog');
    await list.getByRole('button', { name: 'Send get request' }).click();
    await list.getByText('200 OK').waitFor();
    await list.getByText('Ana Alves').waitFor();
    expect(urls.at(-1)).toBe(`${gateway.url}/alunos?limit=2`);
  }

  test('sends a request with the key that was entered, and does not keep it', async () => {
    await open(gateways[0], DESKTOP);
    await page.getByRole('heading', { name: document.info.title }).waitFor();
    expect(await page.title()).toBe(document.info.title);
    await page.getByRole('textbox', { name: 'Value' }).fill(KEY);
    await sendList();
    const kept = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]));
    expect(kept).not.toContain(KEY);
  });

  test("fits a phone in Portuguese, changes to English, and fills in the demo data's key while that is served", async () => {
    await open(gateways[1], PHONE, '?lang=pt-BR#tag/alunos/POST/alunos');
    await page.getByRole('heading', { name: 'Criar um aluno', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Testar Requisição (post /alunos)' }).waitFor();
    await page.getByText('Expressão regular').first().waitFor();
    expect(await page.getByText('Padrão', { exact: true }).count()).toBe(0);
    expect(await page.locator('html').evaluate(({ scrollWidth }) => scrollWidth)).toBeLessThanOrEqual(PHONE.width);
    await page.getByRole('link', { name: 'This page in English' }).click();
    await page.getByText('Send your API key in the header').waitFor();
    await page.getByText('This gateway serves its demo data, whose key').waitFor();
    await sendList();
  });
});
