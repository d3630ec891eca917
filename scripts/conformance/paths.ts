// What holds for paths: those of the document with other methods, and one that it does not have.

import { type Check, describeReply, findFormFault, Mismatch, receiveAnswer, type Setting } from './check.ts';
import type { Answer } from './client.ts';
import type { Contract, Operation } from './operations.ts';
import { isRead, OWN_KEY, type Request, toRequest } from './request.ts';
import { assignRequired } from './values.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
/** What a gateway may answer besides the methods of the document. */
const IMPLIED = ['HEAD', 'OPTIONS'];

/** The checks of the paths of some operations. */
export function createPathChecks(
  { client, readOnly }: Setting,
  { operations }: Contract,
  some: readonly Operation[],
): Check[] {
  const send = (request: Request) => receiveAnswer(client, request);
  /** The document describes no answer to these, only the form of every error. */
  const refuses = async (request: Request, status: number): Promise<Answer> => {
    const reply = await send(request);
    const isError = typeof (reply.body as { error?: unknown } | null)?.error === 'string';
    if (reply.status === status && !findFormFault(reply) && isError) return reply;
    throw new Mismatch(request, `${status} {"error": a text}`, describeReply(reply));
  };
  const checkPath = (path: string, first: Operation): Check[] => {
    const { target, key } = toRequest(first, assignRequired(first));
    const place = target.replace(/\?.*/s, '');
    // It may also be a path with a parameter in place of a word, with the methods of that one.
    const declared = [...new Set(operations.filter(({ path }) => matches(path, place)).map(({ method }) => method))];
    const missing = METHODS.find((method) => !declared.includes(method) && (!readOnly || isRead({ method })));
    const request = (method: string): Request => ({ method, target: place, headers: {}, key });
    const names = async (method: string) => {
      const { headers } = await refuses(request(method), 405);
      const allowed = (headers.allow ?? '').split(/\s*,\s*/).filter((name) => !IMPLIED.includes(name));
      if (allowed.sort().join() === declared.toSorted().join()) return;
      throw new Mismatch(request(method), `Allow: ${declared.join(', ')}`, headers.allow ?? 'none');
    };
    /** Other origins ask with it what they may send; a gateway that has none answers as to any other method. */
    const preflight = async () => {
      const { status } = await send(request('OPTIONS'));
      if (status > 299) await names('OPTIONS');
    };
    return [
      ...(missing ? [{ name: `refuses ${missing} ${path} and names the methods`, run: () => names(missing) }] : []),
      ...(readOnly ? [] : [{ name: `answers OPTIONS ${path}`, run: preflight }]),
    ];
  };
  const unknown: Request = { method: 'GET', target: '/no-such-path', headers: {}, key: OWN_KEY };
  return [
    { name: 'answers an unknown path with 404', run: () => refuses(unknown, 404) },
    ...[...new Map(some.map((operation) => [operation.path, operation]))].flatMap(([path, first]) =>
      checkPath(path, first),
    ),
  ];
}

function matches(template: string, path: string): boolean {
  const names = template.split('/');
  const parts = path.split('/');
  const isOf = (name: string, part = '') => (/^\{.*\}$/.test(name) ? part !== '' : name === part);
  return names.length === parts.length && names.every((name, index) => isOf(name, parts[index]));
}
