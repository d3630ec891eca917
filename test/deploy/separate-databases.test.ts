import type pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { applyMigrations, type Notice, readMigrations, runScript } from '../../src/store/migrations.ts';
import { useOpened } from '../helpers/database.ts';
import { canTestOnDebian, startBareDebianPostgres } from '../helpers/debian-postgres.ts';
import { MIGRATIONS, SEED } from '../helpers/gateway.ts';
import {
  asAdmin,
  databaseUrl,
  loginUrl,
  PASSWORD,
  type PostgresServer,
  runSql,
  startEmbeddedPostgres,
} from '../helpers/servers.ts';

// Two databases on one server, each with an administrator of its own who is no superuser. The roles that own the
// functions are shared, so each administrator can become them: only CONNECT keeps it from the other's rows.

const FILES = readMigrations(MIGRATIONS);
const REFUSED = { code: '42501', message: expect.stringMatching(/^permission denied for database/) };

const SERVERS = [
  { name: 'Postgres 18', canRun: true, start: startEmbeddedPostgres },
  { name: 'Postgres 15', canRun: canTestOnDebian('pgtap'), start: startBareDebianPostgres },
];

for (const { name, canRun, start } of SERVERS) {
  describe.skipIf(!canRun)(`two databases on a server of ${name}`, () => {
    const server = useOpened<Pick<PostgresServer, 'adminUrl' | 'stop'>>(start, ({ stop }) => stop());

    const asSuperuser = (sql: string, database = 'postgres') => runSql(databaseUrl(server.adminUrl, database), sql);

    const as = <T>(login: string, database: string, work: (db: pg.Client) => Promise<T>) =>
      asAdmin(loginUrl(databaseUrl(server.adminUrl, database), login), work);

    /** Migrates, and follows the hint of a refused migration. */
    async function migrate(
      login: string,
      database: string,
      onNotice: (notice: Notice) => void = () => {},
    ): Promise<void> {
      try {
        await as(login, database, (db) => applyMigrations(db.on('notice', onNotice), FILES));
      } catch (error) {
        const [, hint] = /As that role or as a superuser: (.*)/.exec((error as Error).message) ?? [];
        if (!hint) throw error;
        await asSuperuser(hint);
        await migrate(login, database, onNotice);
      }
    }

    const countKeys = async (db: pg.Client) => {
      await db.query('set role gateway_keys');
      return (await db.query('select count(key_hash)::integer as count from private.api_keys')).rows;
    };
    const listAlunos = async (db: pg.Client) => {
      await db.query('set role gateway');
      return (await db.query(`select * from public.listar_alunos('wms_demo_aurora')`)).rows;
    };

    beforeAll(async () => {
      await asSuperuser(`create role um login createrole createdb password '${PASSWORD}';
        create role dois login createrole createdb password '${PASSWORD}';
        create role backup login password '${PASSWORD}'`);
      for (const owner of ['um', 'dois']) await as(owner, 'postgres', (db) => db.query(`create database ${owner}`));

      // The roles are there before the migration, and an administrator of a third database is a member of an owner.
      await asSuperuser(`create role gateway; create role gateway_keys;
        grant gateway, gateway_keys to um with admin option;
        create role tres login password '${PASSWORD}'; grant gateway_keys to tres;
        create role gateway_um login noinherit password '${PASSWORD}'; grant gateway to gateway_um`);
      await migrate('um', 'um');
      await as('um', 'um', (db) => runScript(db, SEED));

      await as('dois', 'dois', (db) => db.query('revoke connect on database dois from public'));
      await migrate('dois', 'dois');
      await as('dois', 'dois', (db) => runScript(db, SEED));
      await as('dois', 'dois', (db) =>
        db.query(`create role gateway_dois login noinherit password '${PASSWORD}'; grant gateway to gateway_dois;
                  grant connect on database dois to gateway_dois`),
      );
    });

    test.each([
      ['dois', 'um'],
      ['tres', 'um'],
      ['um', 'dois'],
      ['tres', 'dois'],
    ])('%s, who administers another one, cannot connect to %s', async (login, database) => {
      await expect(as(login, database, countKeys)).rejects.toMatchObject(REFUSED);
    });

    test('the administrator of one can read the keys of the other if it may connect', async () => {
      await asSuperuser('grant connect on database um to public');
      expect(await as('dois', 'um', countKeys)).toEqual([{ count: 5 }]);
      await asSuperuser('revoke connect on database um from public');
      await expect(as('dois', 'um', countKeys)).rejects.toMatchObject(REFUSED);
    });

    test('the gateways of both work, also with a login that is older than the migration', async () => {
      expect(await as('gateway_um', 'um', listAlunos)).toHaveLength(100);
      expect(await as('gateway_dois', 'dois', listAlunos)).toHaveLength(100);
      await expect(as('gateway_dois', 'um', listAlunos)).rejects.toMatchObject(REFUSED);
    });

    test('another login that was there before keeps its access, and a later one has none', async () => {
      expect(await as('backup', 'um', async () => true)).toBe(true);
      await asSuperuser(`create role later login password '${PASSWORD}'`);
      await expect(as('later', 'um', async () => true)).rejects.toMatchObject(REFUSED);
    });

    test('a login that could not connect before cannot after it', async () => {
      await expect(as('backup', 'dois', async () => true)).rejects.toMatchObject(REFUSED);
    });

    test('gateway itself has no CONNECT, which the administrators of both would inherit', async () => {
      const privileges = await asSuperuser(`select has_database_privilege('gateway', 'um', 'connect') as connect,
                                                   has_database_privilege('public', 'um', 'temporary') as temporary`);
      expect(privileges).toEqual([{ connect: false, temporary: false }]);
    });

    test('a migrating role that does not own its database is told what a superuser has to run', async () => {
      await asSuperuser(`create role quatro login createrole password '${PASSWORD}'`);
      await asSuperuser('create database quatro');
      await asSuperuser('grant create on database quatro to quatro; alter schema public owner to quatro', 'quatro');
      const warnings: Notice[] = [];
      await migrate('quatro', 'quatro', (notice) => warnings.push(notice));
      const { message, hint = '' } = warnings.at(-1) ?? {};
      expect(message).toBe('administrators of other databases on this server can read this one');
      expect(hint).toMatch(
        /^As a superuser or as postgres: grant connect on database quatro to .*\bquatro\b.*; revoke connect, temporary on database quatro from public$/,
      );
      expect(await as('dois', 'quatro', countKeys)).toEqual([{ count: 0 }]);

      await asSuperuser(hint.replace(/^.*?: /, ''));
      await expect(as('dois', 'quatro', countKeys)).rejects.toMatchObject(REFUSED);
      expect(await as('quatro', 'quatro', countKeys)).toEqual([{ count: 0 }]);
    });
  });
}
