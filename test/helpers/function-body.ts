import { asAdmin } from './servers.ts';

/** Runs `work` while a function of the database has another body: statements, or a block with declarations. */
export async function withBody(adminUrl: string, name: string, body: string, work: () => Promise<void>): Promise<void> {
  await asAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query(`select pg_get_functiondef(('public.' || $1)::regproc) as definition`, [name]);
    const [{ definition }] = rows as [{ definition: string }];
    const other = definition.replace(
      /AS \$function\$.*\$function\$/s,
      () => `AS $function$ begin ${body}; end; $function$`,
    );
    await admin.query(other);
    try {
      await work();
    } finally {
      await admin.query(definition);
    }
  });
}

/** Blocks the calls of a function until `work` calls `letGo` or ends. */
export function whileFunctionHeld(
  adminUrl: string,
  name: string,
  work: (letGo: () => Promise<unknown>) => Promise<void>,
): Promise<void> {
  return withBody(adminUrl, name, 'perform pg_advisory_xact_lock_shared(1)', () =>
    asAdmin(adminUrl, async (admin) => {
      await admin.query('select pg_advisory_lock(1)');
      await work(() => admin.query('select pg_advisory_unlock(1)'));
    }),
  );
}
