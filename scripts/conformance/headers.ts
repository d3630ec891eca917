// What the headers of answers promise, as far as proxies in front of a deployment leave them.

import { randomUUID } from 'node:crypto';
import { type Check, describeReply, Mismatch, type Setting } from './check.ts';
import type { Answer } from './client.ts';
import { isRead, type Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';
import { pickValid } from './values.ts';

const ID = 'X-Request-Id';
const PORTUGUESE = 'pt-BR';
/** So often a list is asked for again where others change it in between. */
const MOST_TRIES = 3;

/** The checks of an operation's headers. `translates`: whether the messages are known in Portuguese. */
export function createHeaderChecks(setting: Setting, operation: Operation, translates: boolean): Check[] {
  const checks = new HeaderChecks(setting, operation);
  const isKept = operation.method === 'GET' && operation.headers.has('etag');
  return [
    ...(isKept ? [{ name: 'does not send again what the client has', run: () => checks.isKept() }] : []),
    { name: `tells the id of a request as ${ID}`, run: () => checks.areIdentified() },
    { name: 'lets no browser guess what an answer is', run: () => checks.areNotGuessed() },
    ...(translates ? [{ name: 'tells the language of its messages', run: () => checks.isInPortuguese() }] : []),
  ];
}

class HeaderChecks {
  readonly #setting: Setting;
  readonly #operation: Operation;
  readonly #base: readonly Assignment[];

  constructor(setting: Setting, operation: Operation) {
    this.#setting = setting;
    this.#operation = operation;
    const required = operation.inputs.filter((input) => input.required);
    this.#base = required.map((input) => ({ input, value: pickValid(input) }));
  }

  async isKept(): Promise<void> {
    const { list } = this.#operation;
    // The first record stays the first, whatever others create meanwhile.
    const first = list ? [{ input: list.limit, value: list.limit.schema.minimum ?? 1 }] : [];
    const request = toRequest(this.#operation, [...this.#base, ...first]);
    for (let tries = 1; ; tries++) {
      const tag = (await this.#send(request)).headers.etag;
      if (!tag) throw new Mismatch(request, 'an ETag', 'none');
      const repeated = withHeader(request, 'If-None-Match', tag);
      const answer = await this.#send(repeated);
      if (answer.status === 304 && answer.text === '') return;
      const hasChanged = answer.status === this.#operation.status && answer.headers.etag !== tag;
      if (!hasChanged || tries >= MOST_TRIES) throw new Mismatch(repeated, '304 without a body', describeReply(answer));
    }
  }

  /** A proxy may put an id of its own in the place of the client's; but no two requests have the same. */
  async areIdentified(): Promise<void> {
    const seen = new Set<string>();
    for (const request of this.#requests()) {
      const identified = withHeader(request, ID, `contract-${randomUUID()}`);
      const id = (await this.#send(identified)).headers[ID.toLowerCase()];
      if (!id || seen.has(id)) {
        const got = id ? `${id}, as for another request` : 'none';
        throw new Mismatch(identified, `${ID}: ${identified.headers[ID]}, or a proxy's own`, got);
      }
      seen.add(id);
    }
  }

  async areNotGuessed(): Promise<void> {
    const [name, expected] = ['X-Content-Type-Options', 'nosniff'];
    for (const request of this.#requests()) {
      const value = (await this.#send(request)).headers[name.toLowerCase()];
      if (value?.toLowerCase() !== expected) throw new Mismatch(request, `${name}: ${expected}`, value ?? 'none');
    }
  }

  async isInPortuguese(): Promise<void> {
    const request = withHeader(this.#invalid(), 'Accept-Language', PORTUGUESE);
    const languages = (await this.#send(request)).headers['content-language'];
    if (languages?.split(/\s*,\s*/).includes(PORTUGUESE)) return;
    throw new Mismatch(request, `Content-Language: ${PORTUGUESE}`, languages ?? 'none');
  }

  /** Requests that end in several ways, and create nothing. */
  #requests(): Request[] {
    const valid = toRequest(this.#operation, this.#base);
    return [...(isRead(this.#operation) ? [valid] : []), this.#invalid(), { ...valid, key: null }];
  }

  #invalid(): Request {
    const unknown: Assignment = { input: { name: 'contract_test', in: 'query' }, value: '1' };
    return toRequest(this.#operation, [...this.#base, unknown]);
  }

  async #send(request: Request): Promise<Answer> {
    const reply = await this.#setting.client.send(request);
    if ('missing' in reply) throw new Mismatch(request, 'an answer', describeReply(reply));
    return reply;
  }
}

function withHeader(request: Request, name: string, value: string): Request {
  return { ...request, headers: { ...request.headers, [name]: value } };
}
