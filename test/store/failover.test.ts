import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { limited } from '../../src/store/turns.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { canReplicate, type ReplicatedServer, startReplication, toGatewayUrl } from '../helpers/replication.ts';
import { waitFor } from '../helpers/wait-for.ts';

// A primary with two standbys, and clients that create and read all the time. The primary fails in each of four ways, a standby
// is promoted, and the old primary comes back as a standby. No acknowledged creation is lost or done twice, each client reads what
// it has created, and the gateway goes on by itself.

const KINDS = ['killed', 'frozen', 'cut off', 'shut down'] as const;
type Kind = (typeof KINDS)[number];

const ROUNDS = inject('isLong') ? 20 : 1;
const CLIENTS = 16;
/** How long a client waits between two requests, in milliseconds: the processor is left for the servers. */
const PAUSE_MS = 50;
/** How soon after a promotion reads and creations succeed, with what a busy machine takes. */
const BUSY_MS = 3_000;
const READS_MS = 1_000 + BUSY_MS;
const CREATIONS_MS = 2_000 + BUSY_MS;
/** How long the clients go on after it. */
const AFTERWARDS_MS = 1_500;
const KEYS = ['wms_demo_aurora', 'wms_demo_bosque'] as const;

describe.runIf(canReplicate())('a primary that fails', () => {
  let servers: readonly ReplicatedServer[];
  let primary: ReplicatedServer;
  let gateway: TestGateway;
  const changes: string[] = [];

  beforeAll(async () => {
    servers = await startReplication(3);
    // A commit is acknowledged when one of the standbys has it.
    for (const server of servers) await server.set('synchronous_standby_names', 'ANY 1 (*)');
    primary = servers[0] as ReplicatedServer;
    const url = toGatewayUrl(servers, 'target_session_attrs=read-write');
    const onChange = (text: string) => changes.push(text);
    const options = { url, prepare: true, deadlineMs: 5_000, onChange };
    const store = openPostgres({ ...options, connections: 20 });
    gateway = await startGateway({
      store: limited(store, { slots: 20, slotsOfShare: 10, waiting: 1_000 }),
    });
    await waitFor(() => expect(readRoles()).toEqual(['primary', 'standby', 'standby']));
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
      const clients = Array.from({ length: CLIENTS }, (_, n) => new Client(gateway.url, `${round}-${n}`));
      // Each one reads what it has created, and every second one reads beside that.
      const running = clients.flatMap((client, n) => [client.create(), ...(n % 2 === 0 ? [client.read()] : [])]);
      await waitFor(() => expect(clients.every(({ created }) => created.size > 0)).toBe(true));

      const old = primary;
      const recover = await fail(old, kind);
      const standbys = servers.filter((server) => server !== old);
      // An old primary that only the gateway cannot reach would go on sending.
      for (const server of standbys) await server.set('primary_conninfo', 'host=127.0.0.1 port=1');
      await waitFor(async () => {
        const receivers = await Promise.all(standbys.map((server) => server.query('select from pg_stat_wal_receiver')));
        expect(receivers).toEqual([[], []]);
      });
      const next = await findMostAdvanced(standbys);
      await next.promote();
      const promotedAt = performance.now();
      for (const server of standbys) if (server !== next) await server.follow(next);
      primary = next;
      await waitFor(() => expect(clients.every((client) => client.createdAt > promotedAt)).toBe(true));
      // The old primary is back and believes that it still is the primary.
      await recover();
      await delay(AFTERWARDS_MS);
      for (const client of clients) client.stop();
      await Promise.all(running);
      await old.rejoin(next);
      const roles = servers.map((server) => (server === next ? 'primary' : 'standby'));
      await waitFor(() => expect(readRoles()).toEqual(roles));

      expect(clients.flatMap(({ mistakes }) => mistakes)).toEqual([]);
      const read = Math.round(
        firstAfter(
          promotedAt,
          clients.flatMap(({ reads }) => reads),
        ),
      );
      const created = Math.round(
        firstAfter(
          promotedAt,
          clients.flatMap(({ creations }) => creations),
        ),
      );
      if (inject('isLong'))
        console.log(`round ${round}, ${kind}: reads after ${read} ms, creations after ${created} ms`);
      expect(read).toBeLessThan(READS_MS);
      expect(created).toBeLessThan(CREATIONS_MS);
      const acknowledged = clients.flatMap((client) => [...client.created]);
      const stored = await next.query<{ nome: string; n: number }>(
        `select nome, count(*)::integer as n from private.alunos where nome like 'f${round}-%' group by nome`,
      );
      const counts = new Map(stored.map(({ nome, n }) => [nome, n]));
      expect(acknowledged.filter((name) => counts.get(name) !== 1)).toEqual([]);
      expect(stored.filter(({ n }) => n !== 1)).toEqual([]);
    },
  );

  test('is told in one line for each change of a role', () => {
    const primaries = changes.filter((text) => text.endsWith(' is the primary') && !text.includes('not used'));
    // On a busy machine a primary may be away for a moment.
    const promoted = primaries.filter((text, index) => text !== primaries[index - 1]);
    expect(promoted).toHaveLength(ROUNDS + 1);
    expect(changes.join()).not.toContain('only-for-tests');
  });
});

/** Lets the primary fail, and returns what brings it back as it was. */
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

/** The time from a moment to the first of many that are later. */
const firstAfter = (at: number, times: readonly number[]) => Math.min(...times.filter((time) => time > at)) - at;

/** Creates a student, repeats that with its key until it is acknowledged, reads the student, and so on. */
class Client {
  /** The names of the students that were acknowledged. */
  readonly created = new Set<string>();
  readonly mistakes: string[] = [];
  /** When each read, and each creation, succeeded. */
  readonly reads: number[] = [];
  readonly creations: number[] = [];
  readonly #url: string;
  readonly #name: string;
  readonly #key: string;
  #isStopped = false;

  constructor(url: string, name: string) {
    this.#url = url;
    this.#name = name;
    this.#key = KEYS[Number(name.split('-')[1]) % KEYS.length] as string;
  }

  get createdAt(): number {
    return this.creations.at(-1) ?? 0;
  }

  stop(): void {
    this.#isStopped = true;
  }

  async read(): Promise<void> {
    while (!this.#isStopped) {
      await this.#succeed(200, () => this.#send('/academias'));
      this.reads.push(performance.now());
      await delay(PAUSE_MS);
    }
  }

  async create(): Promise<void> {
    for (let count = 0; !this.#isStopped; count += 1) {
      const name = `f${this.#name}-${count}`;
      await this.#succeed(201, () => this.#post(name));
      this.creations.push(performance.now());
      this.created.add(name);
      const list = await this.#succeed(200, () => this.#send(`/alunos?nome=${name}`));
      this.reads.push(performance.now());
      const found = (list as { nome: string }[]).filter(({ nome }) => nome === name).length;
      if (found !== 1) this.mistakes.push(`${name} was read ${found} times`);
      await delay(PAUSE_MS);
    }
  }

  async #succeed(expected: number, ask: () => Promise<{ status: number; body: unknown }>): Promise<unknown> {
    for (;;) {
      const { status, body } = await ask();
      if (status === expected) return body;
      if (status !== 502) this.mistakes.push(`${status} ${JSON.stringify(body)}`);
      await delay(PAUSE_MS);
    }
  }

  #post(name: string) {
    const body = { p_nome: name, p_email: 'aluno@exemplo.example' };
    return this.#send('/alunos', { method: 'POST', headers: { 'Idempotency-Key': name }, body: JSON.stringify(body) });
  }

  async #send(path: string, init: RequestInit = {}): Promise<{ status: number; body: unknown }> {
    const headers = { 'X-Api-Key': this.#key, ...init.headers };
    const answer = await fetch(`${this.#url}${path}`, { ...init, headers });
    return { status: answer.status, body: await answer.json() };
  }
}
