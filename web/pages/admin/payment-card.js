// One payment: what the buyer says, what the bank shows, and the decision.

import { formatMoment } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { Refused } from '../../sdk/tenure.js';
import { el, fill, h, set, write } from '../lib/dom.js';
import { distinctMoney as money } from '../lib/money.js';
import { ask, askWords, complain, toast, trying } from '../lib/notice.js';
import { clockTime, drawAgo } from '../lib/times.js';
import { AmountField } from './amount.js';
import { copyable } from './copy.js';
import { canApprove, canRefund, canReject, isLate, paymentPath, raffleOf, rafflePath, stateOf } from './model.js';

/**
 * @typedef {import('./model.js').Payment} Payment
 * @typedef {import('./model.js').Provider} Provider
 * @typedef {import('../lib/place.js').Place} Place
 *
 * @typedef {object} Known
 * @property {string | undefined} raffle Its title.
 * @property {Provider | undefined} provider
 * @property {number[] | undefined} numbers
 */

export class PaymentCard {
  #name = h('a');
  #sum = h('b', { class: 'sum figures' });
  #tag = h('span', { class: 'tag' });
  #facts = h('dl', { class: 'facts' });
  #factsTitle = h('h3');
  #bankTitle = h('h3');
  #asked = h('span', { class: 'soft small-text' });
  #kept = h('p', { class: 'kept soft small-text' });
  #keptText = h('span');
  #left = el('tenure-countdown', { 'urgent-ms': 3_600_000 });
  #say = h('p', { class: 'note', role: 'alert' });
  #amount = new AmountField('bank_amount', () => this.#payment.currency, money);
  #approve = h('button', { class: 'button primary', type: 'submit' });
  #reject = h('button', { class: 'button danger', type: 'button', onclick: () => { void this.#onReject(); } });
  #refund = h('button', { class: 'button', type: 'button', onclick: () => { void this.#onRefund(); } });
  #form = h('form', { class: 'stack tight', novalidate: true, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void this.#onApprove(); } },
    this.#amount.element, h('div', { class: 'row' }, this.#approve, this.#reject));
  #decide = h('section', { class: 'decide stack tight' }, this.#bankTitle, this.#kept, this.#form, h('div', { class: 'row' }, this.#refund));
  element = h('article', { class: 'card payment' },
    h('header', { class: 'row apart' }, h('h2', {}, this.#name), h('span', { class: 'row' }, h('span', { class: 'asked' }, this.#asked, this.#sum), this.#tag)),
    this.#say, h('div', { class: 'sides' }, h('section', { class: 'stack tight' }, this.#factsTitle, this.#facts), this.#decide));
  /** @type {Known} */
  #known = { raffle: undefined, provider: undefined, numbers: undefined };
  #said = '';

  /**
   * @param {Place} place
   * @param {Payment} payment
   * @param {(payment: Payment) => void} changed The server said so.
   */
  constructor(place, payment, changed) {
    this.place = place;
    this.#payment = payment;
    this.changed = changed;
    this.#kept.append(this.#keptText, ' ', this.#left);
    set(this.#name, 'href', paymentPath(payment.id));
  }

  /** @type {Payment} */
  #payment;

  get #buyer() {
    return this.#payment.buyer?.name ?? '—';
  }

  get #isOwn() {
    return this.#payment.buyer?.id === this.place.session.person?.id;
  }

  /** Nobody but a person gives this money back. */
  get #isByHand() {
    return this.#known.provider?.is_automatic === false;
  }

  /** @param {Payment} payment @param {Known} known */
  draw(payment, known) {
    this.#payment = payment;
    this.#known = known;
    const [key, look] = stateOf(payment.state);
    write(this.#name, this.#buyer);
    set(this.#name, 'aria-label', t('admin.pay.one', { name: this.#buyer }));
    write(this.#asked, t('admin.pay.asked'));
    write(this.#sum, money(payment.amount_minor, payment.currency));
    write(this.#tag, t(key));
    set(this.#tag, 'class', `tag ${look}`);
    set(this.element, 'data-state', payment.state);
    // What is being read or copied stays, unless it is something else.
    const said = JSON.stringify([payment, known, language()], (name, value) => (/server_time|expires_in_ms/.test(name) ? undefined : value));
    if (said !== this.#said) {
      this.#said = said;
      this.#drawFacts();
    }
    this.#drawDecision();
  }

  #drawFacts() {
    const payment = this.#payment;
    const { transfer } = payment;
    const { raffle, provider, numbers } = this.#known;
    const id = raffleOf(payment.id);
    const ago = (/** @type {string} */ iso) => {
      const time = h('time');
      drawAgo(time, iso);
      return time;
    };
    write(this.#factsTitle, transfer ? t('admin.pay.says') : t('admin.payments'));
    this.#factsTitle.hidden = !transfer;
    /** @type {([string, Node | string] | false | '' | undefined | null)[]} */
    const rows = [
      transfer && [t('admin.pay.reference'), copyable(transfer.reference, t('admin.pay.reference'), 'reference')],
      transfer && [t('admin.pay.told'), money(transfer.amount_minor, payment.currency)],
      transfer && [t('admin.pay.phone'), transfer.payer_phone],
      transfer?.payer_name && [t('admin.pay.sender'), transfer.payer_name],
      transfer?.payer_bank && [t('admin.pay.bank'), transfer.payer_bank],
      transfer?.transferred_at && [t('admin.pay.sent_at'), formatMoment(transfer.transferred_at, language())],
      transfer && [t('admin.pay.told_at'), ago(transfer.submitted_at)],
      [t('admin.pay.raffle'), h('a', { href: rafflePath(id) }, raffle ?? id)],
      numbers && [t('admin.pay.numbers'), numbers.join(', ')],
      [t('admin.pay.way'), provider?.name ?? payment.provider],
      !transfer && [t('admin.pay.begun'), ago(payment.started_at)],
      payment.state === 'requires_action' && payment.expires_at && [t('admin.hold.left'), el('tenure-countdown', { 'expires-at': payment.expires_at, label: t('admin.hold.left') })],
      payment.paid && [t('admin.pay.really'), money(payment.paid.minor, payment.paid.currency)],
      payment.txn_id && [t('admin.pay.txn'), h('code', {}, payment.txn_id)],
      // That the amount differs is said above, with both of them.
      payment.reason && payment.reason !== 'amount' && [t('admin.pay.reason'), payment.reason === 'rejected' ? t('admin.pay.reason.rejected') : h('code', {}, payment.reason)],
      payment.decided_by && [t('admin.pay.by'), payment.decided_by.name],
    ];
    fill(this.#facts, rows.filter(Boolean).map((row) => {
      const [term, value] = /** @type {[string, Node | string]} */ (row);
      return h('div', {}, h('dt', {}, term), h('dd', { class: 'figures' }, value));
    }));
  }

  #drawDecision() {
    const payment = this.#payment;
    const isOwn = this.#isOwn;
    const [mayApprove, mayReject, mayRefund] = [canApprove(payment), canReject(payment), canRefund(payment)].map((may) => may && !isOwn);
    this.#decide.hidden = !mayApprove && !mayRefund;
    set(this.element, 'data-sides', !this.#decide.hidden);
    this.#form.hidden = !mayApprove;
    this.#reject.hidden = !mayReject;
    this.#refund.hidden = !mayRefund;
    this.#bankTitle.hidden = !mayApprove;
    write(this.#bankTitle, t('admin.pay.compare'));
    this.#kept.hidden = !payment.expires_at || payment.state !== 'pending_review';
    write(this.#keptText, t('admin.pay.kept'));
    set(this.#left, 'expires-at', payment.expires_at);
    set(this.#left, 'label', t('admin.pay.kept'));
    set(this.#left, 'title', payment.expires_at && clockTime(payment.expires_at));
    this.#amount.draw(t('admin.pay.amount'), t('admin.pay.amount.hint'));
    write(this.#approve, t('admin.pay.approve'));
    write(this.#reject, t('admin.pay.reject'));
    write(this.#refund, payment.state === 'refund_pending' && this.#isByHand ? t('admin.pay.refund.sent')
      : payment.state === 'refund_failed' ? t('admin.pay.refund.again') : t('admin.pay.refund'));
    const words = this.#words(Boolean(mayApprove || mayRefund));
    this.#say.hidden = words === '';
    write(this.#say, words);
  }

  /** What there is to know before one decides. @param {boolean} mayDecide */
  #words(mayDecide) {
    const payment = this.#payment;
    if (this.#isOwn && (canApprove(payment) || canRefund(payment))) return t('admin.pay.own');
    if (!mayDecide) return '';
    if (payment.state === 'conflicted') {
      const paid = payment.paid ? money(payment.paid.minor, payment.paid.currency) : '?';
      return t('admin.pay.differs', { paid, asked: money(payment.amount_minor, payment.currency) });
    }
    if (isLate(payment)) return t('admin.pay.late');
    if (payment.state === 'pending_review' && !payment.transfer) return t('admin.pay.unclear');
    if (payment.state === 'refund_failed') return t('admin.pay.refund.failed');
    return '';
  }

  async #onApprove() {
    const minor = this.#amount.take();
    if (minor === undefined) return;
    const answer = await this.#decideBy(this.#approve, 'approve', { bank_amount_minor: minor });
    if (!answer) return;
    if (answer.state === 'succeeded') toast(t('admin.pay.approved', { name: this.#buyer }), { kind: 'good' });
    else if (answer.state === 'conflicted') this.#amount.input.select();
    else toast(t('admin.pay.gone', { name: this.#buyer, amount: money(answer.amount_minor, answer.currency) }), { kind: 'bad' });
  }

  async #onReject() {
    const reason = await askWords({ title: t('admin.pay.reject.title', { name: this.#buyer }), label: t('admin.pay.reject.why'), submit: t('admin.pay.reject'), kind: 'danger' });
    if (!reason) return;
    const answer = await this.#decideBy(this.#reject, 'reject', { reason: reason.slice(0, 200) });
    if (answer) toast(t('admin.pay.rejected'), { kind: 'good' });
  }

  async #onRefund() {
    const payment = this.#payment;
    const due = payment.paid ?? { minor: payment.amount_minor, currency: payment.currency };
    const amount = money(due.minor, due.currency);
    const isDone = this.#isByHand && payment.state === 'refund_pending';
    const text = !this.#isByHand ? t('admin.pay.refund.card') : isDone ? t('admin.pay.refund.then') : t('admin.pay.refund.first');
    const title = t('admin.pay.refund.title', { amount, name: this.#buyer });
    // That it was sent needs its number: a second click on the same button must not say so.
    const reference = h('input', { maxlength: 60, autocomplete: 'off', required: true });
    const body = isDone ? [h('p', {}, text), h('label', { class: 'field' }, t('admin.pay.refund.reference'), reference)] : [text];
    const yes = await ask({ title, body, answers: [{ label: this.#refund.textContent ?? '', value: 'yes', kind: 'primary' }] });
    if (yes !== 'yes') return;
    const answer = await this.#decideBy(this.#refund, 'refund', isDone ? { sent_reference: reference.value.trim() } : {});
    if (!answer) return;
    if (answer.state === 'refunded') toast(t('admin.pay.refunded'), { kind: 'good' });
    else if (answer.state === 'refund_failed') toast(t('admin.pay.refund.failed'), { kind: 'bad' });
    else toast(t('admin.pay.refund.owed', { name: this.#buyer, amount }));
  }

  /**
   * @param {HTMLButtonElement} button
   * @param {string} what
   * @param {object} body
   * @returns {Promise<Payment | undefined>}
   */
  #decideBy(button, what, body) {
    const path = `/admin/payments/${encodeURIComponent(this.#payment.id)}`;
    return trying(button, async () => {
      try {
        const answer = await this.place.send('POST', `${path}/${what}`, body);
        this.changed(answer);
        return answer;
      } catch (error) {
        if (!(error instanceof Refused) || (error.code !== 'wrong_status' && error.code !== 'conflict')) throw error;
        // Somebody was faster: what it is now says more than the refusal.
        const now = await this.place.get(`/payments/${encodeURIComponent(this.#payment.id)}`);
        if (now.state === this.#payment.state) complain(error);
        else toast(t('admin.pay.decided', { state: t(stateOf(now.state)[0]) }));
        this.changed(now);
        return undefined;
      }
    });
  }
}
