import { constants } from 'node:buffer';
import { once } from 'node:events';
import { type AddressInfo, createServer, Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { readDatabaseUrl } from '../../src/database-url.ts';
import { Connection, ConnectionLost, RowQuery, RowsError, RowsQuery } from '../../src/store/postgres/connection.ts';
import { JsonRows } from '../../src/store/postgres/json-rows.ts';
import type { NamedStatement, Statement } from '../../src/store/statement.ts';
import { useDatabase } from '../helpers/database.ts';
import { waitFor } from '../helpers/wait-for.ts';

// The gateway writes rows as Postgres does, letter for letter.

/** A connection that delivers what the server sends in pieces of at most `size` bytes. */
class Pieces extends Socket {
  size = Number.POSITIVE_INFINITY;

  override emit(event: string, ...args: unknown[]): boolean {
    const [bytes] = args;
    if (event !== 'data' || !Buffer.isBuffer(bytes)) return super.emit(event, ...args);
    for (let at = 0; at < bytes.length; at += this.size) super.emit('data', bytes.subarray(at, at + this.size));
    return true;
  }
}

const database = useDatabase({ sql: 'create domain public.nome as text' });
let connection: Connection;
const socket = new Pieces();
let count = 0;
const never = new AbortController().signal;

beforeAll(async () => {
  // As every session of the gateway does.
  const settings = [`timezone = 'UTC'`, `datestyle = 'ISO'`];
  const config = { ...readDatabaseUrl(database.adminUrl).servers[0]?.config, stream: () => socket };
  connection = await Connection.open({ config, settings, openMs: 20_000 });
});

afterAll(() => connection.close());

function askForRows(on: Connection, statement: NamedStatement, signal = never): RowsQuery['answer'] {
  const query = new RowsQuery(statement, signal, constants.MAX_STRING_LENGTH);
  on.send([query]);
  return query.answer;
}

function askForRow(on: Connection, statement: Statement): RowQuery['answer'] {
  const query = new RowQuery(statement, never);
  on.send([query]);
  return query.answer;
}

/** The rows of a query as the gateway writes them, and as Postgres does. */
async function write(query: string, values: readonly (string | null)[] = []): Promise<[string | undefined, string]> {
  count += 1;
  const here = await askForRows(connection, { name: `columns_${count}`, text: query, values });
  const text = `select '[' || coalesce(string_agg(row_to_json(r)::text, ','), '') || ']' from (${query}) r`;
  const [there] = (await askForRow(connection, { text, values })) ?? [];
  return [here?.json, String(there)];
}

const TIMES = ['-infinity', '4713-01-01 00:00:00.000001 BC', '0044-03-15 12:30:00.5 BC', '1900-01-01 00:00:00.000001'];
const LATER_TIMES = [
  '2026-11-21 12:00:00.123456',
  '9999-12-31 23:59:59.999999',
  '294276-12-31 23:59:59.999999',
  'infinity',
];
const JSONS = ['null', '{"a": [1, "\\u00e9 \\"x\\"\\n"],\n "b": {}}', '"text"', '1e5', '[]'];
const EDGES: Readonly<Record<string, readonly string[]>> = {
  boolean: ['true', 'false'],
  smallint: ['-32768', '0', '32767'],
  integer: ['-2147483648', '7'],
  bigint: ['-9223372036854775808', '9223372036854775807'],
  real: ['1e20', '-1.5', '0.1', 'NaN', 'Infinity', '-Infinity', '1e-7'],
  'double precision': ['1e300', '-0', '0.30000000000000004', 'NaN', 'Infinity', '-Infinity'],
  numeric: ['123456789012345678901234567890.123', '-0.10', 'NaN', 'Infinity', '-Infinity'],
  text: ['', 'José', '"', '\\', 'a\tb\nc\rd\fe\bf', '\u0001\u001f\u007f', '\u2028 💪', 'x'.repeat(100_000)],
  'character varying': ['a "quoted" text'],
  'character(8)': ['a b'],
  uuid: ['00000000-0000-4000-8000-0000000000ff'],
  date: ['-infinity', '4713-01-01 BC', '0001-12-31 BC', '0001-01-01', '2000-02-29', '5874897-12-31', 'infinity'],
  time: ['00:00:00', '23:59:59.999999', '24:00:00'],
  timestamp: [...TIMES, ...LATER_TIMES],
  timestamptz: [...TIMES, ...LATER_TIMES],
  json: JSONS,
  jsonb: JSONS,
};

test.each(Object.entries(EDGES))('writes a value of %s as row_to_json does', async (type, edges) => {
  const rows = [...edges, null].map((_, index) => `select $${index + 1}::${type} as valor, ${index} as "n° \\"`);
  const [here, there] = await write(rows.join(' union all '), [...edges, null]);
  expect(here).toBe(there);
});

test('writes rows of any texts, days and times as row_to_json does, in whatever pieces they come', async () => {
  const text = fc.string({ unit: 'binary', maxLength: 40 }).filter((value) => !value.includes('\0'));
  const row = fc.record({
    a: fc.option(text),
    b: text,
    // Every possible day.
    d: fc.option(fc.integer({ min: -2_451_545, max: 106_741_034 })),
    m: fc.integer({ min: 0, max: 86_399_999_999 }),
    e: fc.option(fc.double().map(String)),
  });
  const sizes = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 41, max: 10_000 }));
  await fc.assert(
    fc.asyncProperty(fc.array(row, { maxLength: 30 }), sizes, async (rows, size) => {
      socket.size = size;
      const [here, there] = await write(
        `select a, b, date '2000-01-01' + d as c, timestamp '2000-01-01' + make_interval(days => d, secs => m / 1e6) as t,
                timestamptz '2000-01-01' + make_interval(days => d, secs => m / 1e6) as z, d is null as f, e
           from json_to_recordset($1) as r (a text, b text, d integer, m float8, e float8)`,
        [JSON.stringify(rows)],
      );
      socket.size = Number.POSITIVE_INFINITY;
      expect(here).toBe(there);
    }),
  );
});

test.each([
  ['an array', `array[1]`],
  ['a row', `row(1)`],
  ['bytes', `'\\x00'::bytea`],
  ['an interval', `interval '1 day'`],
  ['nothing', `pg_notify('a', 'b')`],
])('leaves %s to Postgres, and serves on', async (_, value) => {
  expect((await write(`select 1 as n, ${value} as valor`))[0]).toBeUndefined();
  const [here, there] = await write('select 1 as n');
  expect(here).toBe(there);
});

test('fails the query for whose rows there is no memory, and serves on', async () => {
  vi.spyOn(JsonRows.prototype, 'take').mockImplementationOnce(() => {
    throw new RangeError('Array buffer allocation failed');
  });
  const rows = askForRows(connection, { name: 'large', text: 'select 1 as n', values: [] });
  await expect(rows).rejects.toMatchObject({ cause: { message: 'Array buffer allocation failed' } });
  expect(await write('select 2 as n')).toEqual(['[{"n":2}]', '[{"n":2}]']);
});

test("gives the query's error and none of the rows before it", async () => {
  const text = 'select 100 / (50000 - n) as n from generate_series(1, $1::integer) n';
  const statement = { name: 'division', text };
  await expect(askForRows(connection, { ...statement, values: ['60000'] })).rejects.toMatchObject({
    code: '22012',
  });
  expect(await askForRows(connection, { ...statement, values: ['2'] })).toEqual({
    json: '[{"n":0},{"n":0}]',
    count: 2,
  });
});

test.each([
  ['a domain', `'a "b"'::public.nome as v`],
  ['columns of one name', '1 as v, 2 as v'],
  ['the result of a function that gives one value', '* from lower($$A$$)'],
])('writes %s as row_to_json does', async (_, columns) => {
  const [here, there] = await write(`select ${columns}`);
  expect(here).toBe(there);
});

// No Postgres sends this, but a broken pooler or proxy may.
describe('a server that does not keep to the protocol', () => {
  const message = (code: string, ...parts: Buffer[]) => {
    const body = Buffer.concat(parts);
    const head = Buffer.from(`${code}\0\0\0\0`, 'latin1');
    head.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([head, body]);
  };
  const int16 = (value: number) => Buffer.from([value >> 8, value & 0xff]);
  const int32 = (value: number) => Buffer.concat([int16(value >>> 16), int16(value & 0xffff)]);
  const texts = (...values: string[]) => Buffer.from(values.map((value) => `${value}\0`).join(''));
  const row = (length: number, ...values: string[]) =>
    message('D', int16(values.length), ...values.flatMap((value) => [int32(length), Buffer.from(value)]));
  const READY = message('Z', Buffer.from('I'));
  const column = (name: string, type: number) =>
    Buffer.concat([texts(name), int32(0), int16(0), int32(type), int16(-1), int32(-1), int16(0)]);
  const COLUMNS = message('T', int16(1), column('nome', 25));
  const DESCRIBED = Buffer.concat([message('1'), message('t', int16(0)), COLUMNS]);
  const PEER = Buffer.concat([
    message('T', int16(2), column('pid', 23), column('isDistributed', 16)),
    row(1, '1', 'f'),
    message('C', texts('SELECT 1')),
    READY,
  ]);

  /** Connects to a server that describes one column and then answers with these bytes. `sent` has the first message of each write. */
  async function ask(answer: Buffer) {
    const sent: string[] = [];
    const server = createServer((connection) => {
      connection.once('data', () => {
        connection.write(Buffer.concat([message('R', int32(0)), message('K', int32(1), int32(2)), READY]));
        connection.on('data', (bytes) => {
          const code = bytes.toString('latin1', 0, 1);
          // The question who answers, and the settings.
          if (code === 'Q') return connection.write(PEER);
          sent.push(code);
          connection.write(code === 'P' ? Buffer.concat([DESCRIBED, answer]) : answer);
        });
      });
      connection.on('error', () => {});
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const stream = new Socket();
    const config = { host: '127.0.0.1', port, user: 'a', database: 'a', stream: () => stream };
    const asking = await Connection.open({ config, openMs: 20_000 });
    return {
      sent,
      connection: asking,
      stream,
      rows: (signal = never) => askForRows(asking, { name: 's', text: 'select', values: [] }, signal),
      [Symbol.asyncDispose]: async () => {
        stream.destroy();
        server.close();
        await once(server, 'close');
      },
    };
  }

  const answered = (...messages: Buffer[]) => {
    const count = messages.filter(([code]) => code === 'D'.charCodeAt(0)).length;
    return Buffer.concat([message('2'), ...messages, message('C', texts(`SELECT ${count}`)), READY]);
  };

  test('is understood as long as it does', async () => {
    await using server = await ask(answered(row(3, 'Ana'), message('N', texts('SNOTICE', '')), row(-1, '')));
    expect(await server.rows()).toEqual({ json: '[{"nome":"Ana"},{"nome":null}]', count: 2 });
    expect(await server.rows()).toEqual({ json: '[{"nome":"Ana"},{"nome":null}]', count: 2 });
    expect(server.sent).toEqual(['P', 'B']);
  });

  test.each([
    ['other columns than it has described', answered(row(1, 'a', 'b'))],
    ['no columns', answered(row(1))],
    ['a value that is longer than its row', answered(row(9, 'Ana'))],
    ['a value that ends in front of its row', answered(row(2, 'Ana'))],
    ['a value that is longer than all that came', answered(row(100_000, 'Ana'))],
  ])('fails the query whose rows have %s, and no other', async (_, answer) => {
    await using server = await ask(answer);
    await expect(server.rows()).rejects.toBeInstanceOf(RowsError);
    await expect(server.rows()).rejects.toBeInstanceOf(RowsError);
    expect(server.connection.isRetired).toBe(false);
  });

  test.each([
    ['a row', row(3, 'Ana'), 'a row without a query'],
    ['the end of an answer', READY, 'an answer without a query'],
    ['columns', COLUMNS, 'columns without a query'],
  ])('loses the connection where %s comes for no query', async (_, more, text) => {
    await using server = await ask(Buffer.concat([answered(row(3, 'Ana')), more]));
    expect(await server.rows()).toEqual({ json: '[{"nome":"Ana"}]', count: 1 });
    await waitFor(() => expect(server.connection.isRetired).toBe(true));
    const lost = new ConnectionLost('the connection was lost', { cause: new Error(text) });
    await expect(server.rows()).rejects.toEqual(lost);
  });

  test.each([
    ['fewer rows than it says', [row(3, 'Ana'), message('C', texts('SELECT 2'))]],
    ['no end of the rows', [row(3, 'Ana')]],
  ])('loses the connection where %s come', async (_, messages) => {
    await using server = await ask(Buffer.concat([message('2'), ...messages, READY]));
    const cause = new Error('an answer is incomplete');
    await expect(server.rows()).rejects.toEqual(new ConnectionLost('the connection was lost', { cause }));
  });
});
