// The requests per second as an SVG of bars, readable on white and on black.

import { CASES, type Case } from './cases.ts';
import type { Results, Row } from './comparison.ts';
import { PEERS, type PeerId, TITLES } from './peer.ts';
import { toConnections } from './report.ts';

const COLUMNS = 2;
const PANEL = { width: 480, head: 34, bar: 20, label: 185, value: 70, foot: 14 };
const TOP = 30;
/** Halfway between white and black. */
const TEXT = '#7d8590';
const COLORS = { gateway: '#2f81f7', other: '#9aa4af', limit: '#bc8cff' };

/** One panel of bars for each case, at the highest number of connections. */
export function toPlot({ rows, date, machine }: Results): string {
  const connections = Math.max(...rows.map((row) => row.connections));
  const of = rows.filter((row) => row.connections === connections);
  const cases = CASES.filter(({ id }) => of.some((row) => row.case === id));
  const height = PANEL.head + PANEL.foot + PANEL.bar * PEERS.length;
  const panels = cases.map((case_, n) => {
    const at = `${(n % COLUMNS) * PANEL.width},${TOP + Math.floor(n / COLUMNS) * height}`;
    return `<g transform="translate(${at})">\n${toPanel(case_, of)}\n</g>`;
  });
  const [width, total] = [COLUMNS * PANEL.width, TOP + Math.ceil(cases.length / COLUMNS) * height];
  const title = `Requests per second at ${toConnections(connections)}: median, minimum and maximum of all rounds`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${total}" role="img" aria-label="${title}"`,
    `  font-family="system-ui, sans-serif" font-size="12" fill="${TEXT}">`,
    `<text x="10" y="18">${title}. ${toXml(`${date}, ${machine}`)}</text>`,
    ...panels,
    '</svg>\n',
  ].join('\n');
}

function toPanel(case_: Case, rows: readonly Row[]): string {
  const bars = PEERS.flatMap((peer) => rows.find((row) => row.case === case_.id && row.peer === peer) ?? []);
  const most = Math.max(...bars.map(({ rate }) => rate?.max ?? 0));
  const toX = (rate: number) => (rate / most) * (PANEL.width - PANEL.label - PANEL.value);
  return [
    `<text x="10" y="24" font-size="14" font-weight="600">${toXml(case_.title)}</text>`,
    ...bars.map((row, n) => toBar(row, PANEL.head + n * PANEL.bar, toX)),
  ].join('\n');
}

function toBar({ peer, rate }: Row, y: number, toX: (rate: number) => number): string {
  if (!rate) return '';
  const [left, middle, baseline] = [PANEL.label, y + PANEL.bar / 2, y + PANEL.bar - 6];
  const [min, max] = [left + toX(rate.min), left + toX(rate.max)].map((x) => x.toFixed(1));
  return [
    `<text x="${left - 8}" y="${baseline}" text-anchor="end">${toXml(TITLES[peer])}</text>`,
    `<rect x="${left}" y="${y + 3}" width="${toX(rate.median).toFixed(1)}" height="${PANEL.bar - 6}" rx="2" fill="${toColor(peer)}"/>`,
    `<path d="M${min} ${middle}H${max}" stroke="${TEXT}" stroke-width="2"/>`,
    `<text x="${Number(max) + 6}" y="${baseline}">${Math.round(rate.median).toLocaleString('en-US')}</text>`,
  ].join('\n');
}

function toColor(peer: PeerId): string {
  if (peer.startsWith('gateway')) return COLORS.gateway;
  return peer === 'pgbench' ? COLORS.limit : COLORS.other;
}

function toXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
