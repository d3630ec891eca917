// Deletes a tenant or a student after a confirmation, and shows all data about one student.

import { createInterface } from 'node:readline/promises';
import { InvalidArgumentError } from 'commander';
import type { Database } from '../store/migrations.ts';
import { queryRows } from './database.ts';
import { CommandError } from './errors.ts';
import { type Output, showControls } from './output.ts';
import { findRecord, nameOf } from './records.ts';
import { type OfTenant, openTable } from './tables.ts';

/** Whether a command that destroys asks first. */
export type Confirmed = { readonly yes?: boolean };
/** What has an id, and the name to type. */
type Named = { readonly id: string; readonly name: string };
type Deleted = { readonly name: string; readonly deleted: number };

/** Deletes a tenant with everything that it has. */
export async function deleteTenant(db: Database, id: string, { yes }: Confirmed): Promise<Output> {
  await db.query('select private.require_tenant($1)', [id]);
  const [tenant] = (await queryRows(db, 'select id, name from private.tenants where id = $1', [id])) as [Named];
  await confirm(`Deletes the tenant ${tenant.name}, its keys and all its data.`, tenant.name, yes);
  return toOutput(`Tenant ${id} was deleted`, await queryRows(db, 'select * from private.delete_tenant($1)', [id]));
}

/** Everything that the store has of a student, as JSON. */
export async function showStudent(db: Database, name: string, { tenant }: OfTenant): Promise<Output> {
  const { id } = await findStudent(db, tenant, name);
  const [{ data }] = (await queryRows(db, 'select private.student_data($1, $2) as data', [tenant, id])) as [
    { data: unknown },
  ];
  return { json: data, text: JSON.stringify(data, null, 2) };
}

/** Deletes everything that the store has of a student. */
export async function eraseStudent(db: Database, name: string, { tenant, yes }: OfTenant & Confirmed): Promise<Output> {
  const student = await findStudent(db, tenant, name);
  await confirm(`Erases the student ${student.name} and everything that refers to it.`, student.name, yes);
  const sql = 'select * from private.erase_student($1, $2)';
  return toOutput(`Student ${student.id} was erased`, await queryRows(db, sql, [tenant, student.id]));
}

async function findStudent(db: Database, tenant: string, name: string): Promise<Named> {
  const table = await openTable(db, tenant, 'alunos');
  const row = await findRecord(db, table, tenant, name);
  return { id: String(row.id), name: nameOf(table, row) };
}

/** Throws unless the name is typed on the terminal, or `isSure`. */
export async function confirm(warning: string, name: string, isSure = false): Promise<void> {
  if (isSure) return;
  if (!process.stdin.isTTY) throw new InvalidArgumentError('Expected --yes, because there is no terminal to ask on.');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const question = showControls(`${warning} This cannot be undone.`);
    const typed = await terminal.question(`${question}\nType its name to go on: `);
    if (showControls(typed).trim() !== showControls(name).trim())
      throw new CommandError({ error: 'That is another name: nothing was changed.' });
  } finally {
    terminal.close();
  }
}

function toOutput(what: string, tables: readonly Deleted[]): Output {
  const counts = tables.map(({ name, deleted }) => [name.replace('private.', ''), deleted] as const);
  const lines = counts.filter(([, deleted]) => deleted > 0).map(([name, deleted]) => `${name} ${deleted}`);
  return { json: { deleted: Object.fromEntries(counts) }, text: `${what}: ${lines.join(', ')}.` };
}
