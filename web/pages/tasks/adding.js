// A form for one more line.

import { t } from '../../i18n/index.js';
import { fill, h, set, write } from '../lib/dom.js';
import { DIRECTIONS, MODES } from './lines.js';
import { serialsOf } from './model.js';

/** @typedef {import('./model.js').Mode} Mode */

export class Adding {
  #product = h('input', { name: 'product', required: true, maxlength: 64, pattern: '[A-Za-z0-9._\\-]+', autocomplete: 'off', spellcheck: 'false', list: 'products-known' });
  #known = h('datalist', { id: 'products-known' });
  #mode = h('select', { name: 'mode' }, Object.keys(MODES).map((value) => h('option', { value })));
  #direction = h('select', { name: 'direction' }, Object.keys(DIRECTIONS).map((value) => h('option', { value })));
  #count = h('input', { name: 'count', required: true, autocomplete: 'off' });
  #texts = { product: h('span'), mode: h('span'), direction: h('span'), count: h('span') };
  #button = h('button', { class: 'button', type: 'submit' });
  element = h('form', { class: 'adding card' },
    h('label', { class: 'field f-product' }, this.#texts.product, this.#product),
    h('label', { class: 'field f-direction' }, this.#texts.direction, this.#direction),
    h('label', { class: 'field f-mode' }, this.#texts.mode, this.#mode),
    h('label', { class: 'field f-count' }, this.#texts.count, this.#count),
    this.#button, this.#known);

  /** @param {(line: object, button: HTMLButtonElement) => Promise<boolean>} add */
  constructor(add) {
    this.#mode.addEventListener('change', () => this.#suit());
    this.element.addEventListener('submit', async (event) => {
      event.preventDefault();
      const isDone = await add(this.#line(), this.#button);
      if (!isDone) return;
      this.#product.value = '';
      this.#count.value = '';
      this.#product.focus();
    });
    this.#suit();
  }

  /** @type {Map<string, number> | undefined} */
  #stock;

  /** @param {boolean} isShown @param {Map<string, number>} [stock] */
  draw(isShown, stock = this.#stock) {
    this.element.hidden = !isShown;
    if (!isShown) return;
    if (stock !== this.#stock) fill(this.#known, [...(stock?.keys() ?? [])].map((value) => h('option', { value })));
    this.#stock = stock;
    write(this.#texts.product, t('line.product'));
    write(this.#texts.mode, t('line.mode'));
    write(this.#texts.direction, t('line.direction'));
    write(this.#texts.count, t(MODES[/** @type {Mode} */ (this.#mode.value)]));
    for (const option of this.#mode.options) write(option, t(MODES[/** @type {Mode} */ (option.value)]));
    for (const option of this.#direction.options) write(option, t(DIRECTIONS[/** @type {import('./model.js').Direction} */ (option.value)]));
    write(this.#button, t('line.add'));
    set(this.#product, 'title', t('line.product.hint'));
    set(this.#count, 'placeholder', this.#mode.value === 'serialized' ? t('line.serials.hint') : undefined);
  }

  /** Serial numbers are text, a quantity is a number. */
  #suit() {
    const isNumber = this.#mode.value === 'quantity';
    this.#count.value = '';
    this.#count.type = isNumber ? 'number' : 'text';
    set(this.#count, 'min', isNumber && '1');
    set(this.#count, 'max', isNumber && '1000000000');
    set(this.#count, 'inputmode', isNumber && 'numeric');
    this.draw(!this.element.hidden);
  }

  #line() {
    const isNumber = this.#mode.value === 'quantity';
    const count = isNumber ? { quantity: Number(this.#count.value) } : { serials: serialsOf(this.#count.value) };
    return { product: this.#product.value.trim(), mode: this.#mode.value, direction: this.#direction.value, ...count };
  }
}
