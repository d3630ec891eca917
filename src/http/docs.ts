// The page for those who call the operations: Scalar shows the document, from files that the gateway serves itself.

import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { constants } from 'node:zlib';
import express, { type RequestHandler, type Router } from 'express';
import type { OpenAPIV3 } from 'openapi-types';
import { stringify } from 'yaml';
import { chooseEncoding, type Encoding, encode } from './compression.ts';
import { START_SCRIPT, securePage, toPage, toShownDocument } from './docs-page.ts';
import { sendText, toEntityTag } from './respond.ts';
import { addPath } from './routes.ts';

const SCRIPT = 'text/javascript; charset=utf-8';
const JSON_TEXT = 'application/json; charset=utf-8';
/** Of RFC 9512, which has no charset: YAML is UTF-8. */
const YAML = 'application/yaml';

/**
 * Serves the page at /docs, to which / leads, and at /openapi.json and /openapi.yaml the document that `readDocument`
 * gives at the time. The addresses in the page are relative, so a proxy may put a path before them.
 */
export function createDocs(readDocument: () => OpenAPIV3.Document): Router {
  const scalar = findScalar();
  const serve = (type: string, write: (document: OpenAPIV3.Document) => string) => serveText(type, readDocument, write);
  const router = express.Router({ strict: true });
  addPath(router, '/', (_req, res) => sendText(res, { status: 302, headers: { Location: 'docs' }, body: '' }));
  addPath(router, '/docs/', (_req, res) => sendText(res, { status: 308, headers: { Location: '../docs' }, body: '' }));
  const page = serve('text/html; charset=utf-8', (document) => toPage(document, scalar.path));
  addPath(router, '/docs', securePage, page);
  addPath(
    router,
    '/docs/start.js',
    serve(SCRIPT, () => START_SCRIPT),
  );
  addPath(router, `/${scalar.path}`, serveForGood(SCRIPT, scalar.file));
  const shown = serve(JSON_TEXT, (document) => JSON.stringify(toShownDocument(document)));
  addPath(router, '/docs/openapi.json', shown);
  addPath(
    router,
    '/openapi.json',
    serve(JSON_TEXT, (document) => JSON.stringify(document)),
  );
  addPath(
    router,
    '/openapi.yaml',
    serve(YAML, (document) => stringify(document)),
  );
  return router;
}

/** Scalar's script for browsers, and its path here, which another version has another of. */
function findScalar(): { readonly file: string; readonly path: string } {
  const manifest = findPackageJSON('@scalar/api-reference', import.meta.url) ?? '';
  const { version, browser } = JSON.parse(readFileSync(manifest, 'utf8'));
  return { file: join(dirname(manifest), browser), path: `docs/scalar-${version}.js` };
}

type Text = { readonly body: string; readonly tag: string };

/** Serves what is written of the document: once for each, since npm run dev puts another in its place. */
function serveText(
  type: string,
  readDocument: () => OpenAPIV3.Document,
  write: (document: OpenAPIV3.Document) => string,
): RequestHandler {
  const texts = new WeakMap<OpenAPIV3.Document, Text>();
  const read = (document: OpenAPIV3.Document): Text => {
    const body = write(document);
    const text = { body, tag: toEntityTag(body) };
    texts.set(document, text);
    return text;
  };
  return (_req, res) => {
    const document = readDocument();
    const { body, tag } = texts.get(document) ?? read(document);
    const headers = { 'Content-Type': type, 'Cache-Control': 'no-cache', ETag: tag, Vary: 'Accept-Encoding' };
    sendText(res, { status: 200, headers, body });
  };
}

/** For what is compressed once: higher qualities take seconds to save another tenth. */
const BROTLI = { [constants.BROTLI_PARAM_QUALITY]: 6 };

/** Serves a file whose address changes with its content; it is read and compressed once, when it is first asked for. */
function serveForGood(type: string, file: string): RequestHandler {
  const bodies = new Map<Encoding | undefined, Promise<Buffer>>();
  const read = (encoding: Encoding | undefined): Promise<Buffer> => {
    const bytes = readFile(file);
    const body = encoding ? bytes.then((whole) => encode(whole, encoding, BROTLI)) : bytes;
    bodies.set(encoding, body);
    body.catch(() => bodies.delete(encoding));
    return body;
  };
  return async (req, res) => {
    const encoding = chooseEncoding(req);
    const headers = {
      'Content-Type': type,
      'Cache-Control': 'public, max-age=31536000, immutable',
      Vary: 'Accept-Encoding',
      ...(encoding ? { 'Content-Encoding': encoding } : {}),
    };
    sendText(res, { status: 200, headers, body: await (bodies.get(encoding) ?? read(encoding)) });
  };
}
