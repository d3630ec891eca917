// The commands for the usage and the limits of keys.

import { type Command, Option } from 'commander';
import { createCalendar, type KeyLimits } from '../limits/account.ts';
import type { Database } from '../store/migrations.ts';
import { readInteger } from './arguments.ts';
import { add, type Run, TENANT_FILTER } from './command.ts';
import { toCsv } from './csv.ts';
import { queryRow, queryRows } from './database.ts';
import { findKey, labelOf } from './keys.ts';
import { language, t, translate } from './language.ts';
import { type Output, toTable } from './terminal.ts';

/** The number of calls of a day, grouped by columns of list_usage. */
type UsageRow = Readonly<Record<'day' | 'class' | 'key_id' | 'name' | 'tenant_id' | 'tenant' | 'operation', string>> & {
  readonly prefix: string | null;
  readonly calls: number;
};

type UsageRequest = {
  readonly tenant?: string | undefined;
  readonly days: number;
  readonly csv?: boolean;
  readonly timeZone: string;
};

/** The options of a limit command; `default` selects the limits of the tenant. */
type LimitRequest = Readonly<
  Partial<Record<'perMinute' | 'burst' | 'perDay' | 'perMonth', number> & Record<'none' | 'default', boolean>>
>;

const CLASSES = ['2xx', '4xx', '429', '5xx'];
/** The longest bar, in characters. */
const WIDTH = 50;
const readCalls = readInteger(1, 999_999_999_999);

/** Adds the commands for usage and limits. */
export function addUsageCommands(tenant: Command, key: Command, run: Run<Database>): void {
  const addUsage = (parent: Command, usage: string, description: string, ...examples: string[]) =>
    add(parent, usage, description, ...examples)
      .option('--days <NUMBER>', 'how many days, today included', readInteger(1, 9_999), 30)
      .addOption(new Option('--csv', 'print CSV, with a line for each day').conflicts('json'));
  addUsage(tenant, 'usage [ID]', 'show the calls of tenants', 'ID --days 90 --csv', '').action(run(showTenantUsage));
  const ofKeys = 'show the calls of keys; a key counts together with those that it replaced';
  addUsage(key, 'usage [KEY]', ofKeys, 'wms_live_4fG7kQz1 --days 7', '--tenant ID --csv')
    .option(...TENANT_FILTER)
    .action(run(showKeyUsage));
  const limits = ['perMinute', 'burst', 'perDay', 'perMonth'];
  const addLimit = (parent: Command, usage: string, description: string, ...examples: string[]) =>
    add(parent, usage, description, ...examples)
      .option('--per-minute <NUMBER>', 'calls per minute', readCalls)
      .option('--burst <NUMBER>', 'how many of them may come at once; all by default', readCalls)
      .option('--per-day <NUMBER>', 'calls per day', readCalls)
      .option('--per-month <NUMBER>', 'calls per month', readCalls)
      .addOption(new Option('--none', 'no limit').conflicts(limits));
  const ofOthers = 'set or show the limits of each key that has none of its own';
  addLimit(tenant, 'limit <ID>', ofOthers, 'ID --per-minute 600', 'ID --none').action(run(limitTenant));
  const ofKey = 'set or show the limits of a key; those that are left out are lifted';
  addLimit(key, 'limit <KEY>', ofKey, 'wms_live_4fG7kQz1 --per-minute 600 --burst 100 --per-day 100000')
    .addOption(new Option('--default', 'the limits of its tenant').conflicts([...limits, 'none']))
    .action(run(limitKey));
}

async function showKeyUsage(db: Database, name: string | undefined, request: UsageRequest): Promise<Output> {
  const key = name === undefined ? undefined : await findKey(db, name);
  const columns = ['day', 'key_id', 'prefix', 'name', 'tenant_id', 'tenant', 'operation', 'class'] as const;
  const toLabels = (row: UsageRow) => [row.name, row.prefix ?? row.key_id, row.operation];
  return showUsage(db, [request.tenant, key?.id], columns, request, ['KEY', 'PREFIX', 'OPERATION'], toLabels);
}

async function showTenantUsage(db: Database, id: string | undefined, request: UsageRequest): Promise<Output> {
  if (id) await db.query('select private.require_tenant($1)', [id]);
  const columns = ['day', 'tenant_id', 'tenant', 'class'] as const;
  return showUsage(db, [id], columns, request, ['TENANT', 'ID'], (row) => [row.tenant, row.tenant_id]);
}

async function limitKey(db: Database, name: string, request: LimitRequest): Promise<Output> {
  const key = await findKey(db, name);
  await setLimits(db, 'private.set_key_limits', key.id, request);
  const sql = `select o.limits as own, t.limits as tenant
                 from private.api_keys k
                 join private.api_keys o on o.tenant_id = k.tenant_id and o.id = coalesce(k.original_id, k.id)
                 join private.tenants t on t.id = k.tenant_id
                where k.id = $1`;
  const { own, tenant } = await queryRow<{ own: KeyLimits | null; tenant: KeyLimits | null }>(db, sql, [key.id]);
  const limits = own ?? tenant ?? {};
  return {
    json: { id: key.id, prefix: key.prefix, limits, are_own: own !== null },
    text:
      own === null && tenant !== null
        ? t`Key ${labelOf(key)} may make ${describe(limits)}, as its tenant has it.`
        : t`Key ${labelOf(key)} may make ${describe(limits)}.`,
  };
}

async function limitTenant(db: Database, id: string, request: LimitRequest): Promise<Output> {
  await db.query('select private.require_tenant($1)', [id]);
  await setLimits(db, 'private.set_tenant_limits', id, request);
  const sql = `select coalesce(limits, '{}') as limits from private.tenants where id = $1`;
  const { limits } = await queryRow<{ limits: KeyLimits }>(db, sql, [id]);
  return {
    json: { id, limits },
    text: t`Each key of the tenant without limits of its own may make ${describe(limits)}.`,
  };
}

/** Sets the given limits with an SQL function. */
async function setLimits(
  db: Database,
  setter: string,
  id: string,
  { perMinute, burst, perDay, perMonth, none, default: isDefault }: LimitRequest,
): Promise<void> {
  // JSON.stringify omits what is undefined.
  const limits = JSON.stringify({ per_minute: perMinute, burst, per_day: perDay, per_month: perMonth });
  if (!none && !isDefault && limits === '{}') return;
  await db.query(`select ${setter}($1, $2::jsonb)`, [id, isDefault ? null : limits]);
}

/** Shows the calls of a tenant, of a key or of all, added up by columns of list_usage. */
async function showUsage(
  db: Database,
  [tenant, key]: readonly [tenant?: string | undefined, key?: string | undefined],
  columns: readonly (keyof UsageRow)[],
  { csv: isCsv, days, timeZone }: UsageRequest,
  head: readonly string[],
  toLabels: (row: UsageRow) => string[],
): Promise<Output> {
  const sql = `select ${columns}, sum(calls) as calls
                 from private.list_usage($1, $2, $3::date - $4::integer, $3::date) with ordinality
                group by ${columns}
                order by min(ordinality)`;
  const { day: last } = createCalendar(timeZone, Date.now)();
  const rows = await queryRows<UsageRow>(db, sql, [tenant ?? null, key ?? null, last, days - 1]);
  if (isCsv) {
    const lines = rows.map((row) => Object.values(row).map((value) => `${value ?? ''}`));
    return { json: rows, text: toCsv([[...columns, 'calls'], ...lines]).trimEnd() };
  }
  if (rows.length === 0) return { json: rows, text: t`There were no calls in the last ${days} days.` };
  const groups = [...Map.groupBy(rows, (row) => toLabels(row).join('\0')).values()];
  const cells = groups.map((group) => [
    ...toLabels(group[0] as UsageRow),
    ...CLASSES.map((name) => `${sumOf(group.filter((row) => row.class === name))}`),
  ]);
  return { json: rows, text: `${toTable([...head.map(translate), ...CLASSES], cells)}\n\n${toBars(rows)}` };
}

/** A bar for each day, in proportion to its calls. */
function toBars(rows: readonly UsageRow[]): string {
  const days = [...Map.groupBy(rows, (row) => row.day)].map(([day, own]) => [day, sumOf(own)] as const);
  days.sort(([a], [b]) => a.localeCompare(b));
  const most = Math.max(...days.map(([, calls]) => calls));
  const toBar = (calls: number) => '█'.repeat(Math.max(1, Math.round((calls / most) * WIDTH)));
  return toTable(
    [],
    days.map(([day, calls]) => [day, toBar(calls), `${calls}`]),
  );
}

function sumOf(rows: readonly UsageRow[]): number {
  return rows.reduce((sum, { calls }) => sum + calls, 0);
}

function describe({ per_minute: perMinute, burst = perMinute, ...limits }: KeyLimits): string {
  const parts = [
    ...(perMinute ? [t`${perMinute} calls a minute (${burst} at once)`] : []),
    ...(limits.per_day ? [t`${limits.per_day} calls a day`] : []),
    ...(limits.per_month ? [t`${limits.per_month} calls a month`] : []),
  ];
  return parts.length > 0 ? new Intl.ListFormat(language()).format(parts) : translate('any number of calls');
}
