// What has been chosen, what it costs, for how long it is kept, and what can be done: always on screen.

import { t } from '../../i18n/index.js';
import { el, fill, h, keyed, set, write } from '../lib/dom.js';
import { listed, money, padded, phaseMs, PICKS_MAX, reservationPage } from './model.js';
import { trayState } from './tray-model.js';

/**
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('./model.js').Reservation} Reservation
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

/** How long a passing word stays. */
const PASSING_MS = 5_000;

export class Tray {
  timer = el('tenure-countdown', { shape: 'ring', hidden: true });
  #heading = h('h2');
  #what = h('p', { class: 'soft small-text what' }, h('span'), ' ', h('span', { class: 'more-words' }));
  #unsure = el('tenure-lock', { state: 'uncertain', hidden: true });
  #numbers = h('ul', { class: 'picks' });
  #note = h('p', { class: 'unseen', role: 'status' });
  #sum = h('p', { class: 'sum' }, h('span', { class: 'soft small-text' }), h('b', { class: 'figures' }));
  #more = h('p', { class: 'soft small-text more' });
  #reserve = h('button', { class: 'button primary', type: 'button' }, h('span', { class: 'long' }), h('span', { class: 'short' }));
  #pay = h('button', { class: 'button primary', type: 'button' });
  #go = h('a', { class: 'button primary' });
  #cancel = h('button', { class: 'button', type: 'button' });
  #clear = h('button', { class: 'button', type: 'button' });
  #buttons = h('div', { class: 'row buttons' }, this.#cancel, this.#clear, this.#reserve, this.#pay, this.#go);
  // The note comes last, or lies over the words: what is said moves nothing that can be pressed.
  element = h('aside', { class: 'tray' },
    h('div', { class: 'tray-top' }, h('div', { class: 'tray-head' }, h('div', { class: 'words' }, this.#heading, this.#what, this.#unsure), this.timer), this.#numbers),
    h('div', { class: 'tray-foot' }, this.#sum, this.#buttons), this.#note, this.#more);
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #passing;
  /** The numbers that a passing word is about. @type {number[]} */ #about = [];

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
    clearTimeout(this.#passing);
    this.#about = [];
    // While something is said, the numbers keep their room: one of them may just have gone, with nobody's doing.
    this.#numbers.style.minBlockSize = text === '' ? '' : `${this.#numbers.offsetHeight}px`;
    this.#say(text, kind);
  }

  /** The same, for a while, or until these numbers change: what it says is seen on the grid. @param {string} text @param {'bad' | 'plain'} [kind] @param {number[]} [about] */
  pass(text, kind = 'plain', about = []) {
    this.note(text, kind);
    this.#about = about;
    // Nothing moves, so that nobody presses what has just come under the finger.
    this.#passing = setTimeout(() => this.#say('', 'plain'), PASSING_MS);
  }

  /** What was said of them is not true any more. @param {number[]} numbers */
  changed(numbers) {
    if (!this.#about.some((number) => numbers.includes(number))) return;
    clearTimeout(this.#passing);
    this.#about = [];
    this.#say('', 'plain');
  }

  /** @param {string} text @param {string} kind */
  #say(text, kind) {
    // Never hidden: what is not there when it changes is not read out.
    set(this.#note, 'class', text === '' ? 'unseen' : `note small-text ${kind}`);
    write(this.#note, text);
  }

  /** @param {Shown} shown */
  draw({ raffle, picks, reservation, elsewhere, bought, canBuy, isCertain }) {
    const numbers = reservation?.numbers ?? picks;
    const phase = reservation?.phase;
    const state = trayState({ canBuy, isOpen: raffle.status === 'active', isCertain, picks: picks.length, phase });
    set(this.element, 'aria-label', t('buy.tray'));
    set(this.element, 'data-phase', phase ?? (picks.length > 0 ? 'picked' : 'none'));
    this.element.classList.toggle('buying', state.isBuying);
    this.element.classList.toggle('unsure', !isCertain);
    write(this.#heading, raffle.status === 'drawn' ? t('buy.draw.over') : t(state.heading, { n: numbers.length }));
    const [what, rest] = /** @type {[HTMLElement, HTMLElement]} */ ([...this.#what.children]);
    write(what, t(state.what, { n: PICKS_MAX }));
    write(rest, state.more ? t(state.more) : '');
    this.#what.hidden = !isCertain;
    this.#unsure.hidden = isCertain;
    this.#drawTimer(reservation);
    keyed(this.#numbers, [...numbers].sort((a, b) => a - b), String, (number) => this.#chip(number), (chip, number) => {
      const [label, button] = /** @type {[HTMLElement, HTMLButtonElement]} */ ([...chip.children]);
      write(label, padded(number, raffle.numbers));
      button.hidden = !state.canChange;
      set(button, 'aria-label', t('buy.tray.remove', { n: padded(number, raffle.numbers) }));
    });
    this.#numbers.hidden = numbers.length === 0;
    set(this.#numbers, 'aria-label', t('buy.tray.numbers'));
    this.#drawSum(raffle, numbers.length, reservation?.price_minor ?? raffle.price_minor);
    this.#drawButtons(state, picks.length, reservation);
    const also = elsewhere.reduce((sum, one) => sum + one.numbers.length, 0);
    this.#more.hidden = bought.length === 0 && also === 0;
    // What is bought stays so; what is kept elsewhere is as uncertain as the rest.
    fill(this.#more, bought.length > 0 && t('buy.tray.bought', { numbers: listed(bought, raffle.numbers) }), bought.length > 0 && also > 0 && h('br'),
      also > 0 && h('span', { class: 'also' }, t('buy.tray.elsewhere', { n: also }), ' ', h('a', { href: '/app/reservations' }, t('buy.mine'))));
  }

  /** @param {Raffle} raffle @param {number} count @param {number} price */
  #drawSum(raffle, count, price) {
    const [each, total] = /** @type {[HTMLElement, HTMLElement]} */ ([...this.#sum.children]);
    const isNone = count === 0;
    this.#sum.hidden = isNone && !this.element.classList.contains('buying');
    write(each, isNone ? t('buy.each', { price: money(price, raffle.currency) }) : t('buy.times', { n: count, price: money(price, raffle.currency) }));
    write(total, isNone ? '' : money(price * count, raffle.currency));
  }

  /** @param {Reservation | undefined} reservation */
  #drawTimer(reservation) {
    this.timer.hidden = !reservation?.expires_at || reservation.phase === 'verification';
    if (!reservation) return set(this.timer, 'expires-at', undefined);
    set(this.timer, 'label', t('buy.time_left'));
    set(this.timer, 'total-ms', phaseMs(reservation));
    set(this.timer, 'expires-at', reservation.expires_at);
  }

  /** @param {ReturnType<typeof trayState>} state @param {number} picks @param {Reservation | undefined} reservation */
  #drawButtons(state, picks, reservation) {
    for (const [name, button] of /** @type {const} */ ([['reserve', this.#reserve], ['clear', this.#clear], ['pay', this.#pay], ['cancel', this.#cancel]])) {
      button.hidden = state[name] === 'none';
      button.disabled = state[name] === 'off';
    }
    this.#go.hidden = state.go === 'none';
    // A link cannot be disabled: without an address it leads nowhere.
    set(this.#go, 'href', reservation && state.go === 'on' && reservationPage(reservation.id));
    set(this.#go, 'aria-disabled', state.go === 'off' && 'true');
    set(this.#go, 'role', state.go === 'off' && 'link');
    const [long, short] = /** @type {[HTMLElement, HTMLElement]} */ ([...this.#reserve.children]);
    write(long, picks > 0 ? t('buy.reserve', { n: picks }) : t('buy.reserve.short'));
    write(short, t('buy.reserve.short'));
    write(this.#clear, t('buy.clear'));
    write(this.#pay, t('raffle.pay'));
    write(this.#cancel, t('buy.cancel'));
    write(this.#go, reservation?.phase === 'checkout' ? t('raffle.pay') : t('buy.see'));
    this.#buttons.hidden = [...this.#buttons.children].every((button) => /** @type {HTMLElement} */ (button).hidden);
  }

  /** @param {number} number */
  #chip(number) {
    return h('li', { class: 'pick figures' }, h('span'),
      h('button', { type: 'button', class: 'drop', onclick: () => this.actions.remove(number) }, '×'));
  }
}
