import { OperatorError } from '../errors.ts';
import { FolderInUse } from '../store/embedded/folder.ts';

/** One problem in a line of a file, with the file's name for the field and the text that is there. */
export type BadLine = {
  readonly line: number;
  readonly field: string | null;
  readonly value: string | null;
  readonly message: string;
};

/** What is shown of a value, in characters. */
const MAX_VALUE = 60;

/** A failure as it is printed on standard error: as text, or as JSON. */
export type Report = {
  readonly error: string;
  readonly hint?: string;
  readonly lines?: readonly BadLine[];
  /** What a dry run shows besides. */
  readonly preview?: readonly unknown[];
};

/** The command cannot do what it was asked to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly report: Report;
  /** What to print before the report, for people. */
  readonly preface: string | undefined;

  constructor(report: Report, preface?: string) {
    super(report.error);
    this.report = report;
    this.preface = preface;
  }
}

/** An error of Postgres. */
type PostgresError = { code?: string; message: string; hint?: string; routine?: string };

/** The commands for SQL functions that hints name. */
const COMMANDS: Readonly<Record<string, string>> = {
  'private.list_tenants()': 'npm run admin -- tenant list',
  'private.list_keys()': 'npm run admin -- key list',
};

/** A problem in words: `email "ana": must match format "email"`. */
export function describeBad({ field, value, message }: Omit<BadLine, 'line'>): string {
  if (field === null) return message;
  if (value === null) return `${field} ${message}`;
  const shown = value.length > MAX_VALUE ? `${value.slice(0, MAX_VALUE - 1)}…` : value;
  return `${field} ${JSON.stringify(shown)}: ${message}`;
}

/** The report of an error; undefined for a bug. */
export function toReport(error: unknown): Report | undefined {
  if (error instanceof CommandError) return error.report;
  if (!(error instanceof Error)) return undefined;
  if (isPostgresError(error)) return toPostgresReport(error);
  if (!(error instanceof OperatorError) && !('syscall' in error)) return undefined;
  // Where the store must be free: other commands reach its server.
  const hint = error instanceof FolderInUse ? { hint: 'Stop the process, or wait until it ends.' } : {};
  return { error: error.message, ...hint };
}

function isPostgresError(error: Error): error is Error & PostgresError {
  return 'severity' in error && 'routine' in error;
}

function toPostgresReport({ code = '', message, hint, routine }: PostgresError): Report {
  // Raised by our functions, where the same codes have other meanings.
  if (routine === 'exec_stmt_raise') return { error: message, ...(hint ? { hint: toCommands(hint) } : {}) };
  const advice = adviceFor(code) ?? hint;
  return { error: `${message} (${code})`, ...(advice ? { hint: advice } : {}) };
}

function adviceFor(code: string): string | undefined {
  switch (code) {
    case '3F000':
    case '42P01':
    case '42883':
      return 'A migration is missing in the database: run `npm run migrate` with the same DATABASE_URL, or restart the gateway of an embedded store.';
    case '25006':
      return 'This server takes no writes, as a standby does: name the primary in DATABASE_URL, or all servers.';
    case '42501':
      return "Use the role that ran `npm run migrate`; the gateway's role may not administer.";
    default:
      return undefined;
  }
}

function toCommands(hint: string): string {
  return Object.entries(COMMANDS).reduce((text, [name, command]) => text.replaceAll(name, `\`${command}\``), hint);
}
