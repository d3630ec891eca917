import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MAX_DEPTH, MAX_INPUTS } from '../../src/api/messages.ts';
import { readConfig } from '../../src/config.ts';

const page = readFileSync('SECURITY.md', 'utf8');
const config = readConfig({});

test.each<[row: string, value: unknown]>([
  ['`BODY_LIMIT_BYTES`', config.bodyLimit],
  ['names in a query', MAX_INPUTS],
  ['levels of nesting', MAX_DEPTH],
  ['an answer, in bytes', config.answerLimit],
  ['bytes of answers', config.unreadLimit],
  ['open sockets', config.maxSockets],
  ['`STORE_CONNECTIONS`', `${config.connections}, ${config.waiting}`],
  ['`DEADLINE_MS`', config.deadlineMs],
  ['`REFUSALS_PER_MINUTE`', config.refusalsPerMinute],
])('has the value of %s', (name, value) => {
  const row = page.split('\n').find((line) => line.startsWith(`| ${name}`));
  expect(row?.split(' | ')[1]).toBe(String(value));
});

test('names existing variables', () => {
  const example = readFileSync('.env.example', 'utf8');
  for (const [, name] of page.matchAll(/`([A-Z]+_[A-Z_]+)(?:=\w+)?`/g)) expect(example).toContain(`${name}=`);
});
