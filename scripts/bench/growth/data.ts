// The tenant that grows, beside the others of the benchmark.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { toKey } from '../data.ts';

/** The tenant as it is at one time: its number, how many students it has, and the how manyth of its sizes that is. */
export type Stage = { readonly tenant: number; readonly students: number; readonly step: number };

/** What a row is of, as data.sql numbers it. */
const KINDS = { academia: 3, personal: 4, aluno: 5 };

/** Last names that five students have each, those who were added to reach one of the sizes. */
const RARE_NAMES = ['Kretzschmar', 'Wojciechowski', 'Przybylski', 'Schwartzkopf', 'Brzezinski', 'Gwozdz'];

/** The most sizes that a tenant can have in turn. */
export const MOST_SIZES = RARE_NAMES.length;

const SCRIPT = readFileSync(join(import.meta.dirname, 'data.sql'), 'utf8');

/**
 * As its superuser, adds students to a database until there are so many, the tenant itself before the first ones, and
 * brings statistics up to date.
 */
export async function growTo(db: pg.Client, stage: Stage, from: number): Promise<void> {
  const { tenant, students } = stage;
  const settings = { tenant, key: toKey(tenant), name: toRareName(stage), from, to: students };
  for (const [name, value] of Object.entries(settings)) {
    await db.query('select set_config($1, $2, false)', [`growth.${name}`, String(value)]);
  }
  await db.query(SCRIPT);
  await db.query('vacuum analyze');
}

/** The last name of five of those who were added last. */
export function toRareName({ step }: Stage): string {
  return RARE_NAMES[step] ?? '';
}

/** The id that data.sql gives to a row. */
export function toId(kind: keyof typeof KINDS, tenant: number, row: number): string {
  const digits = (number: number, length: number) => number.toString(16).padStart(length, '0');
  return `${digits(KINDS[kind], 8)}-0000-4000-8000-${digits(tenant, 5)}${digits(row, 7)}`;
}
