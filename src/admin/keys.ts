// The commands for tenants and keys: each calls an SQL function and formats the result.

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Database } from '../store/migrations.ts';
import { NEVER, readDuration, readEnvironment, readName, readPermission, readWhen, WHEN } from './arguments.ts';
import { add, addOfTenant, type Run, TENANT_FILTER, YES } from './command.ts';
import { queryRow, queryRows } from './database.ts';
import { t, translate } from './language.ts';
import { toErased } from './records.ts';
import type { OfTenant } from './tables.ts';
import { CommandError, type Confirmed, confirm, type Output, toTable } from './terminal.ts';

type Tenant = { readonly id: string; readonly name: string; readonly active_keys: number; readonly created_at: string };

/** A row of list_keys: everything except the key itself. */
type Key = {
  readonly tenant: string;
  readonly id: string;
  /** Null for a key that issue_key did not create. */
  readonly prefix: string | null;
  readonly name: string;
  /** Null if the key may call all functions. */
  readonly permissions: readonly string[] | null;
  readonly state: 'active' | 'expired' | 'revoked';
  readonly created_at: string | null;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
};

type IssuedKey = Pick<Key, 'id' | 'expires_at'> & { readonly key: string; readonly prefix: string };

/** Functions that a key may call; all by default. */
type Permissions = { readonly permission?: readonly string[] | null };

type KeyRequest = OfTenant &
  Permissions & { readonly name: string; readonly expires: string; readonly environment: string };

/** `overlap` is how long the old key still works, in ms; `expires` is the expiry of the new key, by default that of the old one. */
type Rotation = { readonly overlap: number; readonly expires?: string };

/** wms_, the environment, 32 random characters and 6 of their checksum. */
const WHOLE_KEY = /^(wms_[a-z]{1,10}_[0-9A-Za-z]{8})[0-9A-Za-z]{30}$/;
const KEY_HEAD = ['PREFIX', 'NAME', 'PERMISSIONS', 'STATE', 'CREATED', 'EXPIRES', 'LAST USED', 'ID'];

/** Adds the commands for tenants and keys. */
export function addKeyCommands(tenant: Command, key: Command, run: Run<Database>): void {
  add(tenant, 'create', 'create a tenant', "'Academia Aurora'")
    .argument('<NAME>', 'its name', readName)
    .action(run(createTenant));
  add(tenant, 'list', 'list the tenants with their ids', '').action(run(listTenants));
  add(tenant, 'delete <ID>', 'delete a tenant, its keys and all its data', 'ID')
    .option(...YES)
    .action(run(deleteTenant));
  const all = '--tenant ID --name Site';
  const some = '--tenant ID --name Report --permission listar_alunos listar_treinos --expires 90d';
  addOfTenant(key, 'issue', 'issue a key and show it once', all, some)
    // People expect the verb of `tenant create`.
    .alias('create')
    .requiredOption('--name <NAME>', 'what the key is for', readName)
    .option('--permission <FUNCTION...>', 'a function that it may call; all by default', readPermission)
    .addOption(new Option('--expires <WHEN>', WHEN).argParser(readWhen).default(NEVER, 'never'))
    .option('--environment <WORD>', 'a word at the beginning of the key', readEnvironment, 'live')
    .action(run(issueKey));
  add(key, 'list', 'list keys: everything except the key itself', '', '--tenant ID')
    .option(...TENANT_FILTER)
    .action(run(listKeys));
  const overlap = new Option('--overlap <DURATION>', 'how long the old key still works: 24h, 30m, 0s');
  add(key, 'rotate <KEY>', 'issue a key that replaces another; both work for a while', 'wms_live_4fG7kQz1 --overlap 1h')
    .addOption(overlap.argParser(readDuration).default(readDuration('24h'), '24h'))
    .option('--expires <WHEN>', t`${translate(WHEN)}; by default like the old key`, readWhen)
    .action(run(rotateKey));
  add(key, 'revoke <KEY>', 'end a key, now and for good', 'wms_live_4fG7kQz1')
    .option(...YES)
    .action(run(revokeKey));
  const permission = new Option('--permission <FUNCTION...>', 'a function that it may call, and no others');
  add(key, 'permit <KEY>', 'set the functions that a key may call', 'wms_live_4fG7kQz1 --permission listar_alunos')
    // After --permission, KEY would be read as another function.
    .usage('<KEY> [options]')
    .addOption(permission.argParser(readPermission).conflicts('all'))
    .option('--all', 'it may call all functions')
    .hook('preAction', (command) => {
      const { permission, all } = command.opts();
      if (!permission && !all) throw new InvalidArgumentError('Expected --permission FUNCTION or --all.');
    })
    .action(run(permitKey));
}

async function createTenant(db: Database, name: string): Promise<Output> {
  const { id } = await queryRow<Tenant>(db, 'select private.create_tenant($1) as id', [name]);
  const next = t`Its first key: npm run admin -- key issue --tenant ${id} --name NAME`;
  return { json: { id, name }, text: `${t`Tenant ${id} was created.`}\n${next}` };
}

async function listTenants(db: Database): Promise<Output> {
  const tenants = await queryTimes<Tenant>(db, 'select * from private.list_tenants()');
  if (tenants.length === 0)
    return { json: [], text: translate('There are no tenants yet: npm run admin -- tenant create NAME') };
  const toCells = ({ id, name, ...tenant }: Tenant) => [id, name, `${tenant.active_keys}`, toMinute(tenant.created_at)];
  return {
    json: tenants,
    text: toTable(['ID', 'NAME', 'ACTIVE KEYS', 'CREATED'].map(translate), tenants.map(toCells)),
  };
}

async function deleteTenant(db: Database, id: string, confirmed: Confirmed): Promise<Output> {
  await db.query('select private.require_tenant($1)', [id]);
  const { name } = await queryRow<Tenant>(db, 'select name from private.tenants where id = $1', [id]);
  await confirm(t`Deletes the tenant ${name}, its keys and all its data.`, name, confirmed);
  return toErased(t`Tenant ${id} was deleted`, await queryRows(db, 'select * from private.delete_tenant($1)', [id]));
}

async function issueKey(db: Database, request: KeyRequest): Promise<Output> {
  const { tenant, name, permission = null, expires, environment } = request;
  const sql = 'select * from private.issue_key($1, $2, $3::text[], $4::timestamptz, $5)';
  const values = [tenant, name, permission, expires === NEVER ? null : expires, environment];
  const [issued] = (await queryTimes<IssuedKey>(db, sql, values)) as [IssuedKey];
  return { json: issued, text: describeIssued(issued) };
}

async function listKeys(db: Database, { tenant }: Partial<OfTenant>): Promise<Output> {
  const keys = await queryTimes<Key>(db, 'select * from private.list_keys($1)', [tenant ?? null]);
  const none = t`There are no keys yet: npm run admin -- key issue --tenant ${tenant ?? 'ID'} --name NAME`;
  if (keys.length === 0) return { json: [], text: none };
  const cells = keys.map((key) => [
    ...(tenant ? [] : [key.tenant]),
    key.prefix ?? '-',
    key.name,
    key.permissions?.join('\n') ?? translate('all'),
    translate(key.state),
    ...[key.created_at, key.expires_at, key.last_used_at].map(toMinute),
    key.id,
  ]);
  return { json: keys, text: toTable([...(tenant ? [] : ['TENANT']), ...KEY_HEAD].map(translate), cells) };
}

async function rotateKey(db: Database, name: string, { overlap, expires }: Rotation): Promise<Output> {
  const { id } = await findKey(db, name);
  const sql = 'select * from private.rotate_key($1, $2::interval, $3::timestamptz)';
  const values = [id, `${overlap} milliseconds`, expires ?? null];
  const [issued] = (await queryTimes<IssuedKey>(db, sql, values)) as [IssuedKey];
  const old = await findKey(db, id);
  const end =
    old.state === 'active'
      ? t`The old key, ${labelOf(old)}, works until ${toMinute(old.expires_at)}.`
      : t`The old key, ${labelOf(old)}, no longer works.`;
  return {
    json: { ...issued, replaced: { id, prefix: old.prefix, expires_at: old.expires_at } },
    text: `${describeIssued(issued)}\n${end}`,
  };
}

async function revokeKey(db: Database, name: string, confirmed: Confirmed): Promise<Output> {
  const key = await findKey(db, name);
  const question = t`Revokes the key ${key.name} (${labelOf(key)}) of ${key.tenant}.`;
  if (key.state !== 'revoked') await confirm(question, key.name, confirmed);
  await db.query('select private.revoke_key($1)', [key.id]);
  return {
    json: { id: key.id, prefix: key.prefix, state: 'revoked' },
    text: t`Key ${labelOf(key)} is revoked: requests with it are refused.`,
  };
}

async function permitKey(db: Database, name: string, { permission = null }: Permissions): Promise<Output> {
  const key = await findKey(db, name);
  await db.query('select private.set_key_permissions($1, $2::text[])', [key.id, permission]);
  return {
    json: { id: key.id, prefix: key.prefix, permissions: permission },
    text: permission
      ? t`Key ${labelOf(key)} may call ${permission.join(', ')}.`
      : t`Key ${labelOf(key)} may call all functions.`,
  };
}

/** Finds a key by its id or prefix. No message repeats the name: by mistake it may be the whole key. */
export async function findKey(db: Database, name: string): Promise<Key> {
  const [, prefix] = WHOLE_KEY.exec(name) ?? [];
  if (prefix) throw new InvalidArgumentError(t`KEY is a key's id or prefix, not the key itself: expected ${prefix}`);
  const sql = 'select * from private.list_keys() k where k.id::text = lower($1) or k.prefix = $1';
  const [key] = await queryTimes<Key>(db, sql, [name]);
  if (key) return key;
  throw new CommandError('there is no key with this id or prefix', 'List them: npm run admin -- key list');
}

/** The rows of a query, with times in ISO 8601 in UTC, and null for infinity. */
async function queryTimes<T>(db: Database, sql: string, values: unknown[] = []): Promise<T[]> {
  const toTime = (time: unknown) => (time === null || time === NEVER ? null : new Date(String(time)).toISOString());
  const rows = await queryRows<Record<string, unknown>>(db, sql, values);
  return rows.map((row) => {
    const cells = Object.entries(row).map(([name, value]) => [name, name.endsWith('_at') ? toTime(value) : value]);
    return Object.fromEntries(cells) as T;
  });
}

/** A name of a key for people: its prefix, or else its id. */
export function labelOf({ prefix, id }: Key): string {
  return prefix ?? id;
}

function describeIssued({ key, prefix, id, expires_at }: IssuedKey): string {
  const rows = [
    [t`Key`, key],
    [t`Prefix`, prefix],
    ['Id', id],
    [t`Expires`, toMinute(expires_at)],
  ];
  return `${toTable([], rows)}\n\n${t`Save the key now: only its hash is stored, and it is not shown again.`}`;
}

/** A time for people, to the minute. */
function toMinute(time: string | null): string {
  return time === null ? translate('never') : `${time.slice(0, 16)}Z`;
}
