import { expect, test } from 'vitest';
import { ConfigError, readConfig } from '../src/config.ts';

test('has a default for everything', () => {
  expect(readConfig({})).toEqual({
    port: 3000,
    host: '127.0.0.1',
    dataDir: '.data',
    demoData: true,
    deadlineMs: 5_000,
    bodyLimit: 100_000,
  });
});

test('reads what is set', () => {
  const env = {
    PORT: '0',
    HOST: '::1',
    DATA_DIR: '/var/lib/wellness',
    DEMO_DATA: 'off',
    DEADLINE_MS: '250',
    BODY_LIMIT_BYTES: '1000',
  };
  expect(readConfig(env)).toEqual({
    port: 0,
    host: '::1',
    dataDir: '/var/lib/wellness',
    demoData: false,
    deadlineMs: 250,
    bodyLimit: 1_000,
  });
});

test('keeps the data in memory when told', () => {
  expect(readConfig({ DATA_DIR: ':memory:' }).dataDir).toBeUndefined();
});

test('takes an empty variable for one that is not set', () => {
  expect(readConfig({ PORT: '', DEMO_DATA: '' })).toEqual(readConfig({}));
});

test.each([
  ['PORT', '65536', 'a whole number from 0 to 65535'],
  ['PORT', '-1', 'a whole number from 0 to 65535'],
  ['PORT', '3e3', 'a whole number from 0 to 65535'],
  ['PORT', ' 80', 'a whole number from 0 to 65535'],
  ['HOST', 'http://localhost', 'a host name or address, without a port'],
  ['DEMO_DATA', 'false', 'on or off'],
  ['DEADLINE_MS', '0', 'a whole number from 10 to 60000'],
  ['BODY_LIMIT_BYTES', '100kb', 'a whole number from 1 to 10000000'],
])('refuses %s=%s', (name, value, expected) => {
  expect(() => readConfig({ [name]: value })).toThrow(
    new ConfigError(`${name}=${JSON.stringify(value)}: expected ${expected}`),
  );
});

test('reports every mistake at once', () => {
  expect(() => readConfig({ PORT: 'x', DEMO_DATA: 'y', DEADLINE_MS: 'z' })).toThrow(
    /^PORT=.*\nDEMO_DATA=.*\nDEADLINE_MS=/,
  );
});
