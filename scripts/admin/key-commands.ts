import { type Command, Option } from 'commander';
import { NEVER, readDuration, readEnvironment, readName, readWhen } from './arguments.ts';
import { add, permissionOption, type Run, tenantOption, type WithJson } from './command.ts';
import { UsageError } from './errors.ts';
import { issueKey, type KeyRequest, listKeys, permitKey, type Rotation, revokeKey, rotateKey } from './keys.ts';

const KEY = '<KEY>';
const KEY_HELP = "the key's id or its prefix, as key list shows them";
const WHEN = 'a duration from now (90d, 12h), a date (its beginning in UTC), a time (2027-12-31T18:00Z), or never';

/** Adds the commands for keys. */
export function addKeyCommands(key: Command, run: Run): void {
  addIssue(key, run);
  add(key, 'list', 'list keys: everything but the key itself', ['key list', 'key list --tenant ID'])
    .addOption(tenantOption('of this tenant alone'))
    .action((options: WithJson & { tenant?: string }) => run(options, (db) => listKeys(db, options.tenant)));
  addRotate(key, run);
  add(key, 'revoke', 'end a key, now and for good', ['key revoke wms_live_4fG7kQz1'])
    .argument(KEY, KEY_HELP)
    .action((name: string, options: WithJson) => run(options, (db) => revokeKey(db, name)));
  addPermit(key, run);
}

function addIssue(key: Command, run: Run): void {
  add(key, 'issue', 'issue a key and show it, this once', [
    'key issue --tenant ID --name Site',
    'key issue --tenant ID --name Report --permission listar_alunos listar_treinos --expires 90d',
  ])
    .addOption(tenantOption('the tenant, as tenant list shows it').makeOptionMandatory())
    .addOption(new Option('--name <NAME>', 'what the key is for').argParser(readName).makeOptionMandatory())
    .addOption(permissionOption('a function that it may call; without any, it may call all'))
    .addOption(new Option('--expires <WHEN>', WHEN).argParser(readWhen).default(NEVER, 'never'))
    .addOption(
      new Option('--environment <WORD>', 'a word that the key begins with').argParser(readEnvironment).default('live'),
    )
    .action((options: KeyRequest & WithJson) => run(options, (db) => issueKey(db, options)));
}

function addRotate(key: Command, run: Run): void {
  add(key, 'rotate', 'issue a key in the place of another, which works on for a while', [
    'key rotate wms_live_4fG7kQz1',
    'key rotate wms_live_4fG7kQz1 --overlap 0s --expires 1y',
  ])
    .argument(KEY, KEY_HELP)
    .addOption(
      new Option('--overlap <DURATION>', 'how long the old key works on: 24h, 30m, 0s')
        .argParser(readDuration)
        .default(readDuration('24h'), '24h'),
    )
    .addOption(new Option('--expires <WHEN>', `${WHEN}; otherwise as the old key`).argParser(readWhen))
    .action((name: string, options: Rotation & WithJson) => run(options, (db) => rotateKey(db, name, options)));
}

function addPermit(key: Command, run: Run): void {
  add(key, 'permit', 'set the functions that a key may call', [
    'key permit wms_live_4fG7kQz1 --permission listar_alunos criar_aluno',
    'key permit wms_live_4fG7kQz1 --all',
  ])
    .argument(KEY, `${KEY_HELP}; before the options`)
    .addOption(permissionOption('a function that it may call, and no others').conflicts('all'))
    .addOption(new Option('--all', 'it may call all functions'))
    .action((name: string, options: WithJson & { permission?: readonly string[]; all?: boolean }) => {
      const { permission = null, all } = options;
      if (!permission && !all) throw new UsageError('expected --permission FUNCTION, or --all');
      return run(options, (db) => permitKey(db, name, permission));
    });
}
