import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { limited } from '../../src/store/turns.ts';
import { type Answer, findMistakes, serves, underLoad } from '../helpers/clients.ts';
import { compareIds, Follower } from '../helpers/follower.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { canReplicate, type ReplicatedServer, startReplication, toGatewayUrl } from '../helpers/replication.ts';
import { waitFor } from '../helpers/wait-for.ts';

// A primary with two standbys, and clients that create and read all the time. The primary fails in each of four ways, a standby
// is promoted, and the old primary comes back as a standby. No acknowledged creation is lost or done twice, each client reads what
// it has created, and the gateway goes on by itself. A reader of the changes has at the end exactly what there is.

const KINDS = ['killed', 'frozen', 'cut off', 'shut down'] as const;
type Kind = (typeof KINDS)[number];

const ROUNDS = inject('isLong') ? 20 : 1;
const CLIENTS = 16;
/** The pause of a client between two requests, in milliseconds, which leaves the processor for the servers. */
const PAUSE_MS = 50;
/** How soon after a promotion reads and creations succeed, with headroom for a busy machine. */
const BUSY_MS = 3_000;
const READS_MS = 1_000 + BUSY_MS;
const CREATIONS_MS = 2_000 + BUSY_MS;
/** How long the clients go on after the old primary is back. */
const AFTERWARDS_MS = 1_500;
const FOLLOWED = 'test_followed';
const TENANT = 'e0000000-0000-4000-8000-000000000001';
const KEYS = ['wms_demo_aurora', 'wms_demo_bosque', FOLLOWED] as const;

describe.runIf(canReplicate())('a primary that fails', () => {
  let servers: readonly ReplicatedServer[];
  let primary: ReplicatedServer;
  let gateway: TestGateway;
  let follower: Follower;
  const changes: string[] = [];

  beforeAll(async () => {
    servers = await startReplication(3);
    await servers[0]?.query(`
      insert into private.tenants (id, name) values ('${TENANT}', 'Academia');
      insert into private.api_keys (tenant_id, name, key_hash) values ('${TENANT}', 'Site', sha256('${FOLLOWED}'))`);
    // A commit is acknowledged when one of the standbys has it.
    for (const server of servers) await server.set('synchronous_standby_names', 'ANY 1 (*)');
    primary = servers[0] as ReplicatedServer;
    const url = toGatewayUrl(servers, 'target_session_attrs=read-write');
    const onChange = (text: string) => changes.push(text);
    const options = { url, deadlineMs: 5_000, onChange };
    const store = openPostgres({ ...options, connections: 20 });
    gateway = await startGateway({
      store: limited(store, { slots: 20, slotsOfShare: 10, waiting: 1_000 }),
    });
    await waitFor(() => expect(readRoles()).toEqual(['primary', 'standby', 'standby']));
    follower = new Follower(gateway.url, FOLLOWED);
  });

  afterAll(async () => {
    await gateway.close();
    await gateway.store.close();
    await Promise.all(servers.map((server) => server.remove()));
  });

  const readRoles = () => gateway.store.connections?.().servers?.map(({ role }) => role);

  test.each(Array.from({ length: ROUNDS }, (_, round) => [round + 1, KINDS[round % KINDS.length] as Kind] as const))(
    'in round %i, because it is %s',
    async (round, kind) => {
      // All of these create, and half as many others read.
      const all = Array.from({ length: CLIENTS }, (_, n) => KEYS[n % KEYS.length] as string).flatMap((key, n) => [
        { url: gateway.url, keys: [key], pauseMs: PAUSE_MS, creates: 'repeated' as const, lists: [] },
        ...(n % 2 === 0 ? [{ url: gateway.url, keys: [key], pauseMs: PAUSE_MS }] : []),
      ]);
      let promotedAt = 0;
      const clients = await underLoad(all, async (clients) => {
        const old = primary;
        const recover = await fail(old, kind);
        const standbys = servers.filter((server) => server !== old);
        // Otherwise an old primary that only the gateway cannot reach would go on sending to the standbys.
        for (const server of standbys) await server.set('primary_conninfo', 'host=127.0.0.1 port=1');
        await waitFor(async () => {
          const receivers = standbys.map((server) => server.query('select from pg_stat_wal_receiver'));
          expect(await Promise.all(receivers)).toEqual([[], []]);
        });
        const next = await findMostAdvanced(standbys);
        await next.promote();
        promotedAt = performance.now();
        for (const server of standbys) if (server !== next) await server.follow(next);
        primary = next;
        await serves(clients);
        // The old primary is back, and still believes that it is the primary.
        await recover();
        await delay(AFTERWARDS_MS);
        await old.rejoin(next);
      });
      const roles = servers.map((server) => (server === primary ? 'primary' : 'standby'));
      await waitFor(() => expect(readRoles()).toEqual(roles));

      expect(new Set(clients.flatMap(({ failures }) => failures.map(({ status }) => status)))).toEqual(new Set([502]));
      const firstAfter = (action: Answer['action'], expected: number) => {
        const good = clients.flatMap(({ answers }) => answers.filter(({ status }) => status === expected));
        const times = good.filter((answer) => answer.action === action && answer.at > promotedAt).map(({ at }) => at);
        return Math.round(Math.min(...times) - promotedAt);
      };
      const [read, created] = [firstAfter('list', 200), firstAfter('create', 201)];
      if (inject('isLong'))
        console.log(`round ${round}, ${kind}: reads after ${read} ms, creations after ${created} ms`);
      expect(read).toBeLessThan(READS_MS);
      expect(created).toBeLessThan(CREATIONS_MS);
      expect(await findMistakes(clients)).toEqual([]);
    },
  );

  test('loses no change for a reader of the changes', async () => {
    await follower.stop();
    const there = await primary.query<{ id: string }>(`select id from private.alunos where tenant_id = '${TENANT}'`);
    expect(there.length).toBeGreaterThan(0);
    expect(follower.problems).toEqual([]);
    expect(compareIds(follower.ids, new Set(there.map(({ id }) => id)))).toEqual({ missed: [], left: [] });
  });

  test('is logged in one line for each change of a role', () => {
    const primaries = changes.filter((text) => text.endsWith(' is the primary') && !text.includes('not used'));
    // On a busy machine a primary may be away for a moment.
    const promoted = primaries.filter((text, index) => text !== primaries[index - 1]);
    expect(promoted).toHaveLength(ROUNDS + 1);
    expect(changes.join()).not.toContain('only-for-tests');
  });
});

/** Makes the primary fail. Returns a function that brings it back as it was. */
async function fail(server: ReplicatedServer, kind: Kind): Promise<() => Promise<void>> {
  if (kind === 'frozen') {
    const thaw = server.freeze();
    return async () => thaw();
  }
  if (kind === 'cut off') {
    server.proxy.fail({ on: 'response', does: 'stall' });
    return () => server.proxy.pass();
  }
  await (kind === 'killed' ? server.kill() : server.shutDown());
  return () => server.start();
}

async function findMostAdvanced(standbys: readonly ReplicatedServer[]): Promise<ReplicatedServer> {
  const positions = await Promise.all(
    standbys.map((server) =>
      server.query<{ position: number }>(
        `select greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0' as position`,
      ),
    ),
  );
  const numbers = positions.map(([row]) => Number(row?.position));
  return standbys[numbers.indexOf(Math.max(...numbers))] as ReplicatedServer;
}
