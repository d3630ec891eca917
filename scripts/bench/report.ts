// What all reports have: where and with what they were measured, and tables in Markdown.

import { readFileSync } from 'node:fs';
import { arch, cpus, totalmem, type } from 'node:os';
import { join } from 'node:path';
import type { Size } from './data.ts';

/** The date, the machine, the versions, and how much data. */
export type Place = {
  /** ISO 8601. */
  readonly date: string;
  readonly machine: string;
  readonly versions: readonly string[];
  readonly size: Size;
};

/** The place of a run that starts now. */
export function readPlace(postgres: string, size: Size, generator: string): Place {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'));
  const versions = [generator, `gateway ${version}`, `Node ${process.versions.node}`, `Postgres ${postgres}`];
  const memory = Math.round(totalmem() / 2 ** 30);
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpus().length} processors (${cpus()[0]?.model.trim()}), ${memory} GB, ${type()} ${arch()}`,
    versions,
    size,
  };
}

/** The first lines of a report. */
export function toPlace({ date, machine, versions, size }: Place): string {
  return [
    `${date}, on ${machine}; ${versions.join(', ')}.`,
    `${toNumber(size.tenants)} tenants with ${toNumber(size.students)} students each.`,
  ].join('\n');
}

/** `1 connection`, `32 connections`. */
export function toConnections(count: number): string {
  return `${count} connection${count === 1 ? '' : 's'}`;
}

/** Milliseconds with two decimals, from 10 on with one. */
export function toMilliseconds(value: number | undefined): string {
  return value === undefined ? '–' : value.toFixed(value < 10 ? 2 : 1);
}

/** Bytes as whole megabytes. */
export function toMegabytes(bytes: number | undefined): string {
  return toNumber(bytes && bytes / 1e6);
}

/** A whole number with separated thousands. */
export function toNumber(value: number | undefined): string {
  return value === undefined ? '–' : Math.round(value).toLocaleString('en-US');
}

/** A table: the first column is text, the others are numbers. */
export function toMarkdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, n) => Math.max(3, ...[head, ...rows].map((row) => row[n]?.length ?? 0)));
  const toLine = (row: readonly string[]) =>
    `| ${widths.map((width, n) => (n === 0 ? (row[n] ?? '').padEnd(width) : (row[n] ?? '').padStart(width))).join(' | ')} |`;
  const rule = widths.map((width, n) => (n === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [toLine(head), toLine(rule), ...rows.map(toLine)].join('\n');
}
