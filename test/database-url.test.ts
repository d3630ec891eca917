import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PARAMETERS, readDatabaseUrl, UrlError } from '../src/database-url.ts';

const ONE = { hasRoles: false, mustWrite: false, connectMs: undefined };
const ROLES = { ...ONE, hasRoles: true };
const folder = mkdtempSync(join(tmpdir(), 'url-'));
const [NONE, CUT, CRL] = [join(folder, 'none.pem'), join(folder, 'cut.pem'), join(folder, 'crl.pem')];
/** A certificate and its encrypted key. */
const PEM = join(folder, 'one.pem');
const CURVE = ['-pkeyopt', 'ec_paramgen_curve:prime256v1'];
const SUBJECT = ['-subj', '/CN=x', '-passout', 'pass:x', '-keyout', PEM, '-out', PEM];
execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', ...CURVE, ...SUBJECT], { stdio: 'pipe' });
const CRL_TEXT =
  'MH8wMzAFBgMrZXAwDDEKMAgGA1UEAwwBeBcNMjYxMTI4MTAyOTQ0WhcNMjYxMjA3MTAyOTQ0WjAFBgMrZXADQQDOD8oAtVpR+n8kpypiWK8taeRdU7KiuAS00EBkbXYs9jvi8uQjZ62IVdxAjJAG0EHJ6ym2wMBpdZJ1pmBf3hgN';
const whole = readFileSync(PEM, 'utf8');
writeFileSync(CUT, whole + whole.slice(0, -50));
writeFileSync(CRL, `-----BEGIN X509 CRL-----\n${CRL_TEXT}\n-----END X509 CRL-----\n`);
writeFileSync(NONE, 'none');

const readConfig = (url: string) => readDatabaseUrl(url).servers[0]?.config;

test.each([
  ['postgres://u:p%40:q@host/name', 'host:5432', { user: 'u', password: 'p@:q', host: 'host', database: 'name' }],
  ['postgresql://u@[::1]:5433/name', '[::1]:5433', { user: 'u', host: '::1', port: 5433, database: 'name' }],
  ['postgres://u@%2Frun%2Fpg/name', '/run/pg:5432', { user: 'u', host: '/run/pg', database: 'name' }],
  ['postgres:///a+b', 'localhost:5432', { database: 'a+b' }],
  ['postgres:///a%2Bb', 'localhost:5432', { database: 'a+b' }],
  ['postgres:///we%20ll%2Fx', 'localhost:5432', { database: 'we ll/x' }],
  ['postgres:///ma%C3%A7%C3%A3', 'localhost:5432', { database: 'maçã' }],
  ['postgres:///100%25', 'localhost:5432', { database: '100%' }],
  ['postgres://a/n?dbname=x&dbname=y%2Fz', 'a:5432', { host: 'a', database: 'y/z' }],
  ['postgres://u:p@a/n?user=v&password=q', 'a:5432', { user: 'v', password: 'q', host: 'a', database: 'n' }],
  ['postgres://a/n?port=6432', 'a:6432', { host: 'a', port: 6432, database: 'n' }],
  ['postgres://a?options=-c%20x%3D1+2', 'a:5432', { host: 'a', options: '-c x=1+2' }],
])('a URL with one host is read as psql reads it: %s', (url, name, config) => {
  expect(readDatabaseUrl(url)).toEqual({ ...ONE, servers: [{ name, config }] });
});

test('a URL with one host has a role if one is asked for', () => {
  const servers = [{ name: 'host:5432', config: { host: 'host', database: 'name', ssl: false } }];
  const url = 'postgres://host/name?target_session_attrs=read-write&sslmode=disable';
  expect(readDatabaseUrl(url)).toEqual({ ...ROLES, servers, mustWrite: true });
});

const [HOST, ADDRESS] = ['db.example', '10.0.0.1'];
const NOT_VERIFIED = { rejectUnauthorized: false };

/** The settings that each parameter becomes; none if the gateway does so anyway. */
const TAKEN: readonly [parameter: string, config: object][] = [
  ['host=b', { host: 'b' }],
  [`hostaddr=${ADDRESS}`, { host: ADDRESS }],
  [`hostaddr=${ADDRESS}&sslmode=require`, { host: ADDRESS, ssl: { host: HOST, servername: HOST } }],
  ['port=1', { port: 1 }],
  ['dbname=x', { database: 'x' }],
  ['user=u', { user: 'u' }],
  ['password=p', { password: 'p' }],
  ['channel_binding=disable', { enableChannelBinding: false }],
  ['channel_binding=prefer', { enableChannelBinding: true }],
  ['channel_binding=require', { enableChannelBinding: true, mustBind: true }],
  ['connect_timeout=3', {}],
  ['client_encoding=UTF8', {}],
  ['options=-c%20a%3Db', { options: '-c a=b' }],
  ['application_name=a', { application_name: 'a' }],
  ['fallback_application_name=a', { application_name: 'a' }],
  ['fallback_application_name=a&application_name=b', { application_name: 'b' }],
  ['keepalives=0', { keepAlive: false }],
  ['keepalives=1', {}],
  ['keepalives_idle=30', { keepAlive: true, keepAliveInitialDelayMillis: 30_000 }],
  ['replication=false', {}],
  ['gssencmode=disable', {}],
  ['gssdelegation=0', {}],
  ['ssl=true', { ssl: {} }],
  ['sslmode=disable', { ssl: false }],
  ['sslmode=require', { ssl: {} }],
  ['sslmode=verify-full', { ssl: {} }],
  [
    `sslmode=verify-ca&sslrootcert=${PEM}`,
    { ssl: { checkServerIdentity: expect.any(Function) }, sslFiles: { ca: PEM } },
  ],
  ['sslmode=no-verify', { ssl: NOT_VERIFIED }],
  ['sslmode=require&sslnegotiation=direct', { ssl: {}, sslnegotiation: 'direct' }],
  ['sslcompression=0', {}],
  [`sslcert=${PEM}&sslkey=${PEM}&sslpassword=x`, { ssl: { passphrase: 'x' }, sslFiles: { cert: PEM, key: PEM } }],
  ['sslcertmode=allow', {}],
  [`sslrootcert=${PEM}`, { ssl: {}, sslFiles: { ca: PEM } }],
  ['sslrootcert=system', { ssl: {} }],
  [`sslcrl=${CRL}`, { ssl: {}, sslFiles: { crl: CRL } }],
  ['sslpassword=x', { ssl: { passphrase: 'x' } }],
  ['sslsni=1', {}],
  ['ssl_min_protocol_version=TLSv1.3', { ssl: { minVersion: 'TLSv1.3' } }],
  ['ssl_max_protocol_version=TLSv1.2', { ssl: { maxVersion: 'TLSv1.2' } }],
  ['min_protocol_version=3.0', {}],
  ['max_protocol_version=latest', {}],
  ['target_session_attrs=any', {}],
  ['load_balance_hosts=random', {}],
];

test.each(TAKEN)('a parameter of libpq is taken: %s', (parameters, config) => {
  expect(readConfig(`postgres://${HOST}?${parameters}`)).toEqual({ host: HOST, ...config });
});

test('every parameter of libpq is taken or refused by name, and is on the page', () => {
  const page = readFileSync(new URL('../docs/stores.md', import.meta.url), 'utf8');
  for (const [name, rule] of Object.entries(PARAMETERS)) {
    expect(page).toContain(`\`${name}\``);
    if (!('refused' in rule)) expect(TAKEN.some(([taken]) => taken.includes(`${name}=`))).toBe(true);
    else {
      const message = `${name} ${rule.refused}`;
      expect(() => readDatabaseUrl(`postgres://a/n?${name}=1`)).toThrow(new UrlError(message));
    }
  }
});

test.each<[url: string, ...hosts: (readonly [name: string, host: string, port?: number])[]]>([
  ['postgres://u:p@a:1,b/n', ['a:1', 'a', 1], ['b:5432', 'b']],
  ['postgres://u:p@a,b/n?port=7', ['a:7', 'a', 7], ['b:7', 'b', 7]],
  ['postgres://u:p@a,b:2/n?port=7,8', ['a:7', 'a', 7], ['b:8', 'b', 8]],
  // Hosts of the parameters replace those before the database, and addresses need no names.
  ['postgres://u:p@a:1/n?host=/run/a,/run/b&port=7', ['/run/a:7', '/run/a', 7], ['/run/b:7', '/run/b', 7]],
  ['postgres:///n?user=u&password=p&hostaddr=10.0.0.1,::1', ['10.0.0.1:5432', '10.0.0.1'], ['[::1]:5432', '::1']],
])('several hosts have their names and ports: %s', (url, ...hosts) => {
  const common = { user: 'u', password: 'p', database: 'n' };
  const servers = hosts.map(([name, host, port]) => ({ name, config: { ...common, host, port } }));
  expect(readDatabaseUrl(url)).toEqual({ ...ROLES, servers });
});

test.each([
  ['target_session_attrs=any', ROLES],
  ['target_session_attrs=primary', ROLES],
  ['load_balance_hosts=random', ROLES],
  ['load_balance_hosts=disable', ROLES],
  ['connect_timeout=3', { ...ROLES, connectMs: 3_000 }],
  ['connect_timeout=0', ROLES],
  ['connect_timeout=-1', ROLES],
])('what is asked of the servers is read, and not passed on: %s', (parameters, expected) => {
  const servers = ['a', 'b'].map((host) => ({ name: `${host}:5432`, config: { host, database: 'n' } }));
  expect(readDatabaseUrl(`postgres://a,b/n?${parameters}`)).toEqual({ ...expected, servers });
});

test.each([
  ['mysql://a/n', 'expected a URL like postgres://user:password@host/name'],
  ['postgres://a,,b/n', 'a host is empty: expected hosts separated by commas'],
  ['postgres://a,b,/n', 'a host is empty: expected hosts separated by commas'],
  ['postgres://a:x,b/n', 'expected hosts with ports, like host:5432, separated by commas'],
  ['postgres://a:70000/n', 'expected hosts with ports, like host:5432, separated by commas'],
  ['postgres://user:secret:host,b/n', 'expected hosts with ports, like host:5432, separated by commas'],
  ['postgres://a,b,c/n?port=1,2', 'port=1,2: expected one port, or one for each of the 3 hosts'],
  ['postgres://a,b/n?port=1,x', 'port=1,x: expected numbers up to 65535'],
  ['postgres://a,b,a:5432/n', 'a:5432 is there twice: expected each server once'],
  ['postgres://%ff,b/n', 'a host is not valid percent-encoded UTF-8'],
  ['postgres://a,b/n?target_session_attrs=master', 'target_session_attrs=master: expected any, read-write, primary'],
  ['postgres://a,b/n?target_session_attrs=standby', 'target_session_attrs=standby: expected any, read-write, primary'],
  ['postgres://a,b/n?target_session_attr=any', 'target_session_attr: expected target_session_attrs'],
  ['postgres://a,b/n?connect_timout=1', 'connect_timout: expected connect_timeout'],
  ['postgres://a,b/n?load_balance_hosts=on', 'load_balance_hosts=on: expected disable, random'],
  ['postgres://a,b/n?connect_timeout=soon', 'connect_timeout=soon: expected whole seconds'],
  ['postgres://a/n?sslmode=full', 'sslmode=full: expected disable, require, verify-ca, verify-full, no-verify'],
  [
    'postgres://a/n?sslmode=require&sslrootcert=system',
    'sslmode=require: expected verify-full with sslrootcert=system',
  ],
  ['postgres://a/n?sslmode=prefer', 'sslmode=prefer: expected disable, require, verify-ca, verify-full, no-verify'],
  ['postgres://a/n?sslmode=verify-ca', 'sslmode=verify-ca: expected sslrootcert with it, or verify-full'],
  [
    'postgres://a/n?sslnegotiation=direct',
    'sslnegotiation=direct: expected sslmode=require, verify-ca or verify-full with it',
  ],
  [
    'postgres://a/n?sslmode=verify-full&sslrootcert=/nowhere/ca.pem',
    'sslrootcert=/nowhere/ca.pem: there is no such file; expected a certificate in PEM',
  ],
  [`postgres://a/n?sslrootcert=${NONE}`, `sslrootcert=${NONE}: no start line; expected a certificate in PEM`],
  [`postgres://a/n?sslrootcert=${CUT}`, `sslrootcert=${CUT}: bad end line; expected a certificate in PEM`],
  [`postgres://a/n?sslcert=${NONE}`, `sslcert=${NONE}: no start line; expected a certificate in PEM`],
  [
    `postgres://a/n?sslkey=${NONE}`,
    `sslkey=${NONE}: unsupported; expected a private key in PEM, and its sslpassword if it is encrypted`,
  ],
  [
    `postgres://a/n?sslkey=${PEM}`,
    `sslkey=${PEM}: bad decrypt; expected a private key in PEM, and its sslpassword if it is encrypted`,
  ],
  [
    `postgres://a/n?sslcrl=${PEM}`,
    `sslcrl=${PEM}: Failed to parse CRL; expected a list of revoked certificates in PEM`,
  ],
  ['postgres://a/n?ssl=1', 'ssl=1: expected true'],
  ['postgres://a/n?schema=public', 'schema is not a parameter of libpq'],
  ['postgres://a/n?__proto__=x', '__proto__ is not a parameter of libpq'],
  // The rest of a password, after an & in it.
  ['postgres://a/n?password=ab&cd', 'a parameter: expected name=value, with & and = in the value as %26 and %3D'],
  ['postgres://a/n?password=ab&cd=x', 'a parameter is none of libpq: write & in a value as %26'],
  ['postgres://a/n?dbname', 'dbname: expected name=value, with & and = in the value as %26 and %3D'],
  ['postgres://a/n?options=-c a=b', 'options: expected name=value, with & and = in the value as %26 and %3D'],
  ['postgres://a/n%00', 'the database has %00, which no text of Postgres can have'],
  ['postgres://a/n%ff', 'the database is not valid percent-encoded UTF-8'],
  ['postgres://a/n?hostaddr=b', 'hostaddr=b: expected IP addresses'],
  ['postgres://a,b/n?hostaddr=::1', 'hostaddr=::1: expected one address for each of the 2 hosts'],
])('a URL is refused: %s', (url, message) => {
  expect(() => readDatabaseUrl(url)).toThrow(new UrlError(message));
});
