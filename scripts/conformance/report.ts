// What a run has found.

import type { Created } from './client.ts';

/** How a check ended. */
export type Outcome = { readonly name: string } & (
  | { readonly result: 'passed'; readonly seconds: number }
  | {
      readonly result: 'failed';
      readonly seconds: number;
      /** The shortest request that fails. */
      readonly curl: string;
      readonly expected: string;
      readonly got: string;
    }
  | { readonly result: 'skipped'; readonly reason: string }
);

/** The checks of an operation. */
export type Section = { readonly title: string; readonly seconds: number; readonly outcomes: readonly Outcome[] };

/** All of a run. */
export type Report = {
  readonly url: string;
  readonly seed: number;
  readonly runs: number;
  readonly requests: number;
  readonly seconds: number;
  readonly sections: readonly Section[];
  /** What the run has left behind. */
  readonly created: Created;
};

/** Whether anything failed. */
export function hasFailed({ sections }: Report): boolean {
  return sections.some(({ outcomes }) => outcomes.some(({ result }) => result === 'failed'));
}
