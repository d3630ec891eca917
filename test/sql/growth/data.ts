// The tenant that grows, beside the others of the benchmark.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { toKey } from '../../../scripts/bench/data.ts';

/** The tenant at one of its sizes: its number, its students, and the index of the size. */
export type Stage = { readonly tenant: number; readonly students: number; readonly step: number };

/** The tables' numbers in data.sql. */
const KINDS = { academia: 3, personal: 4, aluno: 5, treino: 6, anamnese: 7 };

/** A last name for each size, of five of the students added to reach it. */
const RARE_NAMES = ['Kretzschmar', 'Wojciechowski', 'Przybylski', 'Schwartzkopf', 'Brzezinski', 'Gwozdz'];

const SCRIPT = readFileSync(join(import.meta.dirname, 'data.sql'), 'utf8');

/** Adds students to the tenant, which it creates at first, and updates statistics; needs a superuser. */
export async function growTo(db: pg.Client, stage: Stage, from: number): Promise<void> {
  const { tenant, students } = stage;
  const settings = { tenant, key: toKey(tenant), name: toRareName(stage), from, to: students };
  for (const [name, value] of Object.entries(settings)) {
    await db.query('select set_config($1, $2, false)', [`growth.${name}`, String(value)]);
  }
  await db.query(SCRIPT);
  await db.query('vacuum analyze');
}

/** The last name of five of the students added last. */
export function toRareName({ step }: Stage): string {
  return RARE_NAMES[step] ?? '';
}

/** The id that data.sql gives to a row. */
export function toId(kind: keyof typeof KINDS, tenant: number, row: number): string {
  const digits = (number: number, length: number) => number.toString(16).padStart(length, '0');
  return `${digits(KINDS[kind], 8)}-0000-4000-8000-${digits(tenant, 5)}${digits(row, 7)}`;
}
