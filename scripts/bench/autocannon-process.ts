// Runs autocannon with the options that come as JSON on standard input, and prints its result as JSON.

import { text } from 'node:stream/consumers';
import autocannon from 'autocannon';

console.log(JSON.stringify(await autocannon(JSON.parse(await text(process.stdin)))));
