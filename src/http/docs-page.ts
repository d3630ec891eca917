// What the documentation page is made of, beside Scalar's script.

import type { ApiReferenceConfiguration } from '@scalar/api-reference';
import type { RequestHandler } from 'express';
import helmet from 'helmet';
import type { OpenAPIV3 } from 'openapi-types';

const NONE = ["'none'"];
const SELF = ["'self'"];

/** Sets the page's headers: everything in it is the gateway's own, and no script is in its text. */
export const securePage: RequestHandler = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: NONE,
      scriptSrc: SELF,
      connectSrc: SELF,
      // Scalar uses a nonce for the first of its style elements alone. With one the editor of a body is empty, an
      // answer is a column of numbers above bare text, and customCss is ignored. A style can load nothing foreign.
      styleSrc: ["'unsafe-inline'"],
      imgSrc: [...SELF, 'data:'],
      fontSrc: [...SELF, 'data:'],
      baseUri: NONE,
      formAction: NONE,
      frameAncestors: NONE,
    },
  },
  xFrameOptions: { action: 'deny' },
  // Other hosts of the domain are none of the gateway's business.
  strictTransportSecurity: { includeSubDomains: false },
});

const STYLE = `
/* What Scalar shows where a key is missing looks like a key. */
[placeholder^='QUxM']::placeholder { opacity: 0; }
/* The examples that completeExamples adds. */
.property-example-value:has(> span:empty) { display: none; }
/* On a phone it lies upon the address; the page has the same list. */
@media (max-width: 600px) { .scalar-sidebar-toggle { display: none; } }
/* A section gets the focus when an address names it; a frame around it would look like a fault. */
.section:focus-visible { outline: none; }
`;

const SETTINGS = {
  url: 'docs/openapi.json',
  customCss: STYLE,
  withDefaultFonts: false,
  defaultOpenAllTags: true,
  // It would be the document as Scalar has changed it; toShownDocument links to the one that is served.
  documentDownloadType: 'none',
  // A key is forgotten with the page.
  persistAuth: false,
  telemetry: false,
  showDeveloperTools: 'never',
  hideClientButton: true,
  mcp: { disabled: true },
  agent: { disabled: true },
} as const satisfies Partial<ApiReferenceConfiguration> & { agent: { disabled: true } };

/** The script that starts Scalar in the page. The document's server is taken to be where the page is. */
export const START_SCRIPT = `Scalar.createApiReference('#reference', {
  ...${JSON.stringify(SETTINGS)},
  baseServerURL: new URL('.', location.href).href,
});
`;

/** The page; `scalar` is the path of Scalar's script. */
export function toPage(document: OpenAPIV3.Document, scalar: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(document.info.title)}</title>
<link rel="icon" href="data:,">
</head>
<body>
<noscript>This page needs JavaScript. The document is <a href="openapi.yaml">openapi.yaml</a>.</noscript>
<div id="reference"></div>
<script src="${escapeHtml(scalar)}"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The document for the page alone: it links to the one that is served, and its examples are requests to be sent. */
export function toShownDocument(document: OpenAPIV3.Document): OpenAPIV3.Document {
  const shown = structuredClone(document);
  shown.externalDocs ??= { description: 'openapi.yaml', url: 'openapi.yaml' };
  for (const item of Object.values(shown.paths)) {
    for (const operation of Object.values(item ?? {})) {
      if (typeof operation === 'object' && 'responses' in operation) completeExamples(operation);
    }
  }
  return shown;
}

/**
 * A parameter that has no part in an example is left out of its request. Scalar would give it the first of its own
 * examples or the schema's first value, and all filters together find nothing.
 */
function completeExamples({ parameters = [], responses }: OpenAPIV3.OperationObject): void {
  const optional = parameters.flatMap((parameter) =>
    '$ref' in parameter || parameter.required || !parameter.examples ? [] : [parameter],
  );
  const examples = optional.map((parameter) => parameter.examples ?? {});
  // The first response's come first: the first of them is what Scalar shows.
  const names = new Set([readExamples(responses), ...examples].flatMap(Object.keys));
  const leftOut = [...names].map((name) => [name, { value: '', 'x-disabled': true }]);
  for (const parameter of optional) parameter.examples = { ...Object.fromEntries(leftOut), ...parameter.examples };
}

function readExamples(responses: OpenAPIV3.ResponsesObject): object {
  const [first] = Object.values(responses);
  if (!first || '$ref' in first) return {};
  return Object.values(first.content ?? {})[0]?.examples ?? {};
}
