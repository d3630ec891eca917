import { join } from 'node:path';
import pg from 'pg';
import type { StoreConfig } from '../../src/config.ts';
import { applyMigrations, type Connection, readMigrations } from '../../src/store/migrations.ts';
import { AccessError, connect, type EmbeddedConfig, openFolder } from '../database.ts';

/** An open store. */
export type AdminStore = Connection & { close(): Promise<void> };

/** Opens the configured store for its administrator. Throws AccessError and FolderError. */
export function openStore(config: StoreConfig): Promise<AdminStore> {
  if (config.kind === 'embedded') return openEmbedded(config);
  if (config.kind === 'postgres') return openPostgres(config.url);
  throw new AccessError(
    "A Supabase project's Data API cannot do this: set DATABASE_URL to the project's connection string instead of SUPABASE_URL",
  );
}

/** Applies new migrations first, like the gateway. */
async function openEmbedded(config: EmbeddedConfig): Promise<AdminStore> {
  const { db, close } = await openFolder(config);
  try {
    await applyMigrations(db, readMigrations(join(import.meta.dirname, '../../supabase/migrations')));
  } catch (error) {
    await close();
    throw error;
  }
  return { query: (sql, values) => db.query(sql, values), close };
}

async function openPostgres(url: string): Promise<AdminStore> {
  const client = await connect(url, 'wellness-admin');
  return {
    query: (sql, values) => client.query(sql, values).catch(failWith),
    close: () => client.end(),
  };
}

/** Anything but an answer of the server, or its last one, means that the connection is lost. */
function failWith(error: Error): never {
  if (error instanceof pg.DatabaseError && !/^(57P|08)/.test(error.code ?? '')) throw error;
  throw new AccessError(
    `The connection to the database was lost: ${error.message}; check whether the command took effect before you run it again`,
  );
}

/** The rows of a query as JSON: the same from both drivers, whatever types they parse. */
export async function queryRows<T>(db: Connection, sql: string, values: unknown[] = []): Promise<T[]> {
  const { rows } = await db.query(`select coalesce(json_agg(r), '[]') as json from (${sql}) r`, values);
  const [{ json }] = rows as [{ json: T[] }];
  return json;
}
