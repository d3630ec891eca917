/** One thing that is wrong with a line of a file, under the name that the file has for the field. */
export type BadLine = { readonly line: number; readonly field: string | null; readonly message: string };

/** What a command says when it fails, on standard error: in lines for people, or as JSON. */
export type Report = { readonly error: string; readonly hint?: string; readonly lines?: readonly BadLine[] };

/** The command cannot do what it was asked. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly report: Report;

  constructor(report: Report) {
    super(report.error);
    this.report = report;
  }
}

/** The command was called in a way that it does not understand, which its own parser could not see. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** What Postgres says of an error, as both drivers have it. */
type PostgresError = { code?: string; message: string; hint?: string; routine?: string };

/** Which command shows what a function of SQL does, in the hints of errors that other functions raise. */
const COMMANDS: Readonly<Record<string, string>> = {
  'private.list_tenants()': 'npm run admin -- tenant list',
  'private.list_keys()': 'npm run admin -- key list',
};

/** Errors that are told by their message alone, beside those of the system. */
const EXPECTED = ['ConfigError', 'DocumentError', 'FolderError', 'MigrationError', 'AccessError'];

const IN_USE = 'An embedded store has one process at a time: stop that one, run this, and start it again.';

/** What to say of an error, or undefined where it is a mistake of the program. */
export function toReport(error: unknown): Report | undefined {
  if (error instanceof Refusal) return error.report;
  if (!(error instanceof Error)) return undefined;
  if (isPostgresError(error)) return toPostgresReport(error);
  if (!EXPECTED.includes(error.name) && !('syscall' in error)) return undefined;
  const isInUse = error.name === 'FolderError' && error.message.includes(' is in use by ');
  return { error: error.message, ...(isInUse ? { hint: IN_USE } : {}) };
}

function isPostgresError(error: Error): error is Error & PostgresError {
  return 'severity' in error && 'routine' in error;
}

function toPostgresReport({ code = '', message, hint, routine }: PostgresError): Report {
  // Raised by a function of ours: the same codes mean other things there.
  if (routine === 'exec_stmt_raise') return { error: message, ...(hint ? { hint: toCommands(hint) } : {}) };
  const advice = adviceFor(code) ?? hint;
  return { error: `${message} (${code})`, ...(advice ? { hint: advice } : {}) };
}

function adviceFor(code: string): string | undefined {
  switch (code) {
    case '3F000':
    case '42P01':
    case '42883':
      return 'The database lacks a migration: run `npm run migrate` with the same DATABASE_URL.';
    case '42501':
      return 'Administration needs the role that ran `npm run migrate`; that of the gateway may not do it.';
    default:
      return undefined;
  }
}

function toCommands(hint: string): string {
  return Object.entries(COMMANDS).reduce((text, [name, command]) => text.replaceAll(name, `\`${command}\``), hint);
}
