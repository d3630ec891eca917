import type pg from 'pg';
import { serialize } from 'pg-protocol';
import type { NamedStatement, Statement } from './statement.ts';

/** Columns in Postgres's text form. */
export type Row = readonly (string | null)[];

/** What pg's connections have, and their types leave out. */
type Connection = pg.Connection & { readonly parsedStatements: Readonly<Record<string, string | undefined>> };

/**
 * Runs a statement and gives the first of its rows, if it has one. Fails as `client.query` does. Beside pg's own query
 * it does not ask for the description of columns that are known, and parses none of them: that would be a quarter of
 * what a call costs the process.
 */
export function queryRow(client: pg.ClientBase, statement: Statement | NamedStatement): Promise<Row | undefined> {
  return new Promise((resolve, reject) => {
    client.query(new RowQuery(statement, (error, row) => (error ? reject(error) : resolve(row))));
  });
}

const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), serialize.sync()]);

/** One query in pg's own terms: it submits messages, and is given those that answer them. */
class RowQuery implements pg.Submittable {
  readonly text: string;
  readonly name: string;
  readonly callback: (error: Error | null, row?: Row) => void;
  readonly #values: Row;
  #row: Row | undefined;

  constructor(statement: Statement | NamedStatement, callback: RowQuery['callback']) {
    this.text = statement.text;
    this.name = 'name' in statement ? statement.name : '';
    this.#values = statement.values;
    this.callback = callback;
  }

  submit(connection: pg.Connection): void {
    const { parsedStatements, stream } = connection as Connection;
    const { name, text } = this;
    const messages = [serialize.bind({ statement: name, values: [...this.#values] }), EXECUTE_AND_SYNC];
    if (name === '' || parsedStatements[name] === undefined) messages.unshift(serialize.parse({ name, text }));
    // In one piece: to hand over several costs the process more than to copy them. A connection that was lost is told
    // to the query by its end, as pg does it.
    if (stream.writable) stream.write(Buffer.concat(messages));
  }

  handleDataRow({ fields }: { fields: Row }): void {
    this.#row ??= fields;
  }

  handleReadyForQuery(): void {
    this.callback(null, this.#row);
  }

  handleError(error: Error): void {
    this.callback(error);
  }

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}

  handlePortalSuspended(): void {}

  handleRowDescription(): void {}
}
