// How long something lasts, in two units at most, and when it was.

import { formatMoment, formatTime } from '../../i18n/format.js';
import { language } from '../../i18n/index.js';
import { now } from '../../elements/clock.js';

const UNITS = /** @type {const} */ ([['day', 86_400], ['hour', 3_600], ['minute', 60], ['second', 1]]);

/** @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/** @param {number} n @param {string} unit */
function one(n, unit) {
  const name = `${language()} ${unit}`;
  let format = formats.get(name);
  if (!format) {
    format = new Intl.NumberFormat(language(), { style: 'unit', unit, unitDisplay: 'narrow' });
    formats.set(name, format);
  }
  return format.format(n);
}

/** 12s, 4m 12s, 2h 5m, 3d 4h. @param {number} ms */
export function span(ms) {
  let left = Math.max(0, Math.round(ms / 1000));
  const first = UNITS.findIndex(([, seconds]) => left >= seconds);
  if (first < 0) return one(0, 'second');
  return UNITS.slice(first, first + 2).map(([unit, seconds]) => {
    const n = Math.floor(left / seconds);
    left -= n * seconds;
    return n > 0 ? one(n, unit) : '';
  }).filter(Boolean).join(' ');
}

/** @param {string} iso */
export const time = (iso) => formatTime(iso, now(), language());
/** @param {string} iso */
export const moment = (iso) => formatMoment(iso, language());

/** To the second, and the day where it is not today's. @param {string} iso */
export function exactTime(iso) {
  const date = new Date(iso);
  const isToday = date.toDateString() === new Date(now()).toDateString();
  return new Intl.DateTimeFormat(language(), {
    hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23', ...(!isToday && { day: 'numeric', month: 'short' }),
  }).format(date);
}
