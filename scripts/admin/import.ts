import { join } from 'node:path';
import { readDocument } from '../../src/openapi/document.ts';
import type { Connection } from '../../src/store/migrations.ts';
import { importAlunos } from './alunos.ts';
import { readRecords } from './csv.ts';
import { readHeader } from './header.ts';
import { type Output, toCount } from './output.ts';
import { withProgress } from './progress.ts';
import { readRules } from './rules.ts';
import { openSource } from './source.ts';
import { decode } from './text.ts';

/** What a file is to become, and how to read it. */
export type ImportOptions = {
  readonly tenant: string;
  /** Found in the file where it is not given. */
  readonly delimiter?: string;
  readonly encoding: string;
  /** What a relative path begins at. */
  readonly folder: string;
};

/** Imports students from a file. What only the file can have wrong is found before the store is opened. */
export async function importFile(
  file: string,
  { tenant, delimiter, encoding, folder }: ImportOptions,
  run: (work: (db: Connection) => Promise<Output>) => Promise<void>,
): Promise<void> {
  const rules = readRules(readDocument(join(import.meta.dirname, '../../openapi.yaml')));
  const source = withProgress(openSource(file, folder));
  const records = readRecords(decode(source, encoding), delimiter);
  try {
    const columns = await readHeader(source.name, records, rules);
    await run(async (db) => {
      const created = await importAlunos(db, tenant, { name: source.name, columns, records }, rules);
      return { json: { created }, text: `Created ${toCount(created, 'student')}.` };
    });
  } finally {
    // Standard input that is not read to its end would keep the process from ending.
    await records.return(undefined);
  }
}
