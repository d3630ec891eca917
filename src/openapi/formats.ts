// The formats that requests and responses are validated by. Runs in browsers too, in the client's handlers for msw.

import type { Format } from 'ajv';
import { fullFormats } from 'ajv-formats/dist/formats.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const BRAZILIAN_DATE = /^(\d\d)\/(\d\d)\/(\d{4})$/;

/** Postgres stores microseconds, and no leap seconds. */
const TIME = /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$/;
/** The offset of a zone is less than 16 hours. */
const ZONE = /(?:Z|[+-](?:0\d|1[0-5]):[0-5]\d)$/i;
/** ajv-formats accepts a text of several lines if one of them is valid. A repeated group would overflow the stack at 5 MB. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** The pattern of ajv-formats, but with another user name: theirs can match what follows it, which takes quadratic time. */
const WEB_ADDRESS = new RegExp((fullFormats.url as RegExp).source.replace('\\S+(?::\\S*)?@', '[^\\s/]+@'), 'iu');

const date = fullFormats.date as { validate: (text: string) => boolean };

/** Postgres has no year zero. */
function isDate(text: string): boolean {
  return !text.startsWith('0000') && date.validate(text);
}

function isTime(text: string): boolean {
  return ZONE.test(text) && TIME.test(text.replace(ZONE, ''));
}

/** Whether a text is a time of RFC 3339 that Postgres accepts, and returns in UTC with a year of four digits. */
function isDateTime(text: string): boolean {
  const [day = '', time = '', ...more] = text.split(/[Tt ]/);
  if (more.length > 0 || !date.validate(day) || !isTime(time)) return false;
  const year = new Date(`${day}T${time.toUpperCase()}`).getUTCFullYear();
  return year >= 1 && year <= 9_999;
}

/** The formats by name. Dates, times, UUIDs and bytes are those that Postgres accepts. */
export const formats: Readonly<Record<string, Format>> = {
  ...fullFormats,
  // ajv-formats also accepts the prefix urn:uuid:, but Postgres does not.
  uuid: UUID,
  // Not checked here: schema.ts gives an int32 its bounds, and a value outside of them would get two messages.
  int32: true,
  url: WEB_ADDRESS,
  date: { ...date, validate: isDate },
  byte: (text: string) => text.length % 4 === 0 && BASE64.test(text),
  time: isTime,
  'date-time': isDateTime,
  // These two have no time zone; they are in the registry of OpenAPI's formats.
  'time-local': TIME,
  'date-time-local': (text: string) => {
    const [day = '', time = '', ...more] = text.split('T');
    return more.length === 0 && TIME.test(time) && isDate(day);
  },
  'birth-date': (text: string) => isDate(text.replace(BRAZILIAN_DATE, '$3-$2-$1')),
};
