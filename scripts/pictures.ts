// Takes the README's pictures of the running product: npm run pictures. Needs Chromium.

import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { launchBrowser } from '../test/helpers/browser.ts';

const ROOT = join(import.meta.dirname, '..');
const ORIGIN = 'http://127.0.0.1:3000';
const COMMANDS = [
  `curl -H 'X-Api-Key: wms_demo_aurora' '${ORIGIN}/v1/treinos?limit=1'`,
  `curl -H 'X-Api-Key: wms_demo_bosque' -H 'Accept-Language: pt-BR' '${ORIGIN}/v1/alunos?limit=0&ativo=talvez'`,
  `curl -H 'X-Api-Key: wms_demo_inativa' '${ORIGIN}/v1/alunos'`,
];
const SIZE = { width: 1280, height: 800 };
const TERMINAL = `body { margin: 0; background: #1e1e2e; color: #cdd6f4; font: 15px/1.5 monospace }
  pre { margin: 0; padding: 24px; white-space: pre-wrap; overflow-wrap: anywhere; width: 960px } b { color: #a6e3a1 }`;

const env = { ...process.env, DATA_DIR: ':memory:', DRAIN_MS: '0' };
const gateway = spawn(process.execPath, ['src/start.js'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] });
const browser = await launchBrowser();
try {
  const session = [shown('npm start'), ...(await readStart())];
  for (const command of COMMANDS) session.push(shown(command), escaped(await run(command)));
  const terminal = await browser.newPage({ viewport: SIZE });
  await terminal.setContent(`<style>${TERMINAL}</style><pre>${session.join('\n')}</pre>`);
  await terminal.locator('pre').screenshot({ path: join(ROOT, 'docs/terminal.png') });
  const page = await browser.newPage({ viewport: SIZE });
  // The page renders only what is visible.
  await page.goto(`${ORIGIN}/docs#tag/alunos/POST/alunos`, { waitUntil: 'networkidle' });
  await page
    .getByRole('heading', { name: 'Create a student' })
    .first()
    .evaluate((heading) => heading.scrollIntoView());
  await page.screenshot({ path: join(ROOT, 'docs/page.png') });
} finally {
  await browser.close();
  gateway.kill();
}

/** Reads the log lines of the start. */
async function readStart(): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of createInterface(gateway.stdout)) {
    // As the log looks on a terminal.
    const { time, level, msg } = JSON.parse(line);
    lines.push(escaped(`[${time.slice(11, 23)}] ${level.toUpperCase()}: ${msg}`));
    if (line.includes('Demo data')) return lines;
  }
  throw new Error(`The gateway has ended: ${lines.join('\n')}`);
}

async function run(command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('sh', ['-c', command.replace('curl', 'curl --silent')]);
  return stdout;
}

function shown(command: string): string {
  return `<b>$</b> ${escaped(command)}`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
