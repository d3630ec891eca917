import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** What node is given for the gateway: the same as by `npm start`. */
export const GATEWAY_ARGS: readonly string[] = readStart();

function readStart(): string[] {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const [, ...args] = String(scripts.start).split(' ');
  const main = args.pop() ?? '';
  return [...args, join(ROOT, main)];
}
