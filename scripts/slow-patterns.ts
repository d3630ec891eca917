// A rule for the linter of the document: a pattern must not take the gateway's time for one value. It finds parts that repeat within and
// beside each other, and not alternatives that match the same text, such as (a|a)*. The gateway compares a pattern with no text that is
// longer than maxLength.

import { analyse } from 'scslre';

/** Steps that a comparison may take, which are some milliseconds. */
const MAX_STEPS = 2e7;

type Schema = {
  readonly pattern?: unknown;
  readonly maxLength?: number;
  readonly patternProperties?: Readonly<Record<string, unknown>>;
};
type Context = {
  readonly location: { child(name: string): object };
  report(problem: { readonly message: string; readonly location: object }): void;
};

/** Why a text of this length may take long to compare; undefined if it takes linear time, or is no regular expression. */
export function findSlowness(pattern: string, maxLength = Infinity): string | undefined {
  const found = tryToAnalyse(pattern);
  const [first] = found;
  if (!first) return undefined;
  const doubling = found.find(({ exponential }) => exponential);
  const example = JSON.stringify((doubling ?? first).character.pick);
  if (doubling) return `the time doubles with each ${example}: let no part that repeats have a part that repeats`;
  // Each part that shares its text with another one is a power of the length.
  const most = Math.floor(MAX_STEPS ** (1 / (found.length + 1)));
  return maxLength > most
    ? `many ${example} take more than linear time: give a maxLength of at most ${most}`
    : undefined;
}

function tryToAnalyse(pattern: string) {
  try {
    return analyse(new RegExp(pattern, 'u')).reports;
  } catch {
    // The compiler of the document refuses it.
    return [];
  }
}

export default () => ({
  id: 'patterns',
  rules: {
    oas3: {
      slow: () => ({
        Schema({ pattern, maxLength, patternProperties = {} }: Schema, { report, location }: Context) {
          const check = (text: string, keyword: string, length?: number) => {
            const slowness = findSlowness(text, length);
            if (slowness) report({ message: `pattern ${text}: ${slowness}`, location: location.child(keyword) });
          };
          if (typeof pattern === 'string') check(pattern, 'pattern', maxLength);
          for (const name of Object.keys(patternProperties)) check(name, 'patternProperties');
        },
      }),
    },
  },
});
