// Makes the folder of an embedded store with the data of the benchmark: node embedded-data.ts FOLDER TENANTS STUDENTS
// In a process of its own, because the memory that this takes is given back with the process alone.

import { PGlite } from '@electric-sql/pglite';
import { load } from './data.ts';

const [folder = '', tenants, students] = process.argv.slice(2);
const db = await PGlite.create({ dataDir: folder });
await load(db, { tenants: Number(tenants), students: Number(students) });
await db.close();
