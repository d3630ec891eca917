import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { stringify } from 'yaml';
import { readContract } from '../../scripts/conformance/operations.ts';
import type { Outcome, Report } from '../../scripts/conformance/report.ts';
import { type RunOptions, runContract } from '../../scripts/conformance/run.ts';
import { document, KEYS, operations } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { type Run, runCommand } from '../helpers/run.ts';
import { findPort } from '../helpers/servers.ts';
import { type Fault, mapQuery, NO_ANSWER, startProxy } from './conformance/proxy.ts';

const folder = mkdtempSync(join(tmpdir(), 'contract-'));
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway({ store: await openTestStore() });
});

afterAll(async () => {
  await gateway.close();
  await gateway.store.close();
  rmSync(folder, { recursive: true });
});

/** Runs the checks on the gateway. `document`: another one than the gateway's. */
async function run({ document: other = document, ...options }: Options = {}): Promise<Report> {
  return runContract({
    contract: await readContract(other),
    url: gateway.url,
    key: KEYS.aurora,
    seed: 1,
    runs: 5,
    demo: false,
    readOnly: false,
    timeoutMs: 10_000,
    ...options,
  });
}

type Options = Partial<RunOptions> & { readonly document?: OpenAPIV3.Document };
type Failed = Extract<Outcome, { result: 'failed' }>;

const outcomesOf = ({ sections }: Report): Outcome[] => sections.flatMap(({ outcomes }) => outcomes);
const failuresOf = (report: Report): Failed[] =>
  outcomesOf(report).flatMap((outcome) => (outcome.result === 'failed' ? [outcome] : []));
const namesOf = (outcomes: readonly Outcome[]): string[] => outcomes.map(({ name }) => name);

/** What a run finds in a gateway with this fault, and how it is called there. */
async function findFaults(fault: Fault, options: Options): Promise<{ failures: Failed[]; url: string }> {
  const proxy = await startProxy(gateway.url, fault);
  const report = await run({ ...options, url: proxy.url });
  proxy.close();
  return { failures: failuresOf(report), url: proxy.url };
}

/** The failure of one check; the curl line with the URL of the gateway as $URL. */
async function findFault(name: string, fault: Fault, options: Options): Promise<Failed> {
  const { failures, url } = await findFaults(fault, options);
  expect(namesOf(failures)).toContain(name);
  const found = failures.find((failure) => failure.name === name) as Failed;
  return { ...found, curl: found.curl.replace(url, '$URL') };
}

const GET = 'curl -i -H "X-Api-Key: $API_KEY"';

describe('a gateway that keeps the contract', () => {
  test('passes all checks on the demo data', async () => {
    const report = await run({ demo: true });
    expect(failuresOf(report)).toEqual([]);
    const titles = operations.map(({ method, path }) => `${method} ${path}`);
    expect(report.sections.map(({ title }) => title)).toEqual([...titles, 'Any other path']);
    const skipped = outcomesOf(report).filter(({ result }) => result === 'skipped');
    expect(new Set(namesOf(skipped))).toEqual(
      new Set([
        'answers the example stalled with 408',
        'answers the example tooManyRequests with 429',
        'answers the example storeUnavailable with 502',
      ]),
    );
  });

  test('passes all checks on data that nothing is known of', async () => {
    const report = await run({ key: KEYS.bosque });
    expect(failuresOf(report)).toEqual([]);
    const reasons = outcomesOf(report).flatMap((outcome) => (outcome.result === 'skipped' ? [outcome.reason] : []));
    expect(new Set(reasons)).toEqual(
      new Set([
        'the exact data is known only with --demo',
        'sent only with --demo',
        'the data store would have to be down',
        'the rate limit would have to be reached, and other clients would be refused too',
        'a proxy in front may wait longer than the gateway does',
      ]),
    );
  });

  test('is sent nothing but GET and HEAD where the run only reads', async () => {
    const proxy = await startProxy(gateway.url);
    const report = await run({ url: proxy.url, readOnly: true, demo: true, runs: 2 });
    proxy.close();
    expect(failuresOf(report)).toEqual([]);
    expect(new Set(proxy.asked.map(({ method }) => method))).toEqual(new Set(['GET', 'HEAD']));
    expect(report.created).toEqual([]);
    expect(outcomesOf(report)).toContainEqual({
      name: 'everything',
      result: 'skipped',
      reason: 'it writes, and --read-only sends only reads',
    });
  });

  test('is told what was created', async () => {
    const proxy = await startProxy(gateway.url);
    const { created } = await run({ url: proxy.url, only: ['criarAluno'], key: KEYS.bosque });
    proxy.close();
    expect(created.length).toBeGreaterThan(10);
    const response = await fetch(`${gateway.url}/alunos?limit=1000`, { headers: { 'X-Api-Key': KEYS.bosque } });
    const listed = ((await response.json()) as { id: string }[]).map(({ id }) => id);
    expect(listed).toEqual(expect.arrayContaining(created.map(({ id }) => id)));
    expect(new Set(created.map(({ by }) => by))).toEqual(new Set(['POST /alunos']));
  });

  test('is sent the id of an example where a creation needs a record, and no creation where none is known', async () => {
    const copy = structuredClone(document);
    const schema = copy.components?.schemas?.NovoAluno as OpenAPIV3.SchemaObject;
    schema.required?.push('p_academia_id');
    const outcomeOf = async (demo: boolean) => {
      const report = await run({ document: copy, only: ['criarAluno'], demo });
      return outcomesOf(report).find(({ name }) => name === 'creates what was sent');
    };
    expect(await outcomeOf(true)).toMatchObject({ result: 'passed' });
    expect(await outcomeOf(false)).toMatchObject({
      result: 'skipped',
      reason: 'a value of p_academia_id that keeps its x-rule is known only from an example, with --demo',
    });
  });

  test('is sent the same by the same seed, and something else by another', async () => {
    const record = async (seed: number) => {
      const proxy = await startProxy(gateway.url);
      await run({ url: proxy.url, seed, only: ['listarPersonais'] });
      proxy.close();
      return proxy.asked.map(({ path, query }) => `${path}?${query}`).sort();
    };
    const first = await record(7);
    expect(await record(7)).toEqual(first);
    expect(await record(8)).not.toEqual(first);
  });

  test('is not held responsible for records that others create meanwhile', async () => {
    const others: Promise<unknown>[] = [];
    const create = () =>
      fetch(`${gateway.url}/alunos`, {
        method: 'POST',
        headers: { 'X-Api-Key': KEYS.bosque },
        body: JSON.stringify({ p_nome: 'Outra Pessoa', p_email: 'outra@bosque.example' }),
      });
    const proxy = await startProxy(gateway.url, {
      ask: ({ query }) => {
        if (query.includes('offset')) others.push(create());
        return {};
      },
    });
    expect(failuresOf(await run({ url: proxy.url, key: KEYS.bosque, only: ['listarAlunos'] }))).toEqual([]);
    proxy.close();
    expect((await Promise.all(others)).length).toBeGreaterThan(10);
  });
});

/** The documented list with another schema for its limit, as a faulty gateway would have it. */
function withLimit(change: object): typeof document {
  const copy = structuredClone(document);
  Object.assign(copy.components?.schemas?.Limit ?? {}, change);
  return copy;
}

async function findInGateway(name: string, changed: typeof document, only: string): Promise<Failed> {
  const faulty = await startGateway({ store: gateway.store, document: changed });
  const report = await run({ url: faulty.url, only: [only] });
  await faulty.close();
  const failures = failuresOf(report);
  // Not even the search for the smallest request leaves many records behind.
  expect(report.created.length).toBeLessThan(100);
  const found = failures.find((failure) => failure.name === name);
  expect(namesOf(failures)).toContain(name);
  return { ...(found as Failed), curl: (found as Failed).curl.replace(faulty.url, '$URL') };
}

describe('a gateway with a bound off by one', () => {
  test('is shown the largest limit that it refuses', async () => {
    expect(await findInGateway('takes limit', withLimit({ maximum: 999 }), 'listarSecoes')).toMatchObject({
      curl: `${GET} '$URL/anamnese/secoes?limit=1000'`,
      expected: '200 as in the document',
      got: '422 {"error":{"limit":["must be <= 999"]}}',
    });
  });

  test('is shown the limit that it takes and must not', async () => {
    const found = await findInGateway('refuses limit more than 1000', withLimit({ maximum: 1001 }), 'listarSecoes');
    expect(found).toMatchObject({
      curl: `${GET} '$URL/anamnese/secoes?limit=1001'`,
      expected: '422 that names limit alone',
    });
  });

  test('is shown the smallest value of those that fail', async () => {
    const ask = ({ query }: { query: string }) => ({
      query: mapQuery(query, (name, value) => (name === 'limit' && Number(value) > 611 ? '0' : value)),
    });
    const found = await findFault('takes limit', { ask }, { only: ['listarSecoes'] });
    expect(found.curl).toBe(`${GET} '$URL/anamnese/secoes?limit=612'`);
  });

  test('is shown a body that lacks one character', async () => {
    const copy = structuredClone(document);
    const body = copy.components?.schemas?.NovoAluno as { properties: { p_nome: object } };
    Object.assign(body.properties.p_nome, { maxLength: 254 });
    const found = await findInGateway('takes p_nome', copy, 'criarAluno');
    expect(found.curl).toContain(`"p_nome":"${'a'.repeat(255)}"`);
    expect(found.got).toBe('422 {"error":{"p_nome":["must NOT have more than 254 characters"]}}');
  });

  test('is shown the longest e-mail that it refuses', async () => {
    const copy = structuredClone(document);
    const body = copy.components?.schemas?.NovoAluno as { properties: { p_email: object } };
    Object.assign(body.properties.p_email, { maxLength: 253 });
    const { curl } = await findInGateway('takes p_email', copy, 'criarAluno');
    expect(/"p_email":"([^"]*)"/.exec(curl)?.[1]).toHaveLength(254);
  });

  test('is shown the e-mail that it takes and must not', async () => {
    const ask = ({ body }: { body: string }) => ({ body: body.replace(/(?<="p_email":")a(?=[^"]{254}")/, '') });
    const { curl } = await findFault('refuses p_email longer than 254', { ask }, { only: ['criarAluno'] });
    expect(/"p_email":"([^"]*)"/.exec(curl)?.[1]).toHaveLength(255);
  });
});

const only = ['listarPersonais'];
const refusals = (change: (body: string) => object): Fault => ({
  answer: ({ status, body }) => (status === 422 ? change(body) : {}),
});
const successes = (change: (body: string) => object): Fault => ({
  answer: ({ status, body }, { method }) => (status === 200 && method === 'GET' ? change(body) : {}),
});
const rows = (change: (rows: Record<string, unknown>[]) => unknown): Fault =>
  successes((body) => ({ body: JSON.stringify(change(JSON.parse(body))) }));
const parameter = (change: (name: string, value: string) => string | undefined): Fault => ({
  ask: ({ query }) => ({ query: mapQuery(query, change) }),
});

// A campaign: each fault is a run of all checks.
describe.runIf(inject('isLong'))('a faulty gateway', () => {
  test('is caught with a wrong status', async () => {
    const found = await findFault(
      'refuses limit less than 1',
      refusals(() => ({ status: 400 })),
      { only },
    );
    expect(found).toMatchObject({
      curl: `${GET} '$URL/personais?limit=0'`,
      expected: '422 that names limit alone',
      got: '400 {"error":{"limit":["must be >= 1"]}}',
    });
  });

  test('is caught with an error that does not name the field', async () => {
    const fault = refusals(() => ({ body: '{"error":{"outro":["is wrong"]}}' }));
    expect(await findFault('refuses academia_id that is not uuid', fault, { only })).toMatchObject({
      expected: '422 that names academia_id alone',
      got: '422 {"error":{"outro":["is wrong"]}}',
    });
  });

  test('is caught with an error that names the first field alone', async () => {
    const fault = refusals((body) => {
      const [first] = Object.entries(JSON.parse(body).error);
      return { body: JSON.stringify({ error: Object.fromEntries(first ? [first] : []) }) };
    });
    const { failures } = await findFaults(fault, { only });
    expect(namesOf(failures)).toEqual(['names all of several errors']);
  });

  test('is caught with an error in another form', async () => {
    const fault = refusals(() => ({ body: '{"message":"limit is wrong"}' }));
    const { got } = await findFault('refuses limit less than 1', fault, { only });
    expect(got).toBe(
      'not the schema of 422: the value must have required property \'error\'\n422 {"message":"limit is wrong"}',
    );
  });

  test('is caught with a status that is not declared', async () => {
    const { got } = await findFault(
      'takes limit',
      successes(() => ({ status: 206 })),
      { only },
    );
    expect(got).toMatch(/^listarPersonais does not declare this status\n206 \[/);
  });

  test('is caught with a response that is not the schema', async () => {
    const { got } = await findFault(
      'takes limit',
      rows((all) => all.map(({ email, ...row }) => row)),
      { only },
    );
    expect(got).toMatch(/^not the schema of 200: \/0 must have required property 'email'\n200 \[/);
  });

  test('is caught with a property that the document does not have', async () => {
    const fault = rows((all) => all.map((row) => ({ ...row, senha: 'x' })));
    expect((await findFault('takes limit', fault, { only })).got).toContain('must NOT have additional properties');
  });

  test('is caught with another content type', async () => {
    const { got } = await findFault(
      'takes limit',
      successes(() => ({ contentType: 'text/html' })),
      { only },
    );
    expect(got).toMatch(/^Content-Type is text\/html, expected application\/json\n200 \[/);
  });

  test('is caught with a body that is cut off', async () => {
    const { got } = await findFault(
      'takes limit',
      successes((body) => ({ body: body.slice(0, -1) })),
      { only },
    );
    expect(got).toMatch(/^the body is not JSON\n200 \[/);
  });

  test('is caught with a page that repeats a record', async () => {
    const fault = parameter((name, value) => (name === 'after' ? value.replace(/2$/, '1') : value));
    expect(await findFault('gives pages that are together the whole list', fault, { only })).toMatchObject({
      curl: `${GET} '$URL/personais?limit=1&after=a2000000-0000-4000-8000-000000000002'`,
      expected: 'every record once',
      got: expect.stringMatching(/^a2000000-0000-4000-8000-000000000002 .* as its record 1, for the second time$/),
    });
  });

  test('is caught with a page that skips a record', async () => {
    const byOffset = parameter((name, value) =>
      name === 'offset' && Number(value) > 1 ? String(Number(value) + 1) : value,
    );
    expect(await findFault('gives the page of any limit and offset', byOffset, { only })).toMatchObject({
      curl: expect.stringMatching(/\?limit=1&offset=[23]'$/),
    });
    const byRecord = parameter((name, value) => (name === 'after' ? value.replace(/2$/, '3') : value));
    for (const check of ['gives pages that are together the whole list', 'continues after any record']) {
      expect(await findFault(check, byRecord, { only })).toMatchObject({
        expected: 'a2000000-0000-4000-8000-000000000003 in that place',
      });
    }
  });

  test('is caught with a page that is longer than its limit', async () => {
    const fault = parameter((name, value) => (name === 'limit' ? String(Math.min(Number(value) + 1, 1000)) : value));
    expect(await findFault('gives the page of any limit and offset', fault, { only })).toMatchObject({
      expected: 'at most 1 records',
      got: '2 records',
    });
  });

  test('is caught with another order where no page is asked for', async () => {
    const fault: Fault = {
      answer: ({ status, body }, { method, query }) =>
        status === 200 && method === 'GET' && query === '' ? { body: JSON.stringify(JSON.parse(body).reverse()) } : {},
    };
    const { failures } = await findFaults(fault, { only });
    expect(namesOf(failures)).toEqual(['gives the same when repeated']);
  });

  test('is caught with a filter that does not filter', async () => {
    const fault = parameter((name, value) => (name === 'academia_id' && value.length === 36 ? undefined : value));
    expect(await findFault('filters by academia_id', fault, { only })).toMatchObject({
      expected: 'only records with academia_id = "a1000000-0000-4000-8000-000000000001"',
      got: expect.stringMatching(/^a2000000-/),
    });
  });

  test('is caught with a filter that leaves out what matches', async () => {
    const isFiltered = (query: string) => query.includes('nome=');
    const fault: Fault = {
      answer: ({ status, body }, { query }) =>
        status === 200 && isFiltered(query) ? { body: JSON.stringify(JSON.parse(body).slice(1)) } : {},
    };
    expect(await findFault('filters by nome', fault, { only: ['listarAlunos'] })).toMatchObject({
      expected: expect.stringMatching(/ in that place$| too, \d+ records in all$/),
    });
  });

  test('is caught with a filter that minds the case of letters', async () => {
    const fault: Fault = {
      answer: ({ status, body }, { query }) => {
        const nome = new URLSearchParams(query).get('nome');
        if (status !== 200 || nome === null) return {};
        return { body: JSON.stringify(JSON.parse(body).filter((row: { nome: string }) => row.nome.includes(nome))) };
      },
    };
    await findFault('filters by nome', fault, { only: ['listarAlunos'], runs: 20 });
  });

  test('is caught with a date filter that leaves out the day itself', async () => {
    const fault: Fault = {
      answer: ({ status, body }, { query }) => {
        const from = new URLSearchParams(query).get('data_inicio_gte');
        if (status !== 200 || from === null) return {};
        const kept = JSON.parse(body).filter(({ data_inicio }: { data_inicio: string }) => data_inicio !== from);
        return { body: JSON.stringify(kept) };
      },
    };
    await findFault('filters by data_inicio_gte', fault, { only: ['listarTreinos'] });
  });

  test('is caught where it accepts an unknown parameter', async () => {
    const known = ['limit', 'offset', 'academia_id'];
    const fault = parameter((name, value) => (known.includes(name) ? value : undefined));
    expect(await findFault('refuses an unknown parameter', fault, { only })).toMatchObject({
      curl: `${GET} '$URL/personais?sort=1'`,
      expected: '422 that names sort alone',
    });
  });

  test('is caught where it takes 1e1 for a number', async () => {
    const fault = parameter((name, value) => (name === 'limit' && /e/.test(value) ? String(Number(value)) : value));
    expect(await findFault('refuses limit that is not integer', fault, { only })).toMatchObject({
      curl: `${GET} '$URL/personais?limit=1e1'`,
    });
  });

  test('is caught where it takes the first of two values', async () => {
    const fault: Fault = {
      ask: ({ query }) => ({ query: query.replace(/(academia_id=[^&]*)&academia_id=.*/, '$1') }),
    };
    await findFault('refuses academia_id twice', fault, { only });
  });

  test('is caught where it needs no key', async () => {
    const fault: Fault = { ask: ({ headers }) => ({ headers: { ...headers, 'x-api-key': KEYS.aurora } }) };
    const { failures, url } = await findFaults(fault, { only });
    expect(failures.find(({ name }) => name === 'refuses a request without a key')?.curl).toBe(
      `curl -i '${url}/personais'`,
    );
    expect(namesOf(failures)).toContain('refuses an unknown key');
  });

  test('is caught where it takes headers of any size', async () => {
    const fault: Fault = { ask: ({ headers: { 'x-filler': _filler, ...headers } }) => ({ headers }) };
    expect(await findFault('answers the example headersTooLarge with 431', fault, { only })).toMatchObject({
      curl: `${GET} -H "X-Filler: $(printf '%020000d' 0)" '$URL/personais'`,
      expected: '431 as in the document',
    });
  });

  test('is caught with a header that is not as the document has it', async () => {
    const fault: Fault = { answer: ({ headers }) => ({ headers: { ...headers, 'retry-after': '61' } }) };
    const copy = structuredClone(document);
    const response = copy.components?.responses?.BadRequest as OpenAPIV3.ResponseObject;
    response.headers = { 'Retry-After': { $ref: '#/components/headers/Retry-After' } };
    const { got } = await findFault('refuses a request without a key', fault, { only, document: copy });
    expect(got).toContain('not the schema of the header retry-after: the value must be <= 60, and is 61\n400 ');
  });

  test('is caught where it forgets an idempotency key', async () => {
    const fault: Fault = {
      ask: ({ headers: { 'idempotency-key': key = '', ...headers } }) => ({
        headers: key.length === 36 ? headers : { ...headers, 'idempotency-key': key },
      }),
    };
    const { failures } = await findFaults(fault, { only: ['criarAluno'] });
    expect(namesOf(failures)).toEqual(
      expect.arrayContaining([
        'gives the same answer to the same Idempotency-Key',
        'refuses another body with the same Idempotency-Key',
      ]),
    );
  });

  test('is caught where it does not create what was sent', async () => {
    const fault: Fault = { ask: ({ body }) => ({ body: body.replace(/Contract test /, 'Contract ') }) };
    await findFault('creates what was sent', fault, { only: ['criarAluno'] });
  });

  test('is caught where it refuses a valid value by a rule that the document does not have', async () => {
    const fault: Fault = {
      answer: ({ status }, { body }) =>
        status === 201 && body.includes('"p_sexo"') ? { status: 422, body: '{"error":{"p_sexo":["no"]}}' } : {},
    };
    await findFault('takes p_sexo', fault, { only: ['criarAluno'] });
  });

  /** A gateway whose answers have these headers, undefined where they lack one. */
  const headers = (change: (headers: Record<string, string>, query: string) => Record<string, string | undefined>) =>
    ({
      answer: ({ headers }, { query }) => {
        const changed = Object.entries({ ...headers, ...change(headers, query) });
        return { headers: Object.fromEntries(changed.filter(([, value]) => value !== undefined)) as typeof headers };
      },
    }) satisfies Fault;
  const link = (change: (link: string | undefined, query: string) => string | undefined) =>
    headers(({ link }, query) => ({ link: change(link, query) }));
  const LINKED = 'links each page to the next and the previous one';

  test.each([
    ['without a link to the next page', (text = '') => text.replace('"next"', '"last"'), /^a2000000\S+ too, 4 records/],
    [
      'without a link to the page before',
      (text = '') => text.replace('"prev"', '"first"'),
      /^a Link to the previous page/,
    ],
    ['without any links', () => undefined, /^a2000000\S+ too, 4 records/],
    [
      'with a next that is the same page',
      (text = '') => text.replace(/offset=\d+>; rel="next/, 'offset=0>; rel="next'),
    ],
    ['with a next that skips one', (text = '') => text.replace(/offset=2>; rel="next/, 'offset=3>; rel="next')],
    [
      'with a prev that is the first page',
      (text = '') => text.replace(/offset=\d+>; rel="prev/, 'offset=0>; rel="prev'),
    ],
    ['with a next that has another limit', (text = '') => text.replace(/limit=\d+(.*rel="next")/, 'limit=1001$1')],
    [
      'with a next after the end',
      (text?: string) =>
        text?.includes('next') ? text : [text, '<?limit=2&offset=4>; rel="next"'].filter(Boolean).join(', '),
    ],
    [
      'with a prev before the beginning',
      (text = '') => text.replace('"next"', '"next", <?limit=2&offset=0>; rel="prev"'),
    ],
  ])('is caught %s', async (_what, change, expected = /./) => {
    const only = ['listarPersonais'];
    const { failures } = await findFaults(link(change), { only });
    expect(failures).toEqual([expect.objectContaining({ name: LINKED, expected: expect.stringMatching(expected) })]);
  });

  test('may stand behind a proxy that makes its links absolute', async () => {
    const absolute = link((text) => text?.replaceAll('<?', '<https://api.example/v1/personais?'));
    expect((await findFaults(absolute, { only })).failures).toEqual([]);
  });

  test('is caught where a copy does not hold', async () => {
    const fault: Fault = { ask: ({ headers: { 'if-none-match': _tag, ...headers } }) => ({ headers }) };
    const { failures, url } = await findFaults(fault, { only });
    expect(failures).toMatchObject(
      [{ name: 'answers 304 to the ETag of an unchanged answer', expected: '304 without a body', got: /^200 \[/ }].map(
        ({ got, ...failure }) => ({ ...failure, got: expect.stringMatching(got) }),
      ),
    );
    const tag = /If-None-Match: (W\/"[\w-]+")' '(.*)'$/.exec(failures[0]?.curl ?? '');
    expect(tag?.[2]).toBe(`${url}/personais?limit=1`);
  });

  test('is caught where a copy holds that has changed', async () => {
    let answers = 0;
    const fault = headers(({ etag }) => (etag ? { etag: `W/"${answers++}"` } : {}));
    const { failures } = await findFaults(fault, { only });
    expect(namesOf(failures)).toEqual(['answers 304 to the ETag of an unchanged answer']);
  });

  test.each([
    ['tags', { etag: undefined }, 'answers 304 to the ETag of an unchanged answer', 'an ETag', 'none'],
    ['ids', { 'x-request-id': undefined }, "returns the request's X-Request-Id", /^X-Request-Id: contract-/, 'none'],
    ['one id alone', { 'x-request-id': 'same' }, "returns the request's X-Request-Id", /, or a proxy's own$/, /^same,/],
    ['types to guess', { 'x-content-type-options': undefined }, 'forbids content type sniffing', /nosniff/, 'none'],
    ['no language', { 'content-language': undefined }, 'declares the language of its messages', /: pt-BR$/, 'none'],
    ['another language', { 'content-language': 'en' }, 'declares the language of its messages', /: pt-BR$/, 'en'],
  ])('is caught with %s', async (_what, change, name, expected, got) => {
    const { failures } = await findFaults(
      headers(() => change),
      { only },
    );
    const [asExpected, asGot] = [expect.stringMatching(expected), expect.stringMatching(got)];
    expect(failures).toEqual([expect.objectContaining({ name, expected: asExpected, got: asGot })]);
  });

  test('may stand behind a proxy that gives requests ids of its own', async () => {
    let requests = 0;
    const fault = headers(() => ({ 'x-request-id': `proxy-${requests++}` }));
    expect((await findFaults(fault, { only })).failures).toEqual([]);
  });

  test('is caught on the refusals of a creation too, for which nothing is created', async () => {
    const fault = headers(() => ({ 'x-content-type-options': undefined }));
    await findFault('forbids content type sniffing', fault, { only: ['criarAluno'] });
  });

  test('is shown as one failure where it refuses the key', async () => {
    const report = await run({ key: KEYS.readOnly, only: ['criarAluno'] });
    expect(namesOf(failuresOf(report))).toEqual(['accepts the key']);
    expect(outcomesOf(report).filter(({ result }) => result === 'passed')).toEqual([]);
  });

  test('is caught where it closes the connection, and is told apart from one that is gone', async () => {
    const fault: Fault = { answer: (_answered, { query }) => (query === 'limit=1000' ? { status: NO_ANSWER } : {}) };
    expect(await findFault('takes limit', fault, { only })).toMatchObject({
      curl: `${GET} '$URL/personais?limit=1000'`,
      got: expect.stringMatching(/^no answer: /),
    });
  });
});

/** What `npm run contract -- …` runs, in a process of its own. */
function command(args: readonly string[], env: Record<string, string> = {}): Promise<Run> {
  return runCommand('scripts/conformance/main.ts', args, { env });
}

describe('the command', () => {
  const small = ['--operation', 'listarSecoes', '--runs', '3'];

  test('ends with 0 where all passed, and says so', async () => {
    const { code, output, errors } = await command(['--url', `${gateway.url}/`, '--seed', '5', ...small], {
      API_KEY: KEYS.aurora,
    });
    expect({ code, errors }).toEqual({ code: 0, errors: '' });
    expect(output).toContain(`Contract tests of ${gateway.url}\nSeed 5, 3 runs; --seed 5 repeats them.`);
    expect(output).toMatch(/^GET \/anamnese\/secoes +\d+ passed, 8 skipped \d+\.\d s$/m);
    expect(output).toMatch(/^\d+ passed, 0 failed, 8 skipped; \d+ requests in \d+\.\d s$/m);
    expect(output).not.toContain('\u001b');
  });

  test('ends with 1 where something failed, and shows no key in any report', async () => {
    // A key that JSON, XML and shells write in other ways than it is.
    const key = `wms_"'<&>\\key`;
    const leak = { ask: () => ({ headers: { 'x-api-key': KEYS.aurora } }) };
    const proxy = await startProxy(gateway.url, {
      ...leak,
      answer: (_answered, { headers }) => ({ body: JSON.stringify({ error: `the key ${headers['x-api-key']}` }) }),
    });
    const file = join(folder, 'failed.xml');
    const told = await command(['--url', proxy.url, '--key', key, '--junit', file, ...small]);
    const json = await command(['--url', proxy.url, '--key', key, '--json', ...small]);
    proxy.close();
    const xml = readFileSync(file, 'utf8');

    expect([told.code, json.code]).toEqual([1, 1]);
    expect(told.output).toContain('the key $API_KEY');
    expect(told.output).toContain(`${GET} '${proxy.url}/anamnese/secoes`);
    for (const text of [told.output, told.errors, json.output, json.errors, xml]) expect(text).not.toContain('wms_"');
    for (const text of [told.output, json.output, xml]) expect(text).not.toMatch(/wms_.{0,6}('|&apos;|%27).{0,20}key/);
    expect(JSON.parse(json.output).sections[0].title).toBe('GET /anamnese/secoes');
  });

  test('writes a testcase for each check as JUnit XML', async () => {
    const file = join(folder, 'report.xml');
    const { code, output } = await command(
      [
        '--url',
        gateway.url,
        '--key',
        KEYS.aurora,
        '--demo',
        '--read-only',
        '--junit',
        'report.xml',
        '--json',
        ...small,
      ],
      { INIT_CWD: folder },
    );
    const xml = readFileSync(file, 'utf8');
    const report: Report = JSON.parse(output);
    expect(code).toBe(0);
    expect(xml.match(/<testcase /g)?.length).toBe(outcomesOf(report).length);
    expect(xml).toContain('<testcase classname="GET /anamnese/secoes" name="takes limit" time="');
    expect(xml.match(/<skipped\/>/g)?.length).toBe(3);
    expect(xml).not.toContain('<failure');
    expect(xml).not.toContain(KEYS.aurora);
  });

  test.each([
    [['--key', 'x'], "required option '--url <URL>' not specified"],
    [['--url', 'http://127.0.0.1:1/v1'], "required option '--key <KEY>' not specified"],
    [['--url', '127.0.0.1:3000', '--key', 'x'], 'Expected a URL such as'],
    [['--url', 'http://127.0.0.1:1', '--key', 'a b'], 'Expected visible ASCII characters'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--runs', '0'], 'Expected an integer from 1'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--seed', 'abc'], 'Expected an integer from'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--operation', 'criarTreino'], 'criarTreino is not an operation'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--document', '/nowhere.yaml'], '/nowhere.yaml'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--junit', '/nowhere/report.xml'], 'cannot be written'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--fast'], "unknown option '--fast'"],
  ])('ends with 2 at the wrong usage %j', async (args, message) => {
    const { code, output, errors } = await command(args);
    expect({ code, output }).toEqual({ code: 2, output: '' });
    expect(errors).toContain(message);
  });

  test('ends with 2 where the document is none', async () => {
    const file = join(folder, 'other.yaml');
    writeFileSync(file, stringify({ openapi: '3.0.3' }));
    const { code, errors } = await command(['--url', gateway.url, '--key', 'x', '--document', file]);
    expect(code).toBe(2);
    expect(errors).toContain("must have required property 'info'");
  });

  test('ends with 3 where the deployment cannot be reached, and says it once', async () => {
    const url = `http://127.0.0.1:${await findPort()}/v1`;
    const { code, errors } = await command(['--url', url, '--key', 'x']);
    expect(code).toBe(3);
    expect(errors).toBe(`${url} cannot be reached: connect ECONNREFUSED ${new URL(url).host}\n`);
  });

  test('ends with 3 where the deployment goes away', async () => {
    const proxy = await startProxy(gateway.url, {
      answer: (_answered, { query }) => {
        if (query.includes('limit=1000')) proxy.close();
        return {};
      },
    });
    const { code, errors } = await command(['--url', proxy.url, '--key', KEYS.aurora, ...small]);
    expect(code).toBe(3);
    expect(errors).toMatch(/^http:\S+ cannot be reached: .+\n$/);
  });

  test('explains itself', async () => {
    const { code, output } = await command(['--help']);
    expect(code).toBe(0);
    expect(output).toContain('Exit codes: 0 all passed; 1 something failed; 2 wrong usage; 3 the deployment cannot');
  });
});
