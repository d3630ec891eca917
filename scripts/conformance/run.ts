// A run: every operation in turn, its checks some at once.

import type { OpenAPIV3 } from 'openapi-types';
import { type Check, describeReply, findFormFault, Mismatch, type Setting, type Skipped } from './check.ts';
import { AT_ONCE, Client, Unreachable } from './client.ts';
import { createCreationChecks } from './creations.ts';
import { createExampleChecks } from './examples.ts';
import { createHeaderChecks } from './headers.ts';
import { createEntryCheck, createInputChecks } from './inputs.ts';
import { createListChecks } from './lists.ts';
import { type Contract, isRead, type Operation, readContract } from './operations.ts';
import type { Outcome, Report, Section } from './report.ts';
import { OWN_KEY, type Request, toCurl } from './request.ts';
import type { ListOperation } from './rows.ts';

export type RunOptions = {
  readonly document: OpenAPIV3.Document;
  /** The URL that the operations' paths come behind. */
  readonly url: string;
  readonly key: string;
  readonly seed: number;
  /** How many values are generated for each check. */
  readonly runs: number;
  readonly demo: boolean;
  readonly readOnly: boolean;
  /** The longest that an answer may take. */
  readonly timeoutMs: number;
  /** By operationId; all of them unless told. */
  readonly only?: readonly string[];
};

/**
 * Holds a deployment against the document, and tells of each operation as it is done. Throws Unreachable where the
 * deployment does not answer.
 */
export async function runContract(
  options: RunOptions,
  onSection: (section: Section) => void = () => {},
): Promise<Report> {
  const contract = readContract(options.document);
  const client = new Client({ ...options, keyHeader: contract.keyHeader });
  const started = performance.now();
  try {
    await client.probe();
    const sections: Section[] = [];
    for (const section of new Run(options, contract, client).sections()) {
      const done = await section;
      onSection(done);
      sections.push(done);
    }
    const { url, seed, runs } = options;
    const { sent: requests, created } = client;
    return { url, seed, runs, requests, seconds: secondsSince(started), sections, created };
  } catch (error) {
    if (error instanceof Unreachable) error.created = client.created;
    throw error;
  } finally {
    await client.close();
  }
}

/** How much is shown of an answer. */
const LONGEST_TEXT = 400;

class Run {
  readonly #options: RunOptions;
  readonly #contract: Contract;
  readonly #setting: Setting;

  constructor(options: RunOptions, contract: Contract, client: Client) {
    this.#options = options;
    this.#contract = contract;
    this.#setting = { ...options, client };
  }

  *sections(): Generator<Promise<Section>> {
    const { only } = this.#options;
    for (const operation of this.#contract.operations) {
      if (!only || only.includes(operation.id)) yield this.#runOperation(operation);
    }
    if (!only) yield this.#runSection('Any other path', [this.#unknownPath()], []);
  }

  async #runOperation(operation: Operation): Promise<Section> {
    const title = `${operation.method} ${operation.path}`;
    if (this.#options.readOnly && !isRead(operation)) {
      return this.#runSection(
        title,
        [],
        [{ name: 'everything', reason: 'it writes, and only reads are sent with --read-only' }],
      );
    }
    const lists = this.#contract.operations.filter((other): other is ListOperation => other.list !== undefined);
    const list = lists.find(({ id }) => id === operation.id);
    const examples = createExampleChecks(this.#setting, operation, this.#options.document);
    const checks = [
      ...examples.checks,
      ...createInputChecks(this.#setting, operation),
      ...createHeaderChecks(this.#setting, operation, hasPortuguese(this.#options.document)),
      ...(list ? createListChecks(this.#setting, list, lists) : []),
      ...createCreationChecks(this.#setting, operation, lists),
    ];
    const entry = await this.#runCheck(createEntryCheck(this.#setting, operation));
    if (!isRefusal(entry)) return this.#runSection(title, checks, examples.skipped);
    const unreached = checks.map(({ name }) => ({ name, reason: 'the key is refused here' }));
    const section = await this.#runSection(title, [], [...unreached, ...examples.skipped]);
    return { ...section, outcomes: [entry, ...section.outcomes] };
  }

  async #runSection(title: string, checks: readonly Check[], skipped: readonly Skipped[]): Promise<Section> {
    const started = performance.now();
    const outcomes: Outcome[] = [];
    const queue = [...checks.entries()];
    const work = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) outcomes[next[0]] = await this.#runCheck(next[1]);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const rest = skipped.map((skip): Outcome => ({ ...skip, result: 'skipped' }));
    return { title, seconds: secondsSince(started), outcomes: [...outcomes, ...rest] };
  }

  async #runCheck({ name, run }: Check): Promise<Outcome> {
    const started = performance.now();
    try {
      await run();
      return { name, result: 'passed', seconds: secondsSince(started) };
    } catch (error) {
      if (!(error instanceof Mismatch)) throw error;
      return { name, result: 'failed', seconds: secondsSince(started), ...this.#describe(error) };
    }
  }

  #describe({ request, expected, got }: Mismatch): { curl: string; expected: string; got: string } {
    const { url } = this.#options;
    return {
      curl: this.#withoutKey(toCurl(url, this.#contract.keyHeader, request)),
      expected: shorten(this.#withoutKey(expected)),
      got: shorten(this.#withoutKey(got)),
    };
  }

  /** A deployment may write the key into its answers; a report is passed on to others. */
  #withoutKey(text: string): string {
    const { key } = this.#options;
    const spellings = [key, JSON.stringify(key).slice(1, -1), encodeURIComponent(key)];
    return spellings.reduce((result, spelling) => result.replaceAll(spelling, '$API_KEY'), text);
  }

  /** The document does not describe the 404, but the form that every error has. */
  #unknownPath(): Check {
    const request: Request = { method: 'GET', target: '/no-such-path', headers: {}, key: OWN_KEY };
    return {
      name: 'answers an unknown path with 404',
      run: async () => {
        const reply = await this.#setting.client.send(request);
        const isRight =
          'status' in reply &&
          reply.status === 404 &&
          !findFormFault(reply) &&
          typeof (reply.body as { error?: unknown } | null)?.error === 'string';
        if (!isRight) throw new Mismatch(request, '404 {"error": a text}', describeReply(reply));
      },
    };
  }
}

/** Whether the key may not do what the document has: nothing else could be seen of the operation then. */
function isRefusal(entry: Outcome): boolean {
  return entry.result === 'failed' && entry.got.startsWith('401 ');
}

function hasPortuguese(document: OpenAPIV3.Document): boolean {
  return (document as { 'x-translations'?: object })['x-translations'] !== undefined;
}

function shorten(text: string): string {
  return text.length <= LONGEST_TEXT ? text : `${text.slice(0, LONGEST_TEXT)}… (${text.length} characters)`;
}

function secondsSince(started: number): number {
  return Math.round(performance.now() - started) / 1_000;
}
