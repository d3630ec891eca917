// Profiles the process that it is loaded into (node --import): from one SIGUSR2 to the next, which writes the profile to the
// file that the parameter `to` of its URL names.

import { renameSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';

/** Between two samples, in µs. */
const INTERVAL = 500;

const FILE = new URL(import.meta.url).searchParams.get('to') ?? '';

const session = new Session();
let isRunning = false;

process.on('SIGUSR2', async () => {
  isRunning = !isRunning;
  if (isRunning) {
    session.connect();
    await session.post('Profiler.enable');
    await session.post('Profiler.setSamplingInterval', { interval: INTERVAL });
    await session.post('Profiler.start');
  } else {
    const { profile } = await session.post('Profiler.stop');
    session.disconnect();
    // Whoever waits for the file may read it at once.
    writeFileSync(`${FILE}.part`, JSON.stringify(profile));
    renameSync(`${FILE}.part`, FILE);
  }
});
