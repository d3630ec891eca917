import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { readDatabaseUrl } from '../../src/database-url.ts';
import { OperatorError } from '../../src/errors.ts';
import { Server, Servers } from '../../src/store/postgres/servers.ts';
import { openPostgres, type PostgresOptions } from '../../src/store/postgres/store.ts';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { startFaultProxy } from '../helpers/fault-proxy.ts';
import { canTestPgbouncer, startPgbouncer } from '../helpers/pgbouncer.ts';
import {
  canReplicate,
  type ReplicatedServer,
  startReplication,
  startStandby,
  toGatewayUrl,
} from '../helpers/replication.ts';
import { runAdmin, runMigrate } from '../helpers/run.ts';
import { loginUrl, runSql } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Which of several servers a gateway uses for what. failover.test.ts tests the failover.

const KEY = 'wms_demo_aurora';
const WRITES = 'target_session_attrs=read-write';

test('servers that are set up wrong have no primary: two on one timeline, and one that is read-only by default', async () => {
  const states = { a: { timeline: 1, isReadOnly: false }, b: { timeline: 1, isReadOnly: false } };
  const look = vi.spyOn(Server.prototype, 'look').mockImplementation(async function (this: Server) {
    Object.assign(this, { ...states[this.name.slice(0, 1) as 'a'], instance: this.name, isAway: false });
  });
  onTestFinished(() => look.mockRestore());
  const told: string[] = [];
  const open = () => {
    const address = readDatabaseUrl(`postgres://u:p@a,b/x?${WRITES}`);
    const all = new Servers({ address, config: {}, max: 1, openMs: 100, onChange: (text) => told.push(text) });
    onTestFinished(() => all.close());
    return all;
  };
  const both = 'a:5432 and b:5432 both accept writes on timeline 1: expected one primary';
  await expect(open().findPrimary()).rejects.toThrow(new OperatorError(both));
  expect(told).toEqual(['a', 'b'].map((name) => `Database server ${name}:5432 is not used: ${both}`));

  states.b.timeline = 0;
  const servers = open();
  expect((await servers.findPrimary()).name).toBe('a:5432');
  states.b.timeline = 1;
  await servers.look();
  expect(servers.primary?.name).toBe('a:5432');

  states.a.isReadOnly = true;
  await servers.look();
  const readOnly = 'a:5432 accepts no writes: default_transaction_read_only is on';
  await expect(servers.findPrimary()).rejects.toThrow(new OperatorError(readOnly));
  expect(told).toContain(`Database server a:5432 is not used: ${readOnly}`);
  expect(servers.failovers).toBe(0);
});

describe.runIf(canReplicate())('a primary with a standby', () => {
  let primary: ReplicatedServer;
  let standby: ReplicatedServer;
  let changes: string[];
  let count = 0;

  beforeAll(async () => {
    const servers = await startReplication(2);
    [primary, standby] = servers as [ReplicatedServer, ReplicatedServer];
  });

  afterAll(() => Promise.all([primary.remove(), standby.remove()]));

  function open(servers: readonly ReplicatedServer[], parameters = WRITES, options: Partial<PostgresOptions> = {}) {
    changes = [];
    const onChange = (text: string) => changes.push(text);
    const url = options.url ?? toGatewayUrl(servers, parameters);
    const defaults = { connections: 4, deadlineMs: 5_000, onChange };
    const opened = openPostgres({ url, ...defaults, ...options });
    onTestFinished(() => opened.close());
    return opened;
  }

  const nameOf = ({ proxy }: ReplicatedServer) => `127.0.0.1:${proxy.port}`;

  const hasRoles = (opened: Store, ...roles: string[]) =>
    waitFor(() => expect(opened.connections?.().servers?.map(({ role }) => role)).toEqual(roles));

  const wasTold = (server: ReplicatedServer, text: string) =>
    waitFor(() => expect(changes).toContain(`Database server ${nameOf(server)} ${text}`));

  /** The number of calls that each server gets during the work. */
  async function countCalls(opened: Store, work: () => Promise<unknown>): Promise<number[] | undefined> {
    const read = () => opened.connections?.().servers?.map(({ calls }) => calls);
    const before = read();
    await work();
    return read()?.map((calls, index) => calls - (before?.[index] ?? 0));
  }

  function ask(opened: Store, call: Partial<Call> & { function: string }, key = KEY): Promise<Result> {
    const whole: Call = { returns: 'rows', readOnly: true, ...call, args: { p_api_key: key, ...call.args } };
    return opened.call(whole, AbortSignal.timeout(5_000), { requestId: 'r', share: key });
  }

  const listGyms = (opened: Store, key?: string) => ask(opened, { function: 'listar_academias' }, key);

  async function create(opened: Store): Promise<string> {
    count += 1;
    const p_nome = `Aluno ${count}`;
    const args = { p_nome, p_email: 'aluno@exemplo.example' };
    const result = await ask(opened, { function: 'criar_aluno', args, returns: 'row', readOnly: false });
    expect(result).toEqual({ json: expect.stringContaining(p_nome), count: 1 });
    return p_nome;
  }

  test('makes every call on the primary, wherever it is in the list', async () => {
    const opened = open([standby, primary]);
    await hasRoles(opened, 'standby', 'primary');
    const calls = () => Promise.all([listGyms(opened), listGyms(opened), create(opened)]);
    expect(await countCalls(opened, calls)).toEqual([0, 3]);
    // On a busy machine a server may be away for a moment, and get its role again.
    const roles = new Set(changes.filter((text) => !text.includes(' is away: ')));
    expect(roles).toEqual(
      new Set([`Database server ${nameOf(primary)} is the primary`, `Database server ${nameOf(standby)} is a standby`]),
    );
  });

  test('drops the connections to a host that is another server now', async () => {
    const opened = open([primary], WRITES);
    await create(opened);
    primary.proxy.cut({ host: '127.0.0.1', port: standby.port });
    try {
      await hasRoles(opened, 'standby');
      const message = `No database server is the primary: ${nameOf(primary)} is a standby`;
      expect(await listGyms(opened)).toMatchObject({ failure: { kind: 'storeUnavailable', cause: { message } } });
    } finally {
      primary.proxy.cut({ host: '127.0.0.1', port: primary.port });
    }
    await hasRoles(opened, 'primary');
    await create(opened);
  });

  test('refuses calls if a name leads to another server than a moment ago', async () => {
    const name = await startFaultProxy({ host: '127.0.0.1', port: primary.port });
    onTestFinished(name.close);
    const url = toGatewayUrl([primary], WRITES).replace(/:\d+\//, `:${name.port}/`);
    const opened = open([primary], '', { url, connections: 1 });
    await hasRoles(opened, 'primary');
    name.redirect({ host: '127.0.0.1', port: standby.port });
    expect(await listGyms(opened)).toMatchObject({
      failure: {
        kind: 'storeUnavailable',
        cause: {
          message: `127.0.0.1:${name.port} leads to another server than a moment ago: expected a name of its own for each server`,
        },
      },
    });
    name.redirect({ host: '127.0.0.1', port: primary.port });
    expect(await listGyms(opened)).toEqual({ json: expect.any(String), count: 3 });
  });

  test.runIf(canTestPgbouncer())('works behind a pooler in transaction mode for each server', async () => {
    const urls = [primary, standby].map(({ adminUrl }) => loginUrl(adminUrl, 'gateway_test'));
    const poolers = await Promise.all(urls.map((url) => startPgbouncer(url, 'transaction')));
    const [first, second] = poolers.map(({ url }) => new URL(url)) as [URL, URL];
    const url = `${first.href.replace(first.host, `${first.host},${second.host}`)}?${WRITES}`;
    for (const pooler of poolers) onTestFinished(pooler.stop);
    const opened = open([], '', { url });
    await hasRoles(opened, 'primary', 'standby');
    expect(await opened.check(AbortSignal.timeout(5_000))).toBeUndefined();
    await create(opened);
  });

  const setLogin = (sql: string) => runSql(primary.adminUrl, `alter role gateway_test ${sql}`);
  const endSessions = (condition = 'true') =>
    runSql(
      primary.adminUrl,
      `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'gateway_test' and ${condition}`,
    );

  test('serves again when the login may write again, which a session knows only of itself', async () => {
    const opened = open([primary]);
    await create(opened);
    onTestFinished(() => void setLogin('reset default_transaction_read_only'));
    await setLogin('set default_transaction_read_only = on');
    await endSessions();
    await hasRoles(opened, 'refused');
    await setLogin('reset default_transaction_read_only');
    await hasRoles(opened, 'primary');
    await create(opened);
  });

  test('serves on its connections while the server accepts no other', async () => {
    const opened = open([primary]);
    await create(opened);
    onTestFinished(() => void setLogin('connection limit -1'));
    await setLogin('connection limit 0');
    await endSessions(`query like '%pg_postmaster_start_time%'`);
    const refused = `select from pg_stat_activity where usename = 'gateway_test' and query like '%pg_postmaster_start_time%'`;
    await waitFor(async () => expect(await runSql(primary.adminUrl, refused)).toHaveLength(1));
    await hasRoles(opened, 'primary');
    await create(opened);
  });

  test('says why a connection to a host has ended', async () => {
    const opened = open([standby, primary]);
    await hasRoles(opened, 'standby', 'primary');
    const others = "pid <> pg_backend_pid() and backend_type = 'client backend'";
    await runSql(primary.adminUrl, `select pg_terminate_backend(pid) from pg_stat_activity where ${others}`);
    await wasTold(primary, 'is away: terminating connection due to administrator command');
  });

  test('migrates and administers on the primary, wherever it is in the list', async () => {
    const migrateOn = (DATABASE_URL: string) => runMigrate([], { DATABASE_URL });
    const DATABASE_URL = primary.adminUrl.replace(`:${primary.port}`, `:${standby.port},127.0.0.1:${primary.port}`);
    expect(await migrateOn(DATABASE_URL)).toEqual({ code: 0, output: 'nothing to do\n', errors: '' });
    expect(await runAdmin(['tenant', 'create', 'Pela lista'], { DATABASE_URL })).toMatchObject({ code: 0 });
    expect(await migrateOn(`${standby.adminUrl}?target_session_attrs=primary`)).toMatchObject({
      code: 1,
      errors: `No database server is the primary: 127.0.0.1:${standby.port} is a standby\n`,
    });
    const slow = `${DATABASE_URL}?${WRITES}&options=-c%20post_auth_delay%3D2`;
    expect(await runAdmin(['tenant', 'list'], { DATABASE_URL: slow })).toMatchObject({ code: 0 });
    expect(await migrateOn(`postgres://${['127.0.0.1:1', '127.0.0.1:2']}/postgres?${WRITES}`)).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/^No database server is the primary: 127.0.0.1:1 is away: .*ECONNREFUSED/),
    });
    // A single host without parameters is not checked for being a standby.
    expect(await migrateOn(standby.adminUrl)).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/\(25006\); this server takes no writes, as a standby does: name the primary/),
    });
    expect(await runAdmin(['tenant', 'create', 'Só leitura'], { DATABASE_URL: standby.adminUrl })).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/\(25006\)\nThis server takes no writes, as a standby does: name the primary/),
    });
  });

  test('uses the newest of several that accept writes, and refuses the others by name', async () => {
    const third = await startStandby(primary);
    onTestFinished(() => third.remove());
    const opened = open([primary, standby, third]);
    await hasRoles(opened, 'primary', 'standby', 'standby');
    await third.promote();
    await hasRoles(opened, 'refused', 'standby', 'primary');
    await wasTold(primary, `is not used: it accepts writes, and ${nameOf(third)} is the primary`);
    expect(await countCalls(opened, () => create(opened))).toEqual([0, 0, 1]);
    expect(opened.connections?.().failovers).toBe(1);
    // A store that is opened now finds the same.
    const started = open([primary, standby, third]);
    await hasRoles(started, 'refused', 'standby', 'primary');
    expect(await countCalls(started, () => create(started))).toEqual([0, 0, 1]);
  });
});
