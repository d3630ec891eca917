import type { RequestHandler, Router } from 'express';
import { respond } from './respond.ts';

/** Adds a path that can be read, and nothing else; express would answer to OPTIONS in a form of its own. */
export function addPath(router: Router, path: string, ...handlers: RequestHandler[]): void {
  router.get(path, ...handlers);
  router.all(path, (_req, res) => respond(res, { failure: { kind: 'methodNotAllowed', allow: ['GET', 'HEAD'] } }));
}
