// Parsers of command-line arguments, which throw InvalidArgumentError for Commander, and the paths that arguments name.

import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';
import ms from 'ms';
import { t, translate } from './language.ts';
import { CommandError } from './terminal.ts';

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Lower case only: 1M could be a minute or a month. */
const DURATION = /^\d{1,9}(\.\d+)? ?[a-z]+$/;
const TIME = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;
/** A thousand years in ms; more is a typing error and would overflow a date. */
const MAX_DURATION = 1_000 * 365 * 24 * 3_600_000;

/** Describes what readWhen accepts. */
export const WHEN = 'a duration from now (90d, 12h), a date (its start in UTC), a time (2027-12-31T18:00Z), or never';

/** Postgres's timestamp that is later than all others. */
export const NEVER = 'infinity';

export const readTenantId = matching(UUID, "a tenant's id, as in `npm run admin -- tenant list`");
/** Only validates: findLanguage has found the language before Commander parses. */
export const readLanguage = matching(/^(pt|en)$/, 'pt or en');
export const readName = matching(/^(?=.*\S).{1,255}$/su, 'a name of 1 to 255 characters that is not blank');
export const readEnvironment = matching(/^[a-z]{1,10}$/, '1 to 10 letters of a-z');
export const readMapping = readPairs(/^(.*\S.*)=\s*([^=]*[^=\s]|)\s*$/, "TITLE=COLUMN, as in 'Fone 2=telefone'");
export const readSetting = readPairs(/^([^=]*\S)\s*=(.*)$/s, "COLUMN=VALUE, as in 'telefone=11 98888-0001'");

/** Resolves a path in the caller's folder: npm changes to the package's folder and passes the caller's in INIT_CWD. */
export function toPath(name: string): string {
  return resolve(process.env.INIT_CWD ?? '.', name);
}

/** Resolves the path of a file to read, or of a pipe if `takesPipe`. Throws CommandError for anything else. */
export function toFile(name: string, takesPipe = true): string {
  const path = toPath(name);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new CommandError(t`There is no file ${name}`);
  // A device such as /dev/zero has no end.
  if (!stat.isFile() && !(takesPipe && stat.isFIFO())) {
    throw new CommandError(t`${name} is a folder, a device or a pipe, and no file`);
  }
  return path;
}

/** Resolves the path of a file to write. Throws CommandError if the file exists or its folder does not. */
export function toNewPath(name: string): string {
  const file = toPath(name);
  if (existsSync(file)) throw new CommandError(t`There is ${file} already: name a new file`);
  if (!existsSync(dirname(file))) throw new CommandError(t`There is no folder ${dirname(file)}`);
  return file;
}

/** Appends a function to the earlier ones. */
export function readPermission(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...new Set([...earlier, readName(text)])];
}

/** Reads a duration, in ms. */
export function readDuration(text: string): number {
  return expect(toMilliseconds(text), 'a duration such as 90d, 12h or 30m');
}

/** Reads a future time for Postgres: a duration from now, a date, a time, or NEVER. */
export function readWhen(text: string): string {
  if (text === 'never') return NEVER;
  const duration = toMilliseconds(text);
  const time = duration === undefined ? toDate(text) : new Date(Date.now() + duration);
  const when = expect(time, WHEN);
  return expect(when.getTime() > Date.now() ? when.toISOString() : undefined, 'a time that has not passed');
}

/** Reads a delimiter: one character, or `tab`. */
export function readDelimiter(text: string): string {
  const character = text === 'tab' || text === '\\t' ? '\t' : text;
  return expect(/^[^"\r\n]$/u.test(character) ? character : undefined, 'one character, or tab');
}

export function readEncoding(text: string): string {
  try {
    return new TextDecoder(text).encoding;
  } catch {
    return expect<string>(undefined, 'an encoding such as utf-8, windows-1252 or utf-16le');
  }
}

/** Creates a parser of integers within bounds. */
export function readInteger(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
    return expect(number >= min && number <= max ? number : undefined, t`an integer from ${min} to ${max}`);
  };
}

/** Creates a parser that validates a text. */
export function matching(pattern: RegExp, expected: string): (text: string) => string {
  return (text) => expect(pattern.test(text) ? text : undefined, expected);
}

/** Creates a parser that collects names and values in a map. */
export function readPairs(pattern: RegExp, expected: string) {
  return (text: string, earlier: ReadonlyMap<string, string> = new Map()): Map<string, string> => {
    const [, name = '', value = ''] = expect(pattern.exec(text) ?? undefined, expected);
    if (earlier.has(name)) throw new InvalidArgumentError(t`Expected ${name} once.`);
    return new Map([...earlier, [name, value]]);
  };
}

function expect<T>(value: T | undefined, expected: string): T {
  if (value === undefined) throw new InvalidArgumentError(t`Expected ${translate(expected)}.`);
  return value;
}

/** Returns undefined for an invalid duration, such as a number without a unit, which `ms` would read as milliseconds. */
function toMilliseconds(text: string): number | undefined {
  const duration = DURATION.test(text) ? (ms(text as ms.StringValue) as number | undefined) : undefined;
  return duration !== undefined && duration <= MAX_DURATION ? duration : undefined;
}

/** Returns undefined for an invalid date or time, such as February 30, which Date would read as a day in March. */
function toDate(text: string): Date | undefined {
  const [, day, time] = TIME.exec(text) ?? [];
  if (!day) return undefined;
  const midnight = new Date(`${day}T00:00Z`);
  const exists = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
  const date = time ? new Date(text) : midnight;
  // Postgres does not read a year of more than four digits as Date writes it.
  return exists && date.getUTCFullYear() <= 9_999 ? date : undefined;
}
