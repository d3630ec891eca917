import { basename } from 'node:path';
import type { Program } from '../api/handler.ts';
import type { Fault } from '../errors.ts';
import type { Store } from '../store/store.ts';
import { createLocator } from './document.ts';
import { checkContract, type Finding } from './drift.ts';

/** Document and database disagree; the message has a line for each disagreement. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
}

/** What a check of the contract needs, beside the store's functions. */
export type ContractCheckOptions = {
  readonly program: Program;
  /** The document's file. */
  readonly document: string;
  readonly store: Store;
  readonly deadlineMs: number;
};

/**
 * Holds the document against the store's database: gives a line for each disagreement, or the fault for which the
 * store could not be asked.
 */
export async function findDrift(options: ContractCheckOptions): Promise<{ lines: string[] } | { failure: Fault }> {
  const { program, document, store, deadlineMs } = options;
  const description = await store.describe(AbortSignal.timeout(deadlineMs));
  if ('failure' in description) return description;
  const findings = checkContract(program.operations, program.router.operations, description.functions);
  if (findings.length === 0) return { lines: [] };
  const locate = createLocator(document);
  const located = findings.map((finding) => ({ line: locate(finding.place), text: toText(finding) }));
  located.sort((one, other) => one.line - other.line);
  return { lines: located.map(({ line, text }) => `${basename(document)}:${line}: ${text}`) };
}

function toText({ operation, function: name, document, database }: Finding): string {
  return `${operation} → ${name}: in the document ${document}; in the database ${database}`;
}
