import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { AURORA, BOSQUE, useAdmin } from '../helpers/admin.ts';

const NAME = 'wms_demo_aur';
const ID = 'a9000000-0000-4000-8000-000000000001';

const { admin, json, printed, rows } = useAdmin();
/** Days in America/Sao_Paulo. In UTC, NOW is already on the day after. */
const [yesterday, today] = ['2026-06-14', '2026-06-15'];
const NOW = new Date('2026-06-16T01:00:00Z');

// The clock stands still, so that midnight cannot come between two commands.
beforeAll(() => void vi.useFakeTimers({ now: NOW, toFake: ['Date'] }));
afterAll(() => void vi.useRealTimers());

beforeAll(async () => {
  await rows(
    `insert into private.usage (tenant_id, key_id, day, operation, class, calls)
       select $1::uuid, $2::uuid, $5::date - d.ago, d.operation, d.class, d.calls
         from (values (0, 'listarAlunos', '2xx', 100), (0, 'listarAlunos', '429', 5), (1, 'criarAluno', '5xx', 50),
                      (40, 'listarAlunos', '2xx', 7)) as d (ago, operation, class, calls)
        union all
       select $3::uuid, $4::uuid, $5::date, d.operation, '4xx', d.calls
         from (values ('listarAlunos', 1), ('criarAluno', 2)) as d (operation, calls)`,
    [AURORA, ID, BOSQUE, 'b9000000-0000-4000-8000-000000000001', today],
  );
});

test('the usage of a key is a table, and a bar for each day', async () => {
  expect(await printed('key', 'usage', NAME)).toBe(
    `KEY     PREFIX        OPERATION     2xx  4xx  429  5xx
Aurora  wms_demo_aur  criarAluno    0    0    0    50
Aurora  wms_demo_aur  listarAlunos  100  0    5    0

${yesterday}  ${'█'.repeat(24)}                            50
${today}  ${'█'.repeat(50)}  105
`,
  );
  const ofToday = {
    day: today,
    key_id: ID,
    prefix: NAME,
    name: 'Aurora',
    tenant_id: AURORA,
    tenant: 'Academia Aurora',
  };
  expect(await json(['key', 'usage', ID, '--days', '1'])).toEqual([
    { ...ofToday, operation: 'listarAlunos', class: '2xx', calls: 100 },
    { ...ofToday, operation: 'listarAlunos', class: '429', calls: 5 },
  ]);
  expect(await printed('key', 'usage', 'wms_demo_lei')).toBe('There were no calls in the last 30 days.\n');
});

test('the usage of tenants is that of their keys together', async () => {
  expect(await printed('tenant', 'usage', '--days', '60')).toContain(
    `TENANT           ID                                    2xx  4xx  429  5xx
Academia Aurora  ${AURORA}  107  0    5    50
Rede Bosque      ${BOSQUE}  0    3    0    0
`,
  );
  expect(await printed('tenant', 'usage', BOSQUE, '--csv')).toBe(
    `day,tenant_id,tenant,class,calls\r\n${today},${BOSQUE},Rede Bosque,4xx,3\n`,
  );
  expect(await printed('key', 'usage', '--tenant', BOSQUE)).toContain('Bosque  wms_demo_bos  listarAlunos  0    1');
});

test('a key has its own limits, or those of its tenant, or none', async () => {
  const limit = async (...args: string[]) => (await printed(...args)).replace(/^.* may make /, '');
  expect(await limit('key', 'limit', NAME)).toBe('any number of calls.\n');
  expect(await limit('tenant', 'limit', AURORA, '--per-minute', '60')).toBe('60 calls a minute (60 at once).\n');
  expect(await limit('key', 'limit', NAME)).toBe('60 calls a minute (60 at once), as its tenant has it.\n');
  const own = ['--per-minute', '600', '--burst', '100', '--per-day', '100000', '--per-month', '2000000'];
  expect(await limit('key', 'limit', NAME, ...own)).toBe(
    '600 calls a minute (100 at once), 100000 calls a day, and 2000000 calls a month.\n',
  );
  const ownNone = { id: ID, prefix: NAME, limits: {}, are_own: true };
  expect(await json(['key', 'limit', NAME, '--none'])).toEqual(ownNone);
  const ofTenant = { limits: { per_minute: 60 }, are_own: false };
  expect(await json(['key', 'limit', NAME, '--default'])).toMatchObject(ofTenant);
  expect(await limit('tenant', 'limit', AURORA, '--none')).toBe('any number of calls.\n');
  expect(await admin(['key', 'limit', NAME, '--burst', '5'])).toMatchObject({
    code: 1,
    errors: expect.stringContaining('a burst needs a limit per minute\n'),
  });
});
