// The server's figures, read from its Prometheus text, and the last minutes of them. It is asked by whoever is
// looking; the past is kept from page to page.

import { Refused, Unreachable } from '../../sdk/tenure.js';

/**
 * @typedef {Map<string, number>} Figures Sums over all labels but `le`, by name.
 * @typedef {{at: number, figures: Figures}} Sample
 */

export const SHOWN_MS = 180_000;

/** @type {Sample[]} */
const samples = [];

/** @param {string} text @returns {Figures} */
export function parse(text) {
  /** @type {Figures} */
  const figures = new Map();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const found = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const [, name = '', labels, value] = found;
    if (name.endsWith('_bucket')) continue;
    const n = Number(value);
    if (!Number.isFinite(n)) continue;
    figures.set(name, (figures.get(name) ?? 0) + n);
    if (labels && !name.includes('_seconds')) figures.set(`${name}{${labels}}`, n);
  }
  return figures;
}

/** @param {string} path */
export async function readText(path) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, { cache: 'no-store', credentials: 'same-origin' });
  } catch (error) {
    throw new Unreachable(error);
  }
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response.text();
}

/** Asks once more, and gives what is known of the last minutes. */
export async function look() {
  const figures = parse(await readText('/metrics'));
  const at = performance.now();
  samples.push({ at, figures });
  while (samples.length > 2 && at - (samples[1]?.at ?? at) > SHOWN_MS) samples.shift();
  return samples;
}

/**
 * @typedef {{at: number, value: number}} Point
 */

/** A gauge, over time. @param {string} name @returns {Point[]} */
export const gauge = (name) => samples.map(({ at, figures }) => ({ at, value: figures.get(name) ?? 0 }));

/** How reservations came out, counted since the server started. */
export const RESERVATIONS = {
  reserved: 'tenure_raffle_reservations_total{outcome="reserved"}',
  paid: 'tenure_raffle_reservations_total{outcome="paid"}',
};

/** What was last said of it. @param {string} name */
export const latest = (name) => samples.at(-1)?.figures.get(name) ?? 0;

/** How many of the reservations since the server's start were paid; nothing before the first one. @returns {Point[]} */
export function conversion() {
  return samples.flatMap(({ at, figures }) => {
    const all = figures.get(RESERVATIONS.reserved) ?? 0;
    return all > 0 ? [{ at, value: Math.min(1, (figures.get(RESERVATIONS.paid) ?? 0) / all) }] : [];
  });
}

/** A counter's steps, per minute. @param {string} name @returns {Point[]} */
export function perMinute(name) {
  return steps((before, after, ms) => {
    const n = (after.get(name) ?? 0) - (before.get(name) ?? 0);
    // A server that started anew counts from zero.
    return Math.max(0, n) * (60_000 / ms);
  });
}

/** The mean of a histogram between two looks, in milliseconds; nothing where nothing happened. @param {string} name @returns {Point[]} */
export function meanMs(name) {
  const mean = (/** @type {Figures} */ all) => (all.get(`${name}_sum`) ?? 0) / (all.get(`${name}_count`) ?? 0);
  // What came before the first look is known as a whole.
  const [first] = samples;
  const whole = first && first.figures.get(`${name}_count`) ? [{ at: first.at, value: mean(first.figures) * 1000 }] : [];
  return whole.concat(steps((before, after) => {
    const n = (after.get(`${name}_count`) ?? 0) - (before.get(`${name}_count`) ?? 0);
    const sum = (after.get(`${name}_sum`) ?? 0) - (before.get(`${name}_sum`) ?? 0);
    return n > 0 ? (sum / n) * 1000 : undefined;
  }));
}

/** @param {(before: Figures, after: Figures, ms: number) => number | undefined} measure @returns {Point[]} */
function steps(measure) {
  /** @type {Point[]} */
  const points = [];
  for (let index = 1; index < samples.length; index += 1) {
    const [before, after] = [samples[index - 1], samples[index]];
    if (!before || !after) continue;
    const value = measure(before.figures, after.figures, after.at - before.at);
    if (value !== undefined) points.push({ at: after.at, value });
  }
  return points;
}
