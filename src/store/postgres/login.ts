// Why the login of a database is a risk.

import type { Row, Statement } from '../statement.ts';

/** The login, which `set role` does not change, the rights that it has beyond `gateway`, and whether it can only read. */
export const LOGIN: Statement = {
  values: [],
  text: `
select r.rolname,
       case
         when r.rolsuper then 'is a superuser'
         when r.rolbypassrls then 'bypasses row security'
         when exists (
           select
             from pg_class c
             join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'private' and c.relkind in ('r', 'p') and pg_has_role(r.oid, c.relowner, 'member')
         ) then 'owns the tables'
       end,
       current_setting('transaction_read_only')
  from pg_roles r
 where r.rolname = session_user`,
};

/** Why a login is a risk: it cannot create, or a bug in the gateway could reach every tenant's rows. */
export function describeRisk([login, risk, readOnly]: Row = []): string | undefined {
  if (readOnly === 'on') return `The login ${login} can only read, as on a standby: every creation fails`;
  if (!risk) return undefined;
  return `The login ${login} ${risk}: use one that is only a member of gateway, as scripts/deploy/logins.sql creates`;
}
