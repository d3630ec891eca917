// Dates and times as Postgres's row_to_json writes them in UTC: ISO 8601, and values for which that has no form.

import { copy, type Form } from './values.ts';

const QUOTE = 0x22;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
/** All numbers of two digits. */
const TWO_DIGITS = Buffer.from(Array.from({ length: 100 }, (_, n) => String(n).padStart(2, '0')).join(''));
const UTC = Buffer.from('+00:00');
const BEFORE_CHRIST = Buffer.from(' BC');

/** A day, in microseconds. */
const DAY = 86_400_000_000;
/** From the first of March of the year 0, with which the years of leap days begin, to Postgres' first of January 2000. */
const DAYS_BEFORE_2000 = 730_425;

/** A day, which is sent as a number of days from 2000 on. */
export const date: Form = {
  isBinary: true,
  write(bytes, begin, _end, out, from) {
    const days = bytes.readInt32BE(begin);
    if (days === 0x7fffffff || days === -0x80000000) return writeInfinity(days > 0, out, from);
    const day = toDay(days);
    out[from] = QUOTE;
    return close(day, out, writeDay(day, out, from + 1));
  },
};

/** A time without a zone, which is sent in microseconds from 2000 on. */
export const timestamp: Form = {
  isBinary: true,
  write: (bytes, begin, _end, out, to) => writeTime(bytes, begin, false, out, to),
};

/** A time, which is sent in microseconds of UTC from 2000 on. */
export const timestamptz: Form = {
  isBinary: true,
  write: (bytes, begin, _end, out, to) => writeTime(bytes, begin, true, out, to),
};

function writeTime(bytes: Buffer, begin: number, isZoned: boolean, out: Buffer, from: number): number {
  const high = bytes.readInt32BE(begin);
  const low = bytes.readUInt32BE(begin + 4);
  if (high === 0x7fffffff && low === 0xffffffff) return writeInfinity(true, out, from);
  if (high === -0x80000000 && low === 0) return writeInfinity(false, out, from);
  const [days, micros] = toDays(high, low);
  const day = toDay(days);
  const seconds = quotient(micros, 1_000_000);
  out[from] = QUOTE;
  let to = writeDay(day, out, from + 1);
  out[to] = 0x54;
  to = writeTwo(quotient(seconds, 3_600), out, to + 1);
  out[to] = COLON;
  to = writeTwo(quotient(seconds, 60) % 60, out, to + 1);
  out[to] = COLON;
  to = writeTwo(seconds % 60, out, to + 1);
  to = writeFraction(micros - seconds * 1_000_000, out, to);
  return close(day, out, isZoned ? copy(UTC, 0, UTC.length, out, to) : to);
}

/** Whole days and the microseconds of the last one; a number has all of them for 285 years before and after 2000. */
function toDays(high: number, low: number): readonly [days: number, micros: number] {
  if (high < -0x200000 || high >= 0x200000) {
    const all = (BigInt(high) << 32n) + BigInt(low);
    const micros = ((all % BigInt(DAY)) + BigInt(DAY)) % BigInt(DAY);
    return [Number((all - micros) / BigInt(DAY)), Number(micros)];
  }
  const all = high * 0x100000000 + low;
  const days = Math.floor(all / DAY);
  return [days, all - days * DAY];
}

type Day = { readonly year: number; readonly month: number; readonly day: number };

/** The Gregorian day that is so many days after 2000-01-01. It counts in years that begin in March, in cycles of 400. */
function toDay(days: number): Day {
  const all = days + DAYS_BEFORE_2000;
  const cycle = Math.floor(all / 146_097);
  const ofCycle = all - cycle * 146_097;
  const leapDays = quotient(ofCycle, 1_460) - quotient(ofCycle, 36_524) + quotient(ofCycle, 146_096);
  const yearOfCycle = quotient(ofCycle - leapDays, 365);
  const ofYear = ofCycle - 365 * yearOfCycle - quotient(yearOfCycle, 4) + quotient(yearOfCycle, 100);
  // Five months from March have 153 days, and so have the five after them.
  const fromMarch = quotient(5 * ofYear + 2, 153);
  const day = ofYear - quotient(153 * fromMarch + 2, 5) + 1;
  const isNextYear = fromMarch >= 10;
  return {
    year: yearOfCycle + cycle * 400 + (isNextYear ? 1 : 0),
    month: isNextYear ? fromMarch - 9 : fromMarch + 3,
    day,
  };
}

function writeDay({ year, month, day }: Day, out: Buffer, from: number): number {
  // There is no year 0: the one before 1 is 1 before Christ.
  const shown = year > 0 ? year : 1 - year;
  let to = from;
  if (shown < 10_000) to = writeTwo(shown % 100, out, writeTwo(quotient(shown, 100), out, to));
  else to += out.write(String(shown), to, 'latin1');
  out[to] = MINUS;
  to = writeTwo(month, out, to + 1);
  out[to] = MINUS;
  return writeTwo(day, out, to + 1);
}

/** Up to the last digit that is not 0. */
function writeFraction(micros: number, out: Buffer, from: number): number {
  if (micros === 0) return from;
  out[from] = DOT;
  let to = from + 1;
  for (let rest = micros; rest > 0; rest = (rest % 100_000) * 10) out[to++] = ZERO + quotient(rest, 100_000);
  return to;
}

function writeTwo(value: number, out: Buffer, to: number): number {
  out[to] = TWO_DIGITS[2 * value] as number;
  out[to + 1] = TWO_DIGITS[2 * value + 1] as number;
  return to + 2;
}

/** Of whole numbers that are not negative; in 32 bits, in which the processor divides several times as fast. */
function quotient(dividend: number, divisor: number): number {
  return (dividend / divisor) | 0;
}

function close({ year }: Day, out: Buffer, from: number): number {
  const to = year > 0 ? from : copy(BEFORE_CHRIST, 0, BEFORE_CHRIST.length, out, from);
  out[to] = QUOTE;
  return to + 1;
}

function writeInfinity(isPositive: boolean, out: Buffer, to: number): number {
  return to + out.write(isPositive ? '"infinity"' : '"-infinity"', to, 'latin1');
}
