// A payment: where to pay, and what has become of it. The bank's page opens beside this one, which asks how it
// stands until that is certain. A transfer is described, told, and then compared by a person.

import { t } from '../../i18n/index.js';
import { part } from '../../sdk/src/http.js';
import { fill, h, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { style } from '../lib/style.js';
import { closeBank, openBank } from './bank.js';
import { Following, untilNoticed } from './following.js';
import { chips, Deadline, facts, ways } from './frame.js';
import { change, dayOf, explain, money, phaseMs, rafflePage, rememberPayment, reservationPage } from './model.js';
import { Transfer } from './transfer.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('./model.js').Reservation} Reservation
 * @typedef {import('./model.js').Payment} Payment
 * @typedef {import('../../i18n/index.js').Key} Key
 *
 * @typedef {object} Look
 * @property {'good' | 'bad' | 'plain' | 'wait'} kind
 * @property {Key} says
 * @property {Key} next
 */

/** While something may come of it at any moment. */
const SOON = ['created', 'requires_action', 'processing', 'unknown'];
const SOON_MS = 1_500;
/** A person decides. */
const LATER_MS = 5_000;

/** @type {Record<string, Look>} */
const LOOKS = {
  created: { kind: 'wait', says: 'pay.created', next: 'pay.created.next' },
  requires_action: { kind: 'plain', says: 'pay.card', next: 'pay.card.next' },
  processing: { kind: 'wait', says: 'pay.settling', next: 'pay.settling.next' },
  unknown: { kind: 'wait', says: 'pay.settling', next: 'pay.settling.next' },
  pending_review: { kind: 'wait', says: 'pay.review', next: 'pay.review.next' },
  succeeded: { kind: 'good', says: 'pay.paid', next: 'pay.paid.next' },
  failed: { kind: 'bad', says: 'pay.failed', next: 'pay.failed.next' },
  expired: { kind: 'bad', says: 'pay.expired', next: 'pay.failed.next' },
  canceled: { kind: 'plain', says: 'pay.canceled', next: 'pay.failed.next' },
  conflicted: { kind: 'wait', says: 'pay.conflicted', next: 'pay.conflicted.next' },
  paid_unassigned: { kind: 'bad', says: 'pay.gone', next: 'pay.gone.next' },
  refund_pending: { kind: 'bad', says: 'pay.gone', next: 'pay.gone.next' },
  refund_failed: { kind: 'bad', says: 'pay.gone', next: 'pay.gone.next' },
  refunded: { kind: 'plain', says: 'pay.refunded', next: 'pay.refunded.next' },
};

/** Why, where there is more to say than the gateway's code. @type {Record<string, Key>} */
const REASONS = {
  rejected: 'pay.why.rejected',
  not_reviewed: 'pay.why.not_reviewed',
  '3ds_n': 'pay.why.bank',
  '3ds_r': 'pay.why.bank',
  '3ds_u': 'pay.why.bank',
  page_left: 'pay.why.left',
};

export const layout = 'buyer';

/** @param {Place} place */
export default async function paymentPage(place) {
  const [, payment] = await Promise.all([style('/pages/raffle/raffle.css'), place.get(`/payments/${part(place.params.id ?? '')}`)]);
  /** @type {Reservation} */
  const reservation = await place.get(`/reservations/${part(payment.reservation_id)}`);
  const raffle = await place.get(`/raffles/${part(reservation.raffle_id)}`);
  return new PaymentPage(place, payment, reservation, raffle).element;
}

class PaymentPage {
  /** @type {Payment} */
  payment;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;

  /** @param {Place} place @param {Payment} payment @param {Reservation} reservation @param {Raffle} raffle */
  constructor(place, payment, reservation, raffle) {
    this.place = place;
    this.payment = payment;
    this.raffle = raffle;
    this.path = `/payments/${part(payment.id)}`;
    this.isOwn = reservation.user_id === place.session.person?.id;
    if (this.isOwn) rememberPayment(reservation.id, payment.id);
    this.back = h('a', { class: 'back', href: reservationPage(reservation.id) });
    this.heading = h('h1');
    this.deadline = new Deadline(place);
    this.outcome = h('div', { class: 'unseen', role: 'status' });
    this.transfer = new Transfer(place, (told) => this.#take(told));
    this.summary = h('section', { class: 'card stack summary' });
    this.note = h('p', { class: 'note small-text bad', role: 'alert' });
    this.bank = h('button', { class: 'button primary big', type: 'button', onclick: () => { if (this.payment.payment_url) openBank(payment.id, this.payment.payment_url); } });
    this.again = h('a', { class: 'button primary big' });
    this.cancel = h('button', { class: 'button', type: 'button', onclick: () => { void this.#cancel(); } });
    this.foot = h('div', { class: 'foot checkout-foot' }, this.cancel, this.bank, this.again);
    this.element = h('section', { class: 'stack checkout' }, ways(place), this.back, this.heading, this.deadline.element,
      this.outcome, this.transfer.element, this.note, this.summary, this.foot);
    this.refresh = freshly(place, async () => this.#take(await place.get(this.path)));
    this.following = new Following(place, reservation, () => { this.refresh(); this.draw(); });
    this.deadline.timer.addEventListener('tenure-expired', () => { void this.#timeUp(); });
    place.onLeave(place.tenure.page.on('back', () => this.refresh()));
    place.onLeave(() => clearTimeout(this.#timer));
    place.onLanguage(() => this.draw());
    this.#askLater();
  }

  // ---- how it stands ----------------------------------------------------------------------------------------

  #askLater() {
    clearTimeout(this.#timer);
    const { state } = this.payment;
    const ms = SOON.includes(state) ? SOON_MS : state === 'pending_review' || state === 'conflicted' || state === 'refund_pending' ? LATER_MS : undefined;
    if (ms === undefined || this.place.isLeft) return;
    this.#timer = setTimeout(() => {
      if (!document.hidden || SOON.includes(state)) this.refresh();
      this.#askLater();
    }, ms);
  }

  /** @param {Payment} told */
  #take(told) {
    if (told.server_time < this.payment.server_time) return;
    const before = this.payment.state;
    this.payment = told;
    if (before !== told.state) {
      if (!SOON.includes(told.state)) closeBank(told.id);
      this.following.refresh();
      this.#askLater();
    }
    this.draw();
  }

  async #timeUp() {
    const { state, expires_at: end } = this.payment;
    if (!SOON.includes(state)) return this.following.timeUp();
    return untilNoticed(this.place, async () => {
      this.#take(await this.place.get(this.path));
      return this.payment.state !== state || this.payment.expires_at !== end;
    });
  }

  async #cancel() {
    if (this.cancel.getAttribute('aria-busy') === 'true') return;
    this.cancel.setAttribute('aria-busy', 'true');
    write(this.note, '');
    try {
      const { body } = await change(this.place, 'POST', `${this.path}/cancel`, {});
      closeBank(this.payment.id);
      this.#take(body);
      // Nothing to look at here: on to another way to pay.
      if (body.state === 'canceled') this.place.go(reservationPage(body.reservation_id), { replace: true });
    } catch (error) {
      write(this.note, explain(error));
      this.refresh();
    } finally {
      this.cancel.removeAttribute('aria-busy');
    }
    this.draw();
  }

  // ---- what is seen -----------------------------------------------------------------------------------------

  draw() {
    if (this.place.isLeft) return;
    const { payment, raffle } = this;
    const { reservation } = this.following;
    const { state } = payment;
    const isManual = Boolean(payment.instructions);
    const canPay = state === 'requires_action' && this.isOwn;
    set(this.element, 'data-state', state);
    set(this.element, 'data-way', isManual ? 'manual' : 'page');
    this.place.title(t('pay.title'));
    write(this.heading, isManual ? t('pay.transfer') : t('pay.title'));
    write(this.back, `← ${t('buy.reservation')}`);
    this.#drawTimer();
    this.#drawOutcome(isManual);
    this.transfer.draw(payment, canPay && isManual);
    this.#drawSummary(raffle, reservation);
    this.note.hidden = this.note.textContent === '';
    this.#drawFoot(canPay, isManual);
  }

  /** How long one can pay here; after a refusal, how long there is for another try. */
  #drawTimer() {
    const { payment } = this;
    const { reservation } = this.following;
    const isOpen = payment.state === 'requires_action';
    const isBack = ['failed', 'expired', 'canceled'].includes(payment.state) && reservation.status === 'pending' && reservation.phase === 'checkout';
    const end = isOpen ? payment.expires_at : isBack ? reservation.expires_at : undefined;
    this.deadline.draw(end, {
      label: isOpen ? t('buy.timer.pay') : t('buy.timer.checkout'),
      totalMs: !end ? undefined : isOpen ? Date.parse(end) - Date.parse(payment.started_at) : phaseMs(reservation),
    });
  }

  /** @param {boolean} isManual */
  #drawOutcome(isManual) {
    const { state, reason, expires_at: end } = this.payment;
    const { kind, says, next } = LOOKS[state] ?? /** @type {Look} */ (LOOKS.unknown);
    const { reservation } = this.following;
    const why = (state === 'failed' || state === 'expired') && reason ? REASONS[reason] : undefined;
    const canRetry = reservation.status === 'pending';
    const more = next !== 'pay.failed.next' || canRetry ? next : 'pay.failed.over';
    const lines = [t(says), why && t(why), t(more, { day: dayOf(end ?? reservation.server_time) })];
    if (state === 'failed' && reason && !why) lines.splice(1, 0, t('pay.why.code', { code: reason }));
    const isSilent = isManual && state === 'requires_action';
    const word = isSilent ? '' : lines.join('|');
    if (this.outcome.dataset.says === word) return;
    this.outcome.dataset.says = word;
    // Never hidden: what is not there when it changes is not read out.
    if (isSilent) {
      set(this.outcome, 'class', 'unseen');
      return void fill(this.outcome);
    }
    set(this.outcome, 'class', `outcome big ${kind}`);
    const [first, ...rest] = lines;
    fill(this.outcome, h('b', {}, first), rest.map((line) => line && h('span', {}, line)));
  }

  /** @param {Raffle} raffle @param {Reservation} reservation */
  #drawSummary(raffle, reservation) {
    const word = [document.documentElement.lang, reservation.numbers].join('|');
    if (this.summary.dataset.says === word) return;
    this.summary.dataset.says = word;
    fill(this.summary, h('h2', {}, t('buy.numbers', { n: reservation.numbers.length })), chips(reservation.numbers, raffle.numbers),
      facts([[t('buy.raffle'), raffle.title], [t('pay.begun'), dayOf(this.payment.started_at)]]),
      h('p', { class: 'total' }, h('span', {}, t('buy.total')), h('b', { class: 'figures' }, money(this.payment.amount_minor, this.payment.currency))));
  }

  /** @param {boolean} canPay @param {boolean} isManual */
  #drawFoot(canPay, isManual) {
    const { payment } = this;
    const { reservation } = this.following;
    this.bank.hidden = !canPay || isManual || !payment.payment_url;
    this.cancel.hidden = !canPay;
    write(this.bank, t('pay.open'));
    write(this.cancel, t('pay.cancel'));
    const isOver = ['failed', 'expired', 'canceled'].includes(payment.state);
    const canRetry = this.isOwn && isOver && reservation.status === 'pending';
    const canPick = this.isOwn && ((isOver && reservation.status !== 'pending') || payment.state === 'succeeded' || payment.state === 'refunded');
    this.again.hidden = !canRetry && !canPick;
    set(this.again, 'href', canRetry ? reservationPage(reservation.id) : rafflePage(this.raffle.id));
    write(this.again, canRetry ? t('pay.again') : payment.state === 'succeeded' ? t('pay.to_raffle') : t('buy.again'));
    this.foot.hidden = [this.bank, this.cancel, this.again].every(({ hidden }) => hidden);
  }
}
