// The memory of a gateway while a client with a key stores the largest rows that it can, and is late to read their list.

import pg from 'pg';
import { type Case, findCase, toApiRequest } from './cases.ts';
import { type Size, toKey } from './data.ts';
import { toId } from './growth/data.ts';
import { type Burst, type Measuring, watch } from './memory.ts';
import type { Peer } from './peer.ts';
import { readLate } from './slow-readers.ts';

/** What is sent to each gateway. */
export type AttackPlan = {
  readonly size: Size;
  /** How many rows are stored, a multiple of ten. */
  readonly rows: number;
  /** How many letters an e-mail has that is too long. */
  readonly letters: number;
  /** How long a silent client reads nothing, in milliseconds. */
  readonly silentMs: number;
  readonly quietMs: number;
};

/** What one load did to the memory, and how many answers had which status; `none` are requests without one. */
export type Attack = Burst & { readonly statuses: Readonly<Record<string, number>> };

/** For the plan: such an e-mail is almost as long as a body may be. */
export const ATTACK = { rows: 1_000, letters: 99_000, silentMs: 10_000 };

/** With the default deadline a slow machine would give 502s where a faster one has the lists in memory. */
export const PATIENT = { DEADLINE_MS: '60000' };

/** How many tenants the attacks have for themselves, the last ones: no other load lists their rows. */
export const ATTACKED_TENANTS = 3;

/** How many students are created at once. */
const CREATING = 10;
const AT_ONCE = 6;
const PIPELINED = 32;
const SILENT = 200;

/** Letters of two bytes each, over the wire as in V8's memory. */
const LONGEST_NAME = 'ł'.repeat(255);
/** 64 letters before the @, and 254 in all (RFC 5321, 4.5.3.1). */
const LONGEST_EMAIL = `${'a'.repeat(64)}@${`${'b'.repeat(59)}.`.repeat(3)}b.example`;
const DOMAIN = '@bench.example';

/**
 * Measures one gateway, to whose database the URL gives access as a superuser: some rows are stored as by an earlier
 * version. Throws where the longest values that are allowed cannot be stored; any other answer is measured.
 */
export async function measureAttacks(
  peer: Peer,
  { size, rows, letters, silentMs, quietMs }: AttackPlan,
  { database, ...measuring }: Pick<Measuring, 'signal' | 'tell'> & { readonly database: string },
): Promise<Attack[]> {
  const [sending, storing, largest] = [size.tenants - 2, size.tenants - 1, size.tenants];
  // Behind the students whom each tenant has.
  const list: Case = { ...findCase('rows1000'), query: { limit: '1000', offset: `${size.students}` } };
  const send = (case_: Case, tenant: number, connections: number, depth: number, silence = 0) =>
    readLate(peer.origin ?? '', toApiRequest(case_, toKey(tenant)), {
      ...{ connections, depth, silentMs: silence, signal: measuring.signal },
    });
  const create = async (tenant: number, p_nome: string, p_email: string) => {
    const case_ = { ...findCase('create'), body: { p_nome, p_email, p_academia_id: toId('academia', tenant, 0) } };
    const statuses: string[] = [];
    while (statuses.length < rows) statuses.push(...(await send(case_, tenant, CREATING, 1)));
    return statuses;
  };

  const attacks: Attack[] = [];
  const attack = async (title: string, run: () => Promise<string[]>) => {
    const { result, ...burst } = await watch(peer, title, run, quietMs, measuring);
    attacks.push({ ...burst, statuses: count(result) });
  };
  const attackByLists = async (title: string, tenant: number) => {
    await attack(`${title}, ${AT_ONCE} at once`, () => send(list, tenant, AT_ONCE, 1));
    await attack(`${title}, ${PIPELINED} on a silent connection`, () => send(list, tenant, 1, PIPELINED, silentMs));
  };

  const email = 'a'.repeat(letters - DOMAIN.length) + DOMAIN;
  await attack('long e-mails sent', () => create(sending, 'Ana', email));
  await attackByLists('lists of them', sending);
  await storeEarlier(database, toKey(storing), email, rows);
  await attackByLists('lists of long e-mails stored earlier', storing);
  const refused = (await create(largest, LONGEST_NAME, LONGEST_EMAIL)).find((status) => status !== '201');
  if (refused) throw new Error(`${peer.title}: expected status 201 for the longest values, got ${refused}`);
  await attack(`largest lists, ${SILENT} silent connections`, () => send(list, largest, SILENT, 1, silentMs));
  return attacks;
}

function count(statuses: readonly string[]): Attack['statuses'] {
  const groups = Map.groupBy(statuses, (status) => status);
  return Object.fromEntries([...groups].map(([status, all]) => [status, all.length]));
}

/** Stores students as if from a time before the e-mail was checked. Such a check is not valid then for all rows. */
async function storeEarlier(url: string, key: string, email: string, rows: number): Promise<void> {
  const db = new pg.Client(url);
  // It is lost where a signal ends the run.
  db.on('error', () => {});
  await db.connect();
  try {
    await db.query('begin');
    const { rows: checks } = await db.query<{ name: string; definition: string }>(CHECKS);
    for (const { name } of checks) await db.query(`alter table private.alunos drop constraint if exists ${name}`);
    await db.query(INSERT, [key, email, rows]);
    for (const { name, definition } of checks) {
      await db.query(`alter table private.alunos add constraint ${name} ${definition} not valid`);
    }
    await db.query('commit');
  } finally {
    await db.end();
  }
}

const CHECKS = `
  select quote_ident(c.conname) as name, regexp_replace(pg_get_constraintdef(c.oid), ' NOT VALID$', '') as definition
    from pg_constraint c
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = any(c.conkey)
   where c.conrelid = 'private.alunos'::regclass
     and c.contype = 'c'
     and a.attname = 'email'`;

const INSERT = `
  insert into private.alunos (tenant_id, nome, email)
  select k.tenant_id, 'Ana', $2
    from private.api_keys k, generate_series(1, $3)
   where k.key_hash = sha256(convert_to($1, 'UTF8'))`;
