import { expect } from 'vitest';

/** Expects headers that keep browsers from running or embedding an answer, and that reveal nothing about the server. */
export function expectSecure(headers: Readonly<Record<string, string>>): void {
  expect(headers['x-content-type-options']).toBe('nosniff');
  const policy = headers['content-security-policy']?.split(';');
  expect(policy).toEqual(expect.arrayContaining(["default-src 'none'", "frame-ancestors 'none'"]));
  expect(headers['referrer-policy']).toBe('no-referrer');
  expect(headers['strict-transport-security']).toMatch(/^max-age=\d{8,}$/);
  expect(headers).not.toHaveProperty('x-powered-by');
  expect(headers).not.toHaveProperty('server');
}
