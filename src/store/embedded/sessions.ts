// Sessions of administrators in the thread. PGlite has one backend, so the gateway and the sessions take turns in it: each
// finds its own settings again, and a session its temporary tables and prepared statements, until another one has a turn.

import type { PGlite } from '@electric-sql/pglite';
import { serialize } from 'pg-protocol';
import type { PgError } from '../sqlstate.ts';

/** Settings of Postgres by name. */
export type Settings = Readonly<Record<string, string>>;

/**
 * Work of a session: messages of Postgres's protocol, "synced" if Postgres answers the last one with ReadyForQuery. The first
 * ones, its start, come with its settings; the end undoes its transaction. The id is never used again.
 */
export type SessionWork = { readonly session: number } & (
  | { readonly messages: Uint8Array; readonly isSynced: boolean; readonly settings?: Settings }
  | { readonly end: true }
);

/** The answer to messages, and whether it leaves no transaction open. */
export type Answer = { readonly messages: Uint8Array; readonly isIdle: boolean };

/** The size in bytes up to which an answer to one message is kept, and messages are taken. */
export const MAX_BYTES = 128 * 2 ** 20;

/** The role that owns everything. */
export const ADMINISTRATOR = 'postgres';

/** The application_name of a session that makes a backup. */
export const BACKUP = 'wellness-backup';

/** The state (object_not_in_prerequisite_state) of a session that makes no backup. */
const NO_BACKUP = '55000';

const GATEWAY = 0;

/** `reset session authorization` has no effect in PGlite, because its backend never logged in. */
const RESET = `set session authorization ${ADMINISTRATOR}; reset role; reset all`;

/** The session's own authorization and role come last: after them others could not be set. */
const READ_SETTINGS = `
  select pg_catalog.json_object_agg(name, setting order by rank)::text as settings
    from (select name, setting, 1 as rank from pg_catalog.pg_settings where source = 'session'
          union all select 'session_authorization', session_user::text, 2
          union all select 'role', pg_catalog.current_setting('role'), 3) s`;

/** As a simple query it drops the unnamed statement too: a client cannot take another one for its own. */
function writeSettings(settings: string): string {
  const literal = `'${settings.replaceAll("'", "''")}'`;
  return `select pg_catalog.set_config(key, value, false) from pg_catalog.json_each_text(${literal})`;
}

/** Undoes messages without a Sync, which alone would commit them: there is no such portal. */
const UNDO_UNSYNCED = Buffer.concat([serialize.execute({ portal: 'gateway_none' }), serialize.sync()]);
const READY_FOR_QUERY = Buffer.from('Z\0\0\0\x05', 'latin1');
const IDLE = 'I'.charCodeAt(0);

/** An error that ends a session and not the thread. */
export class SessionError extends Error implements PgError {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

function isBackup(settings = '{}'): boolean {
  return JSON.parse(settings).application_name === BACKUP;
}

/** Whose settings the backend has. */
export class Sessions {
  readonly #db: PGlite;
  readonly #setUpGateway: () => Promise<void>;
  /** The session whose settings are in force, or GATEWAY; undefined for nobody's. */
  #current: number | undefined;
  /** The session whose temporary tables, prepared statements and locks exist. */
  #owner: number | undefined;
  /** The settings of each session, as a JSON object, while they are not in force. */
  readonly #settings = new Map<number, string>();

  /** `setUpGateway` makes the gateway's settings out of the default ones. */
  constructor(db: PGlite, setUpGateway: () => Promise<void>) {
    this.#db = db;
    this.#setUpGateway = setUpGateway;
  }

  /** Whether the gateway's settings are in force. */
  get isGateway(): boolean {
    return this.#current === GATEWAY;
  }

  /** Whether a session makes a backup, which needs all of the WAL since its beginning. */
  get hasBackup(): boolean {
    return [...this.#settings.values()].some(isBackup);
  }

  /** Gives the backend back to the gateway. */
  async toGateway(): Promise<void> {
    await this.#leave();
    await this.#db.exec(RESET);
    await this.#setUpGateway();
    this.#current = GATEWAY;
  }

  /**
   * Runs messages of a session. Throws SessionError if the session cannot go on. Any other error means that Postgres itself
   * has failed.
   */
  async run(session: number, messages: Uint8Array, isSynced: boolean, settings?: Settings): Promise<Answer> {
    if (settings) this.#begin(session, JSON.stringify(settings));
    await this.#enter(session);
    const answer = await this.#send(messages);
    // Some fatal errors, such as that of an encoding that PGlite lacks, leave it without any answer from then on.
    if (isSynced && !answer.subarray(-6, -1).equals(READY_FOR_QUERY)) {
      throw new Error("Postgres has failed in an administrator's session");
    }
    return { messages: answer, isIdle: isSynced && answer.at(-1) === IDLE };
  }

  /** Ends a session: undoes its transaction and drops what belongs to it. */
  async end(session: number): Promise<void> {
    if (this.#current === session) {
      await this.#send(UNDO_UNSYNCED);
      await this.#db.exec('rollback');
    }
    if (this.#owner === session) {
      this.#current = undefined;
      await this.#db.exec(RESET);
      await this.#db.exec('discard all');
      this.#owner = undefined;
    }
    if (isBackup(this.#settings.get(session))) await this.#stopBackup();
    this.#settings.delete(session);
  }

  #begin(session: number, settings: string): void {
    if (isBackup(settings) && this.hasBackup) throw new SessionError('55000', 'another backup is being made');
    this.#settings.set(session, settings);
  }

  /** Ends the backup of a session that ended, maybe before it did so itself. */
  async #stopBackup(): Promise<void> {
    await this.#leave();
    await this.#db.exec(RESET);
    await this.#db.exec('select pg_catalog.pg_backup_stop(false)').catch((error: PgError) => {
      if (error.code !== NO_BACKUP) throw error;
    });
  }

  async #enter(session: number): Promise<void> {
    if (this.#current === session) return;
    const settings = this.#settings.get(session);
    if (settings === undefined) throw new SessionError('57P02', 'the database has restarted; connect again');
    await this.#leave();
    await this.#db.exec(RESET);
    if (this.#owner !== session) await this.#db.exec('discard all');
    this.#owner = session;
    try {
      await this.#db.exec(writeSettings(settings));
    } catch (error) {
      const { code = 'XX000', message } = error as PgError;
      throw new SessionError(code, message);
    }
    this.#current = session;
  }

  /** Keeps the settings of the session whose turn it was. */
  async #leave(): Promise<void> {
    const session = this.#current;
    this.#current = undefined;
    if (session === undefined || session === GATEWAY) return;
    const { rows } = await this.#db.query<{ settings: string }>(READ_SETTINGS);
    this.#settings.set(session, rows[0]?.settings ?? '{}');
  }

  async #send(messages: Uint8Array): Promise<Buffer> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    // Postgres cannot be stopped, so it goes on to the end, and what it sends is thrown away.
    const onRawData = (chunk: Uint8Array) => {
      size += chunk.length;
      if (size <= MAX_BYTES) chunks.push(chunk.slice());
      else chunks.length = 0;
    };
    await this.#db.execProtocolRawStream(messages, { onRawData });
    if (size > MAX_BYTES) throw new SessionError('54000', `the answer is larger than ${MAX_BYTES} bytes`);
    return Buffer.concat(chunks);
  }
}
