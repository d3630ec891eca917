// Runs the checks of one operation after the other, concurrently within an operation.

import { type Check, createOrExplain, type Setting, skip, Unknown } from './check.ts';
import { Client, type ClientOptions, CONCURRENCY, Mismatch, Unreachable } from './client.ts';
import { isList, type Operation } from './contract.ts';
import { Coverage } from './coverage.ts';
import { createCreationChecks } from './creations.ts';
import { createExampleChecks } from './examples.ts';
import { createHeaderChecks, createPathChecks } from './http.ts';
import { createInputChecks } from './inputs.ts';
import { createHiddenChecks, createKeyChecks, createLimitCheck, createUntouchedCheck, readForeign } from './keys.ts';
import { createListChecks } from './lists.ts';
import type { Outcome, Report, Section } from './report.ts';
import { isRead, LIMITED_KEY, NEAR_KEYS, OTHER_KEY, OWN_KEY, READ_KEY, toCurl } from './request.ts';

export type RunOptions = Omit<
  Setting,
  'client' | 'coverage' | 'foreign' | 'shown' | 'nearKeys' | 'operations' | 'sender'
> &
  Omit<ClientOptions, 'keys' | 'keyHeader'> & {
    readonly key: string;
    /** By operationId; all by default. */
    readonly only?: readonly string[] | undefined;
  };

/** Characters of an answer in a report. */
const MAX_TEXT = 400;

/** Runs all checks, as long as the deployment answers; the report says why it has ended early. */
export async function runContract(
  options: RunOptions,
  onSection: (section: Section) => void = () => {},
): Promise<Report> {
  const { contract, url, seed, runs, only, otherKey, readKey, limitedKey } = options;
  const near = [...NEAR_KEYS].map(([symbol, change]) => [symbol, change(options.key)] as const);
  const keys = new Map<symbol, string | undefined>([
    [OWN_KEY, options.key],
    [OTHER_KEY, otherKey],
    [READ_KEY, readKey],
    [LIMITED_KEY, limitedKey],
    ...near,
  ]);
  const client = new Client({ ...options, keys, keyHeader: contract.keyHeader });
  const coverage = new Coverage();
  const operations = contract.operations.filter(({ id }) => only?.includes(id) ?? true);
  const nearKeys = near.filter(([, key]) => key !== options.key).map(([symbol]) => symbol);
  const setting: Setting = { ...options, client, coverage, foreign: new Map(), shown: new Map(), nearKeys, operations };
  const started = performance.now();
  const sections: Section[] = [];
  let stopped: Error | undefined;
  const add = async (title: string, checks: Iterable<Check>, first: readonly Outcome[] = []) => {
    const begun = performance.now();
    const outcomes = [...first, ...(await runChecks(setting, [...checks]))];
    const section = { title, seconds: secondsSince(begun), outcomes };
    sections.push(section);
    onSection(section);
  };
  try {
    await client.probe();
    if (otherKey) await readForeign(setting);
    for (const operation of operations) {
      const [entry, ...checks] = createOrExplain('everything', () => createChecks(setting, operation));
      const first = await runCheck(setting, entry as Check);
      const obstacle = findObstacle(url, first);
      const possible = obstacle === undefined ? checks : checks.map(({ name }) => skip(name, obstacle));
      await add(`${operation.method} ${operation.path}`, possible, [first]);
    }
    await add('Paths', createPathChecks(setting));
    const read = contract.operations.find(isRead);
    if (limitedKey && read) await add('A key over its limit', [createLimitCheck(setting, read)]);
    if (otherKey) await add('Another tenant', [...createHiddenChecks(setting), createUntouchedCheck(setting)]);
  } catch (error) {
    // Our own mistakes are reported too: without a report, the file of an earlier run would stay.
    stopped = error as Error;
    const { message: got } = stopped;
    const failed = { result: 'failed', seconds: 0, curl: '# no request', expected: 'an answer', got } as const;
    sections.push({ title: 'The deployment', seconds: 0, outcomes: [{ name: 'answers', ...failed }] });
  } finally {
    await client.close();
  }
  return {
    ...{ url, seed, runs, requests: client.sent, seconds: secondsSince(started), stopped },
    ...{ sections, created: client.created, coverage: coverage.report(operations) },
  };
}

/** The checks of an operation. If the first one fails, the others may be pointless. */
function* createChecks(setting: Setting, operation: Operation): Generator<Check> {
  if (setting.readOnly && !isRead(operation)) {
    yield skip('everything', 'it writes, and --read-only sends only reads');
    return;
  }
  yield* createInputChecks(setting, operation);
  yield* createExampleChecks(setting, operation);
  yield* createHeaderChecks(setting, operation);
  if (isList(operation)) yield* createListChecks(setting, operation);
  yield* createCreationChecks(setting, operation);
  yield* createKeyChecks(setting, operation);
}

/** Why all other checks would fail too; undefined if they may pass. */
function findObstacle(url: string, first: Outcome): string | undefined {
  const got = first.result === 'failed' ? first.got : '';
  if (/^401 /m.test(got)) return 'the operation refuses the key';
  if (/^429 /m.test(got)) return 'the key, or the address of this run, is over its limit';
  if (/^404 /m.test(got)) return `nothing is there: does ${url} end with the path of the document's server?`;
  if (/^30\d /m.test(got)) return 'the deployment redirects: --url has to be where it leads';
  return undefined;
}

async function runChecks(setting: Setting, checks: readonly Check[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const queue = checks.entries();
  const work = async () => {
    for (const [index, check] of queue) outcomes[index] = await runCheck(setting, check);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return outcomes;
}

async function runCheck({ url, contract, client }: Setting, { name, run }: Check): Promise<Outcome> {
  const started = performance.now();
  try {
    await run();
    return { name, result: 'passed', seconds: secondsSince(started) };
  } catch (error) {
    const toText = (text: string) => shorten(client.hideKeys(text));
    if (error instanceof Unreachable) throw error;
    if (error instanceof Unknown) return { name, result: 'skipped', reason: toText(error.message) };
    const failed = { name, result: 'failed', seconds: secondsSince(started) } as const;
    if (!(error instanceof Mismatch)) {
      // A mistake of a check must not hide what the others find.
      const got = toText((error as Error).stack ?? String(error));
      return { ...failed, curl: '# no request: the check itself failed', expected: 'a result', got };
    }
    const { request, expected, got } = error;
    return {
      ...failed,
      curl: client.hideKeys(toCurl(url, contract.keyHeader, request)),
      expected: toText(expected),
      got: toText(got),
    };
  }
}

function shorten(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}… (${text.length} characters)`;
}

function secondsSince(started: number): number {
  return Math.round(performance.now() - started) / 1_000;
}
