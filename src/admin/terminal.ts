// Output for people or scripts, error reports, and confirmation on a terminal.

import { createInterface } from 'node:readline/promises';
import { inspect } from 'node:util';
import { CommanderError, InvalidArgumentError } from 'commander';
import pg from 'pg';
import { OperatorError } from '../errors.ts';
import { FolderInUse } from '../store/embedded/folder.ts';
import { t, translate } from './language.ts';

/** A command's output: `json` for scripts, `text` for people. */
export type Output = { readonly json: unknown; readonly text: string };

/** A problem in a line of a file, with the column's title and its text. */
export type BadLine = {
  readonly line: number;
  readonly field: string | null;
  readonly value: string | null;
  readonly message: string;
};

/** The report of a failure on standard error, as text or JSON. */
type Report = {
  readonly error: string;
  readonly hint?: string | undefined;
  readonly lines?: readonly BadLine[];
  /** The preview of a dry run. */
  readonly preview?: readonly unknown[];
};

/** A command refuses or fails; people see `preface` before the error. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly report: Report;
  readonly preface: string | undefined;

  constructor(error: string, hint?: string, more: Omit<Report, 'error' | 'hint'> = {}, preface?: string) {
    super(error);
    this.report = { error, hint, ...more };
    this.preface = preface;
  }
}

/** The option of destructive commands that skips the question. */
export type Confirmed = { readonly yes?: boolean | undefined };

const FAILED = 1;
const WRONG_USAGE = 2;
/** The maximum number of bad lines that people see, and the maximum length of a value in them. */
const MAX_LINES = 100;
const MAX_VALUE = 60;
const PROGRESS_MS = 500;
/** Invisible characters, and characters that reverse text. The joiners U+200C and U+200D have a meaning, as in emoji. */
export const INVISIBLE = /[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
/** Those, and characters that control a terminal: anyone's data may contain them. */
const CONTROLS = new RegExp(`(?!\\n|\\t|\\r\\n)\\p{Cc}|${INVISIBLE.source}`, 'gu');

const MIGRATE =
  'A migration is missing in the database: run `npm run migrate` with the same DATABASE_URL, or restart the gateway of an embedded store.';
/** Hints for Postgres errors, by SQLSTATE. */
const ADVICE: Readonly<Record<string, string>> = {
  '3F000': MIGRATE,
  '42P01': MIGRATE,
  '42883': MIGRATE,
  '25006': 'This server takes no writes, as a standby does: name the primary in DATABASE_URL, or all servers.',
  '42501': "Use the role that ran `npm run migrate`; the gateway's role may not administer.",
};

/** Hints for wrong usage, by Commander's message. */
const USAGE_ADVICE = [
  [/'--tenant <ID>' not specified/, 'npm run admin -- tenant list shows the tenants with their ids. See --help.'],
  [/too many arguments.* Expected [1-9]/, "Write a text with blanks in quotes, as in 'Academia Aurora'. See --help."],
] as const;

/** Escapes control characters other than tab and line breaks, as JSON does: `\u001b`. */
export function showControls(text: string): string {
  return text.replace(CONTROLS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Aligns rows in columns. A cell may have several lines. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const shown = rows.map((row) => row.map(showControls));
  const cells = (head.length > 0 ? [head, ...shown] : shown).map((row) => row.map((cell) => cell.split('\n')));
  const widthOf = (column: number) =>
    cells.reduce((most, row) => Math.max(most, ...(row[column] ?? []).map(({ length }) => length)), 0);
  const widths = cells[0]?.map((_cell, column) => widthOf(column) + 2) ?? [];
  const lines = cells.flatMap((row) =>
    Array.from({ length: Math.max(...row.map(({ length }) => length)) }, (_, n) =>
      row.map((cell, column) => (cell[n] ?? '').padEnd(widths[column] ?? 0)).join(''),
    ),
  );
  return lines.map((line) => line.trimEnd()).join('\n');
}

/** Formats the number of rows of each table: `alunos 250, treinos 400`. */
export function listCounts(counts: readonly (readonly [table: string, count: number])[]): string {
  return counts.map(([table, count]) => `${table} ${count}`).join(', ');
}

/** Shows progress on a terminal; `describe` formats the amount done. */
export function createProgress(describe: (amount: number) => string) {
  let [total, shown] = [0, Date.now()];
  const { isTTY } = process.stderr;
  return {
    add: (amount: number) => {
      total += amount;
      if (!isTTY || Date.now() - shown < PROGRESS_MS) return;
      shown = Date.now();
      process.stderr.write(`\r${showControls(describe(total))} …`);
    },
    end: () => {
      if (isTTY) process.stderr.write('\r\x1b[K');
    },
  };
}

/** Asks the user to type the name, unless `yes` is given. Throws without a confirmation. */
export async function confirm(warning: string, name: string, { yes }: Confirmed): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY) throw new InvalidArgumentError('Expected --yes, because there is no terminal to ask on.');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const question = showControls(t`${warning} This cannot be undone.\nType its name to go on: `);
  const typed = await terminal.question(question).finally(() => terminal.close());
  // A line break in a name cannot be typed, and invisible characters need not be.
  const toTyped = (text: string) => showControls(text.replace(/\s+/g, ' ').trim()).normalize();
  const given = toTyped(typed.replace(INVISIBLE, ''));
  if (![name, name.replace(INVISIBLE, '')].map(toTyped).includes(given)) {
    throw new CommandError('That is another name: nothing was changed.');
  }
}

/** Adds the path to a file error in which Node leaves it out, such as that of a full disk. */
export function withPath(error: unknown, path: string): unknown {
  if (error instanceof Error && /^E[A-Z]+: .*, \w+$/.test(error.message)) error.message += ` '${path}'`;
  return error;
}

/** Prints an error and returns the exit code. */
export function reportError(error: unknown, isJson: boolean, print: (text: string) => void): number {
  const isUsage = error instanceof CommanderError;
  if (isUsage && error.exitCode === 0) return 0;
  // The subcommand is missing: Commander has printed the help.
  if (isUsage && error.code === 'commander.help') return WRONG_USAGE;
  const found = toReport(error);
  const report = found && { ...found, error: translate(found.error), hint: found.hint && translate(found.hint) };
  if (isJson) print(`${JSON.stringify(report ?? { error: String(error) })}\n`);
  else print(`${report ? toText(report, error) : inspect(error)}\n`);
  return isUsage ? WRONG_USAGE : FAILED;
}

/** Returns undefined for an unexpected error, which is a bug. */
function toReport(error: unknown): Report | undefined {
  if (error instanceof CommandError) return error.report;
  if (error instanceof CommanderError) {
    const [, hint = 'See --help.'] = USAGE_ADVICE.find(([text]) => text.test(error.message)) ?? [];
    return { error: error.message.replace(/^error: /, ''), hint };
  }
  if (error instanceof pg.DatabaseError) return toPostgresReport(error);
  // Only a command that needs the folder for itself throws this; others connect to the running server.
  if (error instanceof FolderInUse) return { error: error.message, hint: 'Stop the process, or wait until it ends.' };
  if (error instanceof OperatorError || (error instanceof Error && 'syscall' in error)) return { error: error.message };
  return undefined;
}

function toPostgresReport({ code = '', message, hint, routine }: pg.DatabaseError): Report {
  if (routine !== 'exec_stmt_raise') return { error: `${message} (${code})`, hint: ADVICE[code] ?? hint };
  // Raised by our own functions: the codes have other meanings, and hints name functions such as private.list_tenants().
  const toCommand = (_: string, thing: string) => `\`npm run admin -- ${thing} list\``;
  return { error: message, hint: hint && translate(hint).replace(/private\.list_(tenant|key)s\(\)/g, toCommand) };
}

function toText({ error, hint, lines = [] }: Report, cause: unknown): string {
  const shown = lines.slice(0, MAX_LINES).map((bad) => t`line ${bad.line}: ${describeBad(bad)}`);
  const more = lines.length > MAX_LINES ? [translate('and more, which --json prints')] : [];
  const preface = cause instanceof CommandError && cause.preface ? [cause.preface] : [];
  return [...preface, ...shown, ...more, error, ...(hint ? [hint] : [])].join('\n');
}

/** Formats a problem: `email "ana": must match format "email"`. */
export function describeBad({ field, value, message }: Omit<BadLine, 'line'>): string {
  if (field === null) return message;
  if (value === null) return t`${field} ${message}`;
  const shown = value.length > MAX_VALUE ? `${value.slice(0, MAX_VALUE - 1)}…` : value;
  return `${field} ${JSON.stringify(shown)}: ${message}`;
}
