// The plans of the statements inside of functions, as auto_explain tells them to the client that calls.

import pg from 'pg';
import type { Statement } from '../../src/store/statement.ts';

/** One node of a plan with those below it, as far as a test looks at them. */
type Node = {
  readonly 'Node Type': string;
  readonly Schema?: string;
  readonly 'Relation Name'?: string;
  readonly Alias?: string;
  readonly 'Actual Rows'?: number;
  readonly 'Shared Hit Blocks'?: number;
  readonly 'Shared Read Blocks'?: number;
  readonly Plans?: readonly Node[];
};

/** The plan of one statement, and the function that the statement is in; none for the call itself. */
export type Plan = { readonly function: string | undefined; readonly node: Node };

const SETTINGS = `
  load 'auto_explain';
  set auto_explain.log_min_duration = 0;
  set auto_explain.log_nested_statements = on;
  set auto_explain.log_format = json;
  set auto_explain.log_verbose = on;
  -- For the pages that a plan has read; without the times of its nodes, which nobody asks for.
  set auto_explain.log_analyze = on;
  set auto_explain.log_buffers = on;
  set auto_explain.log_timing = off;
  set client_min_messages = log;`;

/** Runs a statement as a role on a superuser's connection, and takes back what it did: all plans of it. */
export async function explain(db: pg.Client, { text, values }: Statement, role = 'gateway'): Promise<Plan[]> {
  const plans: Plan[] = [];
  const onNotice = ({ message, where }: { message?: string | undefined; where?: string | undefined }) => {
    const json = /^duration: .* plan:\n(.*)/s.exec(message ?? '')?.[1];
    if (json) plans.push({ function: /function (\S+)\(/.exec(where ?? '')?.[1], node: JSON.parse(json).Plan });
  };
  await db.query('savepoint explain');
  await db.query(SETTINGS);
  await db.query(`set role ${role}`);
  db.on('notice', onNotice);
  try {
    await db.query(text, [...values]);
  } finally {
    db.off('notice', onNotice);
    await db.query('rollback to savepoint explain');
  }
  return plans;
}

/** Does something in a transaction that is rolled back. */
export async function inTransaction<T>(url: string, work: (db: pg.Client) => Promise<T>): Promise<T> {
  const db = new pg.Client(url);
  await db.connect();
  try {
    await db.query('begin');
    return await work(db);
  } finally {
    await db.end();
  }
}

/** The scans that read all of a table of the tenants, in words. */
export function findSequentialScans(plans: readonly Plan[]): string[] {
  return plans.flatMap((plan) =>
    nodesOf(plan.node)
      .filter((node) => node['Node Type'] === 'Seq Scan' && node.Schema === 'private')
      .map((node) => `${plan.function ?? 'the call'}: Seq Scan on ${node['Relation Name']} ${node.Alias}`),
  );
}

/** The kinds of nodes that have found rows. */
export function listReaders(plans: readonly Plan[]): string[] {
  return plans.flatMap(({ node }) => nodesOf(node)).flatMap((node) => (node['Actual Rows'] ? node['Node Type'] : []));
}

/** How many pages of 8 kB the call has read, of all tables and indexes; what it calls is in it. */
export function countPages(plans: readonly Plan[]): number {
  return Math.max(...plans.map(({ node }) => (node['Shared Hit Blocks'] ?? 0) + (node['Shared Read Blocks'] ?? 0)));
}

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}
