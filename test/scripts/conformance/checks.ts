// Runs the checks on a gateway, or on one with a fault between it and them.

import type { OpenAPIV3 } from 'openapi-types';
import { expect } from 'vitest';
import { parse } from 'yaml';
import type { Answer, Exchange } from '../../../scripts/conformance/client.ts';
import { readContract } from '../../../scripts/conformance/contract.ts';
import type { Failed, Outcome, Report } from '../../../scripts/conformance/report.ts';
import type { Request } from '../../../scripts/conformance/request.ts';
import { type RunOptions, runContract } from '../../../scripts/conformance/run.ts';
import { document, KEYS, operations } from '../../helpers/api.ts';
import { openTestStore, startGateway } from '../../helpers/gateway.ts';

export type Options = Partial<RunOptions> & { readonly document?: OpenAPIV3.Document };

/** A fault of a gateway: what it reads instead of the request, and what it answers instead of the right answer. */
export type Fault = {
  readonly ask?: (request: Request) => Partial<Request>;
  readonly answer?: (answer: Answer, request: Request) => Partial<Answer>;
};

export const outcomesOf = ({ sections }: Report): Outcome[] => sections.flatMap(({ outcomes }) => outcomes);
export const failuresOf = (report: Report): Failed[] =>
  outcomesOf(report).filter((outcome) => outcome.result === 'failed');
export const namesOf = (outcomes: readonly Outcome[]): string[] => outcomes.map(({ name }) => name);

/** The beginning of the curl line of a read. */
export const GET = 'curl -i -H "X-Api-Key: $API_KEY"';

/** The query of a request, as it is written. Empty without one. */
export const queryOf = ({ target }: Request): string => target.split('?')[1] ?? '';

export const spoil =
  ({ ask, answer }: Fault) =>
  (exchange: Exchange): Exchange =>
  async (request) => {
    const answered = await exchange({ ...request, ...ask?.(request) });
    return { ...answered, ...answer?.(answered, request) };
  };

/** Runs the checks of a document with these paths on `exchange`, in place of a gateway. */
export async function runWith(paths: string, exchange: Exchange, keys?: Pick<RunOptions, 'otherKey'>) {
  const contract = await readContract({ ...document, paths: parse(paths) });
  const options = { url: 'http://localhost', key: 'a', seed: 1, runs: 3, timeoutMs: 1_000, ...keys };
  return outcomesOf(await runContract({ ...options, contract, intercept: () => exchange }));
}

/** Gives the read-only key the permission for every read, also for those that somebody has added. */
const READS = operations.filter(({ method }) => method === 'GET').map(({ rpc }) => `'${rpc}'`);
const MAY_READ = `update private.api_keys set permissions = array[${READS}] where name = 'Leitura'`;

/** The key of a tenant with more gyms than a run compares, and the SQL that creates them. */
export const KEY_OF_MANY = 'wms_demo_muitas';
const MANY = `insert into private.tenants (id, name) values ('c1000000-0000-4000-8000-000000000000', 'Muitas');
  insert into private.api_keys (tenant_id, name, key_hash)
  values ('c1000000-0000-4000-8000-000000000000', 'Muitas', sha256('${KEY_OF_MANY}'));
  insert into private.academias (tenant_id, nome)
  select 'c1000000-0000-4000-8000-000000000000', 'Unidade ' || n from generate_series(1, 5100) n;`;

/** Starts a gateway with the demo data, and returns functions that check it. `other`: another document, with the SQL that serves it. */
export async function startChecks(other?: { readonly document: OpenAPIV3.Document; readonly sql: string }) {
  const store = await openTestStore({ sql: other?.sql ?? `${MAY_READ}; ${MANY}` });
  const gateway = await startGateway({ store, ...(other ? { document: other.document } : {}) });
  const contract = await readContract(other?.document ?? document);

  /** Runs the checks on the gateway. `document`: a document other than the gateway's. */
  async function run({ document: another, ...options }: Options = {}): Promise<Report> {
    return runContract({
      contract: another ? await readContract(another) : contract,
      ...{ url: gateway.url.replace(/\/$/, ''), key: KEYS.aurora, seed: 1, runs: 5, timeoutMs: 10_000 },
      ...options,
    });
  }

  /** The failures that a run finds in a gateway with this fault. */
  const findFaults = async (fault: Fault, options: Options): Promise<Failed[]> =>
    failuresOf(await run({ ...options, intercept: spoil(fault) }));

  /** What the report says of the failure of one check; the curl line with the URL of the gateway as $URL. */
  async function findFault(name: string, fault: Fault, options: Options): Promise<string> {
    const failures = await findFaults(fault, options);
    expect(namesOf(failures)).toContain(name);
    const { curl, expected, got } = failures.find((failure) => failure.name === name) as Failed;
    return `${curl.replace(gateway.url, '$URL')}\nexpected ${expected}, got ${got}`;
  }

  /** Runs the checks. Returns the report and the requests that they sent. */
  async function record(options: Options): Promise<{ report: Report; sent: Request[] }> {
    const sent: Request[] = [];
    const ask = (request: Request) => {
      sent.push(request);
      return {};
    };
    return { report: await run({ ...options, intercept: spoil({ ask }) }), sent };
  }

  async function close(): Promise<void> {
    await gateway.close();
    await gateway.store.close();
  }

  return { gateway, run, record, findFaults, findFault, close };
}
