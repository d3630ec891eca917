import { createHash } from 'node:crypto';
import type { Sql } from '../helpers/database.ts';
import { findTables } from './removal.ts';

type Owned = { readonly tenant_id: string };

/** An API key, with the text that the database holds the hash of. */
type Key = Owned & {
  readonly key: string;
  readonly permissions: readonly string[] | null;
  readonly active: boolean;
  readonly expires_at: string | null;
};

type Rows<T> = readonly (Owned & { readonly id: string } & T)[];
type Named = { readonly nome: string; readonly ativo: boolean; readonly criado_em: string };

/** Every row that tenants have, as the tables' columns name the values. Times are written as Postgres writes JSON. */
export type World = {
  readonly tenants: readonly { readonly id: string; readonly name: string }[];
  readonly api_keys: readonly Key[];
  readonly academias: Rows<Named>;
  readonly personais: Rows<Named & { email: string; academia_id: string }>;
  readonly alunos: Rows<Named & { email: string; academia_id: string | null; personal_id: string | null }>;
  readonly treinos: Rows<Named & { aluno_id: string; personal_id: string; data_inicio: string }>;
  readonly anamneses: Rows<{
    aluno_id: string;
    status: string;
    resposta: Record<string, unknown> | null;
    criado_em: string;
  }>;
  readonly anamnese_secoes: Rows<{ titulo: string; ordem: number; ativo: boolean }>;
};

/** Ids that worlds share out among the rows of all tables and tenants. */
export const IDS = [1, 2, 3, 4, 5, 6].map((n) => `${n}0000000-0000-4000-8000-00000000000${n}`);

/** An id that no row of any world has. */
export const MISSING_ID = 'f0000000-0000-4000-8000-00000000000f';

/** What a tenant has of a world, and nothing else. */
export function ownOf(world: World, tenant: string): World {
  const isOwn = (row: { readonly id?: string; readonly tenant_id?: string }) => (row.tenant_id ?? row.id) === tenant;
  return Object.fromEntries(
    Object.entries(world).map(([table, rows]) => [table, rows.filter(isOwn)]),
  ) as unknown as World;
}

/** Writes the rows of a world, as the administrator. */
export async function loadWorld(db: Sql, world: World): Promise<void> {
  const api_keys = world.api_keys.map(({ key, ...rest }) => ({
    ...rest,
    name: key,
    key_hash: `\\x${createHash('sha256').update(key).digest('hex')}`,
  }));
  for (const [table, rows] of Object.entries({ ...world, api_keys })) {
    if (rows.length === 0) continue;
    const columns = Object.keys(rows[0] ?? {}).join(', ');
    await db.query(
      `insert into private.${table} (${columns})
       select ${columns} from json_populate_recordset(null::private.${table}, $1)`,
      [JSON.stringify(rows)],
    );
  }
}

/** Leaves no row of any tenant, in whatever tables there are. Not by truncate, which takes twenty times as long. */
export async function emptyWorld(db: Sql): Promise<void> {
  for (const table of await findTables(db)) await db.query(`delete from ${table}`);
}
