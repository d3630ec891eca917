// A cluster of Citus: a coordinator and two workers on Debian's Postgres 15.

import { existsSync } from 'node:fs';
import type pg from 'pg';
import { type BareDebianPostgres, startBareDebianPostgres } from './debian-postgres.ts';
import { asAdmin, type Database, databaseUrl, fillDatabase, newName, runSql } from './servers.ts';

const EXTENSION = '/usr/share/postgresql/15/extension/citus.control';

/** The settings of each server of a cluster. */
const SETTINGS = [
  'shared_preload_libraries=citus',
  'max_connections=200',
  'max_prepared_transactions=200',
  // For moving shards while requests run.
  'wal_level=logical',
  'max_replication_slots=50',
  'max_wal_senders=50',
  'output_plugin_libraries=pgoutput,citus',
  // The nodes are on one machine.
  'citus.node_conninfo=sslmode=disable',
  // Each shard takes some 10 ms to create.
  'citus.shard_count=4',
];

/** Whether Citus is installed. Does not throw in CI, because no package has it. */
export function canTestOnCitus(): boolean {
  const found = existsSync(EXTENSION);
  if (!found)
    console.warn("\nCitus is not installed for Debian's Postgres 15: its tests cannot run, and are SKIPPED\n");
  return found;
}

/** The servers of a cluster, the coordinator first. */
export type Citus = { readonly nodes: readonly BareDebianPostgres[]; stop(): Promise<void> };

/** Starts the servers; each database has a cluster of its own on them. */
export async function startCitus(count = 3): Promise<Citus> {
  // Without passwords: the nodes connect to each other, and only this machine reaches them.
  const start = () => startBareDebianPostgres('postgres', { settings: SETTINGS, auth: 'trust' });
  const nodes = await Promise.all(Array.from({ length: count }, start));
  return {
    nodes,
    stop: async () => {
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}

/**
 * Creates the database that copyCitusDatabase copies, with the migrations and the demo data, on the nodes with these superuser's URLs.
 * Returns its URLs.
 */
export async function makeCitusTemplate(nodes: readonly string[]): Promise<string[]> {
  const { name } = await createCitusDatabase(nodes);
  for (const node of nodes) {
    await asAdmin(node, async (admin) => {
      // Nobody may be connected to a template, but Citus itself is, and would come back with the next connection.
      await admin.query(`alter database ${name} allow_connections false`);
      await admin.query('select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1', [name]);
    });
  }
  return nodes.map((node) => databaseUrl(node, name));
}

/** Copies the database with these URLs on its nodes: creating a new cluster takes ten times as long. */
export async function copyCitusDatabase(template: readonly string[]): Promise<Database> {
  const name = newName();
  const nodes = template.map((url) => databaseUrl(url, 'postgres'));
  for (const [index, node] of nodes.entries()) {
    const { pathname } = new URL(template[index] ?? '');
    await runSql(node, `create database ${name} template ${pathname.slice(1)}`);
  }
  return toDatabase(nodes, name);
}

/**
 * Creates a database on the nodes with these superuser's URLs. By default it is a cluster with the migrations and the demo
 * data; `fill` may add them before Citus.
 */
export async function createCitusDatabase(
  nodes: readonly string[],
  fill: (adminUrl: string, addCitus: () => Promise<void>) => Promise<void> = async (adminUrl, addCitus) => {
    await addCitus();
    await asAdmin(adminUrl, fillDatabase);
  },
): Promise<Database> {
  const name = newName();
  const urls = nodes.map((node) => databaseUrl(node, name));
  // One at a time: they change the same roles, and Postgres refuses two changes of a role at once.
  await asAdmin(databaseUrl(nodes[0] ?? '', 'postgres'), async (lock) => {
    await lock.query('select pg_advisory_lock(1)');
    for (const node of nodes) await createEmptyDatabase(node, name);
    await fill(urls[0] ?? '', () => addCitus(urls));
  });
  return toDatabase(nodes, name);
}

function toDatabase(nodes: readonly string[], name: string): Database {
  const adminUrl = databaseUrl(nodes[0] ?? '', name);
  return {
    name,
    adminUrl,
    query: (sql, values) => runSql(adminUrl, sql, values),
    drop: async () => {
      for (const node of nodes) await dropCitusDatabase(node, name);
    },
  };
}

/** Drops a node's part of a database. */
export const dropCitusDatabase = (node: string, name: string) =>
  runSql(databaseUrl(node, 'postgres'), `drop database if exists ${name} with (force)`);

/** Adds the node with this superuser's URL to the cluster of a database. */
export async function addCitusNode({ adminUrl, name }: Database, node: string): Promise<void> {
  await createEmptyDatabase(node, name);
  await asAdmin(databaseUrl(node, name), createExtension);
  await asAdmin(adminUrl, (coordinator) => addNode(coordinator, node));
}

const createEmptyDatabase = (node: string, name: string) =>
  runSql(databaseUrl(node, 'postgres'), `create database ${name} template template0`);

const createExtension = (admin: pg.Client) => admin.query('create extension citus');

async function addNode(coordinator: pg.Client, node: string): Promise<void> {
  const { hostname, port } = new URL(node);
  await coordinator.query('select citus_add_node($1, $2)', [hostname, port]);
}

/** Makes a cluster of the databases with these URLs; the first one is the coordinator. */
export async function addCitus([coordinator = '', ...workers]: readonly string[]): Promise<void> {
  for (const url of [coordinator, ...workers]) await asAdmin(url, createExtension);
  const { hostname, port } = new URL(coordinator);
  await asAdmin(coordinator, async (admin) => {
    await admin.query('select citus_set_coordinator_host($1, $2)', [hostname, port]);
    for (const worker of workers) await addNode(admin, worker);
  });
}
