import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, chromium } from 'playwright-core';
import { isPresent } from './requirement.ts';

const CHROMIUM = '/usr/bin/chromium';

/** Whether a browser is installed. Warns if not, or throws in CI. */
export function canTestInBrowser(): boolean {
  return isPresent(existsSync(CHROMIUM), 'The package chromium is not installed: the tests in a browser cannot run');
}

/** Starts a browser that resolves no name but this machine's address, and sends no requests to its maker. */
export function launchBrowser(): Promise<Browser> {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'];
  const offline = '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1';
  const args = [...quiet, offline, '--no-first-run', '--no-sandbox', '--disable-gpu'];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

/**
 * Opens a page whose module /page.js is one of these scripts by path, and returns what the module assigns to
 * `globalThis.results`. Throws for an error in the page.
 */
export async function runPage(scripts: Readonly<Record<string, string>>): Promise<unknown[]> {
  const server = createServer((req, res) => {
    const script = scripts[req.url ?? ''];
    const type = script === undefined ? 'text/html' : 'text/javascript';
    res.writeHead(200, { 'Content-Type': type, 'Content-Security-Policy': "script-src 'self'" });
    res.end(script ?? '<!doctype html><script type="module" src="page.js"></script>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage();
    const failed = new Promise<never>((_resolve, reject) => page.on('pageerror', reject));
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await Promise.race([page.waitForFunction(() => 'results' in globalThis), failed]);
    return await page.evaluate(() => Reflect.get(globalThis, 'results'));
  } finally {
    await browser.close();
    server.close();
    server.closeAllConnections();
  }
}
