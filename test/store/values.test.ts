import fc, { type Arbitrary } from 'fast-check';
import { expect, inject, test } from 'vitest';
import { jsonBody, useGateway } from '../helpers/api.ts';

// A value that passes the document comes back as it was sent, or is a 422 on its name, for every type and format, in every place of a
// request, on every store. It is never a 500 or a 502.

/** The number of values that are sent. */
const COUNT = inject('isLong') ? 100_000 : 500;

type Kind = {
  readonly schema: object;
  /** The type of the argument, and the SQL that converts it to JSON. */
  readonly type: string;
  readonly json?: string;
  /** Values that have to be accepted, as texts; as JSON if they are not strings. */
  readonly taken: readonly string[];
  /** Values at the edges, many of which are refused. */
  readonly edges: Arbitrary<string>;
  /** Whether what came back is what was sent. */
  readonly isSame?: (sent: string, back: string) => boolean;
  /** Whether JSON has the value bare, and not as a string. */
  readonly isBare?: boolean;
};

const digits = (least: number, most: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: least, maxLength: most });
const join = (...parts: Arbitrary<string>[]) => fc.tuple(...parts).map((texts) => texts.join(''));
const number = join(
  fc.constantFrom('', '-'),
  fc.oneof(fc.constantFrom('0', '7', '10', '9007199254740993'), fc.bigInt({ min: 0n, max: 10n ** 30n }).map(String)),
  fc.oneof(
    fc.constantFrom('', '.0', '.00', '.5', '.10'),
    digits(1, 25).map((text) => `.${text}`),
  ),
  fc.constantFrom('', 'e0', 'e2', 'E+3', 'e-7', 'e21', 'e-30', 'e400'),
);
const year = fc.constantFrom('0000', '0001', '0099', '1582', '1900', '2023', '2024', '9999');
const date = join(year, fc.constantFrom('-01-01', '-02-28', '-02-29', '-02-30', '-12-31', '-13-01', '-00-10', '-1-1'));
const time = join(
  fc.constantFrom('00:00', '12:34', '23:59', '24:00', '23:60'),
  fc.constantFrom(':00', ':59', ':60', ':61', ''),
  fc.constantFrom('', '.5', '.123456', '.1234567', '.999999999', '.'),
);
const zone = fc.constantFrom(
  ...['Z', 'z', '+00:00', '-00:00', '+14:00', '-12:00', '+15:59', '+16:00', '-23:59', '+00:01', '+03', ''],
);
const dateTime = (end: Arbitrary<string>) => join(date, fc.constantFrom('T', 't', ' ', '\u00a0', '_'), time, end);
const anyText = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...'aÉ"\\\'%&+,;=/?# \0\n\t\ud800'),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 20,
});

/** A decimal number as digits and an exponent. */
function toDecimal(text: string): [bigint, number] {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  const value = BigInt(whole + fraction);
  return [sign === '-' ? -value : value, Number(exponent) - fraction.length];
}

function isSameNumber(sent: string, back: string): boolean {
  const [[one, ofOne], [other, ofOther]] = [toDecimal(sent), toDecimal(back)];
  const least = Math.min(ofOne, ofOther);
  return one * 10n ** BigInt(ofOne - least) === other * 10n ** BigInt(ofOther - least);
}

/** A moment as milliseconds and the digits of its microseconds. */
function toMoment(text: string): string {
  const [, before = '', fraction = '', end = ''] =
    /^(.*?:\d\d:\d\d)(?:\.(\d+))?(.*)$/.exec(text.toUpperCase().replace(/(\d)[T ](\d)/, '$1T$2')) ?? [];
  const day = before.includes('T') ? before : `2000-01-01T${before}`;
  return `${Date.parse(day + (end.length === 3 ? `${end}:00` : end || 'Z'))} ${fraction.replace(/0+$/, '')}`;
}

const isSameMoment = (sent: string, back: string) => toMoment(sent) === toMoment(back);
const isSameBytes = (sent: string, back: string) => Buffer.from(sent, 'base64').equals(Buffer.from(back, 'base64'));
const isSameLetters = (sent: string, back: string) => sent.toLowerCase() === back.toLowerCase();

/** Values that are compared as numbers, and are bare in JSON. */
const ofNumbers = (schema: object, type: string, taken: readonly string[]): Kind => ({
  ...{ schema, type, taken, edges: number, isSame: isSameNumber, isBare: true },
});
/** Texts of a format. */
const ofTexts = (
  format: string,
  type: string,
  taken: readonly string[],
  edges: Kind['edges'],
  isSame?: Kind['isSame'],
) => ({
  ...{ schema: { type: 'string', format }, type, taken, edges },
  ...(isSame && { isSame }),
});

const KINDS: Readonly<Record<string, Kind>> = {
  texto: { schema: { type: 'string' }, type: 'text', taken: ['a', 'É "\\'], edges: anyText },
  inteiro: ofNumbers({ type: 'integer' }, 'bigint', ['7', '-9007199254740991']),
  int32: ofNumbers({ type: 'integer', format: 'int32' }, 'integer', ['2147483647']),
  numero: ofNumbers({ type: 'number' }, 'numeric', ['1e-7', '1E21', '12345678901234567.89', '-0.5']),
  duplo: {
    ...ofNumbers({ type: 'number', format: 'double' }, 'double precision', ['0.1', '1e21']),
    isSame: (sent, back) => Number(sent) === Number(back),
  },
  nota: {
    ...ofNumbers({ type: 'integer', minimum: -100, maximum: 100 }, 'public.nota_de_0_a_10', ['0', '10']),
    edges: fc.integer({ min: -101, max: 101 }).map(String),
  },
  logico: {
    ...ofNumbers({ type: 'boolean' }, 'boolean', ['true', 'false']),
    edges: fc.constantFrom('true', 'false', 'True', '1'),
    isSame: (sent, back) => sent === back,
  },
  uuid: ofTexts(
    'uuid',
    'uuid',
    ['a1000000-0000-4000-8000-000000000002'],
    fc.oneof(
      fc.uuid(),
      fc.uuid().map((value) => value.toUpperCase()),
      fc.constantFrom(
        'urn:uuid:a1000000-0000-4000-8000-000000000002',
        '{a1000000-0000-4000-8000-000000000002}',
        'a100000000004000800000000000002',
      ),
    ),
    isSameLetters,
  ),
  data: ofTexts('date', 'date', ['2024-02-29', '0001-01-01', '9999-12-31'], date),
  momento: ofTexts(
    'date-time',
    'timestamptz',
    ['2024-02-29T23:59:59Z', '2024-01-01T00:00:00.123456-03:00'],
    dateTime(zone),
    isSameMoment,
  ),
  local: ofTexts(
    'date-time-local',
    'timestamp',
    ['2024-02-29T23:59:59'],
    dateTime(fc.constantFrom('', 'Z')),
    isSameMoment,
  ),
  hora: ofTexts('time', 'timetz', ['23:59:59Z', '10:00:00.5+03:00'], join(time, zone), isSameMoment),
  'hora-local': ofTexts('time-local', 'time', ['23:59:59.5'], join(time, fc.constantFrom('', 'Z')), isSameMoment),
  duracao: ofTexts(
    'duration',
    'interval',
    ['P1DT12H', 'PT0S'],
    join(
      fc.constant('P'),
      fc.constantFrom('', '1Y', '99999999999Y', '2M'),
      fc.constantFrom('', '3D', '4W'),
      fc.constantFrom('', 'T5H', 'T6M7S', 'T1.5S'),
    ),
    // Postgres writes an interval in its own form, so only its acceptance can be checked.
    () => true,
  ),
  bytes: {
    ...ofTexts(
      'byte',
      'bytea',
      ['', 'AAEC', 'YQ=='],
      fc.oneof(fc.base64String(), fc.constantFrom('\n!', '!!!\nAAAA', 'AAAA\n', 'YQ', 'Y===', 'A-_A')),
      isSameBytes,
    ),
    json: `to_jsonb(translate(encode(p_v, 'base64'), E'\\n', ''))`,
  },
  ip: ofTexts(
    'ipv4',
    'inet',
    ['203.0.113.1'],
    fc.oneof(fc.ipV4(), fc.constantFrom('203.0.113.256', '1.2.3', '203.0.113.1/24')),
  ),
};

const PLACES = ['query', 'path', 'header', 'list', 'field', 'items', 'object', 'tool'] as const;
type Place = (typeof PLACES)[number];
const names = Object.keys(KINDS);
/** Bytes cannot be items of an array. */
const placesOf = (name: string) =>
  PLACES.filter((place) => name !== 'bytes' || (place !== 'list' && place !== 'items'));

/** A function for each kind and for its lists, which returns its argument. */
const SQL = `create domain public.nota_de_0_a_10 as integer check (value between 0 and 10);\n${names
  .flatMap((name) => {
    const { type, json = 'to_jsonb(p_v)' } = KINDS[name] as Kind;
    return [
      [toFunction(name), type, json],
      [toFunction(`${name}s`), `${type}[]`, json.replaceAll('p_v', 'p_v[1]')],
    ];
  })
  .concat([[toFunction('objeto'), 'jsonb', `p_v -> 'em' -> 'v'`]])
  .map(
    ([name, type, json]) => `
create function public.${name}(p_api_key text, p_v ${type} default null) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_api_key, '${name}');
  return coalesce(${json}, 'null');
end $$;
select private.publish('public.${name}');`,
  )
  .join('\n')}`;

function toFunction(name = ''): string {
  return `devolver_${name.replaceAll('-', '_')}`;
}

function toDocument(): object {
  const responses = { 200: { description: 'The value', content: { 'application/json': { schema: {} } } } };
  const parameter = (place: string, schema: object) => {
    const name = place === 'header' ? 'V' : 'v';
    return { parameters: [{ name, in: place, required: place === 'path', schema }] };
  };
  const body = (schema: object) =>
    jsonBody({ type: 'object', additionalProperties: false, properties: { p_v: schema } });
  const operationsOf = (name: string) => {
    const { schema } = KINDS[name] as Kind;
    const list = { type: 'array', items: schema, maxItems: 3 };
    const object = { type: 'object', properties: { em: { type: 'object', properties: { v: schema } } } };
    const parts: Partial<Record<Place, readonly [parts: object, rpc?: string]>> = {
      query: [parameter('query', schema)],
      path: [parameter('path', schema)],
      header: [parameter('header', schema)],
      list: [parameter('query', list), `${name}s`],
      field: [body(schema)],
      items: [body(list), `${name}s`],
      object: [body(object), 'objeto'],
    };
    return placesOf(name).flatMap((place) => {
      const [own, rpc = name] = parts[place] ?? [];
      if (!own) return [];
      const common = { operationId: `${place}_${name}`, 'x-rpc': toFunction(rpc), 'x-read-only': true, responses };
      const path = `/${place}/${name}${place === 'path' ? '/{v}' : ''}`;
      return [[path, { ['requestBody' in own ? 'post' : 'get']: { ...common, ...own } }]];
    });
  };
  return {
    openapi: '3.0.3',
    info: { title: 'Values', version: '1' },
    servers: [{ url: '/v1' }],
    security: [{ key: [] }],
    paths: Object.fromEntries(names.flatMap(operationsOf)),
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Api-Key' } } },
  };
}

const gateway = useGateway({ sql: SQL, document: toDocument() as never, mcp: true });

type Answer = { readonly status: number; readonly text: string };

/** Sends a value in a place; undefined if the place cannot carry it. */
async function send(place: Place, name: string, value: string): Promise<Answer | undefined> {
  const { isBare } = KINDS[name] as Kind;
  const json = isBare ? value : JSON.stringify(value);
  const isOfUrl = place === 'query' || place === 'list' || place === 'path';
  if (isOfUrl && !value.isWellFormed()) return undefined;
  const encoded = isOfUrl ? encodeURIComponent(value) : '';
  const request = (path: string, init: RequestInit = {}) =>
    ask(`${gateway.url}/${place}/${name}${path}`, {
      ...init,
      headers: { 'X-Api-Key': 'wms_demo_aurora', ...init.headers },
    });
  const post = (body: string) => request('', { method: 'POST', body });
  switch (place) {
    case 'query':
    case 'list':
      return request(`?v=${encoded}`);
    case 'path':
      return value === '' || value === '.' || value === '..' ? undefined : request(`/${encoded}`);
    case 'header':
      return /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value) ? request('', { headers: { V: value } }) : undefined;
    case 'field':
      return post(`{"p_v":${json}}`);
    case 'items':
      return post(`{"p_v":[${json}]}`);
    case 'object':
      return post(`{"p_v":{"em":{"v":${json}}}}`);
    case 'tool':
      return callTool(`field_${name}`, `{"p_v":${json}}`);
  }
}

async function ask(url: string, init: RequestInit): Promise<Answer> {
  const answer = await fetch(url, init);
  return { status: answer.status, text: await answer.text() };
}

async function callTool(name: string, args: string): Promise<Answer> {
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`;
  const url = new URL('/mcp', gateway.url).href;
  const { status, text } = await ask(url, { method: 'POST', body, headers: { 'X-Api-Key': 'wms_demo_aurora' } });
  const { result } = status === 200 ? JSON.parse(text) : {};
  if (!result) return { status, text };
  const [{ text: content }] = result.content;
  // An invalid argument is reported by its field. Everything else is a failure.
  const isInvalid = result.isError && typeof JSON.parse(content).error === 'object';
  return { status: result.isError ? (isInvalid ? 422 : 500) : 200, text: content };
}

/** The mistake in the answer to a value; undefined if there is none. */
function findFault(name: string, value: string, { status, text }: Answer): string | undefined {
  const { isSame = (sent, back) => sent === back, isBare } = KINDS[name] as Kind;
  if (status === 422) {
    const fields = Object.keys(JSON.parse(text).error);
    return fields.every((field) => /^(v|V|p_v)(\.\w+)*$/.test(field)) ? undefined : `refused on ${fields}`;
  }
  // A body whose value is not JSON.
  if (status === 400) return isBare && !isJson(value) ? undefined : 'refused as a whole';
  if (status !== 200) return `${status} ${text}`;
  const back = isBare ? text : String(JSON.parse(text));
  return isSame(value, back) ? undefined : `comes back as ${back}`;
}

function isJson(text: string): boolean {
  try {
    return JSON.parse(text) !== undefined;
  } catch {
    return false;
  }
}

test.each(names)('%s: values that the schema allows are taken in every place', async (name) => {
  for (const value of (KINDS[name] as Kind).taken) {
    for (const place of placesOf(name)) {
      const answer = await send(place, name, value);
      if (!answer) continue;
      expect([place, value, answer.status, answer.text]).toEqual([place, value, 200, answer.text]);
      expect([place, value, findFault(name, value, answer)]).toEqual([place, value, undefined]);
    }
  }
});

test('every value comes back as it went, or is a 422 on its name', { timeout: 3_600_000 }, async () => {
  const value = fc
    .constantFrom(...names.flatMap((name) => placesOf(name).map((place) => ({ name, place }))))
    .chain((one) => (KINDS[one.name] as Kind).edges.map((text) => ({ ...one, text })));
  await fc.assert(
    fc.asyncProperty(value, async ({ name, place, text }) => {
      const answer = await send(place, name, text);
      expect(answer && findFault(name, text, answer)).toBeUndefined();
    }),
    { numRuns: COUNT },
  );
  expect(gateway.faults).toEqual([]);
});
