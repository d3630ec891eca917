import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { asAdmin, createLogins, startEmbeddedPostgres } from './test/helpers/servers.ts';
const server: any = await startEmbeddedPostgres({ fsync: 'on' });
const env = { ...process.env, DATABASE_URL: server.adminUrl };
execFileSync('npm', ['run', '--silent', 'migrate'], { env });
const lines = Array.from({ length: 100_000 }, (_, n) => `Pessoa ${n},p${n}@import.example,1990-01-01,pilates`);
writeFileSync('/tmp/w/imp.csv', ['nome,email,data_nascimento,modalidade', ...lines].join('\n'));
const times: Record<string, number[]> = { with: [], without: [] };
await asAdmin(server.adminUrl, async (db: any) => {
  await createLogins(db);
  for (let round = 0; round < 4; round++) for (const kind of round % 2 ? ['with', 'without'] : ['without', 'with']) {
    const { rows: [{ id }] } = await db.query(`insert into private.tenants (name) values ($1) returning id`, [`t ${round} ${kind}`]);
    await db.query(`alter table private.alunos ${kind === 'with' ? 'enable' : 'disable'} trigger user`);
    await db.query('checkpoint');
    const at = performance.now();
    execFileSync('npm', ['run', '--silent', 'admin', '--', 'import', 'alunos', '/tmp/w/imp.csv', '--tenant', id], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    times[kind].push((performance.now() - at) / 1000);
    console.log(round, kind, times[kind].at(-1)!.toFixed(1), 's', (await db.query('select count(*) from private.changes')).rows[0].count);
  }
});
const med = (v: number[]) => [...v].sort((a, b) => a - b)[v.length >> 1];
console.log(times, 'ratio', (med(times.with) / med(times.without)).toFixed(2), times.with.map((w, i) => (w / times.without[i]).toFixed(2)));
await server.stop(); process.exit(0);
