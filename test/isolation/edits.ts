import type { Db } from '../helpers/database.ts';
import type { Mutation } from './mutations.ts';
import { functionsOf } from './removal.ts';
import { SHADOW } from './shadow.ts';

/** What is looked for in the texts of functions, each place by itself, and what comes in its stead. */
type Edit = { readonly what: string; readonly pattern: RegExp; readonly replacement: string };

/** Which rows a query sees. */
export const PREDICATES: readonly Edit[] = [
  { what: 'removed', pattern: /\b\w+\.tenant_id = [pv]_tenant\b/g, replacement: 'true' },
  { what: 'inverted', pattern: /(\b\w+\.tenant_id) = ([pv]_tenant\b)/g, replacement: '$1 <> $2' },
  { what: 'removed', pattern: /and \w+\.tenant_id = private\.current_tenant\(\)/g, replacement: '' },
  { what: 'inverted', pattern: /(\w+\.tenant_id) = (?=private\.current_tenant)/g, replacement: '$1 <> ' },
];

/** What is asked of a key. */
export const VERIFICATION: readonly Edit[] = [
  { what: 'removed', pattern: /if [^;]* then\n +raise exception [^;]*;\n +end if;/g, replacement: '' },
  { what: 'removed', pattern: /k\.key_hash = sha256\(convert_to\(p_api_key, 'UTF8'\)\)/g, replacement: 'true' },
  { what: 'inverted', pattern: /(k\.key_hash) = (?=sha256)/g, replacement: '$1 <> ' },
  { what: 'inverted', pattern: /not v_key\.active/g, replacement: 'v_key.active' },
  { what: 'inverted', pattern: /(v_key\.expires_at) <= /g, replacement: '$1 > ' },
  { what: 'removed', pattern: /v_key\.permissions is null or /g, replacement: '' },
  { what: 'removed', pattern: /p_function = any \(v_key\.permissions\)/g, replacement: 'true' },
  { what: 'removed', pattern: /perform set_config\([^;]*;/g, replacement: '' },
];

/** The tenant that other functions are told, and that rows are written with. */
export const PASSED_ON: readonly Edit[] = [
  { what: 'replaced', pattern: /(\(\s*)[pv]_tenant(?=,)/g, replacement: `$1'${SHADOW}'::uuid` },
];

/** Whose use is recorded, for which calls, and how often. */
export const RECORD: readonly Edit[] = [
  { what: 'removed', pattern: /k\.key_hash = (any \(v_used\)|decode\(.*\))/g, replacement: 'true' },
  { what: 'removed', pattern: /where r\.class = '2xx'/g, replacement: '' },
  { what: 'removed', pattern: /and \(k\.last_used_at [^;]*\)/g, replacement: '' },
  { what: 'removed', pattern: /where w\.sequence < excluded\.sequence/g, replacement: '' },
  { what: 'removed', pattern: /if not found then\n +return;\n +end if;/g, replacement: '' },
];

/** Which function a key has to be good for. */
export const PERMISSION: readonly Edit[] = [
  { what: 'replaced', pattern: /(?<=private\.verify_key\(p_api_key, )'\w+'/g, replacement: `'another_function'` },
];

/** What row security takes for the tenant. */
export const TENANT: readonly Edit[] = [
  { what: 'replaced', pattern: /'wellness\.tenant_id'/g, replacement: `'wellness.other'` },
  { what: 'removed', pattern: /nullif\((.*), ''(?:::text)?\)/gi, replacement: '$1' },
];

/** Each place that the edits find in the functions of these names, by itself. Throws for an edit that finds none. */
export async function editFunctions(db: Db, functions: RegExp, edits: readonly Edit[]): Promise<Mutation[]> {
  const chosen = (await functionsOf(db)).filter(({ name }) => functions.test(name));
  return edits.flatMap((edit) => {
    const places = chosen.flatMap(({ name, definition }) => editDefinition(name, definition, edit));
    if (places.length === 0) throw new Error(`no function has ${edit.pattern}`);
    return places;
  });
}

function editDefinition(name: string, definition: string, { what, pattern, replacement }: Edit): Mutation[] {
  const matches = [...definition.matchAll(pattern)];
  return matches.map((match, n) => {
    const end = match.index + match[0].length;
    const sql = definition.slice(0, match.index) + expand(replacement, match) + definition.slice(end);
    const before = matches.slice(0, n).filter(([text]) => text === match[0]).length;
    const place = before > 0 ? `, place ${before + 1}` : '';
    return { name: `${name}: "${match[0].replaceAll(/\s+/g, ' ')}" ${what}${place}`, sql };
  });
}

/** A replacement with what its groups matched. */
function expand(replacement: string, groups: readonly string[]): string {
  return replacement.replaceAll(/\$(\d)/g, (_whole, number) => groups[Number(number)] ?? '');
}
