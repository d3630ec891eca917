// Several of Debian's Postgres 15 that replicate from each other, each behind a proxy of its own, for tests of failover.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type BareDebianPostgres, BINARIES, startBareDebianPostgres } from './debian-postgres.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';
import { isPresent } from './requirement.ts';
import { asAdmin, fillDatabase, loginUrl, runSql } from './servers.ts';

const SUPERUSER = 'postgres';
/** Settings for pg_rewind, and for a standby that was away to catch up soon. */
const SETTINGS = [
  'wal_log_hints=on',
  'wal_keep_size=256MB',
  'wal_retrieve_retry_interval=100ms',
  'shared_buffers=16MB',
];

/** Whether Debian's Postgres is installed. Warns if not, or throws in CI. */
export const canReplicate = (): boolean =>
  isPresent(
    existsSync(join(BINARIES, 'pg_rewind')),
    'The package postgresql-15 is not installed: the tests of failover cannot run',
  );

/** One server. Its URL is the superuser's, and bypasses the proxy. It starts as the primary, or as a copy of one. */
export type ReplicatedServer = BareDebianPostgres & {
  readonly proxy: FaultProxy;
  readonly port: number;
  query<T extends object>(sql: string): Promise<T[]>;
  /** Changes a setting in its folder, so that restarts keep it. */
  set(name: string, value: string): Promise<void>;
  /** Makes it a standby of another server from now on. */
  follow(primary: ReplicatedServer): Promise<void>;
  promote(): Promise<void>;
  /** Starts the old primary as a standby of the present one. */
  rejoin(primary: ReplicatedServer): Promise<void>;
  remove(): Promise<void>;
};

const toConninfo = ({ port }: ReplicatedServer) => `host=127.0.0.1 port=${port} user=${SUPERUSER} dbname=postgres`;

/** Starts a primary, by default with the demo data, and its standbys. */
export async function startReplication(
  count: number,
  parent?: string,
  fill = fillDatabase,
): Promise<readonly [ReplicatedServer, ...ReplicatedServer[]]> {
  const primary = await start({ ...(parent && { parent }) });
  await asAdmin(primary.adminUrl, fill);
  return [primary, ...(await Promise.all(Array.from({ length: count - 1 }, () => startStandby(primary))))];
}

/** Starts one more standby of a primary. */
export function startStandby(primary: ReplicatedServer): Promise<ReplicatedServer> {
  const args = [`--dbname=${toConninfo(primary)}`, '-D', 'data', '-R', '-N', '--checkpoint=fast'];
  return start({
    create: (options) => void execFileSync(join(BINARIES, 'pg_basebackup'), args, { ...options, stdio: 'pipe' }),
  });
}

async function start(options: Parameters<typeof startBareDebianPostgres>[1]): Promise<ReplicatedServer> {
  const postgres = await startBareDebianPostgres(SUPERUSER, { settings: SETTINGS, auth: 'trust', ...options });
  const port = Number(new URL(postgres.adminUrl).port);
  const proxy = await startFaultProxy({ host: '127.0.0.1', port });
  const query: ReplicatedServer['query'] = (sql) => runSql(postgres.adminUrl, sql);
  const set = async (name: string, value: string) => {
    await query(`alter system set ${name} = '${value}'`);
    await query('select pg_reload_conf()');
  };
  return {
    ...{ ...postgres, proxy, port, query, set },
    follow: (primary) => set('primary_conninfo', toConninfo(primary)),
    promote: async () => void (await query('select pg_promote(wait => true)')),
    rejoin: async (primary) => {
      await postgres.shutDown();
      // pg_rewind needs the new primary's last checkpoint to be on the new timeline.
      await primary.query('checkpoint');
      postgres.run(`${BINARIES}/pg_rewind -D data '--source-server=${toConninfo(primary)}' -R -N`);
      await postgres.start();
    },
    remove: async () => {
      await postgres.kill();
      await postgres.stop();
      await proxy.close();
    },
  };
}

/** The URL of all servers through their proxies, by default for the login of a gateway. */
export function toGatewayUrl(servers: readonly ReplicatedServer[], parameters: string, login = 'gateway_test'): string {
  const hosts = servers.map(({ proxy }) => `127.0.0.1:${proxy.port}`).join(',');
  const [first] = servers;
  return loginUrl(first?.adminUrl ?? '', login)
    .replace(/@[^/]*/, `@${hosts}`)
    .concat(`?${parameters}`);
}
