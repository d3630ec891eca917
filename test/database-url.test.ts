import { describe, expect, test } from 'vitest';
import { readDatabaseUrl, UrlError } from '../src/database-url.ts';

const ONE = { hasRoles: false, mustWrite: false, connectMs: undefined };
const ROLES = { ...ONE, hasRoles: true };

describe('a URL with one host', () => {
  test.each([
    ['postgres://u:p%40@host/name?sslmode=require', 'host:5432'],
    ['postgresql://u:p@[::1]:5433/name?options=-c%20a%3Db', '[::1]:5433'],
    ['postgres://u@%2Frun%2Fpostgresql/name', '/run/postgresql:5432'],
    ['postgres:///name', 'localhost:5432'],
  ])('is left as it is: %s', (url, name) => {
    expect(readDatabaseUrl(url)).toEqual({ ...ONE, servers: [{ name, url }] });
  });

  test('has a role if one is asked for', () => {
    const servers = [{ name: 'host:5432', url: 'postgres://host/name?sslmode=disable' }];
    const url = 'postgres://host/name?target_session_attrs=read-write&sslmode=disable';
    expect(readDatabaseUrl(url)).toEqual({ ...ROLES, servers, mustWrite: true });
  });
});

test.each([
  ['postgres://u:p@a:1,b/n', [':1/n', '/n']],
  ['postgres://u:p@a,b/n?port=7', [':7/n', ':7/n']],
  ['postgres://u:p@a,b:2/n?port=7,8', [':7/n', ':8/n']],
])('several hosts have their ports: %s', (url, [a, b]) => {
  const names = [a, b].map((text, index) => `${'ab'[index]}:${/\d/.exec(text ?? '') ?? 5432}`);
  const servers = [
    { name: names[0], url: `postgres://u:p@a${a}` },
    { name: names[1], url: `postgres://u:p@b${b}` },
  ];
  expect(readDatabaseUrl(url)).toEqual({ ...ROLES, servers });
});

test('the hosts of the parameters replace those before the database', () => {
  expect(readDatabaseUrl('postgres://u@a:1/n?host=/run/a,/run/b&port=5433').servers).toEqual([
    { name: '/run/a:5433', url: 'postgres://u@/n?host=%2Frun%2Fa&port=5433' },
    { name: '/run/b:5433', url: 'postgres://u@/n?host=%2Frun%2Fb&port=5433' },
  ]);
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
  const servers = ['a', 'b'].map((host) => ({ name: `${host}:5432`, url: `postgres://${host}/n` }));
  expect(readDatabaseUrl(`postgres://a,b/n?${parameters}`)).toEqual({ ...expected, servers });
});

test('the certificates of the system need no file', () => {
  const [server] = readDatabaseUrl('postgres://a/n?sslrootcert=system').servers;
  expect(server?.url).toBe('postgres://a/n?sslmode=verify-full');
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
  [
    'postgres://a,b/n?target_session_attrs=standby',
    'target_session_attrs=standby: expected read-write, because all calls go to the primary',
  ],
  [
    'postgres://a,b/n?target_session_attrs=prefer-standby',
    'target_session_attrs=prefer-standby: expected read-write, because all calls go to the primary',
  ],
  ['postgres://a,b/n?target_session_attr=any', 'target_session_attr: expected target_session_attrs'],
  ['postgres://a,b/n?connect_timout=1', 'connect_timout: expected connect_timeout'],
  ['postgres://a,b/n?load_balance_hosts=on', 'load_balance_hosts=on: expected disable, random'],
  ['postgres://a,b/n?connect_timeout=soon', 'connect_timeout=soon: expected whole seconds'],
  [
    'postgres://a/n?sslmode=full',
    'sslmode=full: expected disable, allow, prefer, require, verify-ca, verify-full, no-verify',
  ],
  [
    'postgres://a/n?sslmode=require&sslrootcert=system',
    'sslmode=require: expected verify-full with sslrootcert=system',
  ],
])('a URL is refused: %s', (url, message) => {
  expect(() => readDatabaseUrl(url)).toThrow(new UrlError(message));
});
