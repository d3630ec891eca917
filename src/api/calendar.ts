/** A moment in a time zone. */
export type Moment = {
  /** The day, as YYYY-MM-DD. */
  readonly day: string;
  /** Seconds to the end of the day and of the month, on a day without a change of the clocks. */
  readonly dayEnd: number;
  readonly monthEnd: number;
  /** Seconds of the month. */
  readonly monthLength: number;
};

const MINUTE = 60_000;
const DAY = 86_400;

/** Creates the calendar of a time zone (IANA); throws RangeError for one that does not exist. `now` is in ms since 1970. */
export function createCalendar(timeZone: string, now: () => number): () => Moment {
  const parts = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' } as const;
  // As 2026-11-30 23:59.
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, ...parts });
  let minute: number | undefined;
  let moment: Moment;
  return () => {
    const ms = now();
    const current = Math.floor(ms / MINUTE);
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
