import { messages, type PGlite, protocol } from '@electric-sql/pglite';
import type { Row, Statement } from '../statement.ts';

const { serialize } = protocol;

const SYNC = serialize.sync();
const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute({}), SYNC]);

/**
 * Runs statements in PGlite, one at a time, those with a name prepared. PGlite's own `query` hands Postgres six messages
 * one by one and has it plan the statement each time, which takes longer than a list of ten.
 */
export class EmbeddedSession {
  readonly db: PGlite;
  readonly #prepared = new Set<string>();

  constructor(db: PGlite) {
    this.db = db;
  }

  /** Gives the first row of a statement, if it has one. Throws Postgres' error. */
  async queryRow({ text, values, name = '' }: Statement): Promise<Row | undefined> {
    if (!this.#prepared.has(name)) {
      await this.#send(serialize.parse({ name, text }), SYNC);
      if (name !== '') this.#prepared.add(name);
    }
    const bind = serialize.bind({ statement: name, values: [...values] });
    const answers = await this.#send(bind, EXECUTE_AND_SYNC);
    return answers.find((answer) => answer instanceof messages.DataRowMessage)?.fields;
  }

  /** Has every statement prepared anew: what was prepared for a function may not fit one that has its name now. */
  async forget(): Promise<void> {
    this.#prepared.clear();
    await this.db.exec('deallocate all');
  }

  #send(...parts: Uint8Array[]) {
    return this.db.execProtocolStream(Buffer.concat(parts));
  }
}
