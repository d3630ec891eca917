// The commands for tenants and keys: each calls an SQL function and formats the result.

import { InvalidArgumentError } from 'commander';
import type { Database } from '../store/migrations.ts';
import { NEVER } from './arguments.ts';
import { queryRows } from './database.ts';
import { type Confirmed, confirm } from './erasure.ts';
import { CommandError } from './errors.ts';
import { type Output, toTable } from './output.ts';
import type { OfTenant } from './tables.ts';

type Tenant = {
  readonly id: string;
  readonly name: string;
  readonly active_keys: number;
  readonly created_at: string;
};

/** A row of list_keys: everything except the key itself. */
type Key = {
  readonly tenant_id: string;
  readonly tenant: string;
  readonly id: string;
  /** Null for a key that issue_key did not create. */
  readonly prefix: string | null;
  readonly name: string;
  /** Null for all functions. */
  readonly permissions: readonly string[] | null;
  readonly state: 'active' | 'expired' | 'revoked';
  readonly created_at: string | null;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
};

type IssuedKey = {
  readonly id: string;
  readonly key: string;
  readonly prefix: string;
  readonly expires_at: string | null;
};

/** Functions that a key may call; all by default. */
type Permissions = { readonly permission?: readonly string[] | null };

type KeyRequest = OfTenant &
  Permissions & {
    readonly name: string;
    readonly expires: string;
    readonly environment: string;
  };

type Rotation = {
  /** How long the old key still works, in ms. */
  readonly overlap: number;
  /** The end of the new key; by default that of the old one. */
  readonly expires?: string;
};

/** wms_, the environment, 32 random characters and 6 of their checksum. */
const WHOLE_KEY = /^(wms_[a-z]{1,10}_[0-9A-Za-z]{8})[0-9A-Za-z]{30}$/;
const KEEP = 'Save the key now: only its hash is stored, and it is not shown again.';

/** Creates a tenant. */
export async function createTenant(db: Database, name: string): Promise<Output> {
  const [{ id }] = (await queryRows(db, 'select private.create_tenant($1) as id', [name])) as [{ id: string }];
  const next = `Its first key: npm run admin -- key issue --tenant ${id} --name NAME`;
  return { json: { id, name }, text: `Tenant ${id} was created.\n${next}` };
}

/** Lists all tenants, oldest first. */
export async function listTenants(db: Database): Promise<Output> {
  const rows = await queryRows<Tenant>(db, 'select * from private.list_tenants()');
  const tenants = rows.map((tenant) => ({ ...tenant, created_at: toTime(tenant.created_at) }));
  if (tenants.length === 0) {
    return { json: tenants, text: 'There are no tenants yet: npm run admin -- tenant create NAME' };
  }
  const cells = tenants.map(({ id, name, active_keys, created_at }) => [
    id,
    name,
    `${active_keys}`,
    toMinute(created_at),
  ]);
  return { json: tenants, text: toTable(['ID', 'NAME', 'ACTIVE KEYS', 'CREATED'], cells) };
}

/** Issues a key, which the output shows once. */
export async function issueKey(db: Database, request: KeyRequest): Promise<Output> {
  const issued = await queryIssued(db, 'select * from private.issue_key($1, $2, $3::text[], $4::timestamptz, $5)', [
    request.tenant,
    request.name,
    request.permission ?? null,
    request.expires === NEVER ? null : request.expires,
    request.environment,
  ]);
  return { json: issued, text: `${describeIssued(issued)}\n\n${KEEP}` };
}

/** Lists the keys of one tenant, or of all. */
export async function listKeys(db: Database, { tenant }: Partial<OfTenant>): Promise<Output> {
  if (tenant) await db.query('select private.require_tenant($1)', [tenant]);
  const keys = await queryKeys(db, 'select * from private.list_keys($1)', [tenant ?? null]);
  const next = `npm run admin -- key issue --tenant ${tenant ?? 'ID'} --name NAME`;
  return {
    json: keys,
    text: keys.length > 0 ? toKeyTable(keys, tenant === undefined) : `There are no keys yet: ${next}`,
  };
}

/** Issues a key that replaces another; the old one works until the end of the overlap. */
export async function rotateKey(db: Database, name: string, { overlap, expires }: Rotation): Promise<Output> {
  const { id } = await findKey(db, name);
  const sql = 'select * from private.rotate_key($1, $2::interval, $3::timestamptz)';
  const issued = await queryIssued(db, sql, [id, `${overlap} milliseconds`, expires ?? null]);
  const old = await findKey(db, id);
  const end = old.state === 'active' ? `works until ${toMinute(old.expires_at)}` : 'no longer works';
  return {
    json: { ...issued, replaced: { id, prefix: old.prefix, expires_at: old.expires_at } },
    text: `${describeIssued(issued)}\n\n${KEEP}\nThe old key, ${labelOf(old)}, ${end}.`,
  };
}

/** Ends a key, for good. */
export async function revokeKey(db: Database, name: string, { yes }: Confirmed): Promise<Output> {
  const key = await findKey(db, name);
  if (key.state !== 'revoked') {
    await confirm(`Revokes the key ${key.name} (${labelOf(key)}) of ${key.tenant}.`, key.name, yes);
  }
  await db.query('select private.revoke_key($1)', [key.id]);
  return {
    json: { id: key.id, prefix: key.prefix, state: 'revoked' },
    text: `Key ${labelOf(key)} is revoked: requests with it are refused.`,
  };
}

/** Sets the functions that a key may call. */
export async function permitKey(db: Database, name: string, { permission = null }: Permissions): Promise<Output> {
  const key = await findKey(db, name);
  await db.query('select private.set_key_permissions($1, $2::text[])', [key.id, permission]);
  return {
    json: { id: key.id, prefix: key.prefix, permissions: permission },
    text: `Key ${labelOf(key)} may call ${permission?.join(', ') ?? 'all functions'}.`,
  };
}

/** Finds a key by its id or prefix. The name may be a secret by mistake, so no message repeats it. */
export async function findKey(db: Database, name: string): Promise<Key> {
  const [, prefix] = WHOLE_KEY.exec(name) ?? [];
  if (prefix) throw new InvalidArgumentError(`KEY is a key's id or prefix, not the key itself: expected ${prefix}`);
  const sql = 'select * from private.list_keys() k where k.id::text = lower($1) or k.prefix = $1';
  const [key] = await queryKeys(db, sql, [name]);
  if (key) return key;
  throw new CommandError({
    error: 'there is no key with this id or prefix',
    hint: 'List them: npm run admin -- key list',
  });
}

async function queryKeys(db: Database, sql: string, values: unknown[]): Promise<Key[]> {
  const rows = await queryRows<Key>(db, sql, values);
  return rows.map((key) => ({
    ...key,
    created_at: toTime(key.created_at),
    expires_at: toTime(key.expires_at),
    last_used_at: toTime(key.last_used_at),
  }));
}

async function queryIssued(db: Database, sql: string, values: unknown[]): Promise<IssuedKey> {
  const [issued] = (await queryRows<IssuedKey>(db, sql, values)) as [IssuedKey];
  return { ...issued, expires_at: toTime(issued.expires_at) };
}

/** What a key is called: its prefix, or else its id. */
export function labelOf({ prefix, id }: Key): string {
  return prefix ?? id;
}

function describeIssued({ key, prefix, id, expires_at }: IssuedKey): string {
  const rows = { Key: key, Prefix: prefix, Id: id, Expires: toMinute(expires_at) };
  return toTable([], Object.entries(rows));
}

/** The columns of a list of keys. */
const COLUMNS: readonly (readonly [head: string, toCell: (key: Key) => string])[] = [
  ['TENANT', ({ tenant }) => tenant],
  ['PREFIX', ({ prefix }) => prefix ?? '-'],
  ['NAME', ({ name }) => name],
  ['PERMISSIONS', ({ permissions }) => permissions?.join('\n') ?? 'all'],
  ['STATE', ({ state }) => state],
  ['CREATED', ({ created_at }) => toMinute(created_at)],
  ['EXPIRES', ({ expires_at }) => toMinute(expires_at)],
  ['LAST USED', ({ last_used_at }) => toMinute(last_used_at)],
  ['ID', ({ id }) => id],
];

function toKeyTable(keys: readonly Key[], hasTenant: boolean): string {
  const columns = hasTenant ? COLUMNS : COLUMNS.slice(1);
  const head = columns.map(([name]) => name);
  const rows = keys.map((key) => columns.map(([, toCell]) => toCell(key)));
  return toTable(head, rows);
}

/** A time of Postgres as ISO 8601 in UTC; null if it is null or never comes. */
function toTime(text: string | null): string | null {
  return text === null || text === NEVER ? null : new Date(text).toISOString();
}

/** A time for people, to the minute. */
function toMinute(time: string | null): string {
  return time === null ? 'never' : `${time.slice(0, 16)}Z`;
}
