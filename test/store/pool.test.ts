import { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readDatabaseUrl } from '../../src/database-url.ts';
import { ConnectionLost, RowQuery, type Stalled } from '../../src/store/postgres/connection.ts';
import { Pool, type PoolOptions } from '../../src/store/postgres/pool.ts';
import { useDatabase } from '../helpers/database.ts';
import { type FaultProxy, type ProxyFault, startFaultProxy, toAddress } from '../helpers/fault-proxy.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Reads that share connections, and leases, which have one to themselves.

const never = new AbortController().signal;
const database = useDatabase({
  sql: `create function public.run_sql(sql text) returns void language plpgsql as 'begin execute sql; end';
    create table public.calls (n integer)`,
});
let pool: Pool;
/** The sockets of all connections. */
const sockets: CountedSocket[] = [];

class CountedSocket extends Socket {
  /** The number of bytes of each write. */
  writes: number[] = [];

  // Not `write`: a socket that connects replaces it.
  override _write(bytes: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.writes.push(bytes.length);
    super._write(bytes, encoding, done);
  }
}

afterEach(async () => {
  await pool.close();
  sockets.length = 0;
  batch = undefined;
});

function openSocket(): Socket {
  const socket = new CountedSocket();
  sockets.push(socket);
  return socket;
}

/** Opens a pool whose connections are all open and have prepared the statement of `sleep`. */
async function openPool(max: number, options: Partial<PoolOptions> = {}): Promise<void> {
  const config = { ...readDatabaseUrl(database.adminUrl).servers[0]?.config, stream: openSocket };
  pool = new Pool({ config, openMs: 20_000, max, ...options });
  await openAll(max, () => sleep(60, 'warm'));
}

/** Opens as many connections as there are queries that sleep at once. */
async function openAll(count: number, toQuery: () => RowQuery): Promise<void> {
  const sleeping = Promise.allSettled(Array.from({ length: count }, () => pool.run(toQuery())));
  await waitForSleeping(count);
  await wake();
  await sleeping;
}

/** A query that sleeps and then gives a text. */
function sleep(seconds: number, text: string, signal = never, name = 'sleep'): RowQuery {
  const values = [String(seconds), text];
  return new RowQuery({ name, text: 'select $2::text from pg_sleep($1)', values }, signal);
}

/** The reads of a test that share a connection. */
let batch: object | undefined;

const read = async (seconds: number, text: string, signal = never) =>
  (await pool.read(sleep(seconds, text, signal), batch))?.[0];

/** The number of queries that sleep in the database. `change` is evaluated for each, and may end it. */
const countSleeping = async (change = 'true') => {
  const sql = `select ${change} from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`;
  return (await database.query(sql)).length;
};

const waitForSleeping = (count: number) => waitFor(async () => expect(await countSleeping()).toBe(count));

/** Ends the queries that sleep. */
const wake = () => countSleeping('pg_cancel_backend(pid)');

const names = (count: number) => Array.from({ length: count }, (_, n) => `read ${n}`);

describe('reads', () => {
  test('of one batch leave in one write, others each in their own', async () => {
    await openPool(2);
    // On a busy machine a third connection may be opened, and reads that take long move to it, each in its own write.
    await waitFor(async () => {
      const open = sockets.filter((socket) => !socket.destroyed);
      for (const socket of open) socket.writes = [];
      batch = undefined;
      const other = read(0, 'other');
      batch = {};
      expect(await Promise.all(names(8).map((name) => read(0, name)))).toEqual(names(8));
      expect(await other).toBe('other');
      expect(open.flatMap(({ writes }) => writes.length || [])).toEqual([1, 1]);
    });
  });

  test.each([
    ['26000', 'sleep', 'deallocate all'],
    ['42P05', 'other', 'prepare other as select 1'],
  ])('leave one by one after the error %s, by which a pooler is noticed', async (code, name, sql) => {
    await openPool(2);
    const change = () => pool.read(new RowQuery({ text: 'select public.run_sql($1)', values: [sql] }, never));
    const named = () => pool.read(sleep(0, 'text', never, name));
    // On a busy machine a third connection may be opened, on which the statement is as it was.
    await waitFor(async () => {
      await pool.close();
      sockets.length = 0;
      await openPool(2);
      await Promise.all([change(), change()]);
      await expect(named()).rejects.toMatchObject({ code });
    });
    expect([await named(), await named()]).toEqual([['text'], ['text']]);
    for (const socket of sockets) socket.writes = [];
    batch = {};
    expect(await Promise.all(names(8).map((text) => read(0, text)))).toEqual(names(8));
    expect(sockets.flatMap(({ writes }) => writes).length).toBeGreaterThanOrEqual(8);
  });

  test('still share a connection after a function has raised such an error itself', async () => {
    await openPool(1);
    const text = `do $$ begin raise sqlstate '26000'; end $$`;
    await expect(pool.read(new RowQuery({ text, values: [] }, never))).rejects.toMatchObject({ code: '26000' });
    expect(pool.isPooled).toBe(false);
  });

  test('behind a slow one move to another connection', async () => {
    await openPool(2);
    batch = {};
    const controller = new AbortController();
    const slow = read(60, 'slow', controller.signal);
    const failed = expect(slow).rejects.toMatchObject({ code: '57014' });
    expect(await Promise.all(names(7).map((name) => read(0, name)))).toEqual(names(7));
    await waitForSleeping(1);
    controller.abort();
    await failed;
    await waitForSleeping(0);
  });

  test('that are given up leave those behind them alone, and their query stops in the database', async () => {
    await openPool(1);
    batch = {};
    const controller = new AbortController();
    const slow = expect(read(60, 'slow', controller.signal)).rejects.toMatchObject({ code: '57014' });
    const others = names(3).map((name) => read(0.05, name));
    await waitForSleeping(1);
    controller.abort();
    await slow;
    expect(await Promise.all(others)).toEqual(names(3));
  });

  test('that are given up at any moment do not affect others', async () => {
    await openPool(2);
    batch = {};
    const random = Array.from({ length: 400 }, () => [Math.random(), Math.random(), Math.random()] as const);
    const answers = random.map(async ([start, seconds, end], n) => {
      const controller = new AbortController();
      await new Promise((resolve) => setTimeout(resolve, 1_000 * start));
      const timer = n % 3 === 0 ? setTimeout(() => controller.abort(new Error('given up')), 40 * end) : undefined;
      const answer = await read(n % 20 === 0 ? 0.05 : 0.002 * seconds, `read ${n}`, controller.signal).catch(
        (error) => {
          if (!controller.signal.aborted) throw error;
          return `read ${n}`;
        },
      );
      clearTimeout(timer);
      return answer;
    });
    expect(await Promise.all(answers)).toEqual(names(400));
  });

  test('are not sent on a connection that was open when another one was lost', async () => {
    await openPool(2);
    const opened = sockets.length;
    // On a busy machine more than two may have been opened.
    sockets.find(({ destroyed }) => !destroyed)?.destroy();
    await waitFor(() => expect(pool.size.open).toBe(0));
    expect(await read(0, 'later')).toBe('later');
    expect(sockets.length).toBeGreaterThan(opened);
  });

  test("fail with the server's error, with the name of a violated constraint", async () => {
    await openPool(1);
    const text = `do $$ begin raise unique_violation using message = 'já existe', constraint = 'nome_unico'; end $$`;
    const violates = pool.read(new RowQuery({ text, values: [] }, never));
    await expect(violates).rejects.toMatchObject({ code: '23505', message: 'já existe', constraint: 'nome_unico' });
  });

  test('all fail where no connection can be opened', async () => {
    pool = new Pool({ config: { host: '127.0.0.1', port: 1 }, openMs: 20_000, max: 2 });
    for (const one of await Promise.allSettled(names(10).map((name) => read(0, name)))) {
      expect(one).toMatchObject({ reason: { code: 'ECONNREFUSED' } });
    }
  });
});

describe('a query that runs alone', () => {
  test('gets the first connection that becomes idle, before the reads that wait', async () => {
    await openPool(1);
    const ended: unknown[] = [];
    const before = read(60, 'before').catch(() => ended.push('before'));
    await waitForSleeping(1);
    const after = read(0, 'after').then((text) => ended.push(text));
    const alone = pool.run(sleep(0.05, 'alone')).then((row) => ended.push(row?.[0]));
    await wake();
    await Promise.all([before, after, alone]);
    expect(ended).toEqual(['before', 'alone', 'after']);
  });

  test('that is given up while it waits never begins', async () => {
    await openPool(1);
    const controller = new AbortController();
    const slow = expect(read(60, 'slow')).rejects.toMatchObject({ code: '57014' });
    await waitForSleeping(1);
    for (const socket of sockets) socket.writes = [];
    const alone = pool.run(sleep(0, 'alone', controller.signal));
    controller.abort(new Error('given up'));
    await expect(alone).rejects.toThrow('given up');
    await wake();
    await slow;
    expect(sockets.flatMap(({ writes }) => writes)).toEqual([]);
  });

  test('that is given up does not begin where its statement has to be prepared again', async () => {
    await openPool(1);
    const define = (type: string) =>
      database.query(`drop function if exists public.begin_call(); create function public.begin_call() returns ${type}
        language sql as 'insert into public.calls values (1) returning n::${type}'`);
    const begin = (signal: AbortSignal) =>
      pool.run(new RowQuery({ name: 'begin', text: 'select public.begin_call()', values: [] }, signal));
    await define('integer');
    await begin(never);
    await define('bigint');
    const controller = new AbortController();
    const given = expect(begin(controller.signal)).rejects.toThrow('given up');
    await new Promise((resolve) => process.nextTick(resolve));
    controller.abort(new Error('given up'));
    await given;
    expect(await read(0, 'later')).toBe('later');
    expect(await database.query('select from public.calls')).toHaveLength(1);
  });

  test('that is given up stops its query in the database, and the connection serves on', async () => {
    await openPool(1);
    const controller = new AbortController();
    const alone = expect(pool.run(sleep(60, 'slow', controller.signal))).rejects.toThrow();
    await waitForSleeping(1);
    controller.abort(new Error('given up'));
    await alone;
    expect(await read(0, 'later')).toBe('later');
    expect(pool.size).toEqual({ open: 1, idle: 1 });
  });
});

describe('a connection that stalls', () => {
  let proxy: FaultProxy;
  let steps: string[];

  beforeEach(async () => {
    proxy = await startFaultProxy(toAddress(database.adminUrl));
    steps = [];
  });

  afterEach(() => proxy.close());

  function openThroughProxy(openMs: number, more: { stream?: () => Socket } = {}): void {
    const [server] = readDatabaseUrl(database.adminUrl).servers;
    const config = { ...server?.config, port: proxy.port, ...more };
    const onStall = ({ step }: Stalled) => void steps.push(step);
    const settings = [`timezone = 'UTC'`];
    pool = new Pool({ config, settings, openMs, max: 2, onStall });
  }

  const STEPS: [string, ProxyFault][] = [
    ['login', { on: 'request', does: 'stall', once: true }],
    ['setup', { on: 'request', does: 'stall', after: 'set timezone', once: true }],
  ];
  test.each(STEPS)('in the %s is replaced by another one, and reported with its step', async (step, fault) => {
    openThroughProxy(60_000);
    proxy.fail(fault);
    expect(await read(0, 'served')).toBe('served');
    // On a busy machine others may stall too.
    expect(steps).toContain(step);
  });

  test('for as long as opening may take fails what waits for it, and the next calls are served', async () => {
    openThroughProxy(1_000);
    proxy.fail({ on: 'request', does: 'stall', after: 'set timezone' });
    await expect(read(0, 'waits')).rejects.toMatchObject({ step: 'setup' });
    await proxy.pass();
    expect(await read(0, 'served')).toBe('served');
  });

  test('in the login, because the server does not keep to the protocol, fails what waits for it', async () => {
    openThroughProxy(60_000);
    proxy.fail({ on: 'response', does: 'garble', after: 5 });
    await expect(read(0, 'waits')).rejects.toThrow('Unknown authenticationOk message type');
    await proxy.pass();
    expect(await read(0, 'served')).toBe('served');
  });

  test('leaves another one with the reads, one at a time', async () => {
    openThroughProxy(60_000, { stream: openSocket });
    await read(0, 'warm');
    const socket = sockets.find(({ destroyed }) => !destroyed);
    proxy.fail({ on: 'connect', does: 'reset' });
    if (socket) socket.writes = [];
    // The first reads find out that there is no other connection.
    for (let n = 0; n < 2; n += 1) {
      expect(await Promise.all(names(6).map((name) => read(0, name)))).toEqual(names(6));
    }
    expect(socket?.writes).toHaveLength(12);
  });

  const QUERIES: [string, ProxyFault][] = [
    ['parse', { on: 'request', does: 'stall', after: 'from pg_sleep', once: true }],
    ['query', { on: 'response', does: 'stall', after: 'given', once: true }],
  ];
  test.each(QUERIES)('in the %s is closed once nobody waits for its query', async (step, fault) => {
    openThroughProxy(60_000, { stream: openSocket });
    await openAll(2, () => new RowQuery({ text: 'select pg_sleep(60)', values: [] }, never));
    const before = [...sockets];
    proxy.fail(fault);
    const controller = new AbortController();
    const given = expect(read(0, 'given up', controller.signal)).rejects.toBeInstanceOf(ConnectionLost);
    await waitFor(() => expect(proxy.hasHappened()).toBe(true));
    controller.abort();
    await given;
    expect(steps).toContain(step);
    expect(await read(0, 'served')).toBe('served');
    // The other connections are replaced: they may be lost too.
    await waitFor(() => expect(before.filter(({ destroyed }) => !destroyed)).toEqual([]));
  });
});

test('the two connections that were used last stay open, however long nobody calls', async () => {
  await openPool(4, { idleMs: 20 });
  const open = () => sockets.filter((socket) => !socket.destroyed);
  await waitFor(() => expect(open()).toHaveLength(2));
  const count = sockets.length;
  for (let n = 0; n < 10; n += 1) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(await read(0, 'later')).toBe('later');
  expect(open()).toHaveLength(2);
  expect(sockets).toHaveLength(count);
});

test('a pool of one connection keeps one, even if another was opened because the first seemed to stall', async () => {
  /** The first socket connects once there is a second one, and the second once the first is open. */
  const stream = () => {
    const [socket, isFirst] = [openSocket(), sockets.length === 1];
    const connect = socket.connect.bind(socket) as (...args: unknown[]) => Socket;
    const isDue = () => expect(isFirst ? sockets.length > 1 : pool.size.open > 0).toBe(true);
    return Object.assign(socket, { connect: (...args: unknown[]) => void waitFor(isDue).then(() => connect(...args)) });
  };
  const config = { ...readDatabaseUrl(database.adminUrl).servers[0]?.config, stream };
  pool = new Pool({ config, openMs: 20_000, max: 1, idleMs: 20 });
  expect(await read(0, 'served')).toBe('served');
  await waitFor(() => expect(sockets.filter(({ destroyed }) => !destroyed)).toHaveLength(1));
  expect(sockets.length).toBeGreaterThan(1);
  expect(pool.size.open).toBe(1);
});

test('closing waits for what runs and what waits', async () => {
  await openPool(1);
  const reads = names(6).map((name) => read(0.02, name));
  await pool.close();
  expect(await Promise.all(reads)).toEqual(names(6));
  expect(pool.size.open).toBe(0);
});
