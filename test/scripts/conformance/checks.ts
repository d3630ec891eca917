// Runs the checks on a gateway, or on a proxy that spoils its answers.

import type { OpenAPIV3 } from 'openapi-types';
import { expect } from 'vitest';
import { readContract } from '../../../scripts/conformance/operations.ts';
import type { Outcome, Report } from '../../../scripts/conformance/report.ts';
import { type RunOptions, runContract } from '../../../scripts/conformance/run.ts';
import { document, KEYS } from '../../helpers/api.ts';
import { openTestStore, startGateway } from '../../helpers/gateway.ts';
import { type Fault, startProxy } from './proxy.ts';

type Options = Partial<RunOptions> & { readonly document?: OpenAPIV3.Document };
export type Failed = Extract<Outcome, { result: 'failed' }>;

export const outcomesOf = ({ sections }: Report): Outcome[] => sections.flatMap(({ outcomes }) => outcomes);
export const failuresOf = (report: Report): Failed[] =>
  outcomesOf(report).flatMap((outcome) => (outcome.result === 'failed' ? [outcome] : []));
export const namesOf = (outcomes: readonly Outcome[]): string[] => outcomes.map(({ name }) => name);

/** How a curl line that reads begins. */
export const GET = 'curl -i -H "X-Api-Key: $API_KEY"';

/** The failure of a check; the curl line with the URL of the gateway as $URL. */
export function findFailure(name: string, failures: readonly Failed[], url: string): Failed {
  expect(namesOf(failures)).toContain(name);
  const found = failures.find((failure) => failure.name === name) as Failed;
  return { ...found, curl: found.curl.replace(url, '$URL') };
}

/** Starts a gateway with the demo data, and gives what checks it. */
export async function startChecks() {
  const gateway = await startGateway({ store: await openTestStore() });

  /** Runs the checks on the gateway. `document`: another one than the gateway's. */
  async function run({ document: other = document, ...options }: Options = {}): Promise<Report> {
    return runContract({
      contract: await readContract(other),
      url: gateway.url,
      key: KEYS.aurora,
      seed: 1,
      runs: 5,
      demo: false,
      readOnly: false,
      timeoutMs: 10_000,
      ...options,
    });
  }

  /** What a run finds in a gateway with this fault, and how it is called there. */
  async function findFaults(fault: Fault, options: Options): Promise<{ failures: Failed[]; url: string }> {
    const proxy = await startProxy(gateway.url, fault);
    const report = await run({ ...options, url: proxy.url });
    proxy.close();
    return { failures: failuresOf(report), url: proxy.url };
  }

  /** The failure of one check. */
  async function findFault(name: string, fault: Fault, options: Options): Promise<Failed> {
    const { failures, url } = await findFaults(fault, options);
    return findFailure(name, failures, url);
  }

  async function close(): Promise<void> {
    await gateway.close();
    await gateway.store.close();
  }

  return { gateway, run, findFaults, findFault, close };
}
