import { expect, inject, onTestFinished, test } from 'vitest';
import { copyCitusDatabase } from '../helpers/citus.ts';
import { asAdmin } from '../helpers/servers.ts';

// Each node may log the statements that others send, with their text: log_parameter_max_length does not apply to it.

test('no statement between nodes contains an API key', async () => {
  const database = await copyCitusDatabase(inject('nodes'));
  onTestFinished(() => database.drop());
  await asAdmin(database.adminUrl, async (admin) => {
    const sent: string[] = [];
    admin.on('notice', ({ message, detail }) => sent.push(`${message} ${detail}`));
    await admin.query('set client_min_messages = notice; set citus.log_remote_commands = on');
    const { rows: tenants } = await admin.query(`select private.create_tenant('Academia') as id`);
    const { rows: issued } = await admin.query('select id, key from private.issue_key($1, $2)', [
      tenants[0].id,
      'Teste',
    ]);
    const { rows: rotated } = await admin.query('select key from private.rotate_key($1)', [issued[0].id]);
    const key = rotated[0].key;
    await admin.query('begin');
    await admin.query('select * from public.criar_aluno($1, $2, $3)', [key, 'Ana', 'ana@academia.example']);
    await admin.query('select * from public.listar_alunos($1)', [key]);
    await admin.query('commit');
    const { rows: recorded } = await admin.query('select recorded from public.record_key_use($1)', [key]);
    expect(recorded).toEqual([{ recorded: true }]);

    for (const part of ['INSERT INTO private.api_keys', 'UPDATE private.api_keys', 'INSERT INTO private.alunos']) {
      expect(sent.filter((text) => text.includes(part))).not.toEqual([]);
    }
    for (const secret of [issued[0].key, key]) expect(sent.filter((text) => text.includes(secret))).toEqual([]);
  });
});
