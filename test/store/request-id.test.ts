// The database has the id of a request as long as it works for it, and not longer.

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { whileFunctionHeld, withBody } from '../helpers/function-body.ts';
import {
  hasPostgrest,
  loginUrl,
  POSTGREST_KEY,
  type PostgresServer,
  type PostgrestServer,
  runSql,
  startLoggingPostgres,
  startPostgrest,
} from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

/** The prefix of each line in the log of this Postgres: the name of the application in brackets. */
const LOG_PREFIX = '[%a] ';
const LIST = { ...listCall(), function: 'listar_academias' };
const NAME = `current_setting('application_name')`;
const HEADER = `'wellness-gateway ' || (current_setting('request.headers', true)::json->>'x-request-id')`;
/** The login of each store, and the SQL that reads the id. */
const KINDS = [
  ['postgres', 'gateway_test', NAME],
  ...(hasPostgrest ? [['supabase', '', HEADER] as const] : []),
] as const;

let postgresLog = '';
let server: PostgresServer;
let postgrest: PostgrestServer | undefined;
const stores = new Map<string, Store>();

const admin = (sql: string, values?: unknown[]) => runSql(server.adminUrl, sql, values);

beforeAll(async () => {
  const write = (text: string) => {
    postgresLog += text;
  };
  server = await startLoggingPostgres(write, { log_line_prefix: LOG_PREFIX });
  // A statement that is logged when it begins is not logged again with its duration.
  await admin(`alter database ${new URL(server.adminUrl).pathname.slice(1)} set log_statement = 'none'`);
  postgrest = hasPostgrest ? await startPostgrest(server) : undefined;
  const common = { connections: 4, deadlineMs: 20_000 };
  for (const [kind, login] of KINDS) {
    if (login === '') {
      stores.set(kind, openSupabase({ ...common, url: postgrest?.url ?? '', key: POSTGREST_KEY, restPath: '/' }));
    } else {
      const url = loginUrl(server.adminUrl, login);
      stores.set(kind, openPostgres({ ...common, url }));
    }
    // On a busy machine the first connection may come late.
    await waitFor(async () => expect(await ask(kind, 'first')).toMatch(/^\[\{/));
  }
});

afterAll(async () => {
  for (const store of stores.values()) await store.close();
  await postgrest?.stop();
  await server.stop();
});

/** The rows, the text of a refusal, or the kind of another failure. */
async function ask(
  kind: string,
  requestId: string,
  call = LIST,
  signal = AbortSignal.timeout(20_000),
): Promise<string | undefined> {
  const result = await stores.get(kind)?.call(call, signal, { requestId });
  if (!result || !('failure' in result)) return result?.json;
  return result.failure.kind === 'refusedKey' ? result.failure.text : result.failure.kind;
}

/** During the work each call fails with the id, as this SQL reads it. */
const telling = (sql: string, work: () => Promise<void>, name = 'listar_academias') =>
  withBody(server.adminUrl, name, `perform pg_sleep(random() / 50); raise exception '%', ${sql}`, work);

describe.each(KINDS.filter(([, login]) => login !== ''))('on %s', (kind, login) => {
  /** The names of the store's connections in the database. */
  const names = async () => {
    const sql = 'select distinct application_name as name from pg_stat_activity where usename = $1 order by 1';
    return (await admin(sql, [login])).map(({ name }) => name);
  };
  const idle = async () => expect(await names()).toEqual(['wellness-gateway']);
  const isNamed = (id: string) => waitFor(async () => expect(await names()).toContain(`wellness-gateway ${id}`));

  test('the database shows the id while the function runs and in its log, and not longer', async () => {
    const id = `slow-${login}`;
    await whileFunctionHeld(server.adminUrl, 'listar_academias', async (letGo) => {
      const answer = ask(kind, id);
      await isNamed(id);
      await letGo();
      expect(await answer).toBe('[]');
    });
    await idle();
    await waitFor(() => {
      const lines = postgresLog.split('\n').filter((line) => line.startsWith(`[wellness-gateway ${id}] `));
      expect(lines.some((line) => /LOG: .*duration: [\d.]+ ms .*listar_academias/.test(line))).toBe(true);
    });
  });

  test('the name is as before after an error and a cancellation, which the database logs with the id', async () => {
    const [error, late] = [`error-${login}`, `late-${login}`];
    await withBody(server.adminUrl, 'listar_academias', 'raise division_by_zero', async () => {
      expect(await ask(kind, error)).toBe('storeError');
    });
    await idle();
    await withBody(server.adminUrl, 'listar_academias', 'perform pg_sleep(30)', async () => {
      const deadline = new AbortController();
      const answer = ask(kind, late, LIST, deadline.signal);
      await isNamed(late);
      deadline.abort();
      expect(await answer).toBe('storeTimeout');
    });
    await waitFor(idle);
    for (const id of [error, late])
      await waitFor(() => expect(postgresLog).toContain(`[wellness-gateway ${id}] ERROR:`));
  });

  test('a function that makes one row sees the id too, and the first characters of a long one', async () => {
    await telling(
      NAME,
      async () => expect(await ask(kind, 'one', createCall())).toBe('wellness-gateway one'),
      'criar_aluno',
    );
    await telling(NAME, async () => expect(await ask(kind, 'x'.repeat(128))).toMatch(/^wellness-gateway x{46,128}$/));
    await idle();
  });
});

test.each(KINDS)('a write sees all of a long id on %s', async (kind) => {
  const id = 'a'.repeat(128);
  // private.request_id reads it like this.
  const sql = `coalesce(current_setting('wellness.request_id', true), current_setting('request.headers', true)::json->>'x-request-id')`;
  await telling(sql, async () => {
    expect(await ask(kind, id, { ...LIST, readOnly: false })).toBe(id);
  });
});

test.each(KINDS)('the ids of 50 requests at a time do not mix on %s', async (kind, _login, sql) => {
  await telling(sql, async () => {
    const ids = Array.from({ length: 50 }, () => randomUUID());
    const answers = await Promise.all(ids.map((id) => ask(kind, id)));
    expect(answers).toEqual(ids.map((id) => `wellness-gateway ${id}`));
  });
});
