import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { useOpened } from '../helpers/database.ts';
import { asAdmin, enableTls, fillDatabase, loginUrl, runSql, startEmbeddedPostgres } from '../helpers/servers.ts';

// The effects of the parameters of DATABASE_URL on a server with a certificate of its own, which names localhost.

const folder = mkdtempSync(join(tmpdir(), 'tls-'));
const root = join(folder, 'root.crt');
const server = useOpened(startEmbeddedPostgres, ({ stop }) => stop());

beforeAll(async () => {
  await asAdmin(server.adminUrl, async (admin) => {
    await fillDatabase(admin);
    await enableTls(admin);
    const { rows } = await admin.query(`select pg_read_file('server.crt') as text`);
    writeFileSync(root, rows[0].text);
  });
});

const toUrl = (host: string, parameters: string) => {
  const url = new URL(loginUrl(server.adminUrl, 'gateway_test'));
  return `postgres://${url.username}:${url.password}@${host}:${url.port}${url.pathname}?${parameters}`;
};

/** The message of the check of the store. */
async function check(host: string, parameters: string): Promise<string | undefined> {
  const store = openPostgres({ url: toUrl(host, parameters), connections: 1, deadlineMs: 20_000 });
  onTestFinished(() => store.close());
  const fault = await store.check(AbortSignal.timeout(20_000));
  return fault && (fault.cause as Error).message;
}

const UNTRUSTED =
  'self-signed certificate: set sslrootcert to the file of the authority that signed it, or sslmode=no-verify to check no certificate';
const ROOT = `sslrootcert=${encodeURIComponent(root)}`;

test.each([
  ['localhost', 'sslmode=verify-full', UNTRUSTED],
  ['localhost', 'sslmode=no-verify', undefined],
  ['localhost', `sslmode=verify-full&${ROOT}`, undefined],
  ['localhost', `sslmode=verify-full&${ROOT}&hostaddr=127.0.0.1`, undefined],
  ['127.0.0.1', `sslmode=verify-ca&${ROOT}`, undefined],
  ['127.0.0.1', `sslmode=verify-full&${ROOT}`, /: use a name of the certificate as the host, or sslmode=verify-ca/],
  ['localhost', 'sslmode=no-verify&channel_binding=require', undefined],
  ['localhost', 'channel_binding=require', 'the server offers no channel binding: channel_binding=require'],
  ['localhost', 'channel_binding=prefer', undefined],
])('%s with %s', async (host, parameters, expected) => {
  const said = await check(host, parameters);
  if (expected instanceof RegExp) expect(said).toMatch(expected);
  else expect(said).toBe(expected);
});

test('channel_binding=require refuses a server that trusts the login', async () => {
  const [row] = await runSql(server.adminUrl, 'show unix_socket_directories');
  const host = encodeURIComponent(row?.unix_socket_directories);
  expect(await check(host, '')).toBeUndefined();
  expect(await check(host, 'channel_binding=require')).toBe(
    'the server offers no channel binding: channel_binding=require',
  );
});

test.each([
  ['postgres://db.example/n', 'db.example:5432'],
  ['postgres://localhost,10.0.0.1:1/n', '10.0.0.1:1'],
  ['postgres:///n?hostaddr=10.0.0.1', '10.0.0.1:5432'],
  ['postgres://db.example/n?sslmode=disable', undefined],
  ['postgres://db.example/n?sslmode=require', undefined],
  ['postgres://localhost,127.0.0.2,[::1],%2Frun/n', undefined],
])('plain text over a network that nobody asked for is reported once: %s', async (url, host) => {
  const told: string[] = [];
  const onWarning = (text: string) => void told.push(text);
  const store = openPostgres({ url, connections: 1, deadlineMs: 10, onWarning });
  onTestFinished(() => store.close());
  expect(told).toEqual(
    host
      ? [
          `DATABASE_URL: passwords and rows go to ${host} in plain text: set sslmode=verify-full, or sslmode=disable if nobody else reads that network`,
        ]
      : [],
  );
});
