// Common parts of the reports: the environment, medians, and Markdown tables.

import { readFileSync } from 'node:fs';
import { arch, cpus, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { FILES } from '../../src/config.ts';
import type { Size } from './data.ts';

/** The median and the range of several values. */
export type Spread = { readonly median: number; readonly min: number; readonly max: number };

/** Undefined without values. */
export function toSpread(values: readonly number[]): Spread | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  const [min, max] = [sorted[0], sorted.at(-1)];
  if (min === undefined || max === undefined) return undefined;
  const middle = sorted.length / 2;
  const median = ((sorted[Math.ceil(middle) - 1] ?? min) + (sorted[Math.floor(middle)] ?? max)) / 2;
  return { median, min, max };
}

/** The first lines of a report: date, machine, versions and amount of data. */
export function toPlace(versions: readonly string[], { tenants, students }: Size): string {
  const { version } = JSON.parse(readFileSync(join(FILES.document, '../package.json'), 'utf8'));
  const machine = `${cpus().length} processors (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GB`;
  const all = [`gateway ${version}`, `Node ${process.versions.node}`, ...versions];
  return [
    `${new Date().toISOString().slice(0, 10)}, on ${machine}, ${type()} ${arch()}; ${all.join(', ')}.`,
    `${toNumber(tenants)} tenants with ${toNumber(students)} students each.`,
  ].join('\n');
}

/** `1 connection`, `32 connections`. */
export function toConnections(count: number): string {
  return `${count} connection${count === 1 ? '' : 's'}`;
}

/** A number with thousands separators. */
export function toNumber(value: number | undefined, decimals = 0): string {
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return value === undefined ? '–' : value.toLocaleString('en-US', digits);
}

/** The median, and the range in parentheses. */
export function toRange(spread: Spread | undefined, decimals = 0): string {
  const [median, min, max] = [spread?.median, spread?.min, spread?.max].map((value) => toNumber(value, decimals));
  return spread ? `${median} (${min}–${max})` : '–';
}

/** A Markdown table; all columns but the first are right-aligned. */
export function toMarkdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, n) => Math.max(3, ...[head, ...rows].map((row) => row[n]?.length ?? 0)));
  const toLine = (row: readonly string[]) =>
    `| ${widths.map((width, n) => (n === 0 ? (row[n] ?? '').padEnd(width) : (row[n] ?? '').padStart(width))).join(' | ')} |`;
  const rule = widths.map((width, n) => (n === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [toLine(head), toLine(rule), ...rows.map(toLine)].join('\n');
}
