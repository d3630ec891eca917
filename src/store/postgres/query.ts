import type pg from 'pg';
import type { FieldDef } from 'pg';
import { serialize } from 'pg-protocol';
import type { Row, Statement } from '../statement.ts';

/** What pg's connections have, and their types leave out. */
type Connection = pg.Connection & { readonly parsedStatements: Readonly<Record<string, string | undefined>> };

/**
 * Runs a statement and gives the first of its rows, if it has one. Fails as `client.query` does. Beside pg's own query
 * it does not ask for the description of columns that are known, and parses none of them: that would be a quarter of
 * what a call costs the process.
 */
export function queryRow(client: pg.ClientBase, statement: Statement): Promise<Row | undefined> {
  return new Promise((resolve, reject) => {
    client.query(new RowQuery(statement, (error, row) => (error ? reject(error) : resolve(row))));
  });
}

/** The messages that end every query: run what is bound, and tell when all is done. */
export const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), serialize.sync()]);

/** One query in pg's own terms: it submits messages, and is given those that answer them. */
export abstract class Query<Result> implements pg.Submittable {
  readonly text: string;
  readonly name: string;
  readonly callback: (error: Error | null, result?: Result) => void;
  readonly #values: Row;

  constructor(statement: Statement, callback: Query<Result>['callback']) {
    this.text = statement.text;
    this.name = statement.name ?? '';
    this.#values = statement.values;
    this.callback = callback;
  }

  submit(connection: pg.Connection): void {
    const { parsedStatements, stream } = connection as Connection;
    const messages = this.toRun();
    if (this.name === '' || parsedStatements[this.name] === undefined)
      messages.unshift(serialize.parse({ name: this.name, text: this.text }));
    // In one piece: to hand over several costs the process more than to copy them. A connection that was lost is told
    // to the query by its end, as pg does it.
    if (stream.writable) stream.write(Buffer.concat(messages));
  }

  /** The messages that run it when it is prepared. */
  toRun(): Buffer[] {
    return [this.toBind(), EXECUTE_AND_SYNC];
  }

  toBind(): Buffer {
    return serialize.bind({ statement: this.name, values: [...this.#values] });
  }

  abstract handleReadyForQuery(): void;

  handleError(error: Error): void {
    this.callback(error);
  }

  handleDataRow(_row: { fields: Row }): void {}

  handleRowDescription(_description: { fields: FieldDef[] }): void {}

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}

  handlePortalSuspended(): void {}
}

class RowQuery extends Query<Row> {
  #row: Row | undefined;

  override handleDataRow({ fields }: { fields: Row }): void {
    this.#row ??= fields;
  }

  override handleReadyForQuery(): void {
    this.callback(null, this.#row);
  }
}
