// How many numbers are sold, reserved and free: a bar, and the same in words.

import { formatNumber } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { h, write } from '../lib/dom.js';

/** @typedef {import('./model.js').Raffle} Raffle */

/** @param {number} n */
export const figure = (n) => formatNumber(n, language());

export function progress() {
  return h('span', { class: 'progress' }, h('span', { class: 'bar-of', 'aria-hidden': 'true' }, h('i', { class: 'is-sold' }), h('i', { class: 'is-reserved' })),
    h('span', { class: 'figures small-text said' }));
}

/** @param {HTMLElement} element @param {Raffle} raffle */
export function drawProgress(element, { counts, numbers }) {
  const [sold, reserved] = /** @type {[HTMLElement, HTMLElement]} */ ([...element.querySelectorAll('i')]);
  const part = (/** @type {number} */ n) => `${(100 * n) / Math.max(1, numbers)}%`;
  sold.style.inlineSize = part(counts?.sold ?? 0);
  reserved.style.inlineSize = part(counts?.reserved ?? 0);
  write(/** @type {HTMLElement} */ (element.querySelector('.said')), counts ? t('admin.raffle.progress', { sold: figure(counts.sold), numbers: figure(numbers) }) : '…');
}
