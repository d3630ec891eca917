// npm start -- --check: checks everything that a start needs, and prints what it finds, without serving.

import { type Config, FILES, type StoreConfig } from './config.ts';
import { messageOf } from './errors.ts';
import { DemoError, findDemo, refuseNewDemo } from './http/demo.ts';
import { describeFault } from './http/health.ts';
import { type CompiledDocument, compileFile } from './openapi/compile.ts';
import { describeDrift } from './openapi/drift.ts';
import { inspectMigrations, isNewStore, openServed, openStore, type Pending, reachServer } from './store/open.ts';
import type { Store } from './store/store.ts';

/** The width of a finding's name. */
const WIDTH = 15;

const AGREE = 'ok: document and database agree; npm run check:contract looks into the functions too';

/** The result of one check. */
type Finding = { readonly name: string; readonly text: string; readonly isBad?: boolean };

/** Prints a line for each finding, and returns whether the gateway can start. */
export async function checkStart(config: Config, print: (line: string) => void): Promise<boolean> {
  let isGood = true;
  const tell = ({ name, text, isBad = false }: Finding) => {
    print(`${name.padEnd(WIDTH)}${text.replaceAll('\n', `\n${' '.repeat(WIDTH)}`)}`);
    isGood &&= !isBad;
  };
  tell({ name: 'Configuration', text: 'ok' });
  try {
    const document = await compileFile(FILES.document);
    if (config.mcp) (await import('./http/mcp.ts')).readTools(document);
    tell({ name: 'Document', text: `ok: ${document.operations.size} operations` });
    await checkStore({ config, document, pending: await inspectMigrations(config, FILES.migrations), tell });
  } catch (error) {
    tell({ name: 'Error', text: messageOf(error as Error), isBad: true });
  }
  print(isGood ? 'The gateway can start.' : 'The gateway would not start, or could not serve.');
  return isGood;
}

type Parts = {
  readonly config: Config;
  readonly document: CompiledDocument;
  readonly pending: Pending;
  readonly tell: (finding: Finding) => void;
};

async function checkStore(parts: Parts): Promise<void> {
  const { config, pending, tell } = parts;
  const log = { info: () => {}, warn: (text: string) => tell({ name: 'Warning', text }) };
  const small = { ...config, connections: 1 };
  if (config.store.kind === 'embedded' && 'missing' in pending) {
    // The start would create or migrate this store: check a temporary one instead.
    const store = { ...config.store, dataDir: undefined, demoData: false };
    const { store: made } = await openStore({ ...small, store }, FILES, log);
    await checkOpened(made, parts).finally(made.close);
    if (await isNewStore(config.store)) {
      return refuseNewDemo(config).catch(({ message }) => tell({ name: 'Demo data', text: message, isBad: true }));
    }
  }
  // A running gateway may use the same store.
  const server = config.store.kind === 'embedded' ? await reachServer(config.store) : undefined;
  try {
    const store = await openServed(small, log);
    const check = 'missing' in pending && server ? checkDemo : checkOpened;
    await check(store, parts).finally(store.close);
  } finally {
    await server?.close();
  }
}

async function checkOpened(store: Store, parts: Parts): Promise<void> {
  const { config, document, pending, tell } = parts;
  const { deadlineMs } = config;
  const dataDir = config.store.kind === 'embedded' ? config.store.dataDir : undefined;
  tell({ name: 'Store', text: dataDir ? `embedded Postgres, data in ${dataDir}` : store.description });
  const fault = await store.check(AbortSignal.timeout(deadlineMs));
  if (fault) {
    const { code, message } = Object(fault.cause) as NodeJS.ErrnoException;
    const cause = describeFault(fault);
    const reason = !message || cause.includes(message) ? '' : `: ${message}`;
    return tell({ name: 'Login', text: cause + (reason || (code && !message ? `: ${code}` : '')), isBad: true });
  }
  const risk = await store.inspectLogin?.(AbortSignal.timeout(deadlineMs));
  tell({ name: 'Login', text: risk ?? 'ok' });
  tell(describePending(pending, config.store));
  const drift = await describeDrift({ document, store, deadlineMs });
  if ('failure' in drift) tell({ name: 'Contract', text: describeFault(drift.failure), isBad: true });
  else {
    const isBad = drift.broken.size > 0 && config.contractCheck === 'error';
    tell({ name: 'Contract', text: drift.lines.join('\n') || AGREE, isBad });
  }
  await checkDemo(store, parts);
}

/** Looks for the demo data in the store that the start would serve. */
async function checkDemo(store: Store, { config, document, tell }: Parts): Promise<void> {
  const found = await findDemo(document, store, config.deadlineMs);
  if (!found) return;
  if ('failure' in found) tell({ name: 'Demo data', text: describeFault(found.failure), isBad: true });
  else if (config.demoKeys) tell({ name: 'Demo data', text: 'in this store, with keys that everybody knows' });
  else tell({ name: 'Demo data', text: new DemoError(config.host).message, isBad: true });
}

/** The start migrates an embedded store; another one is migrated by a command. */
function describePending(pending: Pending, { kind }: StoreConfig): Finding {
  const name = 'Migrations';
  if ('unknown' in pending) return { name, text: `not checked: ${pending.unknown}` };
  if ('applied' in pending) return { name, text: `ok: all ${pending.applied} are applied` };
  const list = pending.missing.join(', ');
  if (kind === 'embedded') return { name, text: `ok: the start applies ${list}` };
  return { name, text: `missing: ${list}; run npm run migrate`, isBad: true };
}
