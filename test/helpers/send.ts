import { request } from 'undici';

/** An answer as it went over the wire; a header that came several times is joined. */
export type RawAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  readonly text: string;
};

export type SendOptions = {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
};

/** Sends a request with exactly these headers. Unlike fetch, it adds nothing and decodes nothing. */
export async function send(url: string, { method = 'GET', headers = {}, body }: SendOptions = {}): Promise<RawAnswer> {
  const answer = await request(url, { method: method as 'GET', headers, ...(body === undefined ? {} : { body }) });
  const bytes = Buffer.from(await answer.body.arrayBuffer());
  const joined = Object.entries(answer.headers).map(([name, value]) => [name, [value].flat().join(', ')]);
  return { status: answer.statusCode, headers: Object.fromEntries(joined), bytes, text: bytes.toString() };
}

/** The names in a header that is a list of names, such as Vary, in lower case. */
export function namesIn(field: string | undefined): string[] {
  return (field ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
}
