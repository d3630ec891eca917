/** A URI reference (RFC 3986, 4.1) in angle brackets, and the one parameter that the gateway gives. */
const LINK = /<((?:[\w.~:/?#[\]@!$&'()*+,;=-]|%[0-9A-F]{2})*)>; rel="([a-z]+)"(?:, |$)/y;

/** The references of a header Link (RFC 8288, 3) by their relation; throws for what is not exactly that. */
export function readLinks(field: string | null | undefined): Record<string, string> {
  const links: Record<string, string> = {};
  const text = field ?? '';
  LINK.lastIndex = 0;
  for (let at = 0; at < text.length; at = LINK.lastIndex) {
    const [, reference = '', relation = ''] = LINK.exec(text) ?? [];
    if (relation === '' || relation in links || text.endsWith(', ')) throw new Error(`no Link: ${text} at ${at}`);
    links[relation] = reference;
  }
  return links;
}
