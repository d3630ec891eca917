// Another tenant beside those of the demo data: the shadow of the tenant whose key the document's examples have. Its rows have the
// ids of that tenant's rows, each with the values of another one, so that an answer differs wherever a query looks for an id without the
// tenant.

import { findKeyScheme } from '../../src/openapi/examples.ts';
import { document } from '../helpers/api.ts';
import { rows, type Sql } from '../helpers/database.ts';

/** The key of the examples, and a subquery for its tenant. */
export const OWN_KEY = findKeyScheme(document)?.['x-example'] ?? '';
export const OWN_TENANT = `(select tenant_id from private.api_keys where key_hash = sha256('${OWN_KEY}'))`;

export const SHADOW = 'f0000000-0000-4000-8000-000000000001';
export const SHADOW_KEY = 'sombra';
const SHADOW_KEY_ID = 'f9000000-0000-4000-8000-000000000001';

/** The id that only the shadow has, in each table, and what it becomes in an answer that tells the place within a change. */
const FOREIGN_ID = 'f0000000-0000-8000-8000-000000000000';
export const FOREIGN_IDS = [FOREIGN_ID, 'f0000000-0000-8000-8000-000000000001'];

/** An id that no row has. */
export const MISSING_ID = 'f0000000-0000-4000-8000-00000000000f';

type Table = { readonly name: string; readonly columns: readonly string[]; readonly hasUuid: boolean };

/** The tables with the rows of tenants, their columns that can be written, and whether their ids are UUIDs. */
export function findIsolated(db: Sql): Promise<Table[]> {
  return rows(
    db,
    `select c.oid::regclass::text as name, array_agg(quote_ident(a.attname)) as columns,
            bool_or(a.attname = 'id' and a.atttypid = 'uuid'::regtype) as "hasUuid"
       from pg_policy p
       join pg_class c on c.oid = p.polrelid
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      where p.polname = 'tenant_isolation' and c.relname <> 'tenants'
      group by c.oid order by 1`,
  );
}

/** Adds the shadow, in a transaction that is open. */
export async function copyRows(db: Sql): Promise<void> {
  await db.query(`insert into private.tenants (id, name) values ('${SHADOW}', 'Sombra')`);
  await db.query(
    `insert into private.api_keys (tenant_id, id, name, key_hash)
     values ('${SHADOW}', '${SHADOW_KEY_ID}', 'Sombra', sha256('${SHADOW_KEY}'))`,
  );
  // The first row has the id that no other tenant has, which leaves references to the last one without a row. No copy is a change.
  await db.query('set local session_replication_role = replica');
  for (const { name, columns, hasUuid } of await findIsolated(db)) {
    const others: Readonly<Record<string, string>> = {
      tenant_id: `'${SHADOW}'::uuid`,
      // A key is of one tenant alone.
      key_id: `'${SHADOW_KEY_ID}'::uuid`,
      ...(hasUuid && { id: `lag(id, 1, '${FOREIGN_ID}'::uuid) over (order by id)` }),
    };
    await db.query(
      `insert into ${name} (${columns.join(', ')}) overriding system value
       select ${columns.map((column) => others[column] ?? column).join(', ')} from ${name} where tenant_id = ${OWN_TENANT}
           on conflict do nothing`,
    );
  }
  await db.query('set local session_replication_role = origin');
}
