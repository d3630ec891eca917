import { type PgError, toFailure } from '../../src/store/sqlstate.ts';
import { createStatementWriter, toResult } from '../../src/store/statement.ts';
import type { Result, Store } from '../../src/store/store.ts';
import type { Db } from '../helpers/database.ts';

/** A store inside a transaction of the test, which can take back all that the calls have done. */
export function openWithinTransaction(db: Db): Pick<Store, 'call'> {
  const write = createStatementWriter();
  return {
    call: async (call): Promise<Result> => {
      const { text, values } = write(call, call.returns);
      await db.exec('savepoint call; set local role gateway');
      try {
        const { rows } = await db.query<{ json: string | null }>(text, [...values]);
        // What a transaction of its own would have ended with.
        await db.exec(`reset role; set local wellness.tenant_id = ''; release savepoint call`);
        return toResult(rows[0] && [rows[0].json]);
      } catch (error) {
        await db.exec('rollback to savepoint call; release savepoint call');
        return { failure: toFailure(error as PgError) };
      }
    },
  };
}

/** Takes back what some work does in a transaction that is open. */
export async function tried<T>(db: Db, work: () => Promise<T>): Promise<T> {
  await db.exec('savepoint tried');
  try {
    return await work();
  } finally {
    await db.exec('rollback to savepoint tried; release savepoint tried');
  }
}
