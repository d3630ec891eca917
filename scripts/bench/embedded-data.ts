// Creates the folder of an embedded store with the benchmark's data: node embedded-data.ts FOLDER TENANTS STUDENTS
// It is a process of its own because only its end gives back the memory that this takes.

import { openPGlite } from '../../src/store/embedded/pglite.ts';
import { load } from './data.ts';

const [folder = '', tenants, students] = process.argv.slice(2);
const db = await openPGlite(folder, { fsync: false });
await load(db, { tenants: Number(tenants), students: Number(students) });
await db.close();
