// PGlite alone, on the embedded store in DATA_DIR: calls the functions without HTTP and reports to the parent process.

import { join } from 'node:path';

import { openPGlite } from '../../../src/store/embedded/pglite.ts';
import type { NamedStatement } from '../../../src/store/statement.ts';
import type { Answer, LoopReply, LoopRequest } from '../peer.ts';
import { toPercentiles } from '../statistics.ts';
import { toPrepared } from './statements.ts';

const db = await openPGlite(join(process.env.DATA_DIR ?? '', 'postgres'), { fsync: true });
await db.exec(`set timezone = 'UTC'; set role gateway`);

process.on('message', async (request: LoopRequest) => {
  const answer = request.seconds === undefined ? await ask(request) : await measure(request);
  process.send?.(answer satisfies LoopReply);
});
process.once('disconnect', () => process.exit());
process.send?.('ready' satisfies LoopReply);

async function query({ text, values }: NamedStatement): Promise<string> {
  const { rows } = await db.query<{ json: string }>(text, [...values]);
  return rows[0]?.json ?? '';
}

async function ask({ calls: [call] }: LoopRequest): Promise<Answer> {
  if (!call) throw new Error('there is no call to make');
  try {
    return { status: call.readOnly ? 200 : 201, body: JSON.parse(await query(toPrepared(call))) };
  } catch (error) {
    return { status: 401, body: { error: (error as Error).message } };
  }
}

async function measure({ calls, connections, seconds = 0 }: LoopRequest): Promise<LoopReply> {
  const statements = calls.map(toPrepared);
  const latencies: number[] = [];
  let [next, refused] = [0, 0];
  const begin = performance.now();
  const end = begin + seconds * 1_000;
  const work = async () => {
    for (let start = begin; start < end; ) {
      const statement = statements[next++ % statements.length] as NamedStatement;
      await query(statement).catch(() => {
        refused += 1;
      });
      const now = performance.now();
      latencies.push(now - start);
      start = now;
    }
  };
  await Promise.all(Array.from({ length: connections }, work));
  const sorted = Float64Array.from(latencies).sort();
  return {
    requests: sorted.length,
    seconds: (performance.now() - begin) / 1_000,
    ...toPercentiles(sorted),
    refused,
    failed: 0,
  };
}
