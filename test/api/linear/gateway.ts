// The service with a stub store, in a process whose CPU time does not include the client's. Its argument is the document;
// it answers each message with the CPU time of its main thread.

import { readConfig } from '../../../src/config.ts';
import { compileFile } from '../../../src/openapi/compile.ts';
import { openService } from '../../../src/service.ts';
import { limited } from '../../../src/store/turns.ts';
import { createStudents } from '../../helpers/stub-store.ts';
import { readCpuTime } from './cpu-time.ts';

const [file = ''] = process.argv.slice(2);
const store = limited(createStudents(10), { slots: 10, waiting: 1_000 });
await openService(readConfig(process.env), { document: await compileFile(file), openStore: async () => ({ store }) });
process.on('message', () => process.send?.(readCpuTime()));
process.once('disconnect', () => process.exit());
process.send?.('ready');
