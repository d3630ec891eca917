// A reader that keeps a copy of the ids of a tenant's records: it knows only what /alteracoes tells it.

import { setTimeout as delay } from 'node:timers/promises';

type Change = {
  readonly id: string;
  readonly recurso: string;
  readonly registro_id: string;
  readonly tipo: 'criado' | 'alterado' | 'excluido';
};

const PAGE = 1_000;
const PAUSE_MS = 20;

/** Follows the changes from the beginning until it is stopped, and tries again after failures. */
export class Follower {
  /** The ids of the students that exist. */
  readonly ids = new Set<string>();
  /** Changes that came twice, too late, or before the change that they follow. */
  readonly problems: string[] = [];
  count = 0;
  #after = '';
  #isStopped = false;
  readonly #running: Promise<void>;

  constructor(url: string, key: string) {
    this.#running = this.#run(url, key);
  }

  /** Stops after reading the remaining changes. */
  stop(): Promise<void> {
    this.#isStopped = true;
    return this.#running;
  }

  async #run(url: string, key: string): Promise<void> {
    for (;;) {
      const isLast = this.#isStopped;
      const target = `${url}/alteracoes?limit=${PAGE}${this.#after && `&after=${this.#after}`}`;
      const answer = await fetch(target, { headers: { 'X-Api-Key': key } }).catch(() => undefined);
      const page: unknown = await answer?.json().catch(() => undefined);
      if (answer?.status === 422) throw new Error(`the place is lost: ${JSON.stringify(page)}`);
      if (answer?.status === 200) {
        for (const change of page as Change[]) this.#take(change);
        if ((page as Change[]).length === PAGE) continue;
        if (isLast) return;
      }
      await delay(PAUSE_MS);
    }
  }

  #take({ id, recurso, registro_id, tipo }: Change): void {
    const isRight = recurso !== 'alunos' || this.ids.has(registro_id) === (tipo !== 'criado');
    if (id <= this.#after || !isRight) this.problems.push(`${id} ${tipo} ${registro_id} after ${this.#after}`);
    this.#after = id;
    this.count += 1;
    if (recurso !== 'alunos') return;
    if (tipo === 'excluido') this.ids.delete(registro_id);
    else this.ids.add(registro_id);
  }
}

/** The ids that only one of the two sets has. */
export function compareIds(copied: ReadonlySet<string>, there: ReadonlySet<string>) {
  return { missed: [...there.difference(copied)], left: [...copied.difference(there)] };
}
