// The methods and paths of operations. Runs in browsers too, in the client's handlers for msw.

/** The methods of operations that the gateway serves, and all that OpenAPI has. */
export const METHODS = ['get', 'put', 'post', 'delete', 'patch'] as const;
export const ALL_METHODS: readonly string[] = [...METHODS, 'options', 'head', 'trace'];

/** The paths that the gateway answers itself, before those of the document. */
export const OWN_PATHS: readonly string[] = `/ /docs /docs/ /docs/openapi.json /docs/start.js /healthz /mcp /metrics
  /openapi.json /openapi.yaml /readyz`.split(/\s+/);

/** Characters that percent-encoding leaves unchanged, and the separators of segments and items. */
const PLAIN_PATH = /^[\w.!~*'()/,-]*$/;

/**
 * Normalizes the percent-encoding of a path. A comma separates the items of an array and stays one, as a slash does. Throws
 * URIError for a malformed escape.
 */
export function normalizePath(path: string): string {
  if (PLAIN_PATH.test(path)) return path;
  const normalize = (part: string) => (/^[/,]$/.test(part) ? part : encodeURIComponent(decodeURIComponent(part)));
  return path
    .split(/([/,])/)
    .map(normalize)
    .join('');
}

/** Normalizes the literal parts of a path template. */
export function normalizeTemplate(template: string): string {
  const parts = template.split(/(\{[^}]+\})/);
  return parts.map((part) => (part.startsWith('{') ? part : normalizePath(part))).join('');
}

/** Whether a request can have the path of a template: clients resolve dots, and send no fragment. */
export function isPossible(template: string): boolean {
  const path = template.replace(/\{[^{}/]+\}/g, '-');
  try {
    const sent = new URL(`http://localhost${path}`).pathname;
    return !/[{}]/.test(path) && normalizePath(sent) === normalizePath(path);
  } catch {
    return false;
  }
}

const PARAMETER = /\{([^}]+)\}/g;

/** The names of the parameters in a path template. */
export function readTemplate(template: string): readonly string[] {
  return Array.from(template.matchAll(PARAMETER), ([, name = '']) => name);
}

/** Replaces the parameters of a path template. */
export function fillTemplate(template: string, write: (name: string) => string): string {
  return template.replace(PARAMETER, (_whole, name) => write(name));
}

/** The runtime expressions in braces in a text (OpenAPI, "Runtime Expressions"). */
export const EXPRESSIONS = /\{(\$[^{}]*)\}/g;

/** The path of a template with the texts of its parameters, encoded as clients send it. A parameter without a text stays. */
export function writePath(template: string, texts: ReadonlyMap<string, string>): string {
  return fillTemplate(normalizeTemplate(template), (name) => texts.get(name) ?? `{${name}}`);
}
