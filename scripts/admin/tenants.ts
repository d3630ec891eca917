import type { Connection } from '../../src/store/migrations.ts';
import { type Output, toMinute, toTable, toTime } from './output.ts';
import { queryRows } from './store.ts';

type Tenant = {
  readonly id: string;
  readonly name: string;
  readonly active_keys: number;
  readonly created_at: string;
};

/** Creates a tenant. */
export async function createTenant(db: Connection, name: string): Promise<Output> {
  const [tenant] = await queryRows<{ id: string }>(db, 'select private.create_tenant($1) as id', [name]);
  const id = tenant?.id ?? '';
  const next = `Its first key: npm run admin -- key issue --tenant ${id} --name NAME`;
  return { json: { id, name }, text: `Tenant ${id} was created.\n${next}` };
}

/** Lists all tenants, oldest first. */
export async function listTenants(db: Connection): Promise<Output> {
  const rows = await queryRows<Tenant>(db, 'select * from private.list_tenants()');
  const tenants = rows.map((tenant) => ({ ...tenant, created_at: toTime(tenant.created_at) }));
  if (tenants.length === 0) {
    return { json: tenants, text: 'There are no tenants yet: npm run admin -- tenant create NAME' };
  }
  const cells = tenants.map(({ id, name, active_keys, created_at }) => [
    id,
    name,
    String(active_keys),
    toMinute(created_at),
  ]);
  return { json: tenants, text: toTable(['ID', 'NAME', 'ACTIVE KEYS', 'CREATED'], cells) };
}
