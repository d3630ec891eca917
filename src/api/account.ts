// The limits of a key: how fast it may call, and how often in a day and a month.

import type { RequestRecord } from '../telemetry/record.ts';
import type { TakeToken } from './buckets.ts';
import type { Moment } from './calendar.ts';

/** The limits of a key, as the store has them; what is left out has no limit. */
export type KeyLimits = {
  /** Calls per minute, and how many of them may come at once: those of a minute by default. */
  readonly per_minute?: number;
  readonly burst?: number;
  readonly per_day?: number;
  readonly per_month?: number;
};

/** Whether a call is admitted, with the header fields of its answer: for one that is not, the seconds after which another may be. */
export type Admission = NonNullable<RequestRecord['limits']> & { readonly retryAfter?: number };

/** What the store says of a key. */
export type KeyState = {
  /** The key whose limits these are: the first of its rotations. */
  readonly original_id: string;
  readonly limits: KeyLimits;
  /** The calls that all processes have recorded. */
  readonly today: number;
  readonly month: number;
};

/** The calls of a period that this process knows of. */
type Period = {
  readonly name: 'day' | 'month';
  /** Such as 2026-11-30 or 2026-11. */
  begin: string;
  /** What the store has counted. */
  recorded: number;
  /** What this process has admitted or counted since. */
  own: number;
};

const MINUTE = 60;
const DAY = 86_400;

/** A key that is known: its limits, and its calls against them. */
export class Account {
  /** Whether its calls have to be admitted. */
  isLimited = false;
  #limits: KeyLimits = {};
  #bucket = '';
  readonly #periods: readonly Period[] = [
    { name: 'day', begin: '', recorded: 0, own: 0 },
    { name: 'month', begin: '', recorded: 0, own: 0 },
  ];

  /** Takes what the store says on a day, after it has recorded these calls of this process. */
  update(
    { original_id, limits, today, month }: KeyState,
    day: string,
    recorded: readonly { readonly day: string; readonly calls: number }[],
  ): void {
    const isNumber = ([, limit]: [string, unknown]) => Number.isSafeInteger(limit) && Number(limit) > 0;
    this.#limits = Object.fromEntries(Object.entries(limits).filter(isNumber));
    this.isLimited = Object.keys(this.#limits).length > 0;
    this.#bucket = original_id;
    for (const period of this.#periods) {
      // Another day may have begun meanwhile.
      if (toBegin(period, day) < period.begin) continue;
      begin(period, day);
      const added = recorded.filter((row) => row.day.startsWith(period.begin));
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
    const policies: string[] = [];
    const states: string[] = [];
    const waits: number[] = [];
    const describe = (name: string, quota: number, window: number, remaining: number, seconds: number) => {
      policies.push(`"${name}";q=${quota};w=${window}`);
      states.push(`"${name}";r=${remaining};t=${seconds}`);
    };

    for (const period of this.#periods) {
      const quota = this.#limits[`per_${period.name}`];
      if (quota === undefined) continue;
      begin(period, moment.day);
      const remaining = quota - period.recorded - period.own;
      const isDay = period.name === 'day';
      const end = isDay ? moment.dayEnd : moment.monthEnd;
      describe(period.name, quota, isDay ? DAY : moment.monthLength, Math.max(0, remaining - 1), end);
      if (remaining <= 0) waits.push(end);
    }
    const { per_minute: perMinute, burst = perMinute } = this.#limits;
    // A call that a quota refuses takes no token. One that takes a token counts before others ask.
    const isWithinQuotas = waits.length === 0;
    if (isWithinQuotas) this.add(1, moment);
    if (isWithinQuotas && perMinute !== undefined && burst !== undefined) {
      const { isOver, remaining, seconds } = await take(this.#bucket, { perMinute, burst });
      describe('minute', perMinute, MINUTE, remaining, seconds);
      if (isOver) {
        this.add(-1, moment);
        waits.push(seconds);
      }
    }
    const fields = { policy: policies.join(', '), state: states.join(', ') };
    return waits.length > 0 ? { ...fields, retryAfter: Math.max(...waits) } : fields;
  }
}

/** Begins the next period on its first day. A clock that goes back begins an earlier one, until the store says what it has. */
function begin(period: Period, day: string): void {
  const text = toBegin(period, day);
  if (period.begin !== text) Object.assign(period, { begin: text, recorded: 0, own: 0 });
}

function toBegin({ name }: Period, day: string): string {
  return name === 'day' ? day : day.slice(0, 'YYYY-MM'.length);
}
