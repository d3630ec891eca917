import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MAX_DEPTH, MAX_INPUTS } from '../../src/api/messages.ts';
import { type Config, readConfig } from '../../src/config.ts';

const page = readFileSync('SECURITY.md', 'utf8');
const bounds = [...page.matchAll(/^\| (.*) \| (.*) \| (.*) \|$/gm)].map(([, name = '', value = '']) => [name, value]);
const readDefault = (name: string) => bounds.find(([text]) => text?.startsWith(name))?.[1];

test.each<[string, keyof Config]>([
  ['`BODY_LIMIT_BYTES`', 'bodyLimit'],
  ['an answer, in bytes', 'answerLimit'],
  ['bytes of answers', 'unreadLimit'],
  ['open sockets', 'maxSockets'],
  ['`DEADLINE_MS`', 'deadlineMs'],
  ['`REFUSALS_PER_MINUTE`', 'refusalsPerMinute'],
])('has the default of %s', (name, key) => {
  expect(readDefault(name)).toBe(String(readConfig({})[key]));
});

test('has the bounds that are not configured', () => {
  const { connections, waiting } = readConfig({});
  expect(readDefault('`STORE_CONNECTIONS`')).toBe(`${connections}, ${waiting}`);
  expect(readDefault('names in a query')).toBe(String(MAX_INPUTS));
  expect(readDefault('levels of nesting')).toBe(String(MAX_DEPTH));
});

test('names existing variables', () => {
  const example = readFileSync('.env.example', 'utf8');
  for (const [, name] of page.matchAll(/`([A-Z]+_[A-Z_]+)(?:=\w+)?`/g)) expect(example).toContain(`${name}=`);
});
