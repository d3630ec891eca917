// The gateway's layers, and their shares of a profile.

import type { Profiler } from 'node:inspector';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = join(import.meta.dirname, '../..');

/** The files of each layer, in the order of a request. Other files of src are layers of their own. */
export const LAYERS: readonly (readonly [layer: string, files: RegExp])[] = [
  [
    'server and application',
    /^src\/http\/(server|app)\.|^node_modules\/(express|router|cors)\/|^scripts\/bench\/peers\//,
  ],
  ['request context', /^src\/(http\/context|telemetry\/record)\./],
  ['reading', /^src\/api\/(request|tool-reader)\./],
  ['routing', /^src\/openapi\/url\.|^node_modules\/openapi-backend\//],
  ['limits', /^src\/limits\//],
  ['validation', /^src\/(api\/validate|openapi\/(compile|schema|formats))\.|^node_modules\/ajv/],
  ['handler', /^src\/(api\/(handler|messages)|deadline|errors)\./],
  ['call', /^src\/api\/call\./],
  ['turns', /^src\/store\/turns\./],
  ['store', /^src\/store\//],
  ['answer', /^src\/(http\/(respond|compression)|api\/answer)\./],
  ['log', /^src\/telemetry\/log\./],
  ['metrics', /^src\/telemetry\/(metrics|tracing)\.|^node_modules\/prom-client\//],
];
/** Work without a file of the gateway on the stack: sockets, HTTP parsing, timers. */
export const NODE = "Node's sockets and HTTP";
/** V8's pseudo-functions. */
export const NATIVE: Readonly<Record<string, string>> = {
  '(garbage collector)': 'garbage collector',
  '(program)': 'native code outside of functions',
};

/** The shares of the busy time by layer. Functions of Node and libraries count for the file that called them. */
export function toShares({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Map<string, number> {
  const parents = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id] as const)));
  const own = new Map(nodes.map(({ id, callFrame }) => [id, toLayer(callFrame)]));
  const find = (id: number | undefined): string => (id ? (own.get(id) ?? find(parents.get(id))) : NODE);
  const times = new Map<string, number>();
  for (const [n, id] of samples.entries()) {
    const layer = find(id);
    if (layer !== '(idle)') times.set(layer, (times.get(layer) ?? 0) + Math.max(0, timeDeltas[n] ?? 0));
  }
  const total = [...times.values()].reduce((sum, time) => sum + time, 0);
  return new Map([...times].map(([layer, time]) => [layer, time / total]));
}

/** Undefined for a function that counts for its caller. */
function toLayer({ functionName: name, url }: Profiler.Profile['nodes'][number]['callFrame']): string | undefined {
  if (url === '') return name === '(idle)' ? name : NATIVE[name];
  if (!url.startsWith('file:')) return undefined;
  const file = relative(ROOT, fileURLToPath(url));
  return LAYERS.find(([, files]) => files.test(file))?.[0] ?? (file.startsWith('src/') ? file : undefined);
}
