import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openPostgres, type PostgresOptions } from '../../src/store/postgres/store.ts';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { canTestPgbouncer, startPgbouncer } from '../helpers/pgbouncer.ts';
import { startProcess } from '../helpers/process.ts';
import {
  canReplicate,
  type ReplicatedServer,
  startReplication,
  startStandby,
  toGatewayUrl,
} from '../helpers/replication.ts';
import { runAdmin, runCommand } from '../helpers/run.ts';
import { send } from '../helpers/send.ts';
import { findPort, loginUrl } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Reads on a standby, and which servers a gateway takes for what. Failover is in failover.test.ts.

const KEY = 'wms_demo_aurora';
const PREFERS = 'target_session_attrs=prefer-standby';

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

  function open(servers: readonly ReplicatedServer[], parameters = PREFERS, options: Partial<PostgresOptions> = {}) {
    changes = [];
    const onChange = (text: string) => changes.push(text);
    const url = options.url ?? toGatewayUrl(servers, parameters);
    const defaults = { connections: 4, prepare: true, deadlineMs: 5_000, onChange };
    const opened = openPostgres({ url, ...defaults, ...options });
    onTestFinished(() => opened.close());
    return opened;
  }

  const nameOf = ({ proxy }: ReplicatedServer) => `127.0.0.1:${proxy.port}`;

  const hasRoles = (opened: Store, ...roles: string[]) =>
    waitFor(() => expect(opened.connections?.().servers?.map(({ role }) => role)).toEqual(roles));

  const wasTold = (server: ReplicatedServer, text: string) =>
    waitFor(() => expect(changes).toContain(`Database server ${nameOf(server)} ${text}`));

  /** How many calls the primary and the standby get meanwhile. */
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
  const findStudents = (opened: Store, p_nome: string) => ask(opened, { function: 'listar_alunos', args: { p_nome } });

  async function create(opened: Store): Promise<string> {
    count += 1;
    const p_nome = `Aluno ${count}`;
    const args = { p_nome, p_email: 'aluno@exemplo.example' };
    const result = await ask(opened, { function: 'criar_aluno', args, returns: 'row', readOnly: false });
    expect(result).toEqual({ json: expect.stringContaining(p_nome), count: 1 });
    return p_nome;
  }

  const servesReads = (opened: Store) =>
    waitFor(async () => expect(await countCalls(opened, () => listGyms(opened))).toEqual([0, 1]));

  /** Does something while the standby replays nothing. */
  async function whilePaused(work: () => Promise<void>): Promise<void> {
    await standby.query('select pg_wal_replay_pause()');
    await waitFor(async () => {
      expect(await standby.query('select pg_get_wal_replay_pause_state() as state')).toEqual([{ state: 'paused' }]);
    });
    try {
      await work();
    } finally {
      await standby.query('select pg_wal_replay_resume()');
    }
  }

  test('reads on the standby and writes on the primary', async () => {
    const opened = open([standby, primary]);
    await hasRoles(opened, 'standby', 'primary');
    await waitFor(async () => expect(await countCalls(opened, () => listGyms(opened))).toEqual([1, 0]));
    expect(await countCalls(opened, () => create(opened))).toEqual([0, 1]);
    expect(changes.toSorted()).toEqual(
      [`${nameOf(primary)} is the primary`, `${nameOf(standby)} is a standby`]
        .map((text) => `Database server ${text}`)
        .toSorted(),
    );
  });

  test('reads on the primary where no standby is preferred', async () => {
    const opened = open([primary, standby], 'target_session_attrs=read-write');
    await hasRoles(opened, 'primary', 'standby');
    expect(await countCalls(opened, () => Promise.all([listGyms(opened), listGyms(opened)]))).toEqual([2, 0]);
  });

  test('warns of a standby as the only server, where creations fail', async () => {
    const inspect = (server: ReplicatedServer) => open([server], '').inspectLogin?.(AbortSignal.timeout(5_000));
    expect(await inspect(primary)).toBeUndefined();
    expect(await inspect(standby)).toBe('The login gateway_test can only read, as on a standby: every creation fails');
  });

  test('reads what it has written, wherever that already is', async () => {
    const opened = open([primary, standby]);
    await servesReads(opened);
    await whilePaused(async () => {
      const name = await create(opened);
      const calls = await countCalls(opened, async () => {
        expect(await findStudents(opened, name)).toEqual({ json: expect.stringContaining(name), count: 1 });
      });
      expect(calls).toEqual([1, 0]);
    });
    await servesReads(opened);
  });

  test('reads what another process of the gateway has written', async () => {
    const shared: number[] = [];
    const opened = open([primary, standby]);
    await servesReads(opened);
    const url = toGatewayUrl([primary, standby], PREFERS);
    const shareWrite = async (position: number) => {
      shared.push(position);
      opened.noteWrite?.(position);
    };
    const other = openPostgres({ url, connections: 4, prepare: true, deadlineMs: 5_000, shareWrite });
    onTestFinished(() => other.close());
    await whilePaused(async () => {
      const name = await create(other);
      expect(shared).toHaveLength(1);
      expect(await findStudents(opened, name)).toEqual({ json: expect.stringContaining(name), count: 1 });
    });
  });

  test('reads in every worker what one of them has written', async () => {
    const DATABASE_URL = toGatewayUrl([primary, standby], PREFERS);
    const gateway = await startProcess({ DATABASE_URL, WORKERS: '3', REPLICA_MAX_LAG_MS: '60000' });
    // Each request has a connection of its own, so that any worker may get it.
    const headers = { 'X-Api-Key': KEY, Connection: 'close' };
    const url = `${gateway.origin}/v1/alunos`;
    try {
      const body = JSON.stringify({ p_nome: 'De um só', p_email: 'aluno@exemplo.example' });
      await whilePaused(async () => {
        expect((await send(url, { method: 'POST', headers, body })).status).toBe(201);
        const answers = await Promise.all(
          Array.from({ length: 12 }, () => send(`${url}?nome=De+um+s%C3%B3`, { headers })),
        );
        expect(answers.map(({ status, text }) => [status, JSON.parse(text).length])).toEqual(
          answers.map(() => [200, 1]),
        );
      });
      const report = (await send(`${gateway.origin}/readyz`)).text;
      expect(JSON.parse(report)).toEqual({
        status: 'ready',
        checks: { store: 'ok', contract: 'ok' },
        servers: [
          { host: nameOf(primary), role: 'primary' },
          { host: nameOf(standby), role: 'standby', lagMs: expect.any(Number) },
        ],
      });
      const metrics = (await send(`${gateway.origin}/metrics`)).text;
      expect(metrics).toContain(`gateway_store_server_role{server="${nameOf(primary)}",role="primary"} 1\n`);
      expect(metrics).toMatch(new RegExp(`gateway_store_server_lag_seconds{server="${nameOf(standby)}"} [\\d.]+\\n`));
      expect(metrics).toMatch(new RegExp(`gateway_store_server_calls_total{server="${nameOf(primary)}"} [1-9]`));
      expect(metrics).toContain('gateway_store_failovers_total 0\n');
    } finally {
      expect(await gateway.stop()).toBe(0);
    }
    const told = gateway.lines().filter(({ msg }) => `${msg}`.startsWith('Database server'));
    expect(told.map(({ level, msg }) => `${level} ${msg}`).toSorted()).toEqual(
      [`${nameOf(primary)} is the primary`, `${nameOf(standby)} is a standby`]
        .map((text) => `info Database server ${text}`)
        .toSorted(),
    );
    expect(gateway.output()).not.toContain(new URL(DATABASE_URL.replace(/,[^/]*/, '')).password);
  });

  test('asks the primary again where the standby knows no such key, or no record', async () => {
    const opened = open([primary, standby]);
    await servesReads(opened);
    const DATABASE_URL = primary.adminUrl;
    await whilePaused(async () => {
      const admin = async (...args: string[]) =>
        JSON.parse((await runAdmin([...args, '--json'], { DATABASE_URL })).output);
      const { id } = await admin('tenant', 'create', 'Nova');
      const { key } = await admin('key', 'issue', '--tenant', id, '--name', 'Nova');
      expect(
        await countCalls(opened, async () => {
          expect(await listGyms(opened, key)).toEqual({ json: '[]', count: 0 });
        }),
      ).toEqual([1, 1]);
      expect(await listGyms(opened, 'wms_unknown')).toEqual({
        failure: { kind: 'refusedKey', text: 'API Key inválida' },
      });
      // Written past the gateway, which does not know that it has to ask the primary.
      await primary.query(`
        insert into private.academias (tenant_id, nome)
        select id, 'Por fora' from private.tenants where name = 'Nova'`);
      const found = await listGyms(opened, key);
      expect(found).toEqual({ json: expect.stringContaining('Por fora'), count: 1 });
    });
  });

  test('refuses a revoked key on the standby once the command has ended', async () => {
    const opened = open([primary, standby]);
    await servesReads(opened);
    const DATABASE_URL = `${primary.adminUrl.replace(/\/postgres$/, `,127.0.0.1:${standby.port}/postgres`)}`;
    const admin = (...args: string[]) => runAdmin([...args, '--json'], { DATABASE_URL });
    const { id: tenant } = JSON.parse((await admin('tenant', 'create', 'Revogada')).output);
    const issued = JSON.parse((await admin('key', 'issue', '--tenant', tenant, '--name', 'Revogada')).output);
    let hasEnded = false;
    let revoking: Promise<void> | undefined;
    await whilePaused(async () => {
      revoking = admin('key', 'revoke', issued.id, '--yes').then(({ code }) => {
        hasEnded = true;
        expect(code).toBe(0);
      });
      await waitFor(async () => {
        const sql = `select active from private.api_keys where id = '${issued.id}'`;
        expect(await primary.query(sql)).toEqual([{ active: false }]);
        const waiting = `select from pg_stat_activity where application_name = 'wellness-admin'`;
        expect(await standby.query(waiting)).toHaveLength(1);
      });
      expect(hasEnded).toBe(false);
    });
    await revoking;
    expect(await listGyms(opened, issued.key)).toEqual({ failure: { kind: 'refusedKey', text: 'API Key inativa' } });
  });

  test('leaves a standby that lags, and takes it back', async () => {
    const opened = open([primary, standby], PREFERS, { maxLagMs: 200 });
    await servesReads(opened);
    await whilePaused(async () => {
      await primary.query('create table lag ()');
      await wasTold(standby, 'is a standby, and serves no reads: it lags too far behind');
      expect(await countCalls(opened, () => listGyms(opened))).toEqual([1, 0]);
      expect(opened.connections?.().servers?.[1]).toMatchObject({ role: 'standby', lagMs: expect.any(Number) });
    });
    await servesReads(opened);
    await primary.query('drop table lag');
  });

  test('leaves a standby whose functions are older, and takes it back', async () => {
    const opened = open([primary, standby], PREFERS, { maxLagMs: 60_000 });
    await servesReads(opened);
    await whilePaused(async () => {
      await primary.query('create function public.nova() returns integer language sql stable return 1');
      await wasTold(standby, 'is a standby, and serves no reads: its functions are not those of the primary');
      expect(await countCalls(opened, () => listGyms(opened))).toEqual([1, 0]);
    });
    await servesReads(opened);
    await primary.query('drop function public.nova()');
  });

  test('answers within the deadline when a standby freezes, and takes it back', async () => {
    const opened = open([primary, standby]);
    await servesReads(opened);
    const thaw = standby.freeze();
    try {
      const results = await Promise.all(Array.from({ length: 20 }, () => listGyms(opened)));
      for (const result of results) expect(result).toEqual({ json: expect.any(String), count: 3 });
      await hasRoles(opened, 'primary', 'away');
    } finally {
      thaw();
    }
    await servesReads(opened);
  });

  test('goes on reading on the standby when the primary is away', async () => {
    const opened = open([primary, standby]);
    await servesReads(opened);
    primary.proxy.fail({ on: 'connect', does: 'refuse' });
    primary.proxy.cut();
    try {
      await hasRoles(opened, 'away', 'standby');
      expect(await listGyms(opened)).toEqual({ json: expect.any(String), count: 3 });
      expect(await opened.check(AbortSignal.timeout(5_000))).toBeUndefined();
      const written = ask(opened, { function: 'record_key_use', readOnly: false });
      expect(await written).toMatchObject({ failure: { kind: 'storeUnavailable', cause: { message: /is away/ } } });
    } finally {
      await primary.proxy.pass();
    }
    await hasRoles(opened, 'primary', 'standby');
    await create(opened);
  });

  test('drops the connections to a host that is another server now', async () => {
    const opened = open([primary], 'target_session_attrs=read-write');
    await create(opened);
    primary.proxy.cut({ host: '127.0.0.1', port: standby.port });
    try {
      await hasRoles(opened, 'standby');
      const result = await ask(opened, { function: 'record_key_use', readOnly: false });
      const message = `No database server is the primary: ${nameOf(primary)} is a standby`;
      expect(result).toMatchObject({ failure: { kind: 'storeUnavailable', cause: { message } } });
    } finally {
      primary.proxy.cut({ host: '127.0.0.1', port: primary.port });
    }
    await hasRoles(opened, 'primary');
    await create(opened);
  });

  test('uses of a name that leads to several servers only the one that it looks at', async () => {
    let count = 0;
    const balancer = createServer((client) => {
      const target = connect([primary, standby][count % 2]?.port ?? 0, '127.0.0.1');
      count += 1;
      for (const [from, to] of [
        [client, target],
        [target, client],
      ] as const) {
        from
          .on('error', () => {})
          .on('close', () => to.destroy())
          .pipe(to);
      }
    }).listen(0, '127.0.0.1');
    await once(balancer, 'listening');
    const { port } = balancer.address() as AddressInfo;
    const url = toGatewayUrl([primary], 'target_session_attrs=read-write').replace(/:\d+\//, `:${port}/`);
    const opened = open([primary], '', { url, connections: 1 });
    await hasRoles(opened, 'primary');
    expect(await listGyms(opened)).toMatchObject({
      failure: {
        kind: 'storeUnavailable',
        cause: {
          message: `127.0.0.1:${port} leads to another server than a moment ago: expected a name of its own for each server`,
        },
      },
    });
    expect(await listGyms(opened)).toEqual({ json: expect.any(String), count: 3 });
    await opened.close();
    balancer.close();
  });

  test.runIf(canTestPgbouncer())('works behind a pooler in transaction mode for each server', async () => {
    const urls = [primary, standby].map(({ adminUrl }) => loginUrl(adminUrl, 'gateway_pooled'));
    const poolers = await Promise.all(urls.map((url) => startPgbouncer(url, 'transaction')));
    const [first, second] = poolers.map(({ url }) => new URL(url)) as [URL, URL];
    const url = `${first.href.replace(first.host, `${first.host},${second.host}`)}?${PREFERS}`;
    for (const pooler of poolers) onTestFinished(pooler.stop);
    const opened = open([], '', { url, prepare: false });
    await servesReads(opened);
    expect(await opened.check(AbortSignal.timeout(5_000))).toBeUndefined();
    await whilePaused(async () => {
      const name = await create(opened);
      expect(await findStudents(opened, name)).toEqual({ json: expect.stringContaining(name), count: 1 });
    });
    await servesReads(opened);
  });

  test('warns about a host that is away at the start, and has each reason if all are', async () => {
    const port = await findPort();
    const parts = toGatewayUrl([primary], PREFERS).split(/(?<=@)/);
    const url = (host: string) => `${parts[0]}${host}${parts[1]}`;
    const opened = open([primary], PREFERS, { url: url(`127.0.0.1:${port},`) });
    await hasRoles(opened, 'away', 'primary');
    await create(opened);
    expect(changes).toContain(`Database server 127.0.0.1:${port} is away: connect ECONNREFUSED 127.0.0.1:${port}`);
    await opened.close();

    const others = url(`127.0.0.1:${port},localhost:${port}/postgres?`).replace(/\?.*/, `?${PREFERS}`);
    const lost = open([primary], PREFERS, { url: others });
    const fault = await lost.check(AbortSignal.timeout(5_000));
    expect(fault).toMatchObject({
      kind: 'storeUnavailable',
      cause: {
        message: expect.stringMatching(
          new RegExp(
            `^No database server is the primary: 127.0.0.1:${port} is away: .*ECONNREFUSED.*; localhost:${port} is away: `,
          ),
        ),
      },
    });
  });

  test('migrates and administers on the primary, wherever it is in the list', async () => {
    const DATABASE_URL = primary.adminUrl.replace(`:${primary.port}`, `:${standby.port},127.0.0.1:${primary.port}`);
    expect(await runCommand('scripts/migrate.ts', [], { env: { DATABASE_URL } })).toEqual({
      code: 0,
      output: 'nothing to do\n',
      errors: '',
    });
    const { code } = await runAdmin(['tenant', 'create', 'Pela lista'], { DATABASE_URL });
    expect(code).toBe(0);
    const alone = `${standby.adminUrl}?target_session_attrs=primary`;
    expect(await runCommand('scripts/migrate.ts', [], { env: { DATABASE_URL: alone } })).toMatchObject({
      code: 1,
      errors: `No database server is the primary: 127.0.0.1:${standby.port} is a standby\n`,
    });
    // With one host and nothing else nobody looks whether it is a standby.
    expect(await runCommand('scripts/migrate.ts', [], { env: { DATABASE_URL: standby.adminUrl } })).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/\(25006\); this server takes no writes, as a standby does: name the primary/),
    });
    expect(await runAdmin(['tenant', 'create', 'Só leitura'], { DATABASE_URL: standby.adminUrl })).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/\(25006\)\nThis server takes no writes, as a standby does: name the primary/),
    });
  });

  test('refuses a server of another database by its name', async () => {
    const [stranger] = await startReplication(1);
    onTestFinished(() => stranger.remove());
    const follower = await startStandby(stranger);
    onTestFinished(() => follower.remove());
    const opened = open([primary, follower]);
    await hasRoles(opened, 'primary', 'refused');
    await wasTold(follower, 'is not used: it is a server of another database');
    await opened.close();
    const confused = open([primary, stranger]);
    const names = `${nameOf(primary)} and ${nameOf(stranger)}`;
    expect(await confused.check(AbortSignal.timeout(5_000))).toMatchObject({
      kind: 'storeError',
      cause: { message: `${names} are primaries of different databases: expected one database and its standbys` },
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
    await wasTold(standby, 'is a standby, and serves no reads until it follows the new primary');
    expect(await countCalls(opened, () => create(opened))).toEqual([0, 0, 1]);
    expect(opened.connections?.().failovers).toBe(1);
  });

  test('does without the identifier of the system where the login may not read it', async () => {
    await primary.query('revoke execute on function pg_control_system() from public');
    const opened = open([primary, standby]);
    await servesReads(opened);
    await primary.query('grant execute on function pg_control_system() to public');
  });
});
