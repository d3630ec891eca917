// A run: one operation after the other, its checks concurrently.

import { type Check, Mismatch, type Setting, type Skipped } from './check.ts';
import { Client, type ClientOptions, CONCURRENCY, Unreachable } from './client.ts';
import { Coverage } from './coverage.ts';
import { createCreationChecks } from './creations.ts';
import { createExampleChecks } from './examples.ts';
import { createHeaderChecks } from './headers.ts';
import { createInputChecks } from './inputs.ts';
import { createListChecks } from './lists.ts';
import type { Contract, Operation } from './operations.ts';
import { createPathChecks } from './paths.ts';
import type { Outcome, Report, Section } from './report.ts';
import { isRead, LIMITED_KEY, OTHER_KEY, OWN_KEY, READ_KEY, toCurl } from './request.ts';
import type { ListOperation } from './rows.ts';
import { createLimitCheck, createReadKeyCheck, createTenantChecks, type TenantChecks } from './tenants.ts';

export type RunOptions = Omit<Setting, 'client' | 'key' | 'coverage'> & {
  readonly contract: Contract;
  /** The URL before the operations' paths. */
  readonly url: string;
  readonly key: string;
  /** Another tenant's key, one that may only read, and one over its limit. */
  readonly otherKey?: string;
  readonly readKey?: string;
  readonly limitedKey?: string;
  /** Maximum time for an answer. */
  readonly timeoutMs: number;
  /** By operationId; all by default. */
  readonly only?: readonly string[];
  readonly intercept?: ClientOptions['intercept'];
};

/** Characters of an answer in the report. */
const MAX_TEXT = 400;

/** Runs all checks. Throws Unreachable if the deployment does not answer. */
export async function runContract(
  options: RunOptions,
  onSection: (section: Section) => void = () => {},
): Promise<Report> {
  const { contract, url, seed, runs } = options;
  const client = new Client({ ...options, keys: keysOf(options), keyHeader: contract.keyHeader });
  const { key: _key, ...shared } = options;
  const coverage = new Coverage();
  const setting: Setting = { ...shared, client, coverage };
  const tenants = options.otherKey ? createTenantChecks(setting, listsOf(contract)) : undefined;
  const started = performance.now();
  const sections: Section[] = [];
  const add = (section: Section) => {
    sections.push(section);
    onSection(section);
  };
  try {
    await client.probe();
    const operations = chosenOf(options);
    for (const operation of operations) add(await runOperation(options, setting, operation, tenants));
    add(await runSection(options, 'Paths', createPathChecks(setting, contract, operations), []));
    const first = contract.operations.find(isRead);
    if (options.limitedKey && first) {
      add(await runSection(options, 'A key over its limit', [createLimitCheck(setting, first)], []));
    }
    if (tenants) add(await runSection(options, 'Another tenant', tenants.atEnd(), []));
    const { sent: requests, created } = client;
    const parts = coverage.report(operations);
    return { url, seed, runs, requests, seconds: secondsSince(started), sections, created, coverage: parts };
  } catch (error) {
    if (error instanceof Unreachable) error.created = client.created;
    throw error;
  } finally {
    await client.close();
  }
}

/** The keys of a run, by what stands for them in requests. */
function keysOf({ key, otherKey, readKey, limitedKey }: RunOptions): ReadonlyMap<symbol, string> {
  const given: [symbol, string | undefined][] = [
    [OWN_KEY, key],
    [OTHER_KEY, otherKey],
    [READ_KEY, readKey],
    [LIMITED_KEY, limitedKey],
  ];
  return new Map(given.filter((one): one is [symbol, string] => one[1] !== undefined));
}

function chosenOf({ contract, only }: RunOptions): readonly Operation[] {
  return contract.operations.filter(({ id }) => only?.includes(id) ?? true);
}

function listsOf({ operations }: Contract): ListOperation[] {
  return operations.filter((operation): operation is ListOperation => operation.list !== undefined);
}

async function runOperation(
  options: RunOptions,
  setting: Setting,
  operation: Operation,
  tenants: TenantChecks | undefined,
): Promise<Section> {
  const { document } = options.contract;
  const title = `${operation.method} ${operation.path}`;
  if (options.readOnly && !isRead(operation)) {
    const reason = 'it writes, and --read-only sends only reads';
    return runSection(options, title, [], [{ name: 'everything', reason }]);
  }
  const lists = listsOf(options.contract);
  const list = lists.find(({ id }) => id === operation.id);
  const examples = createExampleChecks(setting, operation, document);
  const [entry, ...inputs] = createInputChecks(setting, operation);
  const creations = createCreationChecks(setting, operation, { document, operations: chosenOf(options) }, lists);
  const reason = 'no property has its name: say with x-filter what it compares';
  const undescribed = (operation.list?.filters ?? []).filter(({ isUndescribed }) => isUndescribed);
  const filters = undescribed.map(({ input }) => ({ name: `filters by ${input.name}`, reason }));
  const skipped = [...examples.skipped, ...creations.skipped, ...filters];
  const checks = [
    ...examples.checks,
    ...inputs,
    ...createHeaderChecks(setting, operation, 'x-translations' in document),
    ...(list ? createListChecks(setting, list, lists) : []),
    ...creations.checks,
    ...(options.readKey ? [createReadKeyCheck(setting, operation)] : []),
    ...(tenants?.ofOperation(operation) ?? []),
  ];
  const first = entry ? await runCheck(options, entry) : undefined;
  // Without permission for the operation, or at another path, all other checks would fail too.
  const obstacle = first?.result === 'failed' ? findObstacle(options, first.got) : undefined;
  if (!first || obstacle === undefined) return runSection(options, title, checks, skipped);
  const refused = checks.map(({ name }) => ({ name, reason: obstacle }));
  const section = await runSection(options, title, [], [...refused, ...skipped]);
  return { ...section, outcomes: [first, ...section.outcomes] };
}

function findObstacle({ url }: RunOptions, got: string): string | undefined {
  if (got.startsWith('401 ')) return 'the operation refuses the key';
  return got.startsWith('404 ')
    ? `nothing is there: does ${url} end with the path of the document's server?`
    : undefined;
}

async function runSection(
  options: RunOptions,
  title: string,
  checks: readonly Check[],
  skipped: readonly Skipped[],
): Promise<Section> {
  const started = performance.now();
  const outcomes: Outcome[] = [];
  const queue = [...checks.entries()];
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) outcomes[next[0]] = await runCheck(options, next[1]);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  const rest = skipped.map((skip): Outcome => ({ ...skip, result: 'skipped' }));
  return { title, seconds: secondsSince(started), outcomes: [...outcomes, ...rest] };
}

async function runCheck(options: RunOptions, { name, run }: Check): Promise<Outcome> {
  const { url, contract } = options;
  const withoutKeys = (text: string) =>
    [...keysOf(options)].reduce((result, [{ description }, key]) => withoutKey(result, key, `$${description}`), text);
  const started = performance.now();
  try {
    const reason = await run();
    if (typeof reason === 'string') return { name, result: 'skipped', reason };
    return { name, result: 'passed', seconds: secondsSince(started) };
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    const { request, expected, got } = error;
    return {
      ...{ name, result: 'failed', seconds: secondsSince(started) },
      curl: withoutKeys(toCurl(url, contract.keyHeader, request)),
      expected: shorten(withoutKeys(expected)),
      got: shorten(withoutKeys(got)),
    };
  }
}

/** An answer may contain the key, and a report is passed on. */
function withoutKey(text: string, key: string, name: string): string {
  const spellings = [key, JSON.stringify(key).slice(1, -1), encodeURIComponent(key)];
  return spellings.reduce((result, spelling) => result.replaceAll(spelling, () => name), text);
}

function shorten(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}… (${text.length} characters)`;
}

function secondsSince(started: number): number {
  return Math.round(performance.now() - started) / 1_000;
}
