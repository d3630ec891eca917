// What becomes of the lines of a file whose records exist, in the store or in the file.

import { hash } from 'node:crypto';
import type { Database } from '../store/migrations.ts';
import { queryRows } from './database.ts';
import { CommandError } from './errors.ts';
import type { Header, Line, OfTenant, Table, Writer } from './tables.ts';

/** What becomes of a line whose record exists; without any of them it is bad. */
export type ExistingOptions = {
  readonly skipExisting?: boolean;
  readonly update?: boolean;
  readonly allowDuplicates?: boolean;
};

export type Settler = {
  /** Decides what becomes of lines, in order. */
  settle(lines: readonly Line[]): Promise<void>;
  /** How many lines are bad only because their records exist. */
  refused(): number;
};

/** A line, and what it is compared by: its id, the e-mail or name that people know it by, or else all columns. */
type Candidate = { readonly line: Line; readonly label: string | undefined; readonly key: string };

/** Throws CommandError if the file names no record to update. */
export async function createSettler(
  db: Database,
  table: Table,
  headers: readonly Header[],
  writer: Writer,
  { tenant, update = false, skipExisting = false, allowDuplicates = false }: ExistingOptions & OfTenant,
): Promise<Settler> {
  const names = headers.flatMap(({ column }) => column?.name ?? []);
  const all = ['id', ...(table.knownBy ? [table.knownBy] : [])];
  const labels = all.filter((name) => names.includes(name));
  if (update && labels.length === 0) throw new CommandError({ error: `--update expects a column ${all.join(' or ')}` });
  const required = table.columns.filter((column) => column.required);
  const isEmpty = !(await hasRows(db, table, tenant));
  /** The first line with a key, and the records that were there before the import. */
  const found = new Map<string, { readonly first: number; readonly ids: string[] }>();
  let refused = 0;

  function toCandidates(line: Line): Candidate[] {
    const { fields, bad } = line;
    const label = labels.find((name) => fields?.[name]);
    if (!fields || (!label && bad.length > 0)) return [];
    const texts = (label ? [label] : names).map((name) => fields[name]?.toLowerCase());
    return [{ line, label, key: hash('sha1', JSON.stringify([label, ...texts]), 'base64') }];
  }

  async function find(candidates: readonly Candidate[]): Promise<void> {
    const unknown = candidates.filter(
      ({ key, line }) => !found.has(key) && found.set(key, { first: line.line, ids: [] }),
    );
    if (isEmpty) return;
    for (const [label, own] of Map.groupBy(unknown, (candidate) => candidate.label)) {
      const keys = new Map(own.map(({ line, key }) => [line.line, key]));
      const texts = own.map(({ line: { line, fields } }) => ({ line, fields }));
      const sql = 'select * from private.find_rows($1, $2::text::regclass, $3::text[], $4)';
      const values = [tenant, `private.${table.name}`, label ? [label] : names, JSON.stringify(texts)];
      for (const { line, id } of await queryRows<{ line: number; id: string }>(db, sql, values)) {
        found.get(keys.get(line) ?? '')?.ids.push(id);
      }
    }
  }

  function decide({ line, label, key }: Candidate): void {
    const { first = line.line, ids: [id, another] = [] } = found.get(key) ?? {};
    const refuse = (message: string) => writer.refuse(line, label ?? null, message);
    if (id !== undefined && skipExisting) {
      line.isSkipped = true;
    } else if (id !== undefined && !update) {
      if (line.bad.length === 0) refused += 1;
      refuse(`is ${label ? 'that of' : 'the same as'} one of the tenant's ${table.name}`);
    } else if (another !== undefined) {
      refuse(`is the ${label} of several ${table.name}: give the id`);
    } else if (first !== line.line) {
      refuse(label ? `is also that of line ${first}` : `is the same as line ${first}`);
    } else if (id !== undefined) {
      line.id = id;
    } else if (update && label === 'id') {
      refuse(`none of the tenant's ${table.name} has this id`);
    }
  }

  return {
    refused: () => refused,
    settle: async (lines) => {
      const candidates = allowDuplicates ? [] : lines.flatMap(toCandidates);
      await find(candidates);
      for (const candidate of candidates) decide(candidate);
      if (!update) return;
      // A line that creates a record needs what one that changes it does not.
      for (const line of lines.filter(({ id, bad }) => id === undefined && bad.length === 0)) {
        const missing = required.filter(({ name }) => line.fields?.[name] === undefined);
        for (const { name } of missing) writer.refuse(line, name, 'is required');
      }
    },
  };
}

async function hasRows(db: Database, { name, columns }: Table, tenant: string): Promise<boolean> {
  if (!columns.some((column) => column.name === 'id')) return false;
  return (await queryRows(db, `select from private.${name} where tenant_id = $1 limit 1`, [tenant])).length > 0;
}
