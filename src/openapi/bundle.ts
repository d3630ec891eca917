// Bundles a document of several files: parts of other files become components. `$ref` is a reference only where the
// specification allows one; in examples and extensions it is data.

import { basename, dirname, extname, join } from 'node:path';
import { isJsonObject } from '../store/store.ts';
import {
  find,
  isReference,
  listBeside,
  MAX_REFERENCES,
  type Place,
  readReference,
  splitReference,
  toPointer,
} from './pointer.ts';
import { isExtension, isMap, type Kind, mapChildren, type Node, sectionOf } from './structure.ts';

/** A place in a file. */
export type Origin = { readonly path: string; readonly place: Place };

type Traced = Origin & { readonly node?: unknown; readonly key: string };

/** The bundled document, and the origin of each component that came from another file, by section and name. */
export type Bundle = { readonly document: Node; readonly moved: ReadonlyMap<string, Origin> };

/**
 * Bundles the document in a file. `open` returns the content of a file, undefined if it cannot be read. A reference to nothing
 * stays unchanged: support.ts reports it.
 */
export function bundle(main: string, open: (path: string) => unknown): Bundle {
  const moved = new Map<string, Origin>();
  /** References to the moved components, by their origin. */
  const known = new Map<string, string>();
  const added: Record<string, Record<string, unknown>> = {};
  /** The original names of renamed components, by their references. */
  const renamed = new Map<unknown, string>();
  /** The components that are references to other files. */
  const inPlace = new Map<unknown, { readonly node: unknown; readonly path: string }>();

  /** Resolves a reference in a file. */
  function trace({ $ref }: { readonly $ref: string }, from: string, passed = 0): Traced {
    const { path: name, pointer } = splitReference($ref);
    const path = name === '' ? from : join(dirname(from), name);
    const place = readReference(pointer);
    const content = open(path);
    const node = typeof content === 'object' && content !== null ? find(content, place).node : undefined;
    // In a chain of references the last file gives the component its name.
    const isOnly = isReference(node) && listBeside(node).length === 0;
    if (path !== main && isOnly && passed < MAX_REFERENCES) return trace(node, path, passed + 1);
    return { path, place, node, key: `${path}${toPointer(place)}` };
  }

  function copy(kind: Kind, part: unknown, path: string): unknown {
    const elsewhere = inPlace.get(part);
    if (elsewhere) return copy(kind, elsewhere.node, elsewhere.path);
    if (isReference(part)) return copyReference(kind, part, path);
    if (typeof part !== 'object' || part === null) return part;
    const copied = mapChildren(kind, expandMaps(kind, part as Node, path), (child, inner) => copy(child, inner, path));
    return kind === 'schema' ? copyMapping(copied, path) : copied;
  }

  /** Copies a discriminator's mapping, whose values are references or component names. Adds the original names of renamed components. */
  function copyMapping(schema: Node, from: string): Node {
    const { discriminator, anyOf, oneOf } = schema;
    const { mapping = {} } = Object(discriminator) as { readonly mapping?: unknown };
    if (!isJsonObject(discriminator) || !isJsonObject(mapping)) return schema;
    const choices = [anyOf, oneOf].flat().map((choice): unknown => Object(choice).$ref);
    const toTarget = (target: unknown) => {
      if (typeof target !== 'string') return target;
      const isFile = /[#/]|\.(ya?ml|json)$/.test(target);
      if (isFile) return (copyReference('schema', { $ref: target }, from) as { $ref: string }).$ref;
      // A name is that of a component among the choices, or else the one that a choice had in its own file.
      const isComponent = choices.includes(toPointer(['components', 'schemas', target]));
      return (isComponent ? undefined : choices.find((choice) => renamed.get(choice) === target)) ?? target;
    };
    const entries = Object.entries(mapping).map(([value, target]) => [value, toTarget(target)]);
    const mapped = entries.map(([, $ref]) => $ref);
    const implied = choices.flatMap(($ref) =>
      renamed.has($ref) && !mapped.includes($ref) ? [[renamed.get($ref), $ref]] : [],
    );
    const all = [...implied, ...entries];
    if (all.length === 0) return schema;
    return { ...schema, discriminator: { ...discriminator, mapping: Object.fromEntries(all) } };
  }

  /** Expands each map that is one reference into references to its parts. */
  function expandMaps(kind: Kind, node: Node, from: string): Node {
    const entries = Object.entries(node).map(([name, value]) => {
      if (!isMap(kind, name) || !isReference(value)) return [name, value];
      const { path, place, node } = trace(value, from);
      const { $ref: _reference, ...own } = value as Node;
      const toPart = (key: string) => ({
        $ref: `${path === from ? '' : value.$ref.split('#')[0]}${toPointer([...place, key])}`,
      });
      const parts = Object.entries(Object(node)).map(([key, part]) => [
        key,
        isExtension(kind, name, key) ? part : toPart(key),
      ]);
      return [name, { ...Object.fromEntries(parts), ...own }];
    });
    return Object.fromEntries(entries);
  }

  function copyReference(kind: Kind, reference: { readonly $ref: string }, from: string): unknown {
    const { path, place, node, key } = trace(reference, from);
    const { $ref: written, ...beside } = reference;
    const referTo = ($ref: string) => ({ $ref, ...(copy(kind, beside, from) as object) });
    if (node === undefined || path === main) return referTo(path === main ? toPointer(place) : written);
    const section = sectionOf(kind);
    // A path item has no section: its content replaces the reference. With other keys beside it, support.ts refuses the reference.
    if (section === undefined) return listBeside(reference).length > 0 ? reference : copy(kind, node, path);
    return referTo(known.get(key) ?? addComponent(kind, section, { path, place, node, key }));
  }

  /** Adds a component, named after its place or its file. Returns the reference to it. */
  function addComponent(kind: Kind, section: string, { path, place, node, key }: Traced): string {
    const own = String(place.at(-1) ?? basename(path, extname(path)));
    const wanted = own.replace(/[^\w.-]/g, '_');
    const others = (source.components as Record<string, object> | undefined)?.[section] ?? {};
    let name = wanted;
    for (let count = 2; Object.hasOwn(others, name) || moved.has(`${section}/${name}`); count += 1)
      name = `${wanted}_${count}`;
    const $ref = toPointer(['components', section, name]);
    moved.set(`${section}/${name}`, { path, place });
    // Registered before its parts are copied, because they may refer to it.
    known.set(key, $ref);
    if (name !== own) renamed.set($ref, own);
    added[section] ??= {};
    added[section][name] = copy(kind, node, path);
    return $ref;
  }

  const whole = open(main) as Node;
  const source: Node = { ...whole, ...expandComponents(whole) };
  const document = copy('document', source, main) as Node;
  const components = { ...(document.components as Record<string, object> | undefined) };
  for (const [section, parts] of Object.entries(added)) components[section] = { ...components[section], ...parts };
  return { document: Object.keys(added).length > 0 ? { ...document, components } : document, moved };

  /** A component that is a reference to another file keeps its section and name. */
  function expandComponents({ components }: Node): { readonly components?: Node } {
    if (typeof components !== 'object' || components === null || isReference(components)) return {};
    const expanded = expandMaps('components', components as Node, main);
    for (const [section, parts] of Object.entries(expanded)) {
      for (const [name, part] of Object.entries(parts ?? {})) {
        if (!isReference(part) || Object.keys(part).length > 1) continue;
        const { path, node, key } = trace(part, main);
        if (path === main || node === undefined || known.has(key)) continue;
        known.set(key, toPointer(['components', section, name]));
        inPlace.set(part, { node, path });
      }
    }
    return { components: expanded };
  }
}
