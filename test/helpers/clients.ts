// Clients that create and list while something fails. Whatever fails, an acknowledged creation is neither lost nor made twice.

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { waitFor } from './wait-for.ts';

/** A list, and whether an answer to it is right. */
type List = { readonly path: string; readonly isRight?: (names: readonly string[]) => boolean };

export type ClientOptions = {
  /** The base URL of the operations' paths. */
  readonly url: string;
  /** Each request uses one of them at random; a test may change them meanwhile. */
  readonly keys: readonly string[];
  /** The lists to read, in turn. */
  readonly lists?: readonly List[];
  /** Whether it creates students; `repeated` sends a creation with the same Idempotency-Key until it is acknowledged. */
  readonly creates?: 'once' | 'repeated' | undefined;
  /** The prefix of its students' names. */
  readonly prefix?: string;
  /** The pause between two requests: without one, clients would leave no processor time to the servers. */
  readonly pauseMs?: number;
  /** Receives each answer instead of `answers`, for loads that run for hours. */
  readonly onAnswer?: (answer: Answer) => void;
};

export type Answer = {
  readonly action: 'create' | 'list';
  /** 0 without an answer: `body` is then the reason. */
  readonly status: number;
  readonly body: unknown;
  readonly ms: number;
  readonly at: number;
};

/** How often a creation is tried after the stop. */
const LAST_TRIES = 200;
/** The number of good answers in a row that shows that a client is served. */
const SERVED = 15;

const isFailure = ({ status }: Answer) => status === 0 || status >= 300;
const namesOf = (body: unknown) => (body as { nome: string }[]).map(({ nome }) => nome);

/** Sends one request after the other until it is stopped. */
export class Client {
  readonly options: ClientOptions;
  readonly answers: Answer[] = [];
  /** Answers with the right status and the wrong rows. */
  readonly wrong: Answer[] = [];
  /** The names that it has sent, each with the index of its key. */
  readonly #sent = new Map<string, number>();
  readonly created = new Set<string>();
  readonly #id = `carga-${randomUUID()}`;
  #isStopped = false;
  readonly #running: Promise<void>;

  constructor(options: ClientOptions) {
    this.options = options;
    this.#running = this.#run();
  }

  get failures(): Answer[] {
    return this.answers.filter(isFailure);
  }

  /** Stops after finishing the current creation. */
  stop(): Promise<void> {
    this.#isStopped = true;
    return this.#running;
  }

  /** Sends the acknowledged creations again, and returns the statuses. */
  async repeat(): Promise<Set<number>> {
    const statuses = new Set<number>();
    for (const name of this.created) statuses.add((await this.#post(name)).status);
    return statuses;
  }

  /** Describes each creation that exists too often, not at all, or with another key. By default it asks its own gateway. */
  async findMistakes(url = this.options.url): Promise<string[]> {
    const found = new Map<string, number>();
    for (const number of this.options.keys.keys()) {
      for (let after = ''; ; ) {
        const page = await this.#list(`/alunos?nome=${this.#id}&limit=1000${after && `&after=${after}`}`, number, url);
        for (const nome of namesOf(page)) found.set(`${number} ${nome}`, (found.get(`${number} ${nome}`) ?? 0) + 1);
        if (page.length < 1_000) break;
        after = page.at(-1)?.id ?? '';
      }
    }
    const mistakes: string[] = [];
    for (const [name, number] of this.#sent) {
      const count = found.get(`${number} ${name}`) ?? 0;
      found.delete(`${number} ${name}`);
      if (count > 1 || (count === 0 && this.created.has(name))) mistakes.push(`${name} is there ${count} times`);
    }
    return [...mistakes, ...[...found.keys()].map((one) => `${one} was not sent`)];
  }

  async #list(path: string, number: number, url: string): Promise<{ id: string; nome: string }[]> {
    const answer = await fetch(url + path, { headers: { 'X-Api-Key': this.options.keys[number] ?? '' } });
    if (!answer.ok) throw new Error(`${path} is answered with ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as { id: string; nome: string }[];
  }

  async #run(): Promise<void> {
    const { lists = [{ path: '/academias' }], creates, prefix = '' } = this.options;
    for (let count = 0; !this.#isStopped; count += 1) {
      if (creates) await this.#create(`${prefix}${this.#id}-${count}`);
      for (const { path, isRight } of lists) await this.#ask('list', path, this.#pick(), {}, isRight);
    }
  }

  async #create(name: string): Promise<void> {
    const number = this.#pick();
    this.#sent.set(name, number);
    for (let last = 0; (await this.#post(name)).status !== 201; last += this.#isStopped ? 1 : 0) {
      if (this.options.creates === 'once') return;
      if (last > LAST_TRIES) throw new Error(`${name} could not be created`);
    }
    this.created.add(name);
    const isOnlyThat = (names: readonly string[]) => names.join() === name;
    await this.#ask('list', `/alunos?nome=${encodeURIComponent(name)}`, number, {}, isOnlyThat);
  }

  #post(name: string): Promise<Answer> {
    const { creates, prefix = '' } = this.options;
    const headers = creates === 'once' ? {} : { 'Idempotency-Key': name.slice(prefix.length) };
    const body = JSON.stringify({ p_nome: name, p_email: 'aluno@exemplo.example' });
    return this.#ask('create', '/alunos', this.#sent.get(name) ?? 0, { method: 'POST', headers, body });
  }

  async #ask(
    action: Answer['action'],
    path: string,
    number: number,
    init: RequestInit,
    isRight: List['isRight'] = () => true,
  ): Promise<Answer> {
    const { url, keys, pauseMs = 20, onAnswer = (answer) => void this.answers.push(answer) } = this.options;
    await delay(pauseMs);
    const startedAt = performance.now();
    const headers = { ...init.headers, 'X-Api-Key': keys[number] ?? '' };
    const { status, body } = await fetch(url + path, { ...init, headers })
      .then(async (answer) => ({ status: answer.status, body: (await answer.json()) as unknown }))
      .catch((error) => ({ status: 0, body: String(error.cause ?? error) }));
    const at = performance.now();
    const answer = { action, status, body, ms: at - startedAt, at };
    onAnswer(answer);
    if (action === 'list' && status === 200 && !isRight(namesOf(body))) this.wrong.push(answer);
    return answer;
  }

  #pick(): number {
    return Math.floor(Math.random() * this.options.keys.length);
  }
}

/** Runs clients, and `work` as soon as all are served. Returns the clients with what they have seen. */
export async function underLoad(
  all: readonly ClientOptions[],
  work: (clients: readonly Client[]) => Promise<unknown>,
): Promise<Client[]> {
  const clients = all.map((options) => new Client(options));
  try {
    await serves(clients);
    await work(clients);
  } finally {
    await Promise.all(clients.map((client) => client.stop()));
  }
  return clients;
}

/** Waits until every client has had good answers in a row. */
export async function serves(clients: readonly Client[]): Promise<void> {
  const before = new Map(clients.map((client) => [client, client.answers.length]));
  await waitFor(() => {
    for (const [{ answers }, from] of before) {
      const last = answers.slice(from).slice(-SERVED);
      if (last.length < SERVED || last.some(isFailure)) throw new Error(`not served: ${JSON.stringify(last.at(-1))}`);
    }
  });
}

/** Finds what went wrong, from the rows of a gateway: nothing if each acknowledged creation exists exactly once. */
export async function findMistakes(clients: readonly Client[], url?: string): Promise<unknown[]> {
  const mistakes: unknown[] = clients.flatMap(({ wrong }) => wrong);
  for (const client of clients) mistakes.push(...(await client.findMistakes(url)));
  return mistakes;
}
