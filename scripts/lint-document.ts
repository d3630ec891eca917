// Lints openapi.yaml, or another document that is named, by the rules of redocly.yaml: npm run check:document

import { formatProblems, getTotals, lint, loadConfig } from '@redocly/openapi-core';

const [ref = 'openapi.yaml'] = process.argv.slice(2);
const problems = await lint({ ref, config: await loadConfig({ configPath: 'redocly.yaml' }) });
formatProblems(problems, { totals: getTotals(problems), format: 'codeframe', version: '' });
if (problems.length > 0) process.exitCode = 1;
