// What the buyer's pages share: the way between them, a reservation's numbers, a fact with its name.

import { now, onTick, URGENT_MS } from '../../elements/clock.js';
import { formatLeft } from '../../i18n/format.js';
import { t } from '../../i18n/index.js';
import { el, fill, h, set, write } from '../lib/dom.js';
import { padded } from './model.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Reservation} Reservation
 */

/** The two lists. @param {Place} place */
export function ways(place) {
  const nav = h('nav', { class: 'ways' });
  place.onLanguage(() => {
    set(nav, 'aria-label', t('buy.ways'));
    const isRaffle = place.path.startsWith('/app/raffles');
    const mark = (/** @type {string} */ path, /** @type {boolean} */ isHere) => isHere && (path === place.path ? 'page' : 'true');
    fill(nav, h('a', { href: '/app/raffles', 'aria-current': mark('/app/raffles', isRaffle) }, t('buy.title')),
      h('a', { href: '/app/reservations', 'aria-current': mark('/app/reservations', !isRaffle) }, t('buy.mine')));
  });
  return nav;
}

/** Numbers to look at. @param {number[]} numbers @param {number} count */
export function chips(numbers, count) {
  return h('ul', { class: 'picks' }, [...numbers].sort((a, b) => a - b).map((number) => h('li', { class: 'pick figures' }, padded(number, count))));
}

/** Names and values. @param {[string, string | Node][]} rows */
export function facts(rows) {
  return h('dl', { class: 'facts' }, rows.flatMap(([name, value]) => [h('dt', {}, name), h('dd', { class: 'figures' }, value)]));
}

/**
 * Until when, in a box that stays in view. When it presses (R18), the same box says "Last chance!", so that nothing moves:
 * seen every second, said once.
 */
export class Deadline {
  timer = el('tenure-countdown', { shape: 'bar' });
  #text = h('p', { class: 'says figures' });
  #why = h('p', { class: 'why' });
  #said = h('p', { class: 'unseen', role: 'alert' });
  #box = h('div', { class: 'card timer-box', hidden: true }, this.#text, this.#why, this.timer);
  /** The part that is said stands outside: what is hidden is not heard when it appears. */
  element = h('div', { class: 'alarm-place' }, this.#box, this.#said);
  #end = 0;
  #label = '';
  #canPress = false;
  /** It presses from the beginning: the time to choose is over. */
  #reason = '';
  #stop = () => {};

  /** @param {Place} place */
  constructor(place) {
    place.onLeave(() => this.#stop());
  }

  /**
   * @param {string | null | undefined} expiresAt
   * @param {{label: string, totalMs: number | undefined, canPress?: boolean, reason?: string}} options
   */
  draw(expiresAt, { label, totalMs, canPress = true, reason = '' }) {
    this.#end = expiresAt ? Date.parse(expiresAt) : 0;
    this.#label = label;
    this.#canPress = canPress;
    this.#reason = reason;
    this.#box.hidden = !expiresAt;
    set(this.timer, 'label', t('buy.time_left'));
    set(this.timer, 'total-ms', expiresAt ? totalMs : undefined);
    set(this.timer, 'expires-at', expiresAt);
    this.#stop();
    this.#stop = onTick(() => this.#tick());
  }

  #tick() {
    const left = this.#end - now();
    const isPressing = this.#canPress && left > 0 && left < URGENT_MS;
    const isOn = left > 0 && (isPressing || this.#reason !== '');
    const text = t('raffle.last', { time: formatLeft(left) });
    this.#box.classList.toggle('alarm', isOn);
    write(this.#text, isPressing ? text : this.#label);
    set(this.#text, 'aria-hidden', isPressing && 'true');
    write(this.#why, this.#reason);
    this.#why.hidden = this.#reason === '';
    const word = isOn ? (isPressing ? 'last' : 'first') : '';
    if (word && this.#said.dataset.word !== word) write(this.#said, `${this.#reason} ${isPressing ? text : ''}`.trim());
    if (!word) write(this.#said, '');
    this.#said.dataset.word = word;
    return left > 0 ? ((left - 1) % 1000) + 1 : undefined;
  }
}
