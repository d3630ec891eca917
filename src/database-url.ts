// Reads DATABASE_URL by the rules of libpq, which the driver knows only in part. docs/stores.md lists the differences.

import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import type pg from 'pg';
import { findNear } from './near-miss.ts';

/** The configuration of a client of one server. */
export type ClientConfig = Omit<pg.ClientConfig, 'connectionString' | 'ssl'> & {
  /** Undefined if the URL says nothing about TLS: then PGSSLMODE decides, and the default is no encryption. */
  readonly ssl?: false | ConnectionOptions;
  /** Files for TLS, read again for each connection: certificates are renewed while the gateway runs. */
  readonly sslFiles?: Readonly<Partial<Record<SslFile, string>>>;
  /** Whether a login without channel binding is refused. */
  readonly mustBind?: boolean;
};

/** The parameters of files for TLS, and what each expects. */
const SSL_FILES = {
  ca: { name: 'sslrootcert', expected: 'a certificate in PEM' },
  cert: { name: 'sslcert', expected: 'a certificate in PEM' },
  key: { name: 'sslkey', expected: 'a private key in PEM, and its sslpassword if it is encrypted' },
  crl: { name: 'sslcrl', expected: 'a list of revoked certificates in PEM' },
};
type SslFile = keyof typeof SSL_FILES;

type ServerAddress = {
  /** Host and port, for the log. */
  readonly name: string;
  readonly config: ClientConfig;
};

/** The servers of a database, and how they are used. */
export type DatabaseAddress = {
  /** In the order of the URL. */
  readonly servers: readonly ServerAddress[];
  /** Whether the role of a server matters: not for a single server of any role. */
  readonly hasRoles: boolean;
  /** Whether the primary has to accept writes by default (`read-write`). */
  readonly mustWrite: boolean;
  /** How long connecting to one server may take, in milliseconds; undefined if the URL sets no limit. */
  readonly connectMs: number | undefined;
};

/** A connection string is invalid. The message contains no part of the user or the password. */
export class UrlError extends Error {}

/** The accepted values of a parameter, or why it is refused. */
type Rule = { readonly isTaken: (value: string) => boolean; readonly expected: string } | { readonly refused: string };

const matching = (pattern: RegExp, expected: string): Rule => ({ isTaken: (value) => pattern.test(value), expected });
const oneOf = (...words: string[]): Rule => ({
  isTaken: (value) => words.includes(value),
  expected: words.join(', '),
});
const ANY = matching(/^/, 'a text');
const INTEGER = /^\s*[+-]?\d{1,9}\s*$/;
const SECONDS = matching(INTEGER, 'whole seconds');
const TLS_VERSION = oneOf('TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3');
const UNSUPPORTED: Rule = { refused: 'is not supported: leave it out' };

/** One rule for several parameters. */
function each(rule: Rule, names: string): Record<string, Rule> {
  return Object.fromEntries(names.split(/\s+/).map((name) => [name, rule]));
}

/** Every parameter of libpq 18. */
export const PARAMETERS: Readonly<Record<string, Rule>> = {
  ...each(
    ANY,
    `host hostaddr port dbname user password options application_name fallback_application_name
    sslcert sslkey sslpassword sslrootcert sslcrl`,
  ),
  ...each(
    UNSUPPORTED,
    `require_auth keepalives_interval keepalives_count tcp_user_timeout gsslib krbsrvname sslkeylogfile requirepeer
    scram_client_key scram_server_key oauth_issuer oauth_client_id oauth_client_secret oauth_scope`,
  ),
  passfile: { refused: 'is not supported: set PGPASSFILE in the environment' },
  channel_binding: oneOf('disable', 'prefer', 'require'),
  connect_timeout: SECONDS,
  client_encoding: matching(/^(utf-?8|auto)$/i, 'UTF8'),
  keepalives: matching(INTEGER, 'a whole number'),
  keepalives_idle: SECONDS,
  replication: oneOf('false', 'off', 'no', '0'),
  gssencmode: oneOf('disable', 'prefer'),
  gssdelegation: oneOf('0'),
  // A parameter of JDBC, which libpq reads as sslmode=require.
  ssl: oneOf('true'),
  // Not `allow` and `prefer`, because the gateway does not fall back; `no-verify` is the driver's.
  sslmode: oneOf('disable', 'require', 'verify-ca', 'verify-full', 'no-verify'),
  requiressl: { refused: 'is not supported: use sslmode' },
  sslnegotiation: oneOf('postgres', 'direct'),
  sslcompression: oneOf('0'),
  sslcertmode: oneOf('allow'),
  sslcrldir: { refused: 'is not supported: use sslcrl' },
  sslsni: oneOf('1'),
  ssl_min_protocol_version: TLS_VERSION,
  ssl_max_protocol_version: TLS_VERSION,
  min_protocol_version: oneOf('3.0'),
  max_protocol_version: oneOf('3.0', '3.2', 'latest'),
  service: { refused: 'is not supported: write its settings into the URL' },
  servicefile: { refused: 'is not supported: write the settings of the service into the URL' },
  // All calls go to the primary.
  target_session_attrs: oneOf('any', 'read-write', 'primary'),
  load_balance_hosts: oneOf('disable', 'random'),
};

/** Scheme, user, password, hosts with ports, database, parameters. */
const PARTS = /^postgres(?:ql)?:\/\/(?:([^:@/?]*)(?::([^@/?]*))?@)?([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s;
const HOST_AND_PORT = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d*))?$/;
const DEFAULT_PORT = '5432';

/** Parameters whose values are not shown. */
const SECRET = ['user', 'password', 'sslpassword'];

type Parameters = Readonly<Record<string, string | undefined>>;

/** Reads a connection string. Throws UrlError for what libpq refuses or the gateway does not support. */
export function readDatabaseUrl(text: string): DatabaseAddress {
  const parts = PARTS.exec(text);
  if (!parts) throw new UrlError('expected a URL like postgres://user:password@host/name');
  const [, user, password, authority = '', database, query = ''] = parts;
  const given = readParameters(query);
  const { options, application_name = given.fallback_application_name, target_session_attrs = 'any' } = given;
  const { channel_binding: binding, keepalives = '1', keepalives_idle: idle = '0' } = given;
  const isProbed = Number(idle) > 0 ? true : undefined;
  const config: ClientConfig = {
    ...defined({
      user: given.user ?? decode(user, 'the user'),
      password: given.password ?? decode(password, 'the password'),
      database: given.dbname ?? decode(database, 'the database'),
      options,
      application_name,
      keepAlive: Number(keepalives) === 0 ? false : isProbed,
      keepAliveInitialDelayMillis: isProbed && Number(idle) * 1_000,
      enableChannelBinding: binding === undefined ? undefined : binding !== 'disable',
      mustBind: binding === 'require' || undefined,
    }),
    ...readSsl(given),
  };
  const servers = readHosts(authority, given).map(({ host, address, port }) => {
    const shown = host || address || 'localhost';
    const name = `${isIP(shown) === 6 ? `[${shown}]` : shown}:${port || DEFAULT_PORT}`;
    const at = defined({ host: address ?? host, port: port ? Number(port) : undefined });
    // The certificate names the host, not its address.
    const ssl = address && host && config.ssl ? { ssl: { ...config.ssl, host, ...toServerName(host) } } : {};
    return { name, config: { ...config, ...at, ...ssl } };
  });
  const twice = servers.find(({ name }, index) => servers.findIndex((one) => one.name === name) < index);
  if (twice) throw new UrlError(`${twice.name} is there twice: expected each server once`);
  const seconds = Number(given.connect_timeout ?? 0);
  return {
    servers,
    hasRoles: servers.length > 1 || target_session_attrs !== 'any',
    mustWrite: target_session_attrs === 'read-write',
    connectMs: seconds > 0 ? seconds * 1_000 : undefined,
  };
}

/** Reads the parameters. The last value of a repeated one counts. */
function readParameters(query: string): Parameters {
  const given: Record<string, string> = { __proto__: null } as never;
  for (const part of query.split('&').filter(Boolean)) {
    const [name = '', value, ...more] = part.split('=').map((piece) => decode(piece, 'a parameter') ?? '');
    // After a password with an ampersand, the name may be a part of the password.
    const isShown = !SECRET.some((secret) => secret in given) || Object.hasOwn(PARAMETERS, name);
    if (value === undefined || more.length > 0) {
      const shown = isShown ? name : 'a parameter';
      throw new UrlError(`${shown}: expected name=value, with & and = in the value as %26 and %3D`);
    }
    given[name] = checkParameter(name, value, isShown);
  }
  return given;
}

function checkParameter(name: string, value: string, isShown: boolean): string {
  const rule = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
  if (!rule) {
    const meant = findNear(name.toLowerCase(), Object.keys(PARAMETERS));
    if (!isShown) throw new UrlError('a parameter is none of libpq: write & in a value as %26');
    throw new UrlError(meant ? `${name}: expected ${meant}` : `${name} is not a parameter of libpq`);
  }
  if ('refused' in rule) throw new UrlError(`${name} ${rule.refused}`);
  if (rule.isTaken(value)) return value;
  throw new UrlError(`${name}=${value}: expected ${rule.expected}`);
}

/** The hosts of the parameters, or else of the authority. A single port applies to all hosts. */
function readHosts(authority: string, { host, hostaddr, port }: Parameters) {
  const addresses = hostaddr?.split(',');
  const named = host === undefined ? readAuthority(authority) : host.split(',').map((one) => ({ host: one, port: '' }));
  const hosts = addresses && !host && !authority ? addresses.map(() => ({ host: '', port: '' })) : named;
  const count = hosts.length;
  if (count > 1 && hosts.some((one, index) => !one.host && !addresses?.[index])) {
    throw new UrlError('a host is empty: expected hosts separated by commas');
  }
  if (addresses && addresses.length !== count) {
    throw new UrlError(`hostaddr=${hostaddr}: expected one address for each of the ${count} hosts`);
  }
  if (addresses && !addresses.every((one) => one === '' || isIP(one))) {
    throw new UrlError(`hostaddr=${hostaddr}: expected IP addresses`);
  }
  const ports = port?.split(',') ?? [];
  if (ports.length > 1 && ports.length !== count) {
    throw new UrlError(`port=${port}: expected one port, or one for each of the ${count} hosts`);
  }
  if (!ports.every(isPort)) throw new UrlError(`port=${port}: expected numbers up to 65535`);
  return hosts.map((one, index) => ({
    host: one.host,
    address: addresses?.[index] || undefined,
    port: ports[index] ?? ports[0] ?? one.port,
  }));
}

function readAuthority(authority: string) {
  return authority.split(',').map((text) => {
    const [, host, port = ''] = HOST_AND_PORT.exec(text) ?? [];
    if (host === undefined || !isPort(port)) {
      throw new UrlError('expected hosts with ports, like host:5432, separated by commas');
    }
    return { host: decode(host, 'a host')?.replace(/^\[(.*)\]$/, '$1') ?? '', port };
  });
}

/** TLS server names are never addresses (RFC 6066, section 3). */
const toServerName = (host: string) => (isIP(host) ? {} : { servername: host });

const isPort = (port: string): boolean => /^\d{0,5}$/.test(port) && Number(port) <= 65_535 && !/^0+$/.test(port);

/** Reads the TLS options. `require` verifies like `verify-full`; libpq would not verify at all. */
function readSsl(given: Parameters): ClientConfig {
  const { sslrootcert, sslcert, sslkey, sslcrl, sslpassword, sslnegotiation } = given;
  const { ssl_min_protocol_version: minVersion, ssl_max_protocol_version: maxVersion } = given;
  const isSystem = sslrootcert === 'system';
  const wanted = given.sslmode ?? (given.ssl && 'require');
  if (isSystem && wanted !== undefined && wanted !== 'verify-full') {
    throw new UrlError(`sslmode=${wanted}: expected verify-full with sslrootcert=system`);
  }
  // Parameters that only TLS has imply it.
  const isImplied = sslrootcert || sslcert || sslkey || sslcrl || sslpassword || minVersion || maxVersion;
  const mode = wanted ?? (isImplied && 'verify-full');
  if (sslnegotiation === 'direct' && (mode === undefined || mode === 'disable')) {
    throw new UrlError('sslnegotiation=direct: expected sslmode=require, verify-ca or verify-full with it');
  }
  if (mode === 'verify-ca' && !sslrootcert) {
    throw new UrlError('sslmode=verify-ca: expected sslrootcert with it, or verify-full');
  }
  if (mode === undefined) return {};
  if (mode === 'disable') return { ssl: false };
  const ca = isSystem ? undefined : sslrootcert;
  const files = Object.entries(defined({ ca, cert: sslcert, key: sslkey, crl: sslcrl }));
  for (const [use, path] of files) checkFile(use as SslFile, path, sslpassword);
  const ssl: ConnectionOptions = defined({
    rejectUnauthorized: mode === 'no-verify' ? false : undefined,
    // Verifies the authority, not the host name.
    checkServerIdentity: mode === 'verify-ca' ? () => undefined : undefined,
    passphrase: sslpassword,
    minVersion: minVersion as ConnectionOptions['minVersion'],
    maxVersion: maxVersion as ConnectionOptions['maxVersion'],
  });
  const sslFiles = files.length > 0 ? Object.fromEntries(files) : undefined;
  return defined({ ssl, sslFiles, sslnegotiation: sslnegotiation as 'postgres' | 'direct' | undefined });
}

/** Matches each of several certificates. The last one may be cut off. */
const CERTIFICATES = /-----BEGIN CERTIFICATE-----.*?(?:-----END CERTIFICATE-----|$)/gs;

/** Throws UrlError for an unusable file. TLS would accept a `ca` file without a certificate, and then trust no server. */
function checkFile(use: SslFile, path: string, passphrase: string | undefined): void {
  const { name, expected } = SSL_FILES[use];
  try {
    const pem = readFileSync(path, 'utf8');
    if (use === 'ca') for (const one of pem.match(CERTIFICATES) ?? [pem]) new X509Certificate(one);
    else createSecureContext({ [use]: pem, passphrase });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // OpenSSL's message begins with an error number and the part of OpenSSL that failed.
    const reason = code === 'ENOENT' ? 'there is no such file' : message.replace(/^error:.*::/, '');
    throw new UrlError(`${name}=${path}: ${reason}; expected ${expected}`);
  }
}

/** Decodes %XX only, as psql does: a plus stays a plus, and there is no U+0000. An empty text is undefined. */
function decode(text: string | undefined, what: string): string | undefined {
  if (text?.includes('%00')) throw new UrlError(`${what} has %00, which no text of Postgres can have`);
  try {
    return text ? decodeURIComponent(text) : undefined;
  } catch {
    throw new UrlError(`${what} is not valid percent-encoded UTF-8`);
  }
}

/** An object without the properties that are undefined or empty. */
function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== '')) as never;
}
