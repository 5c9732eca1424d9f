// A field for an amount, which says how it was read before anything is sent.

import { t } from '../../i18n/index.js';
import { h, set, write } from '../lib/dom.js';
import { money, parseMoney, plainMoney } from '../lib/money.js';

export class AmountField {
  #label = h('span');
  #hint = h('span', { class: 'hint' });
  input = h('input', { inputmode: 'decimal', required: true, autocomplete: 'off', maxlength: 30 });
  element = h('label', { class: 'field amount' }, this.#label, this.input, this.#hint);
  #words = { label: '', hint: '' };

  /** @param {string} name @param {() => string} currency @param {(minor: number, currency: string) => string} [shown] As the amounts around it. */
  constructor(name, currency, shown = (minor, code) => money(minor, code)) {
    this.input.name = name;
    this.currency = currency;
    this.shown = shown;
    this.input.addEventListener('input', () => this.#echo());
  }

  /** @param {string} label @param {string} hint */
  draw(label, hint) {
    this.#words = { label, hint };
    write(this.#label, label);
    // What is wrong with it stays until it is typed anew.
    if (!this.input.hasAttribute('aria-invalid')) this.#echo();
  }

  /** In minor units. @returns {number | undefined} */
  get minor() {
    return parseMoney(this.input.value, this.currency());
  }

  /** Says so if it cannot be read. @returns {number | undefined} */
  take() {
    const { minor } = this;
    set(this.input, 'aria-invalid', minor === undefined && 'true');
    if (minor === undefined) {
      write(this.#hint, t('admin.amount.wrong', { example: plainMoney(1_234_500, this.currency()) }));
      this.input.focus();
    }
    return minor;
  }

  clear() {
    this.input.value = '';
    this.#echo();
  }

  #echo() {
    const { minor } = this;
    set(this.input, 'aria-invalid', null);
    write(this.#hint, minor === undefined ? this.#words.hint : t('admin.amount.read', { amount: this.shown(minor, this.currency()) }));
  }
}
