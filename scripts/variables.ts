// Generates the variables in docs/configuration.md, .env.example and compose.yaml from the table in src/config.ts:
// node scripts/variables.ts [--check]

import { readFileSync, writeFileSync } from 'node:fs';
import { VARIABLES, type Variable } from '../src/config.ts';

const entries = Object.entries<Variable>(VARIABLES);

/** The table of docs/configuration.md. */
function toTable(): string {
  const rows = entries.map(([name, { written, text }]) => {
    const here = text.replaceAll('](configuration.md#', '](#');
    return `| \`${name}\` | ${written && `\`${written}\` `}| ${here} |\n`;
  });
  return `| Variable | Default | |\n|---|---|---|\n${rows.join('')}`;
}

/** The commented variables of .env.example. */
function toExample(): string {
  const parts = entries.map(([name, { written, text }]) => {
    const plain = text.replaceAll('`', '').replace(/\[[^\]]*\]\(([^)#]*)[^)]*\)/g, 'docs/$1');
    return `${wrap(plain)}# ${name}=${written}\n`;
  });
  return parts.join('');
}

function wrap(text: string): string {
  return text.replace(/(.{1,118})(?: |$)/g, '# $1\n');
}

/** Variables that a service of compose.yaml or the image sets. */
const SET_BY_COMPOSE = /^(PORT|HOST|METRICS_PORT|DATA_DIR|POSTGRES_BIN|DEMO_DATA|PREPARE|DATABASE_URL|SUPABASE_.*)$/;

/** The variables that compose.yaml passes through. */
function toSettings(): string {
  const names = entries.flatMap(([name]) => (SET_BY_COMPOSE.test(name) ? [] : name));
  return names.map((name) => `  ${name}: \${${name}:-}\n`).join('');
}

/** The generated part of each file. */
const FILES = [
  { file: 'docs/configuration.md', pattern: /\| Variable \|[\s\S]*?\n(?=\n)/, write: toTable },
  {
    file: '.env.example',
    pattern: /(?<=^# Variables of the gateway\n\n)[\s\S]*?(?=\n# OpenTelemetry:)/m,
    write: toExample,
  },
  {
    file: 'compose.yaml',
    pattern: /(?<=^x-settings: &settings\n)[\s\S]*?(?= {2}OTEL_SERVICE_NAME:)/m,
    write: toSettings,
  },
];

const isCheck = process.argv.includes('--check');
for (const { file, pattern, write } of FILES) {
  const before = readFileSync(file, 'utf8');
  const after = before.replace(pattern, write);
  if (!pattern.test(before)) throw new Error(`${file} has no place for the variables`);
  if (isCheck && before !== after) {
    console.error(`${file} differs from src/config.ts: run npm run generate`);
    process.exitCode = 1;
  } else if (before !== after) writeFileSync(file, after);
}
