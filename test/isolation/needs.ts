import { type Db, rows } from '../helpers/database.ts';
import { column } from './check.ts';

type Table = { readonly name: string; readonly columns: readonly string[] };

/** The privileges that the functions need, as their own text has it: what they query, and the columns that they write. */
export async function readNeeds(db: Db): Promise<string[]> {
  const tables = await rows<Table>(
    db,
    `select c.relname as name, array_agg(a.attname::text order by a.attname) as columns
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where c.relnamespace = 'private'::regnamespace and c.relkind in ('r', 'p') group by c.relname`,
  );
  const bodies = await column(
    db,
    `select p.prosrc from pg_proc p
      where p.proowner = 'gateway_functions'::regrole
         or p.pronamespace = 'private'::regnamespace and not p.prosecdef
            and has_function_privilege('gateway_functions', p.oid, 'execute')`,
  );
  const text = bodies.join('\n');
  return tables.flatMap((table) => readTable(table, text));
}

function readTable({ name, columns }: Table, text: string): string[] {
  const on = `gateway_functions: %s on ${name}`;
  const say = (privilege: string, of?: readonly string[]) =>
    on.replace('%s', privilege) + (of ? ` (${of.join(', ')})` : '');
  const only = (names: ReadonlySet<string>) => columns.filter((column) => names.has(column));
  const inserted = find(text, new RegExp(`insert into private\\.${name}\\b[^(]*\\(([^)]*)\\)`, 'g'), /[^\s,]+/g);
  // Up to the next clause; an insert may update on conflict.
  const updates = `(?:update private\\.${name}\\b|insert into private\\.${name}\\b[^;]*do update)[^;]*?\\bset\\b`;
  const set = find(
    text,
    new RegExp(`${updates}([^;]*?)(?=\\bwhere\\b|\\breturning\\b|;)`, 'g'),
    /\w+(?=\s*=)|\([\w\s,]+\)(?=\s*=)/g,
  );
  const updated = new Set([...set].flatMap((names) => names.match(/\w+/g) ?? []));
  return [
    ...(new RegExp(`\\b(from|join|update|into)\\s+private\\.${name}\\b`).test(text) ? [say('select')] : []),
    ...(inserted.size > 0 ? [say('insert', only(inserted))] : []),
    ...(updated.size > 0 ? [say('update', only(updated))] : []),
    ...(new RegExp(`delete from private\\.${name}\\b`).test(text) ? [say('delete')] : []),
  ];
}

/** The names in the first group of every match. */
function find(text: string, pattern: RegExp, name: RegExp): ReadonlySet<string> {
  return new Set([...text.matchAll(pattern)].flatMap(([, part = '']) => part.match(name) ?? []));
}
