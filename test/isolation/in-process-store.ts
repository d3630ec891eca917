import { type PgError, toFailure } from '../../src/store/sqlstate.ts';
import { createStatementWriter, toResult } from '../../src/store/statement.ts';
import type { Result, Store } from '../../src/store/store.ts';
import type { Db } from '../helpers/database.ts';

/** What sets a call apart from the others. */
type Scope = { readonly begin: string; readonly end: string; readonly undo: string };

const TRANSACTION: Scope = { begin: 'begin; set local role gateway', end: 'commit', undo: 'rollback' };

const SAVEPOINT: Scope = {
  begin: 'savepoint call; set local role gateway',
  // What a transaction of its own would have ended with.
  end: `reset role; set local wellness.tenant_id = ''; release savepoint call`,
  undo: 'rollback to savepoint call; release savepoint call',
};

/** A store on the test's own connection, whose transactions the test can look into. */
export function openInProcess(db: Db): Store {
  return storeOf(db, TRANSACTION);
}

/** The same inside a transaction of the test, which can take back all that the calls have done. */
export function openWithinTransaction(db: Db): Store {
  return storeOf(db, SAVEPOINT);
}

function storeOf(db: Db, scope: Scope): Store {
  const write = createStatementWriter();
  return {
    description: 'Postgres by the connection of the test',
    call: async (call): Promise<Result> => {
      const { text, values } = write(call, call.returns);
      await db.exec(scope.begin);
      try {
        const { rows } = await db.query<{ json: string | null }>(text, [...values]);
        await db.exec(scope.end);
        return toResult(rows[0] && [rows[0].json]);
      } catch (error) {
        await db.exec(scope.undo);
        return { failure: toFailure(error as PgError) };
      }
    },
    check: async () => undefined,
    describe: async () => ({ functions: [] }),
    close: async () => {},
  };
}
