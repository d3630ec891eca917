// The limits of a key: how fast it may call, and how often in a day and a month.

import type { TakeToken } from './buckets.ts';

/** The limits of a key, as the store has them; a missing one does not limit. */
export type KeyLimits = {
  /** Calls per minute, and how many of them may come at once: `per_minute` by default. */
  readonly per_minute?: number;
  readonly burst?: number;
  readonly per_day?: number;
  readonly per_month?: number;
};

/** Whether a call is within the limits of its key. */
export type Admission = {
  /** The header fields of its answer (draft-ietf-httpapi-ratelimit-headers-11). */
  readonly headers: { readonly 'RateLimit-Policy': string; readonly RateLimit: string };
  /** For a call over a limit, the seconds until another may be within it. */
  readonly retryAfter?: number | undefined;
};

/** A limit after a call: `quota` calls in `window` seconds, what remains of them, and the seconds until they are available again. */
type LimitState = { readonly name: string } & Readonly<Record<'quota' | 'window' | 'remaining' | 'seconds', number>>;

/** Describes the limits of a call. */
export function toAdmission(limits: readonly LimitState[], retryAfter?: number): Admission {
  const policies = limits.map(({ name, quota, window }) => `"${name}";q=${quota};w=${window}`);
  const states = limits.map(({ name, remaining, seconds }) => `"${name}";r=${remaining};t=${seconds}`);
  return { headers: { 'RateLimit-Policy': policies.join(', '), RateLimit: states.join(', ') }, retryAfter };
}

/** The store's answer for a key that it knows. */
export type KeyState = {
  /** The SHA-256 of the key. */
  readonly key: string;
  /** The key whose limits these are: the first of its rotations. */
  readonly original_id: string;
  readonly limits: KeyLimits;
  /** The calls that all processes have recorded. */
  readonly today: number;
  readonly month: number;
};

/** The number of calls of one kind, in the form that the store takes. */
export type UsageRow = {
  readonly key: string;
  readonly day: string;
  readonly class: string;
  readonly operation: string;
  calls: number;
};

/** The class of refused calls, which count against no limit. */
export const REFUSED_CLASS = '429';

/** A moment in a time zone. */
type Moment = {
  /** The day, as YYYY-MM-DD. */
  readonly day: string;
  /** Seconds until the end of the day and of the month, without any change of the clocks. */
  readonly dayEnd: number;
  readonly monthEnd: number;
  /** The length of the month in seconds. */
  readonly monthLength: number;
};

/** The calls of a period that this process knows of. */
type Period = {
  readonly name: 'day' | 'month';
  /** Such as 2026-11-30 or 2026-11. */
  begin: string;
  /** The calls that the store has counted. */
  recorded: number;
  /** The calls that this process has admitted or counted since. */
  own: number;
};

/** The window of a limit per minute, in seconds. */
export const MINUTE = 60;
const MINUTE_MS = 60_000;
const DAY = 86_400;

/** The limits of a known key, and its calls against them. */
export class Account {
  /** The SHA-256 of the key. */
  readonly hash: string;
  /** The calls that are not sent to the store yet, by day, class and operation. */
  readonly rows = new Map<string, UsageRow>();
  /** Whether its calls have to be admitted. */
  isLimited = false;
  /** When the store was last asked for its limits, in ms since 1970. */
  askedAt = 0;
  #limits: KeyLimits = {};
  #bucket = '';
  readonly #periods: readonly Period[] = [
    { name: 'day', begin: '', recorded: 0, own: 0 },
    { name: 'month', begin: '', recorded: 0, own: 0 },
  ];

  constructor(hash: string) {
    this.hash = hash;
  }

  /** Takes over the store's counts of a day, which include the `recorded` calls of this process. */
  update({ original_id, limits, today, month }: KeyState, day: string, recorded: readonly UsageRow[]): void {
    const isNumber = ([, limit]: [string, unknown]) => Number.isSafeInteger(limit) && Number(limit) > 0;
    this.#limits = Object.fromEntries(Object.entries(limits).filter(isNumber));
    this.isLimited = Object.keys(this.#limits).length > 0;
    this.#bucket = original_id;
    for (const period of this.#periods) {
      // Another day may have begun meanwhile.
      if (toBegin(period, day) < period.begin) continue;
      begin(period, day);
      const added = recorded.filter((row) => row.day.startsWith(period.begin) && row.class !== REFUSED_CLASS);
      period.own = Math.max(0, period.own - added.reduce((sum, { calls }) => sum + calls, 0));
      period.recorded = period.name === 'day' ? today : month;
    }
  }

  /** Adds calls to those of this process. */
  add(calls: number, { day }: Moment): void {
    for (const period of this.#periods) {
      begin(period, day);
      period.own += calls;
    }
  }

  /** Admits a call, and counts it, if it is within all limits. */
  async admit(moment: Moment, take: TakeToken): Promise<Admission> {
    const periods = this.#periods.flatMap((period) => {
      const { name } = period;
      const quota = this.#limits[`per_${name}`];
      if (quota === undefined) return [];
      begin(period, moment.day);
      const [window, seconds] = name === 'day' ? [DAY, moment.dayEnd] : [moment.monthLength, moment.monthEnd];
      return [{ left: quota - period.recorded - period.own, limit: { name, quota, window, seconds } }];
    });
    // The month comes last, and has the longest wait.
    const spent = periods.findLast(({ left }) => left <= 0);
    // Counted before the wait for the token, so that concurrent calls see it.
    if (!spent) this.add(1, moment);
    const minute = await this.#takeToken(take, spent ? 0 : 1);
    if (!spent && minute?.retryAfter) this.add(-1, moment);
    const retryAfter = spent?.limit.seconds ?? minute?.retryAfter;
    const counted = retryAfter === undefined ? 1 : 0;
    const states = periods.map(({ left, limit }) => ({ ...limit, remaining: Math.max(0, left - counted) }));
    return toAdmission([...states, ...(minute ? [minute.state] : [])], retryAfter);
  }

  /** A call that a quota refuses takes no token, and only reads how many there are. */
  async #takeToken(take: TakeToken, tokens: 0 | 1) {
    const { per_minute: quota, burst = quota } = this.#limits;
    if (quota === undefined || burst === undefined) return undefined;
    const { retryAfter, ...taken } = await take(this.#bucket, { perMinute: quota, burst }, tokens);
    return { retryAfter, state: { name: 'minute', quota, window: MINUTE, ...taken } };
  }
}

/** Starts a new period on another day. A clock that goes back starts an earlier one, without its counts until the store sends them. */
function begin(period: Period, day: string): void {
  const text = toBegin(period, day);
  if (period.begin !== text) Object.assign(period, { begin: text, recorded: 0, own: 0 });
}

function toBegin({ name }: Period, day: string): string {
  return name === 'day' ? day : day.slice(0, 'YYYY-MM'.length);
}

/** Creates the calendar of a time zone (IANA); throws RangeError for one that does not exist. `now` is in ms since 1970. */
export function createCalendar(timeZone: string, now: () => number): () => Moment {
  const parts = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' } as const;
  // Swedish writes 2026-11-30 23:59.
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, ...parts });
  let minute: number | undefined;
  let moment: Moment;
  return () => {
    const ms = now();
    const current = Math.floor(ms / MINUTE_MS);
    if (current !== minute) {
      minute = current;
      moment = read(format.format(ms));
    }
    return moment;
  };
}

function read(text: string): Moment {
  const [year = 0, month = 0, date = 0, hour = 0, minute = 0] = text.split(/\D/).map(Number);
  const days = new Date(Date.UTC(year, month, 0)).getUTCDate();
  const dayEnd = DAY - (hour * 60 + minute) * 60;
  return { day: text.slice(0, 10), dayEnd, monthEnd: dayEnd + (days - date) * DAY, monthLength: days * DAY };
}
