// The service with a stub store, in a process whose CPU time does not include the client's. Its arguments are the
// document and a file for the compiled one; it answers each message with the CPU time of its main thread.

import { readConfig } from '../../../src/config.ts';
import { openService } from '../../../src/service.ts';
import { createLog } from '../../../src/telemetry/log.ts';
import { createStudents } from '../../helpers/stub-store.ts';
import { readCpuTime } from './cpu-time.ts';

const [document = '', keptDocument = ''] = process.argv.slice(2);
await openService(readConfig(process.env), {
  ...{ document, keptDocument, migrations: '', types: '', isWatching: false },
  openLog: async ({ log }, keyHeaders) => createLog({ ...log, keyHeaders, isTerminal: false }),
  openStore: async () => ({
    store: createStudents(10),
    readLoad: () => ({ running: 0, waiting: 0, open: 0, idle: 0 }),
    migrate: undefined,
  }),
});
process.on('message', async () => process.send?.(await readCpuTime()));
process.once('disconnect', () => process.exit());
process.send?.('ready');
