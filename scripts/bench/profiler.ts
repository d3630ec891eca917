// Preloaded into a profiled process (node --import). The first SIGUSR2 starts a profile; the second writes it to the file in the `to`
// parameter of this module's URL.

import { renameSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';

/** Sampling interval in µs. */
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
    // Renamed, so that the reader never sees a partial file.
    writeFileSync(`${FILE}.part`, JSON.stringify(profile));
    renameSync(`${FILE}.part`, FILE);
  }
});
