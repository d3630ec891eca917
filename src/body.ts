import type { IncomingMessage, ServerResponse } from 'node:http';
import express from 'express';
import { visit } from 'jsonc-parser';
import { RequestFailed } from './errors.ts';
import { findProblem, type Problems } from './problems.ts';
import type { Json } from './store/store.ts';

/** Reads the bytes of a request's body; the promise fails with RequestFailed. */
export type ReadBytes = (req: IncomingMessage, res: ServerResponse) => Promise<Uint8Array>;

/** A JSON object that a client sent, with what is wrong with its fields beyond their schemas. */
export type Body = { readonly fields: Readonly<Record<string, Json>>; readonly problems: Problems };

/** Builds the reader of bodies of at most `limit` bytes, whatever their Content-Type says. */
export function createReadBytes(limit: number): ReadBytes {
  const raw = express.raw({ type: () => true, limit });
  return (req, res) =>
    new Promise((resolve, reject) => {
      raw(req, res, (error?: { type?: string }) => {
        if (!error) {
          const { body } = req as { body?: Uint8Array };
          resolve(body ?? new Uint8Array());
          return;
        }
        // What is still to come is read and dropped, or the client, busy sending, would never see the answer.
        req.resume();
        reject(new RequestFailed({ kind: error.type === 'entity.too.large' ? 'bodyTooLarge' : 'invalidJson' }));
      });
    });
}

/** Parses a body that has to be a JSON object; throws RequestFailed where it is not. */
export function parseBody(bytes: Uint8Array): Body {
  const text = decodeUtf8(bytes);
  const fields = parseJson(text);
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    throw new RequestFailed({ kind: 'invalidInput', fields: { body: ['must be object'] } });
  }
  return { fields: fields as Body['fields'], problems: findProblems(fields as Body['fields'], text) };
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new RequestFailed({ kind: 'invalidJson' });
  }
}

function parseJson(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    throw new RequestFailed({ kind: 'invalidJson' });
  }
}

function findProblems(fields: Body['fields'], text: string): Problems {
  const problems: Problems = new Map();
  for (const [name, value] of Object.entries(fields)) {
    const problem = findProblem(value);
    if (problem !== undefined) problems.set(name, [problem]);
  }
  // The look for repeated names recurses, which is safe once the depth is known to be bounded.
  if (problems.size === 0) for (const name of repeatedNames(text)) problems.set(name, ['must be given once']);
  return problems;
}

/** The fields in which a name stands twice: JSON.parse would take the last and drop the others in silence. */
function repeatedNames(text: string): Set<string> {
  const repeated = new Set<string>();
  const open: Set<string>[] = [];
  visit(text, {
    onObjectBegin: () => {
      open.push(new Set());
    },
    onObjectProperty: (name, _offset, _length, _line, _character, path) => {
      const names = open.at(-1);
      if (names?.has(name)) repeated.add(String(path()[0] ?? name));
      names?.add(name);
    },
    onObjectEnd: () => {
      open.pop();
    },
  });
  return repeated;
}
