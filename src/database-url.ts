// Reads DATABASE_URL by the rules of libpq: several hosts with ports, and what a server has to be. pg knows one host.

import { isNear } from './near-miss.ts';

/** One server of a database. */
export type ServerAddress = {
  /** Host and port, for the log. */
  readonly name: string;
  /** A connection string for this server alone, with what pg understands. */
  readonly url: string;
};

/** The servers of a database, and how they are used. */
export type DatabaseAddress = {
  /** In the order of the URL. */
  readonly servers: readonly ServerAddress[];
  /** Whether the servers have roles: with one server of any role there is nothing to find out. */
  readonly hasRoles: boolean;
  /** Whether the primary has to accept writes by default (`read-write`). */
  readonly mustWrite: boolean;
  /** How long connecting to one server may take, in milliseconds; undefined for no limit of its own. */
  readonly connectMs: number | undefined;
};

/** A connection string is invalid. The message has no part of the user and the password. */
export class UrlError extends Error {}

const TARGETS = ['any', 'read-write', 'primary'];
/** Those of libpq for sessions that do not write: a gateway does. */
const READ_ONLY_TARGETS = ['read-only', 'standby', 'prefer-standby'];
const BALANCING = ['disable', 'random'];
/** Those of libpq, and pg's own `no-verify`. */
const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
/** What is read here and not by pg. */
const OWN = ['host', 'port', 'target_session_attrs', 'load_balance_hosts', 'connect_timeout'];

/** What is read here at all. */
const READ = [...OWN, 'sslmode', 'sslrootcert'];

/** Scheme, user and password, hosts with ports, database, parameters. */
const PARTS = /^(postgres(?:ql)?:\/\/)([^@/?]*@)?([^/?]*)([^?]*)\??(.*)$/s;
const HOST_AND_PORT = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/;
const DEFAULT_PORT = '5432';

/** Reads a connection string. Throws UrlError for what libpq refuses, and for sessions that may not write. */
export function readDatabaseUrl(text: string): DatabaseAddress {
  const [, scheme, login = '', authority = '', path = '', query = ''] = PARTS.exec(text) ?? [];
  if (scheme === undefined) throw new UrlError('expected a URL like postgres://user:password@host/name');
  const parameters = readParameters(query);
  for (const { name } of parameters) {
    const meant = !READ.includes(name) && READ.find((one) => isNear(name.toLowerCase(), one, one.length > 6 ? 2 : 1));
    if (meant) throw new UrlError(`${name}: expected ${meant}`);
  }
  const read = (name: string) => parameters.findLast((parameter) => parameter.name === name)?.value;
  const choose = (name: string, values: readonly string[]) => {
    const value = read(name);
    if (value !== undefined && !values.includes(value)) {
      throw new UrlError(`${name}=${value}: expected ${values.join(', ')}`);
    }
    return value;
  };

  const wanted = read('target_session_attrs') ?? 'any';
  if (READ_ONLY_TARGETS.includes(wanted)) {
    throw new UrlError(`target_session_attrs=${wanted}: expected read-write, because all calls go to the primary`);
  }
  const target = choose('target_session_attrs', TARGETS) ?? 'any';
  // Without an effect: only the primary is used.
  choose('load_balance_hosts', BALANCING);
  const kept = toSslParameters(choose('sslmode', SSL_MODES), parameters);
  const rest = kept.filter(({ name }) => !OWN.includes(name)).map(({ raw }) => raw);

  const isNamed = read('host') === undefined;
  const servers = readHosts(authority, read('host'), read('port')).map(({ host, port }) => {
    const name = `${decode(host) || 'localhost'}:${port || DEFAULT_PORT}`;
    const at = port ? `${host}:${port}` : host;
    const own = isNamed ? [] : [`host=${encodeURIComponent(host)}`, ...(port ? [`port=${port}`] : [])];
    const all = [...own, ...rest].join('&');
    const url = `${scheme}${login}${isNamed ? at : ''}${path}${all ? `?${all}` : ''}`;
    if (isNamed && !URL.canParse(url))
      throw new UrlError('expected hosts with ports, like host:5432, separated by commas');
    return { name, url };
  });
  const twice = servers.find(({ name }, index) => servers.findIndex((one) => one.name === name) < index);
  if (twice) throw new UrlError(`${twice.name} is there twice: expected each server once`);
  return {
    servers,
    hasRoles: servers.length > 1 || target !== 'any',
    mustWrite: target === 'read-write',
    connectMs: readTimeout(read('connect_timeout')),
  };
}

type Parameter = { readonly name: string; readonly value: string; readonly raw: string };

function readParameters(query: string): Parameter[] {
  return query
    .split('&')
    .filter(Boolean)
    .map((raw) => {
      const [[name = '', value = ''] = []] = new URLSearchParams(raw);
      return { name, value, raw };
    });
}

type Host = { readonly host: string; readonly port: string };

/** The hosts of the authority; those of the parameters count more. One port is for all hosts. */
function readHosts(authority: string, hosts: string | undefined, ports: string | undefined): Host[] {
  const found: Host[] = (hosts ?? authority).split(',').map((text) => {
    const [, host = '', port = ''] = hosts === undefined ? (HOST_AND_PORT.exec(text) ?? []) : ['', text];
    return { host, port };
  });
  if (found.length > 1 && found.some(({ host }) => host === '')) {
    throw new UrlError('a host is empty: expected hosts separated by commas');
  }
  if (ports === undefined) return found;
  const list = ports.split(',');
  if (list.length > 1 && list.length !== found.length) {
    throw new UrlError(`port=${ports}: expected one port, or one for each of the ${found.length} hosts`);
  }
  const all = found.map((host, index) => ({ ...host, port: list[index] ?? list[0] ?? '' }));
  if (!all.every(({ port }) => /^\d{0,5}$/.test(port) && Number(port) <= 65_535)) {
    throw new UrlError(`port=${ports}: expected numbers up to 65535`);
  }
  return all;
}

/** `sslrootcert=system` means the certificates that the runtime trusts, which pg does without the parameter. */
function toSslParameters(mode: string | undefined, parameters: readonly Parameter[]): readonly Parameter[] {
  if (!parameters.some(({ name, value }) => name === 'sslrootcert' && value === 'system')) return parameters;
  if (mode !== undefined && mode !== 'verify-full') {
    throw new UrlError(`sslmode=${mode}: expected verify-full with sslrootcert=system`);
  }
  const others = parameters.filter(({ name }) => name !== 'sslrootcert' && name !== 'sslmode');
  return [...others, { name: 'sslmode', value: 'verify-full', raw: 'sslmode=verify-full' }];
}

/** Seconds as libpq reads them: 0 or less is no limit. */
function readTimeout(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\s*[+-]?\d{1,9}\s*$/.test(text)) throw new UrlError(`connect_timeout=${text}: expected whole seconds`);
  return Number(text) > 0 ? Number(text) * 1_000 : undefined;
}

function decode(host: string): string {
  try {
    return decodeURIComponent(host);
  } catch {
    throw new UrlError('a host is not valid percent-encoded UTF-8');
  }
}
