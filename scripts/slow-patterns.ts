// A rule for the linter of the document: a pattern must not take the gateway's time for one value. The gateway compares a pattern with
// no text that is longer than maxLength.

import { analyse } from 'scslre';

/** What a pattern that backtracks may be compared with, in characters. */
const MAX_LENGTH = 500;

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
  const [first, ...others] = tryToAnalyse(pattern);
  if (!first) return undefined;
  const doubling = [first, ...others].find(({ exponential }) => exponential);
  const example = JSON.stringify((doubling ?? first).character.pick);
  if (doubling) return `the time doubles with each ${example}: let no part that repeats have a part that repeats`;
  if (maxLength <= MAX_LENGTH) return undefined;
  return `many ${example} take more than linear time: give a maxLength of at most ${MAX_LENGTH}`;
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
