// A transfer by hand: where to, exactly how much, with which words; then the form that tells it.

import { t } from '../../i18n/index.js';
import { part } from '../../sdk/src/http.js';
import { Refused } from '../../sdk/tenure.js';
import { copyText } from '../lib/copy.js';
import { fill, h, set, write } from '../lib/dom.js';
import { money, parseMoney, plainAmount, plainMoney } from '../lib/money.js';
import { change, explain } from './model.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Payment} Payment
 * @typedef {import('../../i18n/index.js').Key} Key
 */

const COPIED_MS = 2_000;

/** What the server says of each field. @type {Record<string, Key>} */
const WRONG = { reference: 'sinpe.wrong.reference', payer_phone: 'sinpe.wrong.phone', amount_minor: 'sinpe.wrong.amount' };
/** What must be given, how much of it at least, and what is said otherwise. The browser would say it in a language of its own. */
const NEEDED = /** @type {const} */ ([['reference', 6, 'sinpe.wrong.reference'], ['phone', 8, 'sinpe.wrong.phone'], ['amount', 1, 'sinpe.wrong.amount']]);
/** Said before, or being compared. @type {[RegExp, Key][]} */
const SPOKEN_FOR = [[/told before/, 'sinpe.wrong.told'], [/being compared/, 'sinpe.wrong.waiting']];

export class Transfer {
  #fields = {
    reference: h('input', { name: 'reference', required: true, minlength: 6, maxlength: 60, autocomplete: 'off', spellcheck: 'false', inputmode: 'numeric' }),
    phone: h('input', { name: 'phone', type: 'tel', required: true, minlength: 8, maxlength: 30, autocomplete: 'tel' }),
    amount: h('input', { name: 'amount', required: true, inputmode: 'decimal', autocomplete: 'off' }),
    name: h('input', { name: 'name', maxlength: 100, autocomplete: 'name' }),
    bank: h('input', { name: 'bank', maxlength: 100, autocomplete: 'off' }),
    at: h('input', { name: 'at', type: 'datetime-local' }),
  };
  #steps = h('section', { class: 'card stack transfer' });
  #heading = h('h2');
  #hint = h('p', { class: 'soft small-text' });
  #labels = { reference: h('span'), phone: h('span'), amount: h('span'), name: h('span'), bank: h('span'), at: h('span') };
  #summary = h('summary');
  /** Stands below the field that it is about. */
  #note = h('p', { id: 'transfer-note', class: 'note small-text bad', role: 'alert', hidden: true });
  #button = h('button', { class: 'button primary big', type: 'submit' });
  #form = h('form', { class: 'card stack tell', novalidate: true, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void this.#tell(); } },
    this.#heading, this.#hint, this.#label('reference'), this.#label('phone'), this.#label('amount'),
    h('details', {}, this.#summary, h('div', { class: 'stack' }, this.#label('name'), this.#label('bank'), this.#label('at'))),
    this.#note, this.#button);
  element = h('div', { class: 'stack', hidden: true }, this.#steps, this.#form);
  /** @type {Payment | undefined} */ #payment;
  #said = h('p', { class: 'unseen', role: 'status' });

  /** @param {Place} place @param {(told: Payment) => void} take */
  constructor(place, take) {
    this.place = place;
    this.take = take;
    this.element.append(this.#said);
  }

  /** @param {'reference' | 'phone' | 'amount' | 'name' | 'bank' | 'at'} name */
  #label(name) {
    return h('label', { class: 'field' }, this.#labels[name], this.#fields[name]);
  }

  /** @param {Payment} payment @param {boolean} isShown */
  draw(payment, isShown) {
    this.element.hidden = !isShown;
    const { instructions } = payment;
    if (!isShown || !instructions) return;
    if (!this.#payment) this.#fields.amount.value = plainMoney(payment.amount_minor, payment.currency, false);
    this.#payment = payment;
    this.#drawTexts();
    const word = `${document.documentElement.lang}|${payment.id}`;
    if (this.#steps.dataset.says === word) return;
    this.#steps.dataset.says = word;
    const amount = money(payment.amount_minor, payment.currency);
    fill(this.#steps, h('h2', {}, t('sinpe.first')), h('dl', { class: 'copies' },
      this.#copied(t('sinpe.phone'), instructions.phone_number, instructions.phone_number.replace(/\D/g, ''), 'large'),
      this.#copied(t('sinpe.amount'), amount, plainAmount(payment.amount_minor, payment.currency), 'large'),
      this.#copied(t('sinpe.code'), instructions.order_code, instructions.order_code, ''),
      h('div', { class: 'copy' }, h('dt', {}, t('sinpe.holder')), h('dd', {}, instructions.account_holder))),
    h('p', { class: 'small-text soft' }, t('sinpe.exact', { amount })));
  }

  #drawTexts() {
    write(this.#heading, t('sinpe.then'));
    write(this.#hint, t('sinpe.hint'));
    write(this.#labels.reference, t('sinpe.reference'));
    write(this.#labels.phone, t('sinpe.payer_phone'));
    write(this.#labels.amount, t('sinpe.sent'));
    write(this.#labels.name, t('sinpe.payer_name'));
    write(this.#labels.bank, t('sinpe.payer_bank'));
    write(this.#labels.at, t('sinpe.at'));
    write(this.#summary, t('sinpe.optional'));
    write(this.#button, t('sinpe.send'));
  }

  /** @param {string} name @param {string} shown @param {string} text @param {string} look */
  #copied(name, shown, text, look) {
    const button = h('button', { class: 'button copy-it', type: 'button', 'aria-label': t('sinpe.copy.label', { what: name }) }, t('sinpe.copy'));
    button.addEventListener('click', async () => {
      const isDone = await copyText(text);
      write(this.#said, isDone ? t('sinpe.copied.label', { what: name }) : t('sinpe.copy.failed'));
      if (!isDone) return;
      write(button, t('sinpe.copied'));
      set(button, 'aria-label', t('sinpe.copied.label', { what: name }));
      setTimeout(() => {
        write(button, t('sinpe.copy'));
        set(button, 'aria-label', t('sinpe.copy.label', { what: name }));
        write(this.#said, '');
      }, COPIED_MS);
    });
    return h('div', { class: 'copy' }, h('dt', {}, name), h('dd', { class: `figures ${look}` }, shown), h('dd', {}, button));
  }

  async #tell() {
    const payment = this.#payment;
    if (!payment || this.#button.getAttribute('aria-busy') === 'true') return;
    const fields = this.#fields;
    for (const [name, least, wrong] of NEEDED) {
      const { length } = fields[name].value.trim();
      if (length === 0) return this.#wrong(t('sinpe.missing', { what: this.#labels[name].textContent ?? '' }), fields[name]);
      if (length < least) return this.#wrong(t(wrong), fields[name]);
    }
    const amount = parseMoney(fields.amount.value, payment.currency);
    // Nobody tells that nothing was sent.
    if (!amount) return this.#wrong(t('sinpe.wrong.amount'), fields.amount);
    this.#wrong('');
    this.#button.setAttribute('aria-busy', 'true');
    try {
      const { body } = await change(this.place, 'POST', `/payments/${part(payment.id)}/transfer`, {
        reference: fields.reference.value.trim(), payer_phone: fields.phone.value.trim(), amount_minor: amount,
        ...(fields.name.value.trim() && { payer_name: fields.name.value.trim() }),
        ...(fields.bank.value.trim() && { payer_bank: fields.bank.value.trim() }),
        ...(fields.at.value && { transferred_at: new Date(fields.at.value).toISOString() }),
      });
      this.take(body);
    } catch (error) {
      this.#refused(error);
    } finally {
      this.#button.removeAttribute('aria-busy');
    }
  }

  /** @param {unknown} error */
  #refused(error) {
    if (!(error instanceof Refused) || error.code !== 'invalid') return this.#wrong(explain(error));
    const field = String(error.problem.field);
    const spoken = SPOKEN_FOR.find(([pattern]) => pattern.test(error.message));
    const key = spoken?.[1] ?? WRONG[field];
    const input = field === 'reference' ? this.#fields.reference : field === 'payer_phone' ? this.#fields.phone : field === 'amount_minor' ? this.#fields.amount : undefined;
    return this.#wrong(key ? t(key) : explain(error), input);
  }

  /** @param {string} text @param {HTMLInputElement} [field] */
  #wrong(text, field) {
    for (const one of Object.values(this.#fields)) {
      set(one, 'aria-invalid', one === field && 'true');
      set(one, 'aria-describedby', one === field && this.#note.id);
    }
    const label = field?.closest('label');
    if (label) label.after(this.#note);
    else this.#button.before(this.#note);
    this.#note.hidden = text === '';
    write(this.#note, text);
    field?.focus();
  }
}
