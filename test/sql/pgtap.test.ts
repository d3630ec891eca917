import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { runScript } from '../../src/store/migrations.ts';
import { canTestOnDebian, startDebianPostgres } from '../helpers/debian-postgres.ts';
import { copyDataDir, SEED } from '../helpers/gateway.ts';
import { readScript, runTap, scripts, startStore, startSupabase } from '../helpers/tap.ts';

const TABLES = 'the owners of functions have what these need of a table, and nobody else has anything';

/** `npm test` does without the last of them. */
const SERVERS = [
  { name: 'Postgres 18 with the roles of a Supabase project', start: startSupabase, mayBeSkipped: /^$/ },
  {
    name: 'Postgres 15 as the owner of a Supabase project, with demo data',
    start: async () => {
      const server = await startDebianPostgres();
      const db = new pg.Client(server.ownerUrl);
      await db.connect();
      await runScript(db, SEED);
      return { db, stop: () => db.end().finally(server.stop) };
    },
    mayBeSkipped: /^until Postgres 15 a role with CREATEROLE may become every role$/,
  },
  {
    name: 'an embedded store, which lacks these roles, with demo data',
    start: () => startStore(copyDataDir(inject('dataDir'))),
    mayBeSkipped: /^this server has no role \w+, which a Supabase project has$/,
  },
];

const servers = inject('isLong') ? SERVERS : SERVERS.slice(0, -1);

describe.skipIf(!canTestOnDebian('pgtap')).each(servers)('on $name', ({ name, start, mayBeSkipped }) => {
  let db: pg.Client;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    ({ db, stop } = await start());
  });

  afterAll(() => stop());

  test.each(scripts)('%s passes, and skips no test but what the server lacks', async (script) => {
    const { failed, skipped } = await runTap(db, readScript(script));
    expect(failed).toEqual([]);
    for (const reason of skipped) expect(reason).toMatch(mayBeSkipped);
  });

  test.runIf(name === SERVERS[0]?.name).each([
    ['grant execute on function public.listar_alunos to public', 'anon executes no function'],
    ['grant execute on function private.verify_key to gateway', 'gateway executes every function in public alone'],
    [
      'revoke execute on function public.listar_alunos from service_role',
      'service_role executes every function in public alone',
    ],
    ['alter function public.listar_alunos owner to current_user', 'gateway_functions owns every function in public'],
    [
      'alter function private.to_uuid security definer',
      'only these functions in private have the rights of an owner, who has few',
    ],
    ['create role other; grant execute on function private.to_uuid to other', 'no other role is granted a function'],
    ['grant select on private.api_keys to gateway_functions', 'the functions reach only tables of tenants'],
    ['create role other; grant select on private.tenants to other', TABLES],
    ['grant usage on schema private to gateway', 'the owners of functions use private, and nobody else'],
    ['grant create on schema public to gateway_functions', 'role gateway_functions creates nothing in schema public'],
    ['alter role gateway_functions bypassrls', 'no role of the gateway logs in, inherits, or is above a rule'],
    ['alter table private.alunos owner to gateway_functions', 'no role of the gateway owns a table'],
    ['grant gateway_keys to gateway_functions', 'no role of the gateway is a member of another'],
    ['grant gateway_keys to anon', 'nobody but the owner of private becomes a role that owns functions'],
    [
      'alter role authenticator inherit; revoke gateway from authenticator; grant gateway to authenticator',
      'authenticator becomes gateway and is not it by itself',
    ],
    ['revoke connect on database postgres from public', 'everybody may connect in a Supabase project alone'],
    [
      'alter default privileges grant execute on functions to public',
      'role anon executes no function that is created later',
    ],
  ])('privileges.sql reports: %s', async (sql, description) => {
    const { failed } = await runTap(db, readScript('privileges.sql', sql));
    expect(failed.map((text) => text.split('\n')[0])).toContain(description);
  });
});

describe('error-codes.md', () => {
  const SQLSTATES: Readonly<Record<string, string>> = {
    insufficient_privilege: '42501',
    invalid_function_definition: '42P13',
    invalid_parameter_value: '22023',
    no_data_found: 'P0002',
    object_not_in_prerequisite_state: '55000',
    undefined_function: '42883',
  };
  const table = readFileSync('supabase/error-codes.md', 'utf8');
  // That of private.distribution_steps needs Citus: test/citus/schema.test.ts provokes it.
  const rows = table.matchAll(/^\| `(\w+)` \| `([^`]+)` \| (?!`private\.distribution_steps`)/gm);
  const errors = [...rows].map(([, code = '', text = '']) => [code, text]);
  const sql = scripts.map((name) => readScript(name).sql).join('\n');
  const provoked = [...sql.matchAll(/ '(\w{5}|p_\w+)', (?:format\()?'([^']+)'/g)].map(
    ([, code, text]) => `${code} ${text}`,
  );

  test.each(errors)('%s %s is provoked by a script', (code = '', text = '') => {
    const message = text.replace(/[().]/g, '\\$&').replaceAll(/%[sL]/g, '.+');
    expect(provoked).toContainEqual(expect.stringMatching(`^${SQLSTATES[code] ?? code} ${message}$`));
  });
});
