import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Setting } from '../../scripts/conformance/check.ts';
import type { Answer, Exchange } from '../../scripts/conformance/client.ts';
import { describe as describeSchema, readContract } from '../../scripts/conformance/contract.ts';
import { createPathChecks } from '../../scripts/conformance/http.ts';
import { isLess } from '../../scripts/conformance/lists.ts';
import { testContract } from '../../scripts/conformance/main.ts';
import type { Request } from '../../scripts/conformance/request.ts';
import { createViolations, pickValid } from '../../scripts/conformance/values.ts';
import { toOrigin } from '../../src/http/server.ts';
import type { Json } from '../../src/store/store.ts';
import { call, document, documentOf, jsonBody, KEYS, operations, STUDENT } from '../helpers/api.ts';
import { startGateway } from '../helpers/gateway.ts';
import { type Run, runCommand, runInProcess, succeed } from '../helpers/run.ts';
import { findPort } from '../helpers/servers.ts';
import {
  failuresOf,
  GET,
  KEY_OF_MANY,
  namesOf,
  outcomesOf,
  queryOf,
  spoil,
  startChecks,
} from './conformance/checks.ts';

const folder = mkdtempSync(join(tmpdir(), 'contract-'));
const { gateway, run, record, close } = await startChecks();

afterAll(close);

describe('a gateway that keeps the contract', () => {
  test('passes all checks on unknown data, and the report lists what was created', async () => {
    // One of the lists is enough.
    const only = operations.map(({ id }) => id).filter((id) => !/^listar(?!Alunos)/.test(id));
    const report = await run({ key: KEYS.bosque, runs: 1, only });
    expect(failuresOf(report)).toEqual([]);
    const reasons = outcomesOf(report).flatMap((outcome) => (outcome.result === 'skipped' ? [outcome.reason] : []));
    // An added operation may require the id of another record. The examples name those of the demo data.
    const others = reasons.filter((reason) => !/that keeps its x-rule|^the database refused /.test(reason));
    expect(new Set(others)).toEqual(
      new Set([
        'the exact data is known only with --demo',
        'sent only with --demo',
        'the data store would have to be down',
        'the rate limit would have to be reached, and other clients would be refused too',
        'a proxy in front may wait longer than the gateway does',
      ]),
    );
    expect(reasons).toContainEqual(
      expect.stringMatching(/^the database refused it, with 422 \{"error":\{"p_academia_id"/),
    );
    const { created } = report;
    expect(created.length).toBeGreaterThan(10);
    const response = await fetch(`${gateway.url}/alunos?limit=1000`, { headers: { 'X-Api-Key': KEYS.bosque } });
    const listed = ((await response.json()) as { id: string }[]).map(({ id }) => id);
    expect(listed).toEqual(expect.arrayContaining(created.map(({ id }) => id)));
    expect(new Set(created.map(({ by }) => by))).toEqual(new Set(['POST /alunos']));
  });

  test('is sent nothing but GET and HEAD where the run only reads', async () => {
    const only = ['criarAluno', 'listarPersonais'];
    const { report, sent } = await record({ readOnly: true, demo: true, only });
    expect(failuresOf(report)).toEqual([]);
    expect(new Set(sent.map(({ method }) => method))).toEqual(new Set(['GET', 'HEAD']));
    expect(report.created).toEqual([]);
    expect(outcomesOf(report)).toContainEqual({
      name: 'everything',
      result: 'skipped',
      reason: 'it writes, and --read-only sends only reads',
    });
  });

  test('is sent the id of an example if a creation needs a record, and no creation if none is known', async () => {
    const copy = structuredClone(document);
    const schema = copy.components?.schemas?.NovoAluno as OpenAPIV3.SchemaObject;
    schema.required?.push('p_academia_id');
    const outcomeOf = async (demo: boolean) => {
      const report = await run({ document: copy, only: ['criarAluno'], demo, runs: 1 });
      return outcomesOf(report).find(({ name }) => name === 'creates what was sent');
    };
    expect(await outcomeOf(true)).toMatchObject({ result: 'passed' });
    expect(await outcomeOf(false)).toMatchObject({
      result: 'skipped',
      reason: 'a value of p_academia_id that keeps its x-rule is known only from an example, with --demo',
    });
  });

  test('passes with a list of which the run compares only a part', async () => {
    expect(failuresOf(await run({ key: KEY_OF_MANY, only: ['listarAcademias'], runs: 1 }))).toEqual([]);
  });

  test('is sent the same by the same seed, and something else by another', async () => {
    const readTargets = async (seed: number) => {
      const { sent } = await record({ seed, only: ['listarPersonais'] });
      return sent.map(({ target }) => target).sort();
    };
    const first = await readTargets(7);
    expect(await readTargets(7)).toEqual(first);
    expect(await readTargets(8)).not.toEqual(first);
  });

  test('is not held responsible for records that others create meanwhile', async () => {
    const create = () => call('/alunos', { url: gateway.url, key: KEYS.bosque, json: STUDENT });
    const others: number[] = [];
    // Creates before the request, so that nothing is created while a check compares two answers.
    const intercept =
      (exchange: Exchange): Exchange =>
      async (request) => {
        if (request.method === 'HEAD' || request.target.includes('offset')) others.push((await create()).status);
        return exchange(request);
      };
    expect(failuresOf(await run({ key: KEYS.bosque, only: ['listarAlunos'], runs: 1, intercept }))).toEqual([]);
    expect([others.length > 10, new Set(others)]).toEqual([true, new Set([201])]);
  });

  test.each<[what: string, change: (rows: Json[]) => Json[]]>([
    ['is committed after later ones of its list were read', (rows) => rows.toSpliced(1, 1)],
    ['others change', (rows) => rows.with(1, { ...(rows[1] as object), academia_id: randomUUID() })],
  ])('is not held responsible for a record that %s', async (_what, change) => {
    // The checks of the limit read the whole list before the others do, and those read it once more.
    let reads = 0;
    const answer = ({ body }: Answer, request: Request) => {
      if (queryOf(request) !== 'limit=1000' || !Array.isArray(body) || ++reads > 2) return {};
      return { body: change(body), text: JSON.stringify(change(body)) };
    };
    const intercept = spoil({ answer });
    expect(failuresOf(await run({ only: ['listarPersonais'], intercept }))).toEqual([]);
    expect(reads).toBeGreaterThan(2);
  });

  test('is not held responsible for records that others add to a list that is shorter than any page', async () => {
    const copy = structuredClone(document);
    const parameters = copy.paths['/personais']?.get?.parameters as OpenAPIV3.ParameterObject[];
    const limit = parameters.find(({ name }) => name === 'limit');
    Object.assign(limit ?? {}, { schema: { type: 'integer', minimum: 900, maximum: 1000, default: 900 } });
    const added: Json[] = [];
    const answer = ({ body, status }: Answer, { method, headers }: Request) => {
      if (status !== 200 || method !== 'GET' || !Array.isArray(body)) return {};
      if ('Accept-Encoding' in headers) added.push({ ...(body[0] as object), id: randomUUID() });
      const rows = [...body, ...added];
      return { body: rows, text: JSON.stringify(rows) };
    };
    const options = { document: copy, only: ['listarPersonais'], runs: 1 };
    const outcomes = outcomesOf(await run({ ...options, intercept: spoil({ answer }) }));
    expect(added.length).toBeGreaterThan(0);
    expect(outcomes).toContainEqual(
      expect.objectContaining({ name: 'gives the same in any encoding', result: 'passed' }),
    );
  });
});

const MAP: { type: string; additionalProperties?: object } = { type: 'object' };
MAP.additionalProperties = { anyOf: [{ type: 'boolean' }, MAP] };
const BASE = { type: 'object', required: ['kind'], properties: { kind: { type: 'string' } } };
const CARD = { type: 'object', properties: { kind: { enum: ['card'] } } };

test.each([
  ['a map that contains itself', MAP],
  ['a tag that the base of its schema has as a text', { allOf: [BASE, CARD] }],
  ['numbers of which one is the repetition of another', { type: 'integer', enum: [1, 11, 2] }],
  ['texts that a URL has as it has numbers', { enum: ['1', '11', '2'] }],
])('values are made up for %s', (_what, schema) => {
  const described = describeSchema(schema as never);
  const input = { name: 'v', in: 'path', required: true, example: undefined, rule: undefined, ...described } as const;
  expect(input.validate(pickValid({ ...input, in: 'body' }))).toBe(true);
  const broken = createViolations(input).flatMap(({ edges, some }) => [
    ...edges,
    ...fc.sample(some, { seed: 1, numRuns: 500 }),
  ]);
  expect(broken.filter((value) => ['1', '11', '2'].includes(String(value)))).toEqual([]);
});

test.each([
  ['2024-02-29T01:00:00+00:00', '2024-02-29T00:00:00.5-03:00', true],
  ['2024-02-29T00:00:00.123456+00:00', '2024-02-29T00:00:00.123457Z', true],
  ['2024-02-29T00:00:00+00:00', '2024-02-29T00:00:00Z', false],
  ['2024-02-28', '2024-02-29T00:00:00Z', true],
  ['9', '10', true],
])('%s comes before %s in a filter: %s', (one, other, isBefore) => {
  expect([isLess(one, other), isLess(other, one)]).toEqual([isBefore, false]);
});

test('tests no method of a path that also matches a path with a literal in its parameter', async () => {
  const parameters = [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }];
  const responses = { '200': { description: 'x' } };
  const [one, other] = ['/um/{id}', '/um/{id}:fechar'].map((path, index) =>
    documentOf({ operationId: path, parameters, responses }, path, ['get', 'post'][index]),
  );
  const contract = await readContract({ ...document, paths: { ...one?.paths, ...other?.paths } });
  const setting = { contract, operations: contract.operations, readOnly: true } as unknown as Setting;
  const [, ...checks] = createPathChecks(setting);
  expect(checks.map(({ name }) => name)).toEqual([]);
  const operations = contract.operations.slice(0, 1);
  const [, ...own] = createPathChecks({ ...setting, operations, readOnly: false });
  expect(own.map(({ name }) => name)).toEqual([
    'refuses POST /um/{id} and names the methods',
    'answers OPTIONS /um/{id}',
  ]);
});

test('skips what no value can be made up for, and checks the rest', async () => {
  const schema = { type: 'object', minProperties: 1, propertyNames: { pattern: '^[A-Z]{3}$' } };
  const id = { name: 'id', in: 'path', required: true, schema: { type: 'string', pattern: '^(?=a)b$' } };
  const { securitySchemes } = document.components ?? {};
  const paths = {
    ...documentOf(jsonBody(schema)).paths,
    ...documentOf({ operationId: 'outro', parameters: [id] }, '/outro/{id}').paths,
  };
  const refused = { error: 'refused' };
  const answer = {
    headers: { 'content-type': 'application/json', allow: 'POST' },
    text: JSON.stringify(refused),
    body: refused,
  };
  const report = await run({
    document: { ...document, openapi: '3.1.0', components: { securitySchemes } as object, paths },
    intercept: () => async (request) => ({ ...answer, status: request.target.startsWith('/um') ? 405 : 404 }),
  });
  const outcomes = outcomesOf(report).map(({ name, ...outcome }) => [
    name,
    outcome.result,
    'reason' in outcome && outcome.reason,
  ]);
  const reason = (place: string) => expect.stringMatching(`^${place}: no value could be made up`);
  expect(outcomes).toEqual([
    ['everything', 'skipped', reason('body in body')],
    ['everything', 'skipped', reason('id in path')],
    ['answers an unknown path with 404', 'passed', false],
    ['refuses GET /um and names the methods', 'passed', false],
    ['answers OPTIONS /um', 'passed', false],
    ['names the methods of /outro/{id}', 'skipped', reason('id in path')],
  ]);
});

test('skips an input of which no value makes a valid body', async () => {
  const text = { type: 'string', minLength: 1, maxLength: 9 };
  const oneOf = [{ required: ['p_a'] }, { required: ['p_b'] }];
  const body = jsonBody({ type: 'object', properties: { p_a: text, p_b: text }, oneOf, additionalProperties: false });
  const intercept = () => async () => ({ status: 204, headers: {}, text: '', body: undefined });
  const outcomes = outcomesOf(await run({ document: documentOf(body), intercept }));
  expect(outcomes).toContainEqual(expect.objectContaining({ name: 'takes p_a', result: 'passed' }));
  const reason = 'none of the values makes a valid body';
  expect(outcomes).toContainEqual({ name: 'takes p_b', result: 'skipped', reason });
});

test('reports an error in a check as a failure of that check', async () => {
  const answer = ({ headers }: Answer, { target }: Request) => {
    if (!target.endsWith('?limit=1000')) return {};
    return { headers: Object.defineProperty({ ...headers }, 'content-type', { get: () => JSON.parse('{') }) };
  };
  const report = await run({ only: ['listarSecoes'], runs: 1, intercept: spoil({ answer }) });
  const failed = failuresOf(report).find(({ name }) => name === 'takes limit');
  expect(failed).toMatchObject({
    curl: '# no request: the check itself failed',
    got: expect.stringMatching(/^SyntaxError: /),
  });
  expect(namesOf(outcomesOf(report).filter(({ result }) => result === 'passed'))).toContain(
    'refuses limit less than 1',
  );
});

/** Runs `npm run contract -- …` in this process. */
function command(args: readonly string[]): Promise<Run> {
  return runInProcess((printing) => testContract(args, printing));
}

describe('the command', () => {
  /** Starts a server in place of a gateway, which is closed when the test ends. Returns its URL. */
  async function serve(server: Server): Promise<string> {
    onTestFinished(() => void server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return `${toOrigin(server)}/v1`;
  }

  const small = ['--operation', 'listarSecoes', '--runs', '1'];

  /** Runs the command with a document in which a text is replaced. */
  function testWith(old: string, changed: string, ...args: string[]): Promise<Run> {
    const file = join(folder, 'other.yaml');
    const text = readFileSync('openapi.yaml', 'utf8');
    expect(text).toContain(old);
    writeFileSync(file, text.replace(old, changed));
    return command(['--url', gateway.url, '--key', KEYS.aurora, '--document', file, ...args]);
  }

  test('ends with 0 where all passed, says so, and writes a testcase for each check as JUnit XML', async () => {
    const options = '--seed 5 --demo --read-only --junit report.xml'.split(' ');
    const args = ['--url', `${gateway.url}/`, ...options, ...small];
    const env = { API_KEY: KEYS.aurora, INIT_CWD: folder };
    const output = succeed(await runCommand('scripts/conformance/main.ts', args, { env }));
    expect(output).toContain(`Contract tests of ${gateway.url}\nSeed 5, 1 runs; --seed 5 repeats them.`);
    expect(output).toMatch(/^GET \/anamnese\/secoes +\d+ passed, 3 skipped \d+\.\d s$/m);
    const [, passed] = /^(\d+) passed, 0 failed, 3 skipped; \d+ requests in \d+\.\d s$/m.exec(output) ?? [];
    expect(output).not.toContain('\u001b');

    const xml = readFileSync(join(folder, 'report.xml'), 'utf8');
    expect(xml.match(/<testcase /g)?.length).toBe(Number(passed) + 3);
    expect(xml).toContain('<testcase classname="GET /anamnese/secoes" name="takes limit" time="');
    expect(xml.match(/<skipped\/>/g)?.length).toBe(3);
    expect(xml).not.toContain('<failure');
    expect(xml).not.toContain(KEYS.aurora);
  });

  test('ends with 1 where something failed, and shows no key in any report', async () => {
    // A key that JSON, XML and shells write in other ways than it is.
    const key = `wms_"'<&>\\key`;
    const server = createServer((req, res) => {
      res.setHeader('Content-Type', 'application/json');
      res.end(`${JSON.stringify({ error: `the key ${req.headers['x-api-key']}` })} \u001b[2J`);
    });
    const url = await serve(server);
    const file = join(folder, 'failed.xml');
    const told = await command(['--url', url, '--key', key, '--junit', file, ...small]);
    const json = await command(['--url', url, '--key', key, '--json', ...small]);
    const xml = readFileSync(file, 'utf8');

    expect([told.code, json.code]).toEqual([1, 1]);
    expect(told.output).toContain('the key $API_KEY');
    expect(told.output).toContain('\\u001b[2J');
    expect(told.output).toContain(`${GET} '${url}/anamnese/secoes`);
    for (const text of [told.output, told.errors, json.output, json.errors, xml]) expect(text).not.toContain('wms_"');
    for (const text of [told.output, json.output, xml]) expect(text).not.toMatch(/wms_.{0,6}('|&apos;|%27).{0,20}key/);
    expect(JSON.parse(json.output).sections[0].title).toBe('GET /anamnese/secoes');
  });

  test.each<[string, RequestListener, string]>([
    [
      'has nothing there',
      (_, res) => res.writeHead(404, { 'Content-Type': 'text/html' }).end('<h1>Not found</h1>'),
      "nothing is there: does http://\\S+/v1 end with the path of the document's server\\?",
    ],
    [
      'redirects',
      (_, res) => res.writeHead(301, { Location: 'https://api.example/v1' }).end(),
      '301 to https://api.example/v1(.|\\n)+the deployment redirects: --url has to be where it leads',
    ],
  ])('shows one failure of an operation where the deployment %s', async (_, answer, reason) => {
    const url = await serve(createServer(answer));
    const { code, output } = await command(['--url', url, '--key', KEYS.aurora, ...small]);
    expect(code).toBe(1);
    expect(output).toMatch(/^GET \/anamnese\/secoes +0 passed, 1 failed, \d+ skipped/m);
    expect(output).toMatch(new RegExp(reason));
  });

  test.each([
    [['--url', 'http://127.0.0.1:1/v1'], "required option '--key <KEY>' not specified"],
    [['--url', '127.0.0.1:3000', '--key', 'x'], 'Expected a URL such as'],
    [['--url', 'http://127.0.0.1:1', '--key', 'a b'], 'Expected visible ASCII characters'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--runs', '0'], 'Expected an integer from 1'],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--operation', 'criarTreino'], "'criarTreino' is not an operation"],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--operation', ''], "'' is not an operation"],
    [['--url', 'http://127.0.0.1:1', '--key', 'x', '--junit', '/nowhere/report.xml'], 'cannot be written'],
  ])('ends with 2 at the wrong usage %j', async (args, message) => {
    const { code, output, errors } = await command(args);
    expect({ code, output }).toEqual({ code: 2, output: '' });
    expect(errors).toContain(message);
  });

  test.each([
    ['info:', 'other:', "must have required property 'info'"],
    ['match: contains', 'match: contain', 'x-filter of nome: match is equals or'],
    [
      ...(['property: data_inicio', 'property: data_do_inicio'] as const),
      'x-filter of data_inicio_gte: the records have no property data_do_inicio',
    ],
  ] as const)('ends with 2 for a document with another text for %j: %j', async (old, changed, message) => {
    const { code, errors } = await testWith(old, changed);
    expect(code).toBe(2);
    expect(errors).toContain(message);
  });

  test.each([
    ['compares what x-filter says', 'x-filter: { property: data_inicio, match: until }', 1, 'data_inicio until "'],
    [
      ...(['says which filter nothing describes', 'x-else: 0', 0] as const),
      'skipped  no property has its name: say with x-filter what it compares: filters by data_inicio_gte',
    ],
  ])('%s', async (_, filter, code, text) => {
    const old = 'x-filter: { property: data_inicio, match: from }';
    const ended = await testWith(old, filter, '--operation', 'listarTreinos', '--runs', '1');
    expect(ended).toMatchObject({ code, output: expect.stringContaining(text) });
  });

  test('reads the pages of a list that needs another parameter', async () => {
    const copy = structuredClone(document);
    const { parameters } = copy.paths['/treinos']?.get ?? {};
    const student = (parameters as OpenAPIV3.ParameterObject[]).find(({ name }) => name === 'id_aluno');
    Object.assign(student ?? {}, { required: true });
    const needy = await startGateway({ store: gateway.store, document: copy });
    const report = await run({ url: needy.url, document: copy, only: ['listarTreinos'], runs: 1 });
    await needy.close();
    // The document's examples of this list lack the parameter.
    expect(failuresOf(report).filter(({ name }) => !name.startsWith('answers the example'))).toEqual([]);
  });

  test('lets the gateway refuse `after` beside `offset` without an x-rule', async () => {
    const args = ['--operation', 'listarSecoes', '--seed', '1'];
    expect(await testWith('x-rule: the id of a record of the tenant', '', ...args)).toMatchObject({ code: 0 });
  });

  test('ends with 3 where the deployment cannot be reached, and says it once and in the file for CI', async () => {
    const url = `http://127.0.0.1:${await findPort()}/v1`;
    const file = join(folder, 'unreachable.xml');
    expect(await command(['--url', url, '--key', 'x', '--junit', file])).toMatchObject({
      ...{ code: 3, errors: `${url} cannot be reached: connect ECONNREFUSED ${new URL(url).host}\n` },
    });
    expect(readFileSync(file, 'utf8')).toMatch(/<testcase classname="The deployment" name="answers".*\s*<failure/);
  });

  test('ends with 1 where it fails itself, and replaces the file of an earlier run', async () => {
    const file = join(folder, 'broken.xml');
    writeFileSync(file, '<testsuites tests="1" failures="0"/>');
    const errors: string[] = [];
    const print = (text: string) => {
      if (text.startsWith('GET ')) throw new Error('a mistake of ours');
    };
    const args = ['--url', gateway.url, '--key', KEYS.aurora, '--junit', file, ...small];
    const code = await testContract(args, { print, printError: (text) => void errors.push(text) });
    expect([code, errors.join('')]).toEqual([1, expect.stringMatching(/^Error: a mistake of ours\n +at /)]);
    const xml = readFileSync(file, 'utf8');
    expect(xml).toContain('<testcase classname="GET /anamnese/secoes" name="takes limit"');
    expect(xml).toMatch(/<failure.*\s.*[\s\S]*got a mistake of ours/);
  });

  test('ends with 3 where the deployment has no TLS, or a certificate of its own, and says what to do', async () => {
    const url = await serve(createServer((_, res) => res.end()));
    expect(await command(['--url', url.replace('http:', 'https:'), '--key', 'x'])).toMatchObject({
      ...{ code: 3, errors: expect.stringMatching(/it does not speak TLS; does its URL begin with http:\?\n$/) },
    });
    const options = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -batch'.split(' ');
    const files = ['-keyout', join(folder, 'key'), '-out', join(folder, 'certificate')];
    execFileSync('openssl', ['req', '-x509', ...options, ...files], { stdio: 'pipe' });
    const [key, cert] = ['key', 'certificate'].map((name) => readFileSync(join(folder, name)));
    const secure = await serve(createTlsServer({ key, cert }));
    expect(await command(['--url', secure.replace('http:', 'https:'), '--key', 'x'])).toMatchObject({
      ...{ code: 3, errors: expect.stringMatching(/; to trust an authority, set NODE_EXTRA_CA_CERTS to its file\n$/) },
    });
  });

  test('lists what it has created if it is interrupted', async () => {
    const interruption = new AbortController();
    const server = createServer((req, res) => {
      const [status, body] = req.method === 'POST' ? [201, { id: 'first' }] : [404, { error: 'Not found' }];
      res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
      if (req.method === 'POST') interruption.abort();
    });
    const args = ['--url', await serve(server), '--key', KEYS.aurora, '--operation', 'criarAluno'];
    const { output, errors } = await runInProcess((printing) => testContract(args, printing, interruption.signal));
    expect(output).toContain('Created by POST /alunos and not removed: 1\n  first\n');
    expect(errors).toBe('Interrupted\n');
  });

  test('ends with 3 where the deployment goes away', async () => {
    const server = createServer((req, res) => {
      res.end('[]');
      if (req.url?.includes('limit=1000')) server.close().closeAllConnections();
    });
    const { code, errors } = await command(['--url', await serve(server), '--key', KEYS.aurora, ...small]);
    expect(code).toBe(3);
    expect(errors).toMatch(/^http:\S+ cannot be reached: .+\n$/);
  });
});
