// Reads arguments of the command line. All throw commander's error where a text is not what is expected.

import { InvalidArgumentError } from 'commander';
import ms from 'ms';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** In small letters: of 1M nobody knows whether it is a minute or a month. */
const DURATION = /^\d{1,9}(\.\d+)? ?[a-z]+$/;
const TIME = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;
const A_DURATION = 'a duration such as 90d, 12h or 30m';
/** A thousand years, in milliseconds: what is longer is a slip, and soon no date. */
const LONGEST = 1_000 * 365 * 24 * 3_600_000;

/** The time that never comes, as Postgres has it. */
export const NEVER = 'infinity';

/** The id of a tenant. */
export function readTenantId(text: string): string {
  return expect(UUID.test(text) ? text : undefined, "a tenant's id, as `npm run admin -- tenant list` shows it");
}

/** A name that is not blank. */
export function readName(text: string): string {
  return expect(/\S/.test(text) ? text : undefined, 'a name that is not blank');
}

/** Adds the name of a function to those before it. */
export function readPermission(text: string, earlier: readonly string[] = []): readonly string[] {
  const name = expect(/\S/.test(text) ? text : undefined, 'the name of a function');
  return [...new Set([...earlier, name])];
}

/** The environment that a key names: up to ten letters. */
export function readEnvironment(text: string): string {
  return expect(/^[a-z]{1,10}$/.test(text) ? text : undefined, '1 to 10 letters of a-z');
}

/** A duration in milliseconds. */
export function readDuration(text: string): number {
  return expect(toMilliseconds(text), A_DURATION);
}

/** A time to come, as Postgres reads it: of a duration from now, a date or a time, or NEVER. */
export function readWhen(text: string): string {
  if (text === 'never') return NEVER;
  const duration = toMilliseconds(text);
  const time = duration === undefined ? toDate(text) : new Date(Date.now() + duration);
  const when = expect(time, `${A_DURATION}, a date such as 2027-12-31, a time such as 2027-12-31T18:00Z, or never`);
  return expect(when.getTime() > Date.now() ? when.toISOString() : undefined, 'a time that has not passed');
}

/** The character between the values of a line; tab may be called by its name. */
export function readDelimiter(text: string): string {
  const character = text === 'tab' || text === '\\t' ? '\t' : text;
  return expect(/^[^"\r\n]$/u.test(character) ? character : undefined, 'one character, or tab');
}

/** An encoding that this Node can decode. */
export function readEncoding(text: string): string {
  try {
    return new TextDecoder(text).encoding;
  } catch {
    throw new InvalidArgumentError('Expected an encoding such as utf-8, windows-1252 or utf-16le.');
  }
}

function expect<T>(value: T | undefined, expected: string): T {
  if (value === undefined) throw new InvalidArgumentError(`Expected ${expected}.`);
  return value;
}

/** A number without a unit would be milliseconds, which nobody means. */
function toMilliseconds(text: string): number | undefined {
  const duration = DURATION.test(text) ? (ms(text as ms.StringValue) as number | undefined) : undefined;
  return duration !== undefined && duration <= LONGEST ? duration : undefined;
}

/** Undefined also for a day that does not exist, which Date takes for one of the next month. */
function toDate(text: string): Date | undefined {
  const [, day, time] = TIME.exec(text) ?? [];
  if (!day) return undefined;
  const midnight = new Date(`${day}T00:00Z`);
  const exists = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
  const date = time ? new Date(text) : midnight;
  return exists && !Number.isNaN(date.getTime()) ? date : undefined;
}
