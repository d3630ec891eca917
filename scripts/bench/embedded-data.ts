// Creates the folder of an embedded store with the benchmark's data: node embedded-data.ts FOLDER TENANTS STUDENTS
// It is a process of its own because only its end gives back the memory that this takes.

import { PGlite } from '@electric-sql/pglite';
import { load } from './data.ts';

const [folder = '', tenants, students] = process.argv.slice(2);
const db = await PGlite.create({ dataDir: folder });
await load(db, { tenants: Number(tenants), students: Number(students) });
await db.close();
