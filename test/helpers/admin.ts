// A database for the tests of the administration, and its commands, run in this process.

import { useDatabase } from './database.ts';
import { fail, type Run, runAdmin, succeed } from './run.ts';

export const AURORA = 'a0000000-0000-4000-8000-000000000000';
export const BOSQUE = 'b0000000-0000-4000-8000-000000000000';
export const AURORA_GYM = 'a1000000-0000-4000-8000-000000000001';
export const BOSQUE_GYM = 'b1000000-0000-4000-8000-000000000001';
/** A student of Aurora. */
export const ANA = 'a3000000-0000-4000-8000-000000000001';
export const EMAIL = 'aluno001@aurora.example';

type Env = Record<string, string>;

/** Gives the tests of a file a database of their own with the demo data. */
export function useAdmin() {
  const database = useDatabase();
  const admin = (args: readonly string[], env: Env = { DATABASE_URL: database.adminUrl }): Promise<Run> =>
    runAdmin(args, env);
  return {
    admin,
    database: () => database,
    rows: (sql: string, values?: unknown[]) => database.query<Record<string, unknown>>(sql, values),
    /** Runs a command that has to succeed, and returns its output. */
    printed: async (...args: string[]) => succeed(await admin(args)),
    /** Runs a command with --json that has to succeed, and returns its value. */
    // biome-ignore lint/suspicious/noExplicitAny: each command has a type of its own
    json: async (args: readonly string[], env?: Env): Promise<any> =>
      JSON.parse(succeed(await admin([...args, '--json'], env))),
    /** Runs a command with --json that has to fail, and returns its error with the exit code. */
    failure: async (args: readonly string[], env?: Env) => fail(await admin([...args, '--json'], env)),
  };
}
