import type { Connection } from '../../src/store/migrations.ts';
import { NEVER } from './arguments.ts';
import { Refusal, UsageError } from './errors.ts';
import { type Output, toMinute, toTable, toTime } from './output.ts';
import { queryRows } from './store.ts';

/** A key as list_keys has it: all but the key itself. */
type Key = {
  readonly tenant_id: string;
  readonly tenant: string;
  readonly id: string;
  /** Null for a key that was not issued here. */
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

/** What a new key is to be. */
export type KeyRequest = {
  readonly tenant: string;
  readonly name: string;
  /** Names of functions; without them the key may call all. */
  readonly permission?: readonly string[];
  readonly expires: string;
  readonly environment: string;
};

/** How a key is replaced. */
export type Rotation = {
  /** How long the old key works on, in milliseconds. */
  readonly overlap: number;
  /** When the new one ends; without it, when the old one would have ended. */
  readonly expires?: string;
};

/** wms_, the environment, 32 random characters and 6 of their checksum. */
const WHOLE_KEY = /^(wms_[a-z]{1,10}_[0-9A-Za-z]{8})[0-9A-Za-z]{30}$/;
const KEEP = 'Keep the key now: only its hash is stored, and it is not shown again.';

/** Issues a key, which this shows once. */
export async function issueKey(db: Connection, request: KeyRequest): Promise<Output> {
  const issued = await queryIssued(db, 'select * from private.issue_key($1, $2, $3::text[], $4::timestamptz, $5)', [
    request.tenant,
    request.name,
    request.permission ?? null,
    request.expires === NEVER ? null : request.expires,
    request.environment,
  ]);
  return { json: issued, text: `${describeIssued(issued)}\n\n${KEEP}` };
}

/** Lists the keys of a tenant, or of all. */
export async function listKeys(db: Connection, tenant: string | undefined): Promise<Output> {
  if (tenant) await db.query('select private.require_tenant($1)', [tenant]);
  const keys = await queryKeys(db, 'select * from private.list_keys($1)', [tenant ?? null]);
  const next = `npm run admin -- key issue --tenant ${tenant ?? 'ID'} --name NAME`;
  return { json: keys, text: keys.length > 0 ? toKeyTable(keys, !tenant) : `There are no keys yet: ${next}` };
}

/** Issues a key in the place of another, which works on for the overlap. */
export async function rotateKey(db: Connection, name: string, { overlap, expires }: Rotation): Promise<Output> {
  const { id } = await findKey(db, name);
  const sql = 'select * from private.rotate_key($1, $2::interval, $3::timestamptz)';
  const issued = await queryIssued(db, sql, [id, `${overlap} milliseconds`, expires ?? null]);
  const old = await findKey(db, id);
  const end = old.state === 'active' ? `works until ${toMinute(old.expires_at)}` : 'works no longer';
  return {
    json: { ...issued, replaced: { id, prefix: old.prefix, expires_at: old.expires_at } },
    text: `${describeIssued(issued)}\n\n${KEEP}\nThe old key, ${labelOf(old)}, ${end}.`,
  };
}

/** Ends a key, for good. */
export async function revokeKey(db: Connection, name: string): Promise<Output> {
  const key = await findKey(db, name);
  await db.query('select private.revoke_key($1)', [key.id]);
  return {
    json: { id: key.id, prefix: key.prefix, state: 'revoked' },
    text: `Key ${labelOf(key)} is revoked, and no request with it is served any more.`,
  };
}

/** Sets the functions that a key may call; null is all. */
export async function permitKey(db: Connection, name: string, permissions: readonly string[] | null): Promise<Output> {
  const key = await findKey(db, name);
  await db.query('select private.set_key_permissions($1, $2::text[])', [key.id, permissions]);
  return {
    json: { id: key.id, prefix: key.prefix, permissions },
    text: `Key ${labelOf(key)} may call ${permissions?.join(', ') ?? 'all functions'}.`,
  };
}

/** A key by its id or its prefix. What was given may be a secret all the same, so it is not said again. */
async function findKey(db: Connection, name: string): Promise<Key> {
  const [, prefix] = WHOLE_KEY.exec(name) ?? [];
  if (prefix) throw new UsageError(`KEY is a key's id or its prefix, and not the key itself: expected ${prefix}`);
  const sql = 'select * from private.list_keys() k where k.id::text = lower($1) or k.prefix = $1';
  const [key] = await queryKeys(db, sql, [name]);
  if (key) return key;
  throw new Refusal({
    error: 'there is no key with this id or prefix',
    hint: '`npm run admin -- key list` has them all.',
  });
}

async function queryKeys(db: Connection, sql: string, values: unknown[]): Promise<Key[]> {
  const rows = await queryRows<Key>(db, sql, values);
  return rows.map((key) => ({
    ...key,
    created_at: toTime(key.created_at),
    expires_at: toTime(key.expires_at),
    last_used_at: toTime(key.last_used_at),
  }));
}

async function queryIssued(db: Connection, sql: string, values: unknown[]): Promise<IssuedKey> {
  const [issued] = (await queryRows<IssuedKey>(db, sql, values)) as [IssuedKey];
  return { ...issued, expires_at: toTime(issued.expires_at) };
}

function labelOf({ prefix, id }: Key): string {
  return prefix ?? id;
}

function describeIssued({ key, prefix, id, expires_at }: IssuedKey): string {
  return toTable(
    [],
    [
      ['Key', key],
      ['Prefix', prefix],
      ['Id', id],
      ['Expires', toMinute(expires_at)],
    ],
  );
}

function toKeyTable(keys: readonly Key[], hasTenant: boolean): string {
  const head = ['PREFIX', 'NAME', 'PERMISSIONS', 'STATE', 'CREATED', 'EXPIRES', 'LAST USED', 'ID'];
  const rows = keys.map((key) => [
    key.prefix ?? '-',
    key.name,
    key.permissions?.join('\n') ?? 'all',
    key.state,
    toMinute(key.created_at),
    toMinute(key.expires_at),
    toMinute(key.last_used_at),
    key.id,
  ]);
  if (!hasTenant) return toTable(head, rows);
  return toTable(
    ['TENANT', ...head],
    rows.map((row, index) => [keys[index]?.tenant ?? '', ...row]),
  );
}
