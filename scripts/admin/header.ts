import type { CsvRecord } from './csv.ts';
import { Refusal } from './errors.ts';
import type { Rules } from './rules.ts';

/** A column of the file: its name there, and the field. */
export type Column = { readonly name: string; readonly field: string };

/** Reads the header. Throws Refusal, with all that is wrong, unless its columns are fields of a student. */
export async function readHeader(
  name: string,
  records: AsyncGenerator<CsvRecord, void>,
  rules: Rules,
): Promise<readonly Column[]> {
  const allowed = rules.fields.map(withoutPrefix);
  const required = rules.required.map(withoutPrefix);
  const hint = `The first line names the columns: ${allowed.join(', ')}; ${required.join(' and ')} must be there.`;
  const { value: header } = await records.next();
  if (!header) throw new Refusal({ error: `${name} is empty: expected CSV with a header`, hint });
  if ('problem' in header) throw new Refusal({ error: `${name}, line ${header.line}: ${header.problem}`, hint });

  const columns = header.cells.map((cell) => ({ name: cell.trim(), field: `p_${withoutPrefix(cell.trim())}` }));
  const mistakes = findMistakes(columns, rules);
  if (mistakes.length > 0) throw new Refusal({ error: `${name}, line ${header.line}: ${mistakes.join('; ')}`, hint });
  return columns;
}

function withoutPrefix(name: string): string {
  return name.toLowerCase().replace(/^p_/, '');
}

function findMistakes(columns: readonly Column[], rules: Rules): string[] {
  const fields = columns.map(({ field }) => field);
  const unnamed = columns.flatMap(({ name }, index) => (name === '' ? [`column ${index + 1} has no name`] : []));
  const unknown = columns.filter(({ name, field }) => name !== '' && !rules.fields.includes(field));
  const first = rules.fields.map((field) => fields.indexOf(field));
  const repeated = columns.filter(({ field }, index) => rules.fields.includes(field) && !first.includes(index));
  const missing = rules.required.filter((field) => !fields.includes(field));
  return [
    ...unnamed,
    ...unknown.map(({ name }) => `unknown column ${JSON.stringify(name)}`),
    ...repeated.map(({ name }) => `column ${JSON.stringify(name)} is repeated`),
    ...missing.map((field) => `column ${JSON.stringify(withoutPrefix(field))} is missing`),
  ];
}
