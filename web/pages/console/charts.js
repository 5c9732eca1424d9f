// Small pictures of the last minutes: claims, refusals, commit time and sockets for the console; how many of those who
// reserve pay for the raffle office.

import { formatNumber } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { h, set, write } from '../lib/dom.js';
import { conversion, gauge, latest, look, meanMs, perMinute, RESERVATIONS, SHOWN_MS } from './metrics.js';

/**
 * @typedef {import('./metrics.js').Point} Point
 * @typedef {import('../../i18n/index.js').Key} Key
 */

const EVERY_MS = 3_000;
const SECOND_MS = 700;
const FIRST_MS = 4_000;
const [WIDE, HIGH] = [200, 40];
const SVG = 'http://www.w3.org/2000/svg';

/** @param {number} n */
const short = (n) => formatNumber(n >= 100 ? Math.round(n) : Math.round(n * 10) / 10, language());

/** @param {number} n */
const percent = (n) => new Intl.NumberFormat(language(), { style: 'percent', maximumFractionDigits: 1 }).format(n);

/** @typedef {{key: Key, points: () => Point[], say: (n: number) => string, least: number, note?: () => string, none?: Key}} Chart */

/** @type {Chart[]} */
const MACHINE = [
  { key: 'console.chart.claims', points: () => gauge('tenure_active_claims'), say: short, least: 4 },
  { key: 'console.chart.refusals', points: () => perMinute('tenure_refusals_total'), say: (n) => t('console.per_minute', { n: short(n) }), least: 4 },
  { key: 'console.chart.commit', points: () => meanMs('tenure_commit_seconds'), say: (n) => t('console.ms', { n: short(n) }), least: 5 },
  { key: 'console.chart.sockets', points: () => gauge('tenure_sockets'), say: short, least: 4 },
];

/** @type {Chart[]} */
export const SALES = [
  {
    key: 'console.chart.conversion', points: conversion, say: percent, least: 1, none: 'console.chart.conversion.none',
    note: () => t('console.chart.paid', { paid: short(latest(RESERVATIONS.paid)), all: short(latest(RESERVATIONS.reserved)) }),
  },
];

/** @param {string} tag @param {Record<string, string>} attributes */
function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** @param {Chart} chart */
function card({ key, points, say, least, note, none }) {
  const name = h('h2');
  const figure = h('p', { class: 'figure figures' });
  const most = h('p', { class: 'soft figures most' });
  const svg = shape('svg', { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: 'none', role: 'img', class: 'spark' });
  const area = shape('path', { class: 'area' });
  const line = shape('path', { class: 'line', 'vector-effect': 'non-scaling-stroke' });
  svg.append(area, line);
  const draw = () => {
    const now = performance.now();
    const known = points().filter(({ at }) => now - at <= SHOWN_MS + EVERY_MS);
    const last = known.at(-1);
    const top = Math.max(0, ...known.map(({ value }) => value));
    write(name, t(key));
    write(figure, last ? say(last.value) : '–');
    write(most, !last ? t(none ?? 'console.chart.none') : note ? note() : t('console.chart.most', { n: say(top) }));
    set(svg, 'aria-label', `${t(key)}: ${figure.textContent}. ${most.textContent}`);
    const scale = Math.max(least, top) * 1.1;
    // As wide as what is known, so that the picture is not empty at first.
    const shownMs = Math.min(SHOWN_MS, Math.max(FIRST_MS, now - (known[0]?.at ?? now)));
    const spots = known.map(({ at, value }) => [WIDE * (1 - (now - at) / shownMs), HIGH - 1 - (value / scale) * (HIGH - 3)]);
    const path = spots.map(([x = 0, y = 0]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L');
    const [first, end] = [spots[0], spots.at(-1)];
    // Up to now it is what it was last.
    const rest = end ? `L${WIDE} ${(end[1] ?? 0).toFixed(1)}` : '';
    set(line, 'd', path && `M${path}${rest}`);
    set(area, 'd', path && `M${path}${rest}L${WIDE} ${HIGH}L${(first?.[0] ?? 0).toFixed(1)} ${HIGH}Z`);
  };
  return { element: h('div', { class: 'card chart' }, name, h('div', { class: 'row apart' }, figure, most), svg), draw };
}

/** @param {import('../lib/place.js').Place} place @param {Chart[]} [which] */
export function charts(place, which = MACHINE) {
  const cards = which.map(card);
  const draw = () => cards.forEach((one) => one.draw());
  let isAsking = false;
  const ask = async () => {
    if (isAsking) return;
    isAsking = true;
    try {
      await look();
    } catch {
      // What was known stays on the page; the next look may succeed.
    } finally {
      isAsking = false;
    }
    if (!place.isLeft) draw();
  };
  place.onLanguage(draw);
  place.every(EVERY_MS, ask);
  // Two looks make a rate.
  void ask();
  const second = setTimeout(ask, SECOND_MS);
  place.onLeave(() => clearTimeout(second));
  return h('div', { class: 'charts' }, cards.map(({ element }) => element));
}
