// Checks HTTP itself, as far as proxies preserve it: headers, HEAD, and the methods of paths.

import { randomUUID } from 'node:crypto';
import { type Check, check, createOrExplain, describeAnswer, findFormFault, refused, type Setting } from './check.ts';
import { type Answer, Mismatch } from './client.ts';
import { isRaised, type Operation } from './contract.ts';
import { type Assignment, isRead, OWN_KEY, type Request, toValidPath, toValidRequest, withHeader } from './request.ts';

const ID = 'X-Request-Id';
const PORTUGUESE = 'pt-BR';
/** Attempts to read an unchanged list while others change it. */
const MAX_TRIES = 3;
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
/** Directives that let a shared cache keep any answer. */
const LASTING = /^public$|age="?[1-9]/;
/** Methods that a gateway may allow in addition to the document's. */
const IMPLIED = ['HEAD', 'OPTIONS'];

/** The checks of an operation's headers and of HEAD. */
export function* createHeaderChecks(setting: Setting, operation: Operation): Generator<Check> {
  const { client, coverage, contract } = setting;
  const { list, status, success, method } = operation;
  const unknown: Assignment = { input: { name: 'contract_test', in: 'query' }, value: '1' };
  const valid = toValidRequest(operation);
  const invalid = toValidRequest(operation, [unknown]);
  // These lead to different statuses and create nothing.
  const requests = [...(isRead(operation) ? [valid] : []), invalid, { ...valid, key: null }];

  if (method === 'GET') {
    // HEAD is GET without the content (RFC 9110, section 9.3.2).
    yield check('answers HEAD like GET', async () => {
      const request = { ...valid, method: 'HEAD' };
      const before = readHead(await client.send(valid));
      const got = readHead(await client.send(request));
      const after = readHead(await client.send(valid));
      for (const [name, expected] of Object.entries(before)) {
        // A proxy may remove headers, and others may change a list meanwhile.
        if (expected === '' || expected !== after[name] || expected === got[name]) continue;
        throw new Mismatch(request, `${name}: ${expected}, like GET`, `${name}: ${got[name] || 'none'}`);
      }
    });
  }

  if (method === 'GET' && success.headers.has('etag')) {
    // The first record stays first while others create records.
    const smallest = list ? [{ input: list.limit, value: list.limit.schema.minimum ?? 1 }] : [];
    const request = toValidRequest(operation, smallest);
    yield check('answers 304 to the ETag of an unchanged answer', async () => {
      for (let tries = 1; ; tries++) {
        const first = await client.send(request);
        // Without the demo data the record may not exist.
        if (isRaised(operation, first.status)) throw refused(first);
        const tag = first.headers.etag;
        if (!tag) throw new Mismatch(request, 'an ETag', 'none');
        const repeated = withHeader(request, 'If-None-Match', tag);
        const answer = await client.send(repeated);
        if (answer.status === 304 && answer.text === '') return coverage.show(operation, 'status', '304');
        const hasChanged = answer.status === status && answer.headers.etag !== tag;
        if (hasChanged && tries < MAX_TRIES) continue;
        throw new Mismatch(repeated, '304 without a body', describeAnswer(answer));
      }
    });
    yield check('answers in full to another ETag', async () => {
      const other = withHeader(valid, 'If-None-Match', 'W/"contract-test"');
      const answer = await client.send(other);
      if (answer.status === 304) throw new Mismatch(other, `${status} as in the document`, describeAnswer(answer));
      if (isRaised(operation, answer.status)) throw refused(answer);
      const { text, headers } = await client.send(request);
      if (text !== answer.text && headers.etag !== undefined && headers.etag === answer.headers.etag) {
        throw new Mismatch(request, `another ETag than ${other.target}, whose answer differs`, headers.etag);
      }
    });
  }

  // A proxy may replace the client's id, but ids must be unique.
  yield check(`returns the request's ${ID}`, async () => {
    const seen = new Set<string>();
    for (const request of requests) {
      const identified = withHeader(request, ID, `contract-${randomUUID()}`);
      const id = (await client.send(identified)).headers[ID.toLowerCase()];
      if (!id || seen.has(id)) {
        const got = id ? `${id}, as for another request` : 'none';
        throw new Mismatch(identified, `${ID}: ${identified.headers[ID]}, or a proxy's own`, got);
      }
      seen.add(id);
    }
  });

  yield check('forbids content type sniffing', async () => {
    for (const request of requests) {
      const value = (await client.send(request)).headers['x-content-type-options'] ?? 'none';
      if (value.toLowerCase() !== 'nosniff') throw new Mismatch(request, 'X-Content-Type-Options: nosniff', value);
    }
  });

  yield check('keeps answers to a key out of shared caches', async () => {
    const varying = contract.keyHeader.toLowerCase();
    const { etag } = isRead(operation) ? (await client.send(valid)).headers : {};
    const unchanged = etag ? [withHeader(valid, 'If-None-Match', etag)] : [];
    for (const request of [...requests, { ...valid, key: 'unknown_contract_test' }, ...unchanged]) {
      const { status, headers } = await client.send(request);
      const { 'cache-control': control = 'none', vary = 'none' } = headers;
      const [directives, names] = [control, vary].map((text) => listOf(text.toLowerCase())) as [string[], string[]];
      const isOfKey = directives.includes('no-cache') && ['*', varying].some((one) => names.includes(one));
      if (['no-store', 'private'].some((one) => directives.includes(one)) || isOfKey) continue;
      // A cache keeps a refusal only if it is told to (RFC 9110, section 15.1); a 304 leaves the headers of its copy.
      if (![200, 404, 405].includes(status) && !directives.some((one) => LASTING.test(one))) continue;
      const expected = `Cache-Control: no-store, private, or no-cache with Vary: ${contract.keyHeader}`;
      throw new Mismatch(request, expected, `Cache-Control: ${control}, Vary: ${vary}`);
    }
  });

  if (operation.body) {
    yield check('reads a body whatever its Content-Type', async () => {
      const request = withHeader(invalid, 'Content-Type', 'text/plain');
      const [expected, got] = [await client.send(invalid), await client.send(request)].map(describeAnswer);
      if (got !== expected) throw new Mismatch(request, `${expected}`, `${got}`);
    });
  }

  if ('x-translations' in contract.document) {
    yield check('declares the language of its messages', async () => {
      const request = withHeader(invalid, 'Accept-Language', PORTUGUESE);
      const languages = (await client.send(request)).headers['content-language'] ?? 'none';
      if (listOf(languages).includes(PORTUGUESE)) return;
      throw new Mismatch(request, `Content-Language: ${PORTUGUESE}`, languages);
    });
  }
}

/** The checks of an unknown path, and of other methods of known paths. */
export function* createPathChecks(setting: Setting): Generator<Check> {
  const { contract, operations } = setting;
  // The path has more segments than any template, because a template may match a single segment.
  const segments = Math.max(...contract.operations.map(({ path }) => path.split('/').length));
  yield check('answers an unknown path with 404', () =>
    refuses(setting, { method: 'GET', target: '/no-such-path'.repeat(segments), headers: {}, key: OWN_KEY }, 404),
  );
  for (const [path, operation] of new Map(operations.map((operation) => [operation.path, operation]))) {
    yield* createOrExplain(`names the methods of ${path}`, () => createMethodChecks(setting, operation));
  }
}

/** The checks of the methods that the path of an operation does not have. */
function* createMethodChecks(setting: Setting, operation: Operation): Generator<Check> {
  const { client, contract, readOnly } = setting;
  const { path } = operation;
  const target = toValidPath(operation);
  const declared = contract.operations
    .filter((other) => other.path === path)
    .map(({ method }) => method)
    .sort();
  const missing = METHODS.find((method) => !declared.includes(method) && (!readOnly || isRead({ method })));
  // A target may match two templates: /books/{id} also matches the paths of /books/{id}:archive.
  if (METHODS.some((method) => (contract.pathOf(method, target) ?? path) !== path)) return;
  const toRequest = (method: string): Request => ({ method, target, headers: {}, key: OWN_KEY });
  const namesMethods = async (method: string) => {
    const { headers } = await refuses(setting, toRequest(method), 405);
    const allowed = listOf(headers.allow ?? '').filter((name) => !IMPLIED.includes(name));
    if (allowed.sort().join() === declared.join()) return;
    throw new Mismatch(toRequest(method), `Allow: ${declared.join(', ')}`, headers.allow ?? 'none');
  };
  if (missing) yield check(`refuses ${missing} ${path} and names the methods`, () => namesMethods(missing));
  if (readOnly) return;
  // This is no CORS preflight: some gateways answer it as one, and others treat it as any other method.
  yield check(`answers OPTIONS ${path}`, async () => {
    const { status } = await client.send(toRequest('OPTIONS'));
    if (status > 299) await namesMethods('OPTIONS');
  });
}

/** The status and headers that HEAD has to repeat. A proxy makes tags weak, and adds Accept-Encoding to Vary if it may compress. */
function readHead({ status, headers }: Answer): Readonly<Record<string, string>> {
  const { etag = '', link = '', vary = '', 'content-type': type = '', 'cache-control': control = '' } = headers;
  const varying = new Set(listOf(vary.toLowerCase()).filter((name) => name !== 'accept-encoding'));
  return {
    ...{ status: `${status}`, 'content-type': type, 'cache-control': control, link },
    ...{ etag: etag.replace(/^W\//, ''), vary: [...varying].sort().join(', ') },
  };
}

/** Expects an error. Only its form is known, not its schema. */
async function refuses({ client }: Setting, request: Request, status: number): Promise<Answer> {
  const answer = await client.send(request);
  const { error, ...others } = (answer.body ?? {}) as { error?: unknown };
  const isError = typeof error === 'string' && Object.keys(others).length === 0;
  if (answer.status === status && !findFormFault(answer) && isError) return answer;
  throw new Mismatch(request, `${status} {"error": a text} alone`, describeAnswer(answer));
}

function listOf(header: string): string[] {
  return header.split(/\s*,\s*/);
}
