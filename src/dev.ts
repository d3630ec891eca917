// What npm run dev adds: a saved document or migration takes effect at once, and says what it disagrees with.

import { execFile } from 'node:child_process';
import { type FSWatcher, watch } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { compile, type Program } from './api/handler.ts';
import { messageOf } from './errors.ts';
import { createLocator, DocumentError, readDocument } from './openapi/document.ts';
import { findDrift } from './openapi/drift-check.ts';
import type { Store } from './store/store.ts';

/** What is edited, and what it acts on. */
export type Development = {
  readonly document: string;
  readonly migrations: string;
  /** The file that the document's types are generated into. */
  readonly types: string;
  readonly store: Store;
  /** Applies the migrations that are new and gives their files; a store that others share has none. */
  readonly migrate: (() => Promise<string[]>) | undefined;
  /** Serves a program from the next request on. */
  readonly serve: (program: Program) => void;
  readonly deadlineMs: number;
  readonly log: (text: string) => void;
};

/** An editor writes a file in several steps; this long, in milliseconds, nothing has to happen to it. */
const QUIET_MS = 100;

/** Watches the document and the migrations until the function that it gives is called. */
export function develop(development: Development, program: Program): () => void {
  const { document, migrations, log } = development;
  const session = new Session(development, program);
  const watchers = [
    onChange(
      dirname(document),
      (file) => file === basename(document),
      () => session.readDocument(),
    ),
    onChange(
      migrations,
      (file) => file.endsWith('.sql'),
      () => session.readMigrations(),
    ),
  ];
  log(`Watching ${basename(document)} and ${basename(migrations)}`);
  return () => {
    for (const watcher of watchers) watcher.close();
  };
}

class Session {
  readonly #development: Development;
  #program: Program;
  /** One thing at a time, in the order in which it was saved. */
  #last: Promise<void> = Promise.resolve();

  constructor(development: Development, program: Program) {
    this.#development = development;
    this.#program = program;
  }

  readDocument(): void {
    this.#enqueue(async ({ document, types, serve, log }) => {
      this.#program = await compile(readDocument(document));
      serve(this.#program);
      log(`${basename(document)} is served as it was saved`);
      await generateTypes(document, types);
      await this.#reportDrift();
    });
  }

  readMigrations(): void {
    this.#enqueue(async ({ migrate, log }) => {
      if (!migrate) {
        log('A migration was saved: npm run migrate applies it');
        return;
      }
      for (const file of await migrate()) log(`applied ${basename(file)}`);
      await this.#reportDrift();
    });
  }

  #enqueue(work: (development: Development) => Promise<void>): void {
    this.#last = this.#last.then(() => work(this.#development)).catch((error) => this.#reportError(error));
  }

  async #reportDrift(): Promise<void> {
    const { document, store, deadlineMs, log } = this.#development;
    const drift = await findDrift({ program: this.#program, document, store, deadlineMs });
    if ('failure' in drift) log(`The store cannot say what it has: ${drift.failure.kind}`);
    else if (drift.lines.length > 0) log(drift.lines.join('\n'));
    else log('document and database agree');
  }

  #reportError(error: Error): void {
    const { document, log } = this.#development;
    if (!(error instanceof DocumentError)) log(messageOf(error));
    else log(`${error.describe(basename(document), createLocator(document))}\nThe last good document is served`);
  }
}

/** Calls back when files in a folder have changed and are left alone. */
function onChange(folder: string, isWanted: (file: string) => boolean, callback: () => void): FSWatcher {
  let timer: NodeJS.Timeout | undefined;
  return watch(folder, (_event, file) => {
    if (file === null || !isWanted(file)) return;
    clearTimeout(timer);
    timer = setTimeout(callback, QUIET_MS);
  });
}

async function generateTypes(document: string, types: string): Promise<void> {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve('openapi-typescript/package.json');
  await promisify(execFile)(process.execPath, [join(dirname(manifest), 'bin/cli.js'), document, '--output', types]);
}
