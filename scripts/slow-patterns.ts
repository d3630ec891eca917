// A linter rule against patterns that can block the gateway with one value. It finds repetitions within and beside each other, but not
// alternatives that match the same text, such as (a|a)*.

import { analyse } from 'scslre';

type Schema = {
  readonly pattern?: unknown;
  readonly patternProperties?: Readonly<Record<string, unknown>>;
};
type Context = {
  readonly location: { child(name: string): object };
  report(problem: { readonly message: string; readonly location: object }): void;
};

/** Explains why a pattern is slow; undefined if its time is linear, or it is no regular expression. */
function findSlowness(pattern: string): string | undefined {
  const found = tryToAnalyse(pattern);
  const doubling = [...found, ...tryToAnalyse(toEndless(pattern))].find(({ exponential }) => exponential);
  const slow = doubling ?? found[0];
  const example = JSON.stringify(slow?.character.pick);
  if (doubling) return `the time doubles with each ${example}: let no part that repeats have a part that repeats`;
  return slow && `many ${example} take more than linear time: let no two parts that repeat match the same text`;
}

/** The minimum number of repetitions of a group for which the doubling takes noticeable time. */
const MANY = 5;

/** Replaces `{1,20}` by `{1,}`, because the time doubles up to that bound too. A group with few repetitions stays. */
function toEndless(pattern: string): string {
  return pattern.replace(/(\)?)\{(\d+)(?:,(\d+))?\}/g, (all, group: string, least: string, most = least) => {
    if (group ? Number(most) < MANY : most === least || most === '1') return all;
    return `${group}{${least},}`;
  });
}

function tryToAnalyse(pattern: string) {
  try {
    return analyse(new RegExp(pattern, 'u')).reports;
  } catch {
    // The compiler of the document refuses it.
    return [];
  }
}

function checkSchema({ pattern, patternProperties = {} }: Schema, { report, location }: Context): void {
  const check = (text: string, keyword: string) => {
    const slowness = findSlowness(text);
    if (slowness) report({ message: `pattern ${text}: ${slowness}`, location: location.child(keyword) });
  };
  if (typeof pattern === 'string') check(pattern, 'pattern');
  for (const name of Object.keys(patternProperties)) check(name, 'patternProperties');
}

export default () => ({ id: 'patterns', rules: { oas3: { slow: () => ({ Schema: checkSchema }) } } });
