// The documentation page, in English and in Portuguese: Scalar renders the document. The gateway serves all its files.

import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliDecompress } from 'node:zlib';
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference';
import type { Request, RequestHandler } from 'express';
import type { OpenAPIV3 } from 'openapi-types';
import { stringify } from 'yaml';
import { prefersPortuguese } from '../api/messages.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { readApiRoot } from '../openapi/document.ts';
import { findKeyName } from '../openapi/examples.ts';
import { follow } from '../openapi/pointer.ts';
import { translateTexts } from '../openapi/translations.ts';
import type { Endpoints } from './app.ts';
import { chooseEncoding, type Encoding, encode } from './compression.ts';
import { type Headers, sendCounted, sendText, toEntityTag } from './respond.ts';

const HTML = 'text/html; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';
const JSON_TEXT = 'application/json; charset=utf-8';
/** RFC 9512 defines no charset parameter: YAML is UTF-8. */
const YAML = 'application/yaml';

/** The content of the page: the document, and its Portuguese texts if it has any. */
export type Shown = Pick<CompiledDocument, 'source' | 'texts'> & {
  /** The key that the page fills in, while the demo data is served. */
  readonly demoKey?: string | undefined;
};

type Language = 'en' | 'pt-BR';
type Write = (shown: Shown, language: Language) => string;

/** The page's own texts. */
const TEXTS = {
  en: {
    scalar: { locale: 'en' },
    noScript: 'This page needs JavaScript. The document is',
    demo: (key: string) => `**Demo data.** This gateway serves its demo data, whose key \`${key}\` is filled in below.`,
    other: '[Esta página em português](?lang=pt-BR)',
  },
  'pt-BR': {
    // Scalar's own texts use one word for a default and for a pattern.
    scalar: {
      locale: 'pt',
      translations: {
        schema: {
          default: 'Valor padrão',
          pattern: 'Expressão regular',
          copyPattern: 'Copiar expressão regular',
          enum: 'valores permitidos',
        },
      },
    },
    noScript: 'Esta página precisa de JavaScript. O documento é',
    demo: (key: string) =>
      `**Dados de demonstração.** Este gateway serve seus dados de demonstração, e a chave deles, \`${key}\`, já está preenchida abaixo.`,
    other: '[This page in English](?lang=en)',
  },
} as const;

/**
 * Serves the page at /docs, to which / redirects, and the current document at /openapi.json and /openapi.yaml. The URLs
 * in the page are relative, so a proxy may add a prefix.
 */
export function serveDocs(read: () => Shown): Endpoints {
  // Scalar's script for browsers, compressed; scripts/scalar.ts writes it.
  const scalar = readFileSync(join(import.meta.dirname, 'scalar.js.br'));
  const script = `docs/scalar-${hash('sha1', scalar).slice(0, 10)}.js`;
  const localized = (type: string, write: Write, headers: Headers = {}) =>
    serveText(type, read, write, chooseLanguage, { ...headers, Vary: 'Accept-Language, Accept-Encoding' });
  const text = (type: string, write: (shown: Shown) => string) =>
    serveText(type, read, write, () => 'en', { Vary: 'Accept-Encoding' });
  return {
    '/': redirect(302, 'docs'),
    '/docs/': redirect(308, '../docs'),
    '/docs': localized(HTML, ({ source }, language) => toPage(source, script, language), PAGE_HEADERS),
    '/docs/start.js': localized(SCRIPT, toStartScript),
    [`/${script}`]: serveImmutable(SCRIPT, scalar),
    '/docs/openapi.json': localized(JSON_TEXT, (shown, language) => JSON.stringify(toShownDocument(shown, language))),
    '/openapi.json': text(JSON_TEXT, ({ source }) => JSON.stringify(source)),
    '/openapi.yaml': text(YAML, ({ source }) => stringify(source)),
  };
}

function redirect(status: number, location: string): RequestHandler {
  return (_req, res) => sendText(res, { status, headers: { Location: location }, body: '' });
}

/** Chooses the language that the URL names, or else the browser's. Portuguese is only served if the document has Portuguese texts. */
function chooseLanguage({ query, headers }: Request, { texts }: Shown): Language {
  if (texts.size === 0 || query.lang === 'en') return 'en';
  return query.lang === 'pt-BR' || prefersPortuguese(headers) ? 'pt-BR' : 'en';
}

/** Serves a text in the chosen language, and generates it again only when `read` returns another object. */
function serveText(
  type: string,
  read: () => Shown,
  write: Write,
  choose: typeof chooseLanguage,
  headers: Headers,
): RequestHandler {
  const written = new Map<Language, { readonly shown: Shown; readonly body: string; readonly tag: string }>();
  const constant = { ...headers, 'Cache-Control': 'no-cache', 'Content-Type': type };
  return (req, res) => {
    const shown = read();
    const language = choose(req, shown);
    let text = written.get(language);
    if (text?.shown !== shown) {
      const body = write(shown, language);
      text = { shown, body, tag: toEntityTag(body) };
      written.set(language, text);
    }
    sendCounted(res, { status: 200, headers: { ...constant, ETag: text.tag }, body: text.body });
  };
}

/** Serves Brotli-compressed bytes, at a URL that changes with them. Creates other encodings once, on demand. */
function serveImmutable(type: string, compressed: Buffer): RequestHandler {
  const bodies = new Map<Encoding | undefined, Promise<Buffer>>([['br', Promise.resolve(compressed)]]);
  const make = (encoding: Encoding | undefined): Promise<Buffer> => {
    const whole = promisify(brotliDecompress)(compressed);
    const body = encoding ? whole.then((bytes) => encode(bytes, encoding)) : whole;
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
    sendText(res, { status: 200, headers, body: await (bodies.get(encoding) ?? make(encoding)) });
  };
}

/** The page's own headers: everything in it comes from the gateway, and it has no inline script. */
const PAGE_HEADERS: Headers = {
  'Content-Security-Policy': [
    "default-src 'none';script-src 'self';connect-src 'self'",
    // No nonce, because Scalar sets it only on its first style element. With a nonce the body editor is empty, answers are
    // unreadable and customCss is ignored. The other directives keep a style from loading anything from elsewhere.
    "style-src 'unsafe-inline';img-src 'self' data:;font-src 'self' data:",
    "base-uri 'none';form-action 'none';frame-ancestors 'none'",
  ].join(';'),
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Origin-Agent-Cluster': '?1',
};

const STYLE = `
/* Scalar's placeholder for a missing key looks like a key. */
[placeholder^='QUxM']::placeholder { opacity: 0; }
/* The examples that completeExamples adds. */
.property-example-value:has(> span:empty) { display: none; }
/* On a phone it covers the address bar; the page has the same list. */
@media (max-width: 600px) { .scalar-sidebar-toggle { display: none; } }
/* A section gets the focus when a URL names it; a frame around it would look like an error. */
.section:focus-visible { outline: none; }
`;

const SETTINGS = {
  customCss: STYLE,
  withDefaultFonts: false,
  defaultOpenAllTags: true,
  // Scalar would offer its own changed copy; toShownDocument links to the served document.
  documentDownloadType: 'none',
  // Closing the page forgets the key.
  persistAuth: false,
  telemetry: false,
  showDeveloperTools: 'never',
  hideClientButton: true,
  mcp: { disabled: true },
  agent: { disabled: true },
} as const satisfies Partial<ApiReferenceConfiguration> & { agent: { disabled: true } };

/** The script that starts Scalar in the page. Requests go to the host that served the page. */
function toStartScript({ source, demoKey }: Shown, language: Language): string {
  const scheme = findKeyName(source);
  const isFilledIn = demoKey !== undefined && scheme !== undefined;
  const authentication = isFilledIn && {
    preferredSecurityScheme: scheme,
    securitySchemes: { [scheme]: { value: demoKey } },
  };
  const settings = {
    ...SETTINGS,
    url: `docs/openapi.json?lang=${language}`,
    localization: TEXTS[language].scalar,
    ...(authentication && { authentication }),
  };
  return `Scalar.createApiReference('#reference', {
  ...${JSON.stringify(settings)},
  baseServerURL: new URL('.', location.href).href,
});
`;
}

/** The page; `scalar` is the path of Scalar's script. */
function toPage({ info }: OpenAPIV3.Document, scalar: string, language: Language): string {
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(info.title)}</title>
<link rel="icon" href="data:,">
</head>
<body>
<noscript>${TEXTS[language].noScript} <a href="openapi.yaml">openapi.yaml</a>.</noscript>
<div id="reference"></div>
<script src="${escapeHtml(scalar)}"></script>
<script src="docs/start.js?lang=${language}"></script>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/**
 * The document for the page: it links to the other language and to the served document, its requests go to the gateway, its
 * examples are complete requests, and it names the key that is filled in.
 */
function toShownDocument({ source, texts, demoKey }: Shown, language: Language): OpenAPIV3.Document {
  const { demo, other } = TEXTS[language];
  const shown =
    language === 'en' ? structuredClone(source) : translateTexts(source, (paragraph) => texts.get(paragraph));
  const paragraphs = [texts.size > 0 && other, demoKey !== undefined && demo(demoKey), shown.info.description];
  shown.info.description = paragraphs.filter(Boolean).join('\n\n');
  // The page may send requests only to the gateway, which ignores the hosts in the document.
  shown.servers = [{ url: readApiRoot(source) || '/' }];
  shown.externalDocs ??= { description: 'openapi.yaml', url: 'openapi.yaml' };
  for (const item of Object.values(shown.paths)) {
    for (const operation of Object.values(item ?? {})) {
      if (typeof operation === 'object' && operation !== null && 'responses' in operation)
        completeExamples(operation, item?.parameters, shown);
    }
    delete item?.parameters;
  }
  return shown;
}

/**
 * Gives an operation the parameters of its path, and leaves optional ones without a value out of an example's request. Otherwise
 * Scalar would fill in the parameter's first example or the schema's first value, and all filters together find nothing.
 */
function completeExamples(
  operation: OpenAPIV3.OperationObject,
  shared: OpenAPIV3.PathItemObject['parameters'] = [],
  document: OpenAPIV3.Document,
): void {
  // Copies: other operations may refer to the same parameters.
  const all = [...shared, ...(operation.parameters ?? [])].map((one) => ({ ...follow(document, one) }));
  // An operation's parameter replaces the path's parameter of the same name and place.
  const parameters = [...new Map(all.map((one) => [`${one.in} ${one.name}`, one])).values()];
  operation.parameters = parameters;
  const optional = parameters.filter(({ required }) => !required);
  const examples = optional.map((parameter) => parameter.examples ?? {});
  // The first response's examples come first: Scalar shows the first of all.
  const [first = { description: '' }] = Object.values(operation.responses);
  const answers = Object.values(follow(document, first).content ?? {})[0]?.examples ?? {};
  const names = new Set([answers, ...examples].flatMap(Object.keys));
  if (names.size === 0) names.add('empty');
  const leftOut = [...names].map((name) => [name, { value: '', 'x-disabled': true }]);
  for (const parameter of optional) {
    const { example, examples = example === undefined ? {} : { example: { value: example } } } = parameter;
    parameter.examples = { ...Object.fromEntries(leftOut), ...examples };
    delete parameter.example;
  }
}
