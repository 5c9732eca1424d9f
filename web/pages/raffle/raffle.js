// A raffle: its numbers, live, and what one has of them. Numbers are picked first and reserved together, all or
// none; from then on time runs, and further picks go into the reservation one by one.

import { t } from '../../i18n/index.js';
import { part } from '../../sdk/src/http.js';
import { el, fill, h, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { ask, toast } from '../lib/notice.js';
import { style } from '../lib/style.js';
import { DrawPanel } from './draw.js';
import { untilNoticed } from './following.js';
import { ways } from './frame.js';
import { RaffleLive } from './live.js';
import { browserSession, canBuy, change, dayOf, explain, listed, money, padded, PICKS_MAX, RAFFLE_STATUSES, reservationPage, unavailable, widthOf } from './model.js';
import { Tray } from './tray.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('./model.js').Reservation} Reservation
 * @typedef {import('../../elements/grid-model.js').Cell} Cell
 * @typedef {import('../../elements/tenure-grid.js').TenureGrid} TenureGrid
 */

/** What another tab does to a reservation without touching a number is no event. */
const LOOK_EVERY_MS = 5_000;
/** A connection that is away for less than this is not worth a word. */
const DOUBT_AFTER_MS = 1_000;
/** What is taken within this time is said in one sentence. */
const TOGETHER_MS = 1_500;
/** A longer title does not fit into a phone's bar; a Han character is as wide as two others. */
const BAR_TITLE_MAX = 22;
export const layout = 'buyer';

/** @param {Place} place */
export default async function rafflePage(place) {
  await style('/pages/raffle/raffle.css');
  const page = new RafflePage(place, place.params.id ?? '');
  await page.begin();
  return page.element;
}

class RafflePage {
  /** @type {Raffle | undefined} */ #raffle;
  /** This browser's, while it is open. @type {Reservation | undefined} */ #reservation;
  /** Open ones of other browsers. @type {Reservation[]} */ #elsewhere = [];
  /** Chosen, and not reserved yet. @type {Set<number>} */ #picks = new Set();
  /** Reservations that were cancelled here: an older answer may still have them. @type {Set<string>} */ #gone = new Set();
  /** Numbers that the server is being asked about. @type {Set<number>} */ #busy = new Set();
  #isCertain = true;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #doubt;

  /** @param {Place} place @param {string} id */
  constructor(place, id) {
    this.place = place;
    this.path = `/raffles/${part(id)}`;
    this.id = id;
    this.canBuy = canBuy(place.session.role);
    this.live = new RaffleLive(place, id);
    this.heading = h('h1');
    this.tag = h('span', { class: 'tag' });
    this.facts = h('p', { class: 'soft raffle-facts' });
    this.why = h('p', { class: 'why-not', hidden: true });
    this.drawn = new DrawPanel(place);
    this.grid = /** @type {TenureGrid} */ (el('tenure-grid', { start: 1 }));
    this.tray = new Tray({
      remove: (number) => { void this.#remove(number); },
      reserve: (button) => { void this.#reserve(button); },
      pay: (button) => { void this.#pay(button); },
      cancel: (button) => { void this.#cancel(button); },
      clear: () => this.#clear(),
    });
    this.element = h('section', { class: 'stack raffle' }, ways(place),
      h('header', { class: 'stack raffle-head' }, h('div', { class: 'row' }, this.heading, this.tag), this.facts, this.why),
      this.drawn.head, h('div', { class: 'raffle-body' }, h('div', { class: 'stack numbers' }, this.grid, this.drawn.details), this.tray.element));
    this.grid.addEventListener('tenure-pick', (event) => this.#pick(/** @type {CustomEvent} */ (event).detail));
    this.tray.timer.addEventListener('tenure-expired', () => { void this.#timeUp(); });
  }

  async begin() {
    const { place, live } = this;
    const [raffle, numbers, mine] = await Promise.all([place.get(this.path), place.get(`${this.path}/numbers`), this.#fetchMine()]);
    this.#raffle = raffle;
    const { numbers: count } = this.raffle;
    set(this.grid, 'digits', widthOf(count));
    // Five digits need the room of two cells on a phone.
    set(this.grid, 'columns', widthOf(count) > 4 && matchMedia('(max-width: 34rem)').matches ? 5 : 10);
    set(this.grid, 'count', count);
    // Only a grid that stands on the page has cells to paint.
    const stands = new ResizeObserver(() => { stands.disconnect(); this.#paint(); });
    stands.observe(this.grid);
    place.onLeave(() => stands.disconnect());
    live.on('change', ({ numbers: changed }) => this.#changed(changed));
    live.on('freed', ({ numbers: freed }) => toast(t('raffle.freed', { n: freed.length })));
    live.on('raffle', ({ status }) => { if (status !== this.raffle.status) this.refreshRaffle(); });
    live.on('status', () => this.#connection());
    this.refresh = freshly(place, async () => this.#takeMine(await this.#fetchMine()));
    this.refreshRaffle = freshly(place, async () => {
      this.#raffle = await place.get(this.path);
      this.draw();
    });
    this.#takeMine(mine, true);
    live.show(numbers.numbers);
    live.start();
    place.every(LOOK_EVERY_MS, () => { if (this.#reservation) this.refresh(); });
    place.onLeave(() => clearTimeout(this.#doubt));
    place.onLeave(place.tenure.page.on('back', () => this.refresh()));
    place.onLanguage(() => this.draw());
  }

  /** Replaced once the page has begun. */
  refresh = () => {};
  refreshRaffle = () => {};

  /** Asked for each time: of two tabs that were opened at once both make one, and the one that stays is both tabs'. */
  get session() {
    return browserSession();
  }

  /** @returns {Raffle} */
  get raffle() {
    return /** @type {Raffle} */ (this.#raffle);
  }

  // ---- what is known ----------------------------------------------------------------------------------------

  /** @returns {Promise<{reservations: Reservation[], server_time: string}>} */
  async #fetchMine() {
    if (!this.canBuy) return { reservations: [], server_time: '' };
    return this.place.get(`/reservations?raffle_id=${encodeURIComponent(this.id)}&mine=true`);
  }

  /** @param {{reservations: Reservation[], server_time: string}} told @param {boolean} [isFirst] */
  #takeMine({ reservations: mine, server_time: at }, isFirst = false) {
    // Asked before what we did meanwhile.
    if (this.#reservation && at < this.#reservation.server_time) return this.refresh();
    const open = mine.filter(({ status, id }) => status === 'pending' && !this.#gone.has(id));
    this.#elsewhere = open.filter(({ session_id }) => session_id !== this.session);
    const own = open.find(({ session_id }) => session_id === this.session);
    const before = this.#reservation;
    const ended = before && own?.id !== before.id ? mine.find(({ id }) => id === before.id) : undefined;
    this.#take(own);
    if (ended) this.#ended(ended);
    if (isFirst) return undefined;
    this.#paint();
    return this.draw();
  }

  /** An answer to something that we did; of two at once the later one counts. @param {Reservation} told */
  #amended(told) {
    if (this.#reservation?.id === told.id && told.server_time >= this.#reservation.server_time) this.#reservation = told;
  }

  /** @param {Reservation | undefined} reservation */
  #take(reservation) {
    const before = this.#reservation;
    this.#reservation = reservation;
    if (!reservation || before?.id === reservation.id || this.#picks.size === 0) return;
    const left = [...this.#picks].filter((number) => !reservation.numbers.includes(number));
    this.#picks.clear();
    if (left.length > 0) this.tray.note(t('buy.note.joined', { numbers: listed(left, this.raffle.numbers) }));
  }

  /** It is over, whoever ended it. @param {Reservation} reservation */
  #ended({ status, numbers }) {
    const words = { numbers: listed(numbers, this.raffle.numbers) };
    if (status === 'confirmed') this.tray.note(t('buy.note.confirmed', words), 'good');
    else if (status === 'expired') this.tray.note(t('buy.note.expired', words), 'bad');
    else if (status === 'cancelled') this.tray.note(t('buy.note.cancelled', words));
  }

  /** @param {number} number @returns {Cell} */
  #cell(number) {
    const char = this.live.chars[number - 1];
    if (char === 's' || char === 'b') return { state: 'sold' };
    if (this.#reservation?.numbers.includes(number)) return { state: 'mine' };
    if (char === 'r') return { state: 'other' };
    if (char === 'm') return { state: 'elsewhere' };
    return { state: this.#picks.has(number) ? 'mine' : 'free' };
  }

  /** @param {Iterable<number>} [numbers] All, if not said. */
  #paint(numbers = Array.from(this.live.chars, (_, index) => index + 1)) {
    /** @type {[string, Cell][]} */
    const cells = [];
    for (const number of numbers) cells.push([padded(number, this.raffle.numbers), this.#cell(number)]);
    this.grid.setCells(cells);
  }

  /** @param {number[]} numbers */
  #changed(numbers) {
    const { chars } = this.live;
    const lost = numbers.filter((number) => this.#picks.has(number) && chars[number - 1] !== '-' && chars[number - 1] !== 'm');
    for (const number of lost) this.#picks.delete(number);
    this.#paint(numbers);
    this.tray.changed(numbers);
    if (lost.length > 0) this.#faster(lost);
    // Another tab, a payment, an administrator.
    const own = this.#reservation?.numbers ?? [];
    const known = new Set([...own, ...this.#elsewhere.flatMap((one) => one.numbers)]);
    if (numbers.some((number) => (chars[number - 1] === 'm') !== known.has(number))) this.refresh();
    this.draw();
  }

  /** What somebody took lately, each told in a message of its own. @type {{at: number, numbers: number[]}} */
  #lately = { at: -Infinity, numbers: [] };

  /** Somebody took what was picked here. @param {number[]} taken */
  #faster(taken) {
    const at = performance.now();
    const before = at - this.#lately.at < TOGETHER_MS ? this.#lately.numbers.filter((number) => this.live.chars[number - 1] !== '-') : [];
    const numbers = [...before, ...taken];
    this.#lately = { at, numbers };
    for (const number of taken.slice(0, 3)) this.grid.shake(padded(number, this.raffle.numbers));
    this.tray.pass(t('buy.note.faster', { numbers: listed(numbers, this.raffle.numbers) }), 'bad', numbers);
  }

  #connection() {
    const isGood = ['live', 'polling'].includes(this.live.status.state);
    clearTimeout(this.#doubt);
    const settle = () => {
      if (this.#isCertain === isGood) return;
      this.#isCertain = isGood;
      this.draw();
    };
    if (!isGood) this.#doubt = setTimeout(settle, DOUBT_AFTER_MS);
    else settle();
  }

  // ---- what people do ---------------------------------------------------------------------------------------

  /** @param {{item: string, state: string}} picked */
  #pick({ item, state }) {
    const number = Number(item);
    const reservation = this.#reservation;
    if (state === 'sold' || state === 'other') {
      const isMine = this.live.chars[number - 1] === 'b';
      const text = isMine ? t('buy.note.is_bought', { n: item }) : state === 'sold' ? t('buy.note.is_sold', { n: item }) : t('buy.note.is_reserved', { n: item });
      return this.tray.pass(text, 'plain', [number]);
    }
    if (state === 'elsewhere') return this.tray.pass(t('buy.note.is_elsewhere', { n: item }), 'plain', [number]);
    if (!this.canBuy) return this.tray.pass(t('buy.tray.viewer'));
    if (state === 'mine') return void this.#remove(number);
    if (this.raffle.status !== 'active') return this.tray.pass(t('buy.raffle.closed'));
    if (reservation && reservation.phase !== 'selection') return this.tray.pass(t('buy.note.paying'));
    const count = reservation ? reservation.numbers.length : this.#picks.size;
    if (count >= PICKS_MAX) return this.tray.pass(t('buy.limit.picks', { n: PICKS_MAX }), 'bad');
    if (reservation) return void this.#add(reservation, number);
    this.#picks.add(number);
    this.tray.note('');
    this.#paint([number]);
    return this.draw();
  }

  /** @param {number} number */
  async #remove(number) {
    const reservation = this.#reservation;
    if (!reservation) {
      this.#picks.delete(number);
      this.tray.note('');
      this.#paint([number]);
      return this.draw();
    }
    if (reservation.phase !== 'selection') return this.tray.pass(t('buy.note.paying'));
    // The last one cannot be taken out: without numbers there is no reservation.
    if (reservation.numbers.length === 1) return this.#cancel();
    return this.#amend(number, async () => {
      const { body } = await change(this.place, 'DELETE', `/reservations/${part(reservation.id)}/numbers/${number}`);
      this.#amended(body);
      this.live.mark([number], '-');
    });
  }

  /** @param {Reservation} reservation @param {number} number */
  #add(reservation, number) {
    return this.#amend(number, async () => {
      const { body } = await change(this.place, 'POST', `/reservations/${part(reservation.id)}/numbers`, { number_id: number });
      this.#amended(body);
      this.live.mark([number], 'm');
    });
  }

  /** Changes the reservation by one number, once at a time. @param {number} number @param {() => Promise<void>} act */
  async #amend(number, act) {
    if (this.#busy.has(number)) return;
    this.#busy.add(number);
    try {
      await act();
      this.tray.note('');
    } catch (error) {
      this.#refused(error);
      this.refresh();
    } finally {
      this.#busy.delete(number);
    }
    if (this.place.isLeft) return;
    this.#paint([number]);
    this.draw();
  }

  /** @param {HTMLButtonElement} button */
  #reserve(button) {
    return this.#with(button, async () => {
      const numbers = [...this.#picks].sort((a, b) => a - b);
      const { body } = await change(this.place, 'POST', '/reservations', { raffle_id: this.id, number_ids: numbers, session_id: this.session });
      // It may be one that another tab made meanwhile: R3.
      this.#take(body);
      this.#picks.clear();
      this.live.mark(body.numbers, 'm');
      if (body.numbers.some((/** @type {number} */ number) => numbers.includes(number))) this.tray.note('');
    });
  }

  /** @param {HTMLButtonElement} button */
  #pay(button) {
    const reservation = this.#reservation;
    if (!reservation) return undefined;
    return this.#with(button, async () => {
      const { body } = await change(this.place, 'POST', `/reservations/${part(reservation.id)}/move-to-checkout`, {});
      this.#reservation = body;
      this.place.go(reservationPage(reservation.id));
    });
  }

  /** @param {HTMLButtonElement} [button] */
  async #cancel(button) {
    const reservation = this.#reservation;
    if (!reservation) return;
    const answer = await ask({
      title: t('buy.cancel.title'),
      body: [t('buy.cancel.text', { numbers: listed(reservation.numbers, this.raffle.numbers) })],
      answers: [{ label: t('buy.cancel.yes'), value: 'yes', kind: 'danger' }],
    });
    if (!answer) return;
    await this.#with(button, async () => {
      const { body } = await change(this.place, 'POST', `/reservations/${part(reservation.id)}/cancel`, {});
      this.#reservation = undefined;
      this.#gone.add(reservation.id);
      this.live.mark(reservation.numbers, '-');
      this.#ended(body);
    });
  }

  #clear() {
    const numbers = [...this.#picks];
    this.#picks.clear();
    this.tray.note('');
    this.#paint(numbers);
    this.draw();
  }

  /** @param {HTMLButtonElement | undefined} button @param {() => Promise<void>} act */
  async #with(button, act) {
    if (button?.getAttribute('aria-busy') === 'true') return;
    button?.setAttribute('aria-busy', 'true');
    try {
      await act();
    } catch (error) {
      this.#refused(error);
      this.refresh();
    } finally {
      button?.removeAttribute('aria-busy');
    }
    if (this.place.isLeft) return;
    this.#paint();
    this.draw();
  }

  /** @param {unknown} error */
  #refused(error) {
    const numbers = unavailable(error);
    if (numbers.length === 0) return this.tray.note(explain(error), 'bad');
    const wasPicked = numbers.some((number) => this.#picks.has(number));
    for (const number of numbers) this.#picks.delete(number);
    this.live.mark(numbers.filter((number) => this.live.chars[number - 1] === '-'), 'r');
    for (const number of numbers.slice(0, 3)) this.grid.shake(padded(number, this.raffle.numbers));
    const words = { numbers: listed(numbers, this.raffle.numbers) };
    if (wasPicked) this.tray.note(t('buy.note.unpicked', words), 'bad');
    else this.tray.pass(t('buy.note.faster', words), 'bad', numbers);
  }

  /** R8: the time to choose is over, and checkout has begun by itself. */
  async #timeUp() {
    const reservation = this.#reservation;
    if (!reservation || reservation.phase !== 'selection') return this.refresh();
    /** @type {Reservation} */
    let now = reservation;
    await untilNoticed(this.place, async () => {
      now = await this.place.get(`/reservations/${part(reservation.id)}`);
      return now.status !== 'pending' || now.phase !== 'selection' || this.#reservation?.id !== reservation.id;
    });
    if (this.place.isLeft || this.#reservation?.id !== reservation.id) return;
    if (now.status !== 'pending' || now.phase === 'selection') return this.refresh();
    this.#reservation = now;
    this.draw();
    this.place.go(`${reservationPage(now.id)}?from=selection`);
  }

  // ---- what is seen -----------------------------------------------------------------------------------------

  draw() {
    if (this.place.isLeft) return;
    const { raffle, place } = this;
    place.title(raffle.title);
    write(this.heading, raffle.title);
    // A phone's bar says it already, if it has the room.
    this.element.classList.toggle('long-title', raffle.title.replace(/[\u1100-\uffff]/g, 'XX').length > BAR_TITLE_MAX);
    const [key, kind] = RAFFLE_STATUSES[raffle.status];
    write(this.tag, t(key));
    set(this.tag, 'class', `tag ${kind}`);
    fill(this.facts, h('span', { class: 'figures' }, t('buy.each', { price: money(raffle.price_minor, raffle.currency) })),
      raffle.draw_at && raffle.status !== 'drawn' && h('span', {}, t('buy.draw_at', { day: dayOf(raffle.draw_at) })));
    const why = !this.canBuy ? t('buy.tray.viewer') : raffle.status === 'draft' ? t('buy.why.draft') : raffle.status === 'paused' ? t('buy.why.paused') : '';
    write(this.why, why);
    this.why.hidden = why === '';
    this.drawn.draw(raffle, this.live.chars);
    set(this.grid, 'label', t('buy.grid', { title: raffle.title }));
    set(this.grid, 'uncertain', !this.#isCertain);
    const reservation = this.#reservation;
    this.grid.classList.toggle('picking', !reservation);
    set(this.element, 'data-phase', reservation?.phase ?? 'none');
    const bought = this.live.chars.flatMap((char, index) => (char === 'b' ? [index + 1] : []));
    this.tray.draw({ raffle, picks: [...this.#picks], reservation, elsewhere: this.#elsewhere, bought, canBuy: this.canBuy, isCertain: this.#isCertain });
  }
}
