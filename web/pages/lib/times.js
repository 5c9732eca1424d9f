// Moments as people read them: how long ago, with the whole truth for whoever points at it. On the server's clock.

import { now } from '../../elements/clock.js';
import { formatMoment, formatTime } from '../../i18n/format.js';
import { language } from '../../i18n/index.js';
import { set, write } from './dom.js';

/** From how many seconds on the next larger unit is used. @type {[number, Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [[60, 'second', 1], [3_600, 'minute', 60], [86_400, 'hour', 3_600], [Infinity, 'day', 86_400]];

/** @param {string} iso */
export function ago(iso) {
  const seconds = Math.max(0, Math.floor((now() - Date.parse(iso)) / 1000));
  const [, unit, size] = /** @type {[number, Intl.RelativeTimeFormatUnit, number]} */ (UNITS.find(([until]) => seconds < until));
  return new Intl.RelativeTimeFormat(language(), { style: 'narrow' }).format(-Math.floor(seconds / size), unit);
}

/** The time of day. @param {string} iso */
export const clockTime = (iso) => formatTime(iso, now(), language());

/** What an element says around it. @type {WeakMap<Element, (ago: string) => string>} */
const around = new WeakMap();

/**
 * Makes a `<time>` say how long ago this was; `keepAgo` keeps it true.
 * @param {HTMLTimeElement} element
 * @param {string | null | undefined} iso
 * @param {(ago: string) => string} [say]
 */
export function drawAgo(element, iso, say = (text) => text) {
  around.set(element, say);
  element.classList.toggle('ago', Boolean(iso));
  set(element, 'datetime', iso);
  set(element, 'title', iso && formatMoment(iso, language()));
  write(element, iso ? say(ago(iso)) : '—');
}

/** @param {import('./place.js').Place} place @param {HTMLElement} root */
export function keepAgo(place, root) {
  place.every(1000, () => {
    for (const element of root.querySelectorAll('time.ago')) {
      const text = ago(/** @type {HTMLTimeElement} */ (element).dateTime);
      write(element, around.get(element)?.(text) ?? text);
    }
  });
}
