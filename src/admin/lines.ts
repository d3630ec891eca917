// Writes texts to the rows of a table: the lines of a file, or the settings of one record.

import { hash } from 'node:crypto';
import { messages } from '../api/messages.ts';
import type { Message } from '../errors.ts';
import type { Database } from '../store/migrations.ts';
import { checkValue, type Header, inZone, isExported, toValue } from './columns.ts';
import { queryRows } from './database.ts';
import { t, translate } from './language.ts';
import { findIds, idAnd, type OfTenant, requireId, type Table, toIdentifier } from './tables.ts';
import { type BadLine, CommandError } from './terminal.ts';

/** A line: its texts, its valid fields (null clears a column), and its problems. */
export type Line = {
  readonly line: number;
  readonly texts: readonly string[];
  readonly fields: Record<string, string | null>;
  readonly bad: BadLine[];
  /** The record to change. */
  id?: string;
  /** Whether its record exists and must not be changed. */
  exists?: boolean;
  /** Why the line is not written. */
  leftOut?: 'skipped' | 'unchanged';
  /** Whether its e-mail or name belongs to another record. */
  isTaken?: boolean;
};

export type WriterOptions = OfTenant & {
  /** The zone of times that name none. */
  readonly timeZone: string;
  /** Whether an empty text clears its column. */
  readonly clears?: boolean;
  /** How to treat a line whose record exists; by default it is bad. */
  readonly skipExisting?: boolean;
  readonly update?: boolean;
  readonly allowDuplicates?: boolean;
};

export type Writer = {
  /** Parses and validates the texts of a line, which are in the order of the headers. */
  read(line: number, texts: readonly string[]): Line;
  /** Writes the good lines in order, and adds problems to the bad ones. Needs a transaction. */
  write(lines: readonly Line[], onWritten?: (lines: number) => void): Promise<void>;
};

/** One way to identify the record of a line: by the column `label` (id, e-mail or name), or else by all columns. */
type Candidate = {
  readonly line: Line;
  readonly label: string | undefined;
  readonly key: string;
  /** Whether the id or the command already identifies the record: this candidate then only finds conflicts. */
  readonly isSecondary: boolean;
};

/** Lines per SQL call. */
const BATCH = 5_000;

/** Creates the writer of lines with these columns. Throws CommandError for an update without a column that identifies records. */
export function createWriter(
  db: Database,
  { name: table, columns, knownBy }: Table,
  headers: readonly Header[],
  { tenant, timeZone, clears, update, skipExisting, allowDuplicates }: WriterOptions,
): Writer {
  const names = headers.flatMap(({ column }) => column?.name ?? []);
  const labels = ['id', ...(knownBy ? [knownBy] : [])].filter((name) => names.includes(name));
  if (update && labels.length === 0) throw new CommandError(t`--update expects a column ${idAnd(knownBy)}`);

  function addProblem({ line, texts, bad }: Line, name: string | null, message: Message): void {
    const index = headers.findIndex(({ column }) => column && column.name === name);
    const field = headers[index]?.title ?? name;
    bad.push({ line, field, value: texts[index]?.trim() || null, message: translate(message) });
  }

  function read(number: number, texts: readonly string[]): Line {
    const line: Line = { line: number, texts, fields: {}, bad: [] };
    const exact = isExported(texts, headers);
    for (const [index, { column }] of headers.entries()) {
      if (!column) continue;
      const { name, type, required, takes_null: takesNull } = column;
      const value = toValue(texts[index] ?? '', column, exact);
      // A file for --update was edited in a spreadsheet, so its exported values are checked too.
      const problem = value === '' ? undefined : checkValue(value, column, exact && !update);
      if (problem !== undefined) addProblem(line, name, problem);
      else if (value !== '') line.fields[name] = inZone(value, column, timeZone);
      else if (update) continue;
      else if (required && exact && type === 'text') line.fields[name] = '';
      else if (required || (clears && !takesNull)) addProblem(line, name, messages.isRequired);
      else if (clears) line.fields[name] = null;
    }
    return line;
  }

  /** Replaces references (ids, e-mails or names of other records) by ids. */
  async function resolve(lines: readonly Line[]): Promise<void> {
    // A line may refer to a record that another line creates.
    const ownIds = new Set(lines.map(({ fields }) => fields.id?.toLowerCase()));
    for (const { column } of headers) {
      if (!column?.refers_to) continue;
      const { name, refers_to: referred, known_by: label } = column;
      const message = t`none of the tenant's ${referred} has this ${idAnd(label)}`;
      const texts = new Set(lines.flatMap(({ fields }) => fields[name] ?? []));
      const ids = await findIds(db, tenant, [referred, label], [...texts]);
      for (const line of lines) {
        const text = line.fields[name] ?? '';
        const [id, another] = ids.get(text) ?? [];
        const isOwn = referred === table && ownIds.has(text.toLowerCase());
        if (another !== undefined) addProblem(line, name, t`is the ${label} of several ${referred}: give the id`);
        else if (id !== undefined) line.fields[name] = id;
        else if (text && !isOwn) addProblem(line, name, message);
      }
    }
  }

  function toCandidates(line: Line): Candidate[] {
    if (allowDuplicates) return [];
    const own = labels.filter((name) => line.fields[name]);
    const others = names.filter((name) => name !== 'id');
    return [...new Set([own[0], own.find((name) => name !== 'id')])].flatMap((label, index) => {
      if (!label && (line.bad.length > 0 || line.id !== undefined)) return [];
      const texts = (label ? [label] : others).map((name) => line.fields[name]?.toLowerCase());
      const isSecondary = index > 0 || line.id !== undefined;
      return { line, label, key: hash('sha1', JSON.stringify([label, ...texts]), 'base64'), isSecondary };
    });
  }

  /** The ids of the existing records of candidates, by key. */
  async function find(candidates: readonly Candidate[]): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>(candidates.map(({ key }) => [key, []]));
    const sample = `select from ${toIdentifier(table)} where tenant_id = $1 limit 1`;
    if (candidates.length === 0 || (await queryRows(db, sample, [tenant])).length === 0) return found;
    requireId({ name: table, columns }, 'With --allow-duplicates no record is looked for.');
    // One candidate for each key.
    const different = new Map(candidates.map((candidate) => [candidate.key, candidate])).values();
    for (const [label, own] of Map.groupBy(different, (candidate) => candidate.label)) {
      const keys = new Map(own.map(({ line, key }) => [line.line, key]));
      // Each call reads the whole table. Ids, e-mails and names are short, so one call takes them all.
      for (const batch of label ? [own] : inBatches(own)) {
        const texts = batch.map(({ line: { line, fields } }) => ({
          line,
          fields: label ? { [label]: fields[label] } : fields,
        }));
        const sql = 'select * from private.find_rows($1, $2::text::regclass, $3::text[], $4)';
        const values = [tenant, toIdentifier(table), label ? [label] : names, JSON.stringify(texts)];
        for (const { line, id } of await queryRows<{ line: number; id: string }>(db, sql, values)) {
          found.get(keys.get(line) ?? '')?.push(id);
        }
      }
    }
    return found;
  }

  /** Decides what happens to the line of a candidate. `seen` has the first line of each record, however the lines identify it. */
  function decide(candidate: Candidate, [id, another]: readonly string[], seen: Map<string, Line>): void {
    const { line, label, key, isSecondary } = candidate;
    const add = (message: string) => addProblem(line, label ?? null, message);
    const first = seen.get(id ?? key) ?? line;
    seen.set(id ?? key, first);
    if (id !== undefined && skipExisting) {
      line.leftOut = 'skipped';
    } else if (id !== undefined && !update) {
      line.exists = true;
      add(label ? t`is that of one of the tenant's ${table}` : t`is the same as one of the tenant's ${table}`);
    } else if (another !== undefined) {
      add(t`is the ${label} of several ${table}: give the id`);
    } else if (first !== line && !(isSecondary && first.fields.id)) {
      add(label ? t`is also that of line ${first.line}` : t`is the same as line ${first.line}`);
    } else if (id !== undefined) {
      line.id = id;
    } else if (update && label === 'id') {
      add(t`none of the tenant's ${table} has this ${label}`);
    }
  }

  /** Refuses changes by which two records would begin to share an e-mail or name. `owners` has the ids of those that have it now. */
  function refuseTaken(lines: readonly Line[], owners: ReadonlyMap<Line, readonly string[]>): void {
    if (!knownBy || lines.every(({ id }) => id === undefined)) return;
    const ownersOf = (line: Line) => owners.get(line) ?? [];
    const giving = lines.filter((line) => line.bad.length === 0 && owners.has(line));
    const changing = giving.filter((line) => line.id === undefined || !ownersOf(line).includes(line.id));
    /** The ids of the records that give up their e-mail or name. */
    const leaving = new Set(changing.map(({ id }) => id));
    /** By e-mail or name: the first line that gives it to a record. */
    const given = new Map<string, number>();
    for (const line of changing) {
      const ids = ownersOf(line).filter((id) => !leaving.has(id));
      const key = line.fields[knownBy]?.toLowerCase() ?? '';
      const first = given.get(key) ?? line.line;
      given.set(key, first);
      line.isTaken = ids.length > 0;
      if (line.isTaken) addProblem(line, knownBy, t`is that of one of the tenant's ${table}`);
      else if (first !== line.line) addProblem(line, knownBy, t`is also that of line ${first}`);
    }
  }

  /** Adds a problem for each missing required column of a line that creates a record. */
  function requireAll(line: Line): void {
    const missing = columns.filter(({ name, required }) => required && line.fields[name] === undefined);
    // A file without a required column can only correct records.
    const createsNone = missing.some(({ name }) => !names.includes(name));
    if (createsNone && knownBy && line.fields[knownBy]) {
      addProblem(line, knownBy, t`none of the tenant's ${table} has this ${knownBy}`);
    } else for (const { name } of missing) addProblem(line, name, messages.isRequired);
  }

  async function send(lines: readonly Line[]): Promise<void> {
    const byLine = new Map(lines.map((line) => [line.line, line]));
    const toValues = (sent: readonly Line[]) => {
      return [tenant, toIdentifier(table), JSON.stringify(sent.map(({ line, fields, id }) => ({ line, fields, id })))];
    };
    for (const [isChange, all] of Map.groupBy(lines, ({ id }) => id !== undefined)) {
      // Writing an unchanged record would make clients read it again.
      const find = 'select * from private.find_unchanged($1, $2::text::regclass, $3)';
      const same = isChange ? await queryRows<{ line: number }>(db, find, toValues(all)) : [];
      for (const { line } of same) (byLine.get(line) as Line).leftOut = 'unchanged';
      const sent = all.filter(({ leftOut }) => !leftOut);
      const sql = 'select * from private.import_rows($1, $2::text::regclass, $3, $4)';
      const bad = await queryRows<BadLine>(db, sql, [...toValues(sent), isChange]);
      for (const { line, field, message } of bad) addProblem(byLine.get(line) as Line, field, message);
    }
  }

  return {
    read,
    write: async (lines, onWritten) => {
      // Waits for other imports into the table: an import that does not see their records would create them again.
      const lock = `select pg_advisory_xact_lock(hashtextextended('private.import ' || $1::text || ' ' || $2::text, 0))`;
      await db.query(lock, [tenant, table]);
      // For dates and times inside an array or a range.
      await db.query(`select set_config('timezone', $1, true), set_config('datestyle', 'ISO, DMY', true)`, [timeZone]);
      await resolve(lines);
      const candidates = lines.flatMap(toCandidates);
      const found = await find(candidates);
      const idsOf = ({ key }: Candidate) => found.get(key) ?? [];
      const seen = new Map<string, Line>();
      for (const candidate of candidates) decide(candidate, candidate.isSecondary ? [] : idsOf(candidate), seen);
      const named = candidates.filter(({ label }) => label !== undefined && label === knownBy);
      refuseTaken(lines, new Map(named.map((candidate) => [candidate.line, idsOf(candidate)])));
      if (update) lines.filter(({ id, bad }) => id === undefined && bad.length === 0).forEach(requireAll);
      for (const batch of inBatches(lines)) {
        await send(batch.filter(({ bad, leftOut }) => bad.length === 0 && !leftOut));
        onWritten?.(batch.length);
      }
    },
  };
}

function* inBatches<T>(items: readonly T[]): Generator<T[]> {
  for (let at = 0; at < items.length; at += BATCH) yield items.slice(at, at + BATCH);
}
