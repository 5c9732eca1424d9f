// What has been chosen, what it costs, for how long it is kept, and what can be done: always on screen.

import { t } from '../../i18n/index.js';
import { el, fill, h, keyed, set, write } from '../lib/dom.js';
import { listed, money, padded, phaseMs, PICKS_MAX, reservationPage } from './model.js';

/**
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('./model.js').Reservation} Reservation
 * @typedef {import('../../i18n/index.js').Key} Key
 *
 * @typedef {object} Shown
 * @property {Raffle} raffle
 * @property {number[]} picks Chosen, and not reserved yet.
 * @property {Reservation | undefined} reservation Of this browser, if one is open.
 * @property {Reservation[]} elsewhere Open ones of other browsers.
 * @property {number[]} bought
 * @property {boolean} canBuy
 * @property {boolean} isCertain We know what is free.
 *
 * @typedef {object} Actions
 * @property {(number: number) => void} remove
 * @property {(button: HTMLButtonElement) => void} reserve
 * @property {(button: HTMLButtonElement) => void} pay
 * @property {(button: HTMLButtonElement) => void} cancel
 * @property {() => void} clear
 */

/** What there is to say about a reservation beside its numbers. @type {Record<string, Key>} */
const PHASES = { selection: 'buy.tray.selection', checkout: 'buy.tray.checkout', paying: 'buy.tray.paying', verification: 'buy.tray.verification' };

export class Tray {
  timer = el('tenure-countdown', { shape: 'ring', hidden: true });
  #heading = h('h2');
  #what = h('p', { class: 'soft small-text' });
  #numbers = h('ul', { class: 'picks' });
  #note = h('p', { class: 'note small-text', role: 'status' });
  #sum = h('p', { class: 'sum' }, h('span', { class: 'soft small-text' }), h('b', { class: 'figures' }));
  #more = h('p', { class: 'soft small-text more' });
  #reserve = h('button', { class: 'button primary', type: 'button' });
  #pay = h('button', { class: 'button primary', type: 'button' });
  #go = h('a', { class: 'button primary' });
  #cancel = h('button', { class: 'button', type: 'button' });
  #clear = h('button', { class: 'button', type: 'button' });
  #buttons = h('div', { class: 'row buttons' }, this.#cancel, this.#clear, this.#reserve, this.#pay, this.#go);
  element = h('aside', { class: 'tray' },
    h('div', { class: 'tray-head' }, h('div', { class: 'words' }, this.#heading, this.#what), this.timer),
    this.#note, this.#numbers, h('div', { class: 'tray-foot' }, this.#sum, this.#buttons), this.#more);

  /** @param {Actions} actions */
  constructor(actions) {
    this.actions = actions;
    this.#reserve.addEventListener('click', () => actions.reserve(this.#reserve));
    this.#pay.addEventListener('click', () => actions.pay(this.#pay));
    this.#cancel.addEventListener('click', () => actions.cancel(this.#cancel));
    this.#clear.addEventListener('click', () => actions.clear());
  }

  /** What just happened, until something else does. @param {string} text @param {'bad' | 'plain' | 'good'} [kind] */
  note(text, kind = 'plain') {
    // Never hidden: what is not there when it changes is not read out.
    set(this.#note, 'class', text === '' ? 'unseen' : `note small-text ${kind}`);
    write(this.#note, text);
  }

  /** @param {Shown} shown */
  draw(shown) {
    const { raffle, picks, reservation, elsewhere, bought, canBuy, isCertain } = shown;
    const numbers = reservation?.numbers ?? picks;
    const isOpen = raffle.status === 'active';
    const phase = reservation?.phase;
    const canChange = canBuy && isCertain && (reservation ? phase === 'selection' : true);
    set(this.element, 'aria-label', t('buy.tray'));
    set(this.element, 'data-phase', phase ?? (picks.length > 0 ? 'picked' : 'none'));
    write(this.#heading, raffle.status === 'drawn' ? t('buy.draw.over') : reservation ? t('buy.tray.reserved', { n: numbers.length })
      : picks.length > 0 ? t('buy.tray.picked', { n: picks.length }) : canBuy && isOpen ? t('buy.tray.pick') : t('buy.tray.look'));
    write(this.#what, !isCertain ? t('lock.uncertain') : reservation ? t(PHASES[phase ?? ''] ?? 'buy.tray.paying')
      : !canBuy ? t('buy.tray.viewer') : !isOpen ? t('buy.raffle.closed')
        : picks.length > 0 ? t('buy.tray.not_yet') : t('buy.tray.how', { n: PICKS_MAX }));
    this.#drawTimer(reservation);
    keyed(this.#numbers, [...numbers].sort((a, b) => a - b), String, (number) => this.#chip(number), (chip, number) => {
      const [label, button] = /** @type {[HTMLElement, HTMLButtonElement]} */ ([...chip.children]);
      write(label, padded(number, raffle.numbers));
      button.hidden = !canChange;
      set(button, 'aria-label', t('buy.tray.remove', { n: padded(number, raffle.numbers) }));
    });
    this.#numbers.hidden = numbers.length === 0;
    set(this.#numbers, 'aria-label', t('buy.tray.numbers'));
    this.#sum.hidden = numbers.length === 0;
    const [each, total] = /** @type {[HTMLElement, HTMLElement]} */ ([...this.#sum.children]);
    const price = reservation?.price_minor ?? raffle.price_minor;
    write(each, t('buy.times', { n: numbers.length, price: money(price, raffle.currency) }));
    write(total, money(price * numbers.length, raffle.currency));
    this.#drawButtons(shown, phase);
    const words = [
      bought.length > 0 && t('buy.tray.bought', { numbers: listed(bought, raffle.numbers) }),
      elsewhere.length > 0 && t('buy.tray.elsewhere', { n: elsewhere.reduce((sum, one) => sum + one.numbers.length, 0) }),
    ].filter(Boolean);
    this.#more.hidden = words.length === 0;
    fill(this.#more, words.flatMap((word, index) => [index > 0 && h('br'), word || '']),
      elsewhere.length > 0 && [' ', h('a', { href: '/app/reservations' }, t('buy.mine'))]);
  }

  /** @param {Reservation | undefined} reservation */
  #drawTimer(reservation) {
    this.timer.hidden = !reservation?.expires_at || reservation.phase === 'verification';
    if (!reservation) return set(this.timer, 'expires-at', undefined);
    set(this.timer, 'label', t('buy.time_left'));
    set(this.timer, 'total-ms', phaseMs(reservation));
    set(this.timer, 'expires-at', reservation.expires_at);
  }

  /** @param {Shown} shown @param {string | undefined} phase */
  #drawButtons({ raffle, picks, reservation, canBuy, isCertain }, phase) {
    const isOpen = canBuy && raffle.status === 'active';
    this.#reserve.hidden = !isOpen || Boolean(reservation) || picks.length === 0;
    this.#reserve.disabled = !isCertain;
    this.#clear.hidden = this.#reserve.hidden;
    this.#pay.hidden = phase !== 'selection';
    this.#cancel.hidden = phase !== 'selection' && phase !== 'checkout';
    this.#go.hidden = !reservation || phase === 'selection';
    if (reservation) set(this.#go, 'href', reservationPage(reservation.id));
    write(this.#reserve, t('buy.reserve', { n: picks.length }));
    write(this.#clear, t('buy.clear'));
    write(this.#pay, t('raffle.pay'));
    write(this.#cancel, t('buy.cancel'));
    write(this.#go, phase === 'checkout' ? t('raffle.pay') : t('buy.see'));
    this.#buttons.hidden = [...this.#buttons.children].every((button) => /** @type {HTMLElement} */ (button).hidden);
  }

  /** @param {number} number */
  #chip(number) {
    return h('li', { class: 'pick figures' }, h('span'),
      h('button', { type: 'button', class: 'drop', onclick: () => this.actions.remove(number) }, '×'));
  }
}
