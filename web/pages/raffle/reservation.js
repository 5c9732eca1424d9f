// Checkout: what is reserved, until when, and how to pay for it. Also what has become of a reservation.

import { t } from '../../i18n/index.js';
import { part } from '../../sdk/src/http.js';
import { Refused } from '../../sdk/tenure.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { ask, toast } from '../lib/notice.js';
import { style } from '../lib/style.js';
import { drawAgo, keepAgo } from '../lib/times.js';
import { Following } from './following.js';
import { chips, Deadline, facts, ways } from './frame.js';
import { canBuy, change, dayOf, describe, explain, listed, money, paymentOf, paymentPage, phaseMs, rafflePage, rememberPayment, reservationStatus } from './model.js';
import { openBank } from './bank.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('./model.js').Reservation} Reservation
 * @typedef {import('./model.js').Choice} Choice
 * @typedef {import('./model.js').Payment} Payment
 */

/** States in which there is nothing to go on with. */
const OVER = ['failed', 'expired', 'canceled'];

export const layout = 'buyer';

/** @param {Place} place */
export default async function reservationPage(place) {
  const path = `/reservations/${part(place.params.id ?? '')}`;
  const [, reservation] = await Promise.all([style('/pages/raffle/raffle.css'), place.get(path)]);
  const [raffle, { providers }] = await Promise.all([place.get(`/raffles/${part(reservation.raffle_id)}`), place.get('/payment-providers')]);
  return new CheckoutPage(place, reservation, raffle, providers).element;
}

class CheckoutPage {
  /** @param {Place} place @param {Reservation} reservation @param {Raffle} raffle @param {Choice[]} choices */
  constructor(place, reservation, raffle, choices) {
    this.place = place;
    this.raffle = raffle;
    this.choices = choices;
    this.isOwn = reservation.user_id === place.session.person?.id && canBuy(place.session.role);
    /** It went to checkout by itself. */
    this.isAuto = place.query.get('from') === 'selection';
    this.back = h('a', { class: 'back' });
    this.heading = h('h1');
    this.tag = h('span', { class: 'tag' });
    this.deadline = new Deadline(place);
    this.outcome = h('div', { class: 'unseen', role: 'status' });
    this.summary = h('section', { class: 'card stack summary' });
    this.legend = h('legend');
    this.list = h('div', { class: 'choices' });
    this.ways = h('fieldset', { class: 'providers' }, this.legend, this.list);
    this.note = h('p', { class: 'note small-text bad', role: 'alert' });
    this.pay = h('button', { class: 'button primary big', type: 'submit' });
    this.more = h('a', { class: 'button' });
    this.cancel = h('button', { class: 'button', type: 'button', onclick: () => { void this.#cancel(); } });
    this.resume = h('button', { class: 'button primary big', type: 'button', onclick: () => { void this.#resume(); } });
    this.foot = h('div', { class: 'foot checkout-foot' }, this.cancel, this.more, this.resume, this.pay);
    this.form = h('form', { class: 'stack', novalidate: true, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void this.#pay(); } },
      this.ways, this.note, this.foot);
    this.since = h('time');
    this.element = h('section', { class: 'stack checkout' }, ways(place), this.back,
      h('div', { class: 'row' }, this.heading, this.tag), this.deadline.element, this.outcome, this.summary, this.form);
    this.following = new Following(place, reservation, () => this.draw());
    this.refreshWays = freshly(place, async () => {
      this.choices = (await place.get('/payment-providers')).providers;
      this.draw();
    });
    this.deadline.timer.addEventListener('tenure-expired', () => { void this.following.timeUp(); });
    keepAgo(place, this.element);
    place.onLanguage(() => this.draw());
  }

  // ---- what people do ---------------------------------------------------------------------------------------

  get #chosen() {
    return this.choices.find(({ code }) => code === new FormData(this.form).get('provider'));
  }

  async #pay() {
    const { place } = this;
    const { reservation } = this.following;
    const choice = this.#chosen;
    if (!choice) return;
    await this.#with(this.pay, async () => {
      const payment = await this.#start(reservation.id, choice.code);
      rememberPayment(reservation.id, payment.id);
      place.go(paymentPage(payment.id));
      if (payment.payment_url) openBank(payment.id, payment.payment_url);
    });
  }

  /** A payment by this provider: a new one, or the one that is open already. @param {string} reservation @param {string} provider @returns {Promise<Payment>} */
  async #start(reservation, provider) {
    try {
      return (await change(this.place, 'POST', '/payments', { reservation_id: reservation, provider })).body;
    } catch (error) {
      const open = openPayment(error);
      if (!open) throw error;
      return this.place.get(`/payments/${part(open)}`);
    }
  }

  /** Back to the payment that is under way. */
  async #resume() {
    const { reservation } = this.following;
    return this.#with(this.resume, async () => {
      const known = paymentOf(reservation.id);
      const open = known && await this.place.get(`/payments/${part(known)}`);
      if (open && !OVER.includes(open.state)) return this.place.go(paymentPage(open.id));
      // Begun in another browser. Whoever asks for another one is told which is open: only while one is.
      this.following.take(await this.place.get(`/reservations/${part(reservation.id)}`));
      const choice = this.choices[0];
      if (!choice || this.following.reservation.phase !== 'paying') return;
      const payment = await this.#start(reservation.id, choice.code);
      rememberPayment(reservation.id, payment.id);
      this.place.go(paymentPage(payment.id));
    });
  }

  async #cancel() {
    const { reservation } = this.following;
    const answer = await ask({
      title: t('buy.cancel.title'),
      body: [t('buy.cancel.text', { numbers: listed(reservation.numbers, this.raffle.numbers) })],
      answers: [{ label: t('buy.cancel.yes'), value: 'yes', kind: 'danger' }],
    });
    if (!answer) return;
    await this.#with(this.cancel, async () => {
      const { body } = await change(this.place, 'POST', `/reservations/${part(reservation.id)}/cancel`, {});
      this.following.take(body);
      toast(t('buy.note.cancelled', { numbers: listed(reservation.numbers, this.raffle.numbers) }));
    });
  }

  /** @param {HTMLButtonElement} button @param {() => Promise<void>} act */
  async #with(button, act) {
    if (button.getAttribute('aria-busy') === 'true') return;
    button.setAttribute('aria-busy', 'true');
    write(this.note, '');
    try {
      await act();
    } catch (error) {
      write(this.note, explain(error));
      this.following.refresh();
      this.refreshWays();
    } finally {
      button.removeAttribute('aria-busy');
    }
    this.draw();
  }

  // ---- what is seen -----------------------------------------------------------------------------------------

  draw() {
    if (this.place.isLeft) return;
    const { raffle } = this;
    const { reservation } = this.following;
    const { status, phase } = reservation;
    const isPending = status === 'pending';
    const isChoosing = isPending && (phase === 'selection' || phase === 'checkout');
    set(this.element, 'data-phase', isPending ? phase : status);
    this.place.title(isChoosing ? t('buy.checkout') : t('buy.reservation'));
    write(this.heading, isChoosing ? t('buy.checkout') : t('buy.reservation'));
    set(this.back, 'href', rafflePage(raffle.id));
    write(this.back, `← ${raffle.title}`);
    const [key, kind] = reservationStatus(reservation);
    write(this.tag, t(key));
    set(this.tag, 'class', `tag ${kind}`);
    this.#drawTimer(isChoosing || (isPending && phase === 'paying'));
    this.#drawOutcome();
    this.#drawSummary();
    this.#drawWays(isChoosing && this.isOwn);
    this.note.hidden = this.note.textContent === '';
    this.#drawFoot(isChoosing);
  }

  /** @param {boolean} isShown */
  #drawTimer(isShown) {
    const { reservation } = this.following;
    const isCheckout = reservation.phase === 'checkout';
    this.deadline.draw(isShown ? reservation.expires_at : undefined, {
      label: reservation.phase === 'selection' ? t('buy.timer.selection') : t('buy.timer.checkout'),
      totalMs: phaseMs(reservation), canPress: isCheckout, reason: this.isAuto && isCheckout ? t('buy.alarm.auto') : '',
    });
  }

  #drawOutcome() {
    const { reservation } = this.following;
    const { status, phase } = reservation;
    const again = h('a', { class: 'button', href: rafflePage(this.raffle.id) }, t('buy.again'));
    const until = dayOf(reservation.expires_at ?? reservation.server_time);
    const draw = this.raffle.draw_at ? t('buy.draw_at', { day: dayOf(this.raffle.draw_at) }) : '';
    /** @type {[string, string, string, HTMLElement | undefined] | undefined} */
    const says = status === 'confirmed' ? ['good', t('buy.outcome.confirmed'), draw, undefined]
      : status === 'expired' ? ['bad', t('buy.outcome.expired'), t('buy.outcome.freed'), again]
        : status === 'cancelled' ? ['plain', t('buy.outcome.cancelled'), t('buy.outcome.freed'), again]
          : phase === 'paying' ? ['plain', t('buy.outcome.paying'), t('buy.outcome.paying.next'), undefined]
            : phase === 'verification' ? ['plain', t('buy.outcome.verification'), t('buy.outcome.verification.next', { day: until }), undefined]
              : !this.isOwn ? ['plain', t('buy.outcome.other'), '', undefined] : undefined;
    const word = says ? says.slice(0, 3).join('|') : '';
    // Said anew only when it is something else.
    if (this.outcome.dataset.says === word) return;
    this.outcome.dataset.says = word;
    // Never hidden: what is not there when it changes is not read out.
    if (!says) {
      set(this.outcome, 'class', 'unseen');
      return void fill(this.outcome);
    }
    const [kind, text, next, link] = says;
    set(this.outcome, 'class', `outcome ${kind}`);
    fill(this.outcome, h('b', {}, text), next && h('span', {}, next), link);
  }

  #drawSummary() {
    const { raffle } = this;
    const { numbers, price_minor: price, total_minor: total, currency, selection_started_at: since } = this.following.reservation;
    drawAgo(this.since, since);
    const word = [document.documentElement.lang, numbers, price, total].join('|');
    if (this.summary.dataset.says === word) return;
    this.summary.dataset.says = word;
    fill(this.summary, h('h2', {}, t('buy.numbers', { n: numbers.length })), chips(numbers, raffle.numbers),
      facts([[t('buy.raffle'), raffle.title], [t('buy.since'), this.since], [t('buy.price'), t('buy.times', { n: numbers.length, price: money(price, currency) })]]),
      h('p', { class: 'total' }, h('span', {}, t('buy.total')), h('b', { class: 'figures' }, money(total, currency))));
  }

  /** @param {boolean} isShown */
  #drawWays(isShown) {
    this.ways.hidden = !isShown;
    if (!isShown) return;
    write(this.legend, t('buy.provider'));
    const chosen = this.#chosen?.code ?? this.choices[0]?.code;
    keyed(this.list, this.choices, ({ code }) => code, ({ code, name }) => h('label', { class: 'choice' },
      h('input', { type: 'radio', name: 'provider', value: code, required: true, '.checked': code === chosen, onchange: () => this.draw() }),
      h('span', { class: 'words' }, h('b', {}, name), h('span', { class: 'soft small-text about' }), h('span', { class: 'small-text mode' }))),
    (label, { mode, description }) => {
      write(/** @type {Element} */ (label.querySelector('.about')), describe(description));
      write(/** @type {Element} */ (label.querySelector('.mode')), mode === 'redirect' ? t('buy.mode.redirect') : t('buy.mode.manual'));
    });
    if (this.choices.length === 0) return void fill(this.list, h('p', { class: 'soft' }, t('buy.provider.none')));
    // What was chosen may have been switched off.
    const first = this.list.querySelector('input');
    if (first && !this.#chosen) first.checked = true;
  }

  /** @param {boolean} isChoosing */
  #drawFoot(isChoosing) {
    const { reservation } = this.following;
    const canAct = this.isOwn && isChoosing;
    this.pay.hidden = !canAct || this.choices.length === 0;
    this.cancel.hidden = !canAct;
    this.more.hidden = !canAct || reservation.phase !== 'selection';
    const known = paymentOf(reservation.id);
    this.resume.hidden = !this.isOwn || !(reservation.phase === 'paying' || (reservation.phase === 'verification' && known));
    write(this.pay, t('buy.pay', { amount: money(reservation.total_minor, reservation.currency) }));
    write(this.cancel, t('buy.cancel'));
    write(this.more, t('buy.more'));
    set(this.more, 'href', rafflePage(this.raffle.id));
    write(this.resume, reservation.phase === 'paying' ? t('buy.resume') : t('buy.see.payment'));
    this.foot.hidden = [this.pay, this.cancel, this.more, this.resume].every(({ hidden }) => hidden);
  }
}

/** The payment that stands in the way of another one. @param {unknown} error @returns {string | undefined} */
function openPayment(error) {
  if (!(error instanceof Refused) || error.code !== 'wrong_status' || error.problem.what !== 'payment') return undefined;
  return String(error.problem.id);
}
