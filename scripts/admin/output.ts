import Table from 'cli-table3';
import { NEVER } from './arguments.ts';

/** What a command gives: one value for scripts, and a text for people. */
export type Output = { readonly json: unknown; readonly text: string };

/** Columns without lines and colours, two blanks apart; no head where there is none. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const table = new Table({
    head: [...head],
    chars: Object.fromEntries(CHARS.map((name) => [name, ''])),
    style: { 'padding-left': 0, 'padding-right': 2, head: [], border: [] },
  });
  table.push(...rows.map((row) => [...row]));
  return table.toString().replace(/ +$/gm, '');
}

const SIDES = ['top', 'bottom', 'left', 'right', 'mid', 'middle'] as const;
const CORNERS = ['top-mid', 'top-left', 'top-right', 'bottom-mid', 'bottom-left', 'bottom-right'] as const;
const CHARS = [...SIDES, ...CORNERS, 'left-mid', 'mid-mid', 'right-mid'] as const;

/** A time of Postgres as ISO 8601 in UTC; null where it is null or never comes. */
export function toTime(text: string | null): string | null {
  return text === null || text === NEVER ? null : new Date(text).toISOString();
}

/** A time for people, to the minute. */
export function toMinute(time: string | null): string {
  return time === null ? 'never' : `${time.slice(0, 16)}Z`;
}

/** A number of things, in English. */
export function toCount(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}
