// Tests one operation: its isolation, examples, answers and drift: npm run test:operation -- criarAluno

import { spawnSync } from 'node:child_process';
import { FILES } from '../src/config.ts';
import { findNear } from '../src/near-miss.ts';
import { compileFile } from '../src/openapi/compile.ts';

const TESTS = ['test/openapi/drift.test.ts', 'test/openapi/document.test.ts', 'test/isolation/any-operation.test.ts'];

/** The message about an unknown operationId; undefined for a known one. */
export function findMistake(id: string | undefined, ids: readonly string[]): string | undefined {
  if (id !== undefined && ids.includes(id)) return undefined;
  const meant = ids.find((one) => findNear(id?.toLowerCase() ?? '', [one.toLowerCase()]));
  if (meant) return `There is no operation ${id}: did you mean ${meant}?`;
  return `Expected an operationId of openapi.yaml: npm run test:operation -- ${ids[0]}`;
}

if (import.meta.main) {
  const [id] = process.argv.slice(2);
  const ids = await compileFile(FILES.document).then(
    ({ operations }) => [...operations.keys()],
    (error) => {
      console.error(error.message);
      process.exit(1);
    },
  );
  const mistake = findMistake(id, ids);
  if (mistake) {
    console.error(mistake);
    process.exit(2);
  }
  const filter = `((^| )${id} |^document and database agree)`;
  const { status } = spawnSync('vitest', ['run', '--project', 'postgres', ...TESTS, '-t', filter], {
    stdio: 'inherit',
  });
  process.exit(status ?? 1);
}
