/** The median and the range of several values. */
export type Spread = { readonly median: number; readonly min: number; readonly max: number };

/** Undefined without values. */
export function toSpread(values: readonly number[]): Spread | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  const [min, max] = [sorted[0], sorted.at(-1)];
  if (min === undefined || max === undefined) return undefined;
  const middle = sorted.length / 2;
  const median = ((sorted[Math.ceil(middle) - 1] ?? min) + (sorted[Math.floor(middle)] ?? max)) / 2;
  return { median, min, max };
}

/** The median and two high percentiles of sorted values. */
export function toPercentiles(sorted: ArrayLike<number>): { p50: number; p90: number; p99: number } {
  return { p50: toPercentile(sorted, 0.5), p90: toPercentile(sorted, 0.9), p99: toPercentile(sorted, 0.99) };
}

/** The percentile of sorted values by the nearest rank; `part` is 0 to 1. */
export function toPercentile(sorted: ArrayLike<number>, part: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? Number.NaN;
}
