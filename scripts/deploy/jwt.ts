// Prints a SUPABASE_KEY for your own PostgREST: POSTGREST_JWT_SECRET=… node scripts/deploy/jwt.ts

import { createHmac } from 'node:crypto';

/** PostgREST's minimum. */
const MIN_SECRET_LENGTH = 32;

const secret = process.env.POSTGREST_JWT_SECRET ?? '';
if (secret.length < MIN_SECRET_LENGTH) {
  console.error(`POSTGREST_JWT_SECRET: expected PostgREST's secret, at least ${MIN_SECRET_LENGTH} characters`);
  process.exit(1);
}
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ role: 'gateway' })}`;
console.log(`${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`);
