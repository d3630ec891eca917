import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { isPresent } from './requirement.ts';

const CHROMIUM = '/usr/bin/chromium';

/** Whether there is a browser; where there is none, that is said, and is an error in CI. */
export function canTestInBrowser(): boolean {
  return isPresent(existsSync(CHROMIUM), 'The package chromium is not installed: the tests in a browser cannot run');
}

/** Starts a browser for which no name but the address of this machine exists, and which asks its maker for nothing. */
export function launchBrowser(): Promise<Browser> {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'];
  const offline = '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1';
  const args = [...quiet, offline, '--no-first-run', '--no-sandbox', '--disable-gpu'];
  return chromium.launch({ executablePath: CHROMIUM, args });
}
