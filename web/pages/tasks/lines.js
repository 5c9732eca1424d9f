// A task's lines: text for whoever looks on, fields for whoever works on it. What is typed and not yet saved is
// kept, also while the lock is in doubt; where somebody else changed the same field meanwhile, both are shown.

import { formatNumber } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { failureOf, lineStatusOf, serialsOf } from './model.js';

/**
 * @typedef {import('./model.js').Line} Line
 * @typedef {import('./model.js').Direction} Direction
 * @typedef {import('./model.js').Mode} Mode
 * @typedef {import('../../i18n/index.js').Key} Key
 *
 * @typedef {'product' | 'direction' | 'count'} FieldName
 * @typedef {{value: string, base: string, isDue?: boolean}} Draft What is typed, what stood there when that began,
 *   and whether it should have been saved already.
 *
 * @typedef {object} Actions
 * @property {(line: Line, change: object) => Promise<boolean>} save
 * @property {(line: Line, button: HTMLButtonElement) => void} validate
 */

/** @type {FieldName[]} */
const FIELDS = ['product', 'direction', 'count'];
/** @type {Record<FieldName, Key>} */
const LABELS = { product: 'line.product', direction: 'line.direction', count: 'line.count' };
/** @type {Record<Direction, Key>} */
export const DIRECTIONS = { in: 'line.in', out: 'line.out' };
/** @type {Record<Mode, Key>} */
export const MODES = { quantity: 'line.mode.quantity', serialized: 'line.mode.serialized' };

/** A field's value as it stands in the field. @param {Line} line @param {FieldName} name */
function valueOf(line, name) {
  if (name === 'product') return line.product;
  if (name === 'direction') return line.direction;
  return line.mode === 'serialized' ? (line.serials ?? []).join(', ') : String(line.quantity ?? '');
}

/** What to ask of the server. @param {Line} line @param {FieldName} name @param {string} value */
function changeOf(line, name, value) {
  if (name === 'product') return { product: value.trim() };
  if (name === 'direction') return { direction: value };
  return line.mode === 'serialized' ? { serials: serialsOf(value) } : { quantity: Number(value) };
}

/** A value as text. @param {Line} line @param {FieldName} name @param {string} value */
function say(line, name, value) {
  if (name === 'direction') return t(DIRECTIONS[/** @type {Direction} */ (value)] ?? 'line.in');
  return value;
}

export class Lines {
  element = h('ol', { class: 'lines' });
  /** line → field → draft. @type {Map<string, Map<FieldName, Draft>>} */
  #drafts = new Map();
  /** @type {Line[]} */
  #lines = [];
  #isEditable = false;
  /** Lines that are being saved. @type {Set<string>} */
  #saving = new Set();

  /** @param {Actions} actions */
  constructor(actions) {
    this.actions = actions;
  }

  /** Something is typed and not saved. */
  get isDirty() {
    return [...this.#drafts.values()].some((drafts) => drafts.size > 0);
  }

  /** @type {Map<string, number> | undefined} */
  #stock;

  /** @param {Line[]} lines @param {boolean} isEditable @param {Map<string, number>} [stock] */
  draw(lines, isEditable, stock = this.#stock) {
    this.#lines = lines;
    this.#stock = stock;
    this.#isEditable = isEditable;
    set(this.element, 'aria-label', t('task.lines'));
    this.element.classList.toggle('editable', isEditable);
    keyed(this.element, lines, ({ id }) => id, () => h('li', { class: 'line' }), (row, line) => this.#drawLine(row, line));
  }

  /** @param {HTMLElement} row @param {Line} line */
  #drawLine(row, line) {
    const canEdit = this.#isEditable && line.status !== 'applied';
    const shape = `${canEdit}-${line.mode}`;
    if (row.dataset.shape !== shape) {
      row.dataset.shape = shape;
      fill(row, h('span', { class: 'n figures soft' }, line.id),
        FIELDS.map((name) => this.#makeField(line, name, canEdit)),
        h('div', { class: 'state' }, h('span', { class: 'tag' }), canEdit && h('button', { class: 'button validate', type: 'button' })),
        h('p', { class: 'wrong bad', hidden: true }));
      row.querySelector('.validate')?.addEventListener('click', (event) => {
        const now = this.#lines.find(({ id }) => id === line.id);
        if (now) this.actions.validate(now, /** @type {HTMLButtonElement} */ (event.currentTarget));
      });
    }
    set(row, 'data-status', line.status);
    set(row, 'data-fields', line.status !== 'applied' && line.mode);
    set(row, 'aria-busy', this.#saving.has(line.id) && 'true');
    for (const name of FIELDS) this.#drawField(row, line, name, canEdit);
    const [key, kind] = lineStatusOf(line.status);
    const tag = /** @type {HTMLElement} */ (row.querySelector('.tag'));
    write(tag, t(key));
    set(tag, 'class', `tag ${kind}`);
    const validate = row.querySelector('.validate');
    if (validate instanceof HTMLButtonElement) {
      write(validate, t('line.validate'));
      set(validate, 'aria-label', t('line.validate.label', { n: line.id, product: line.product }));
      validate.hidden = line.status === 'validated';
    }
    const wrong = /** @type {HTMLElement} */ (row.querySelector('.wrong'));
    wrong.hidden = !line.error;
    write(wrong, line.error ? t(failureOf(line.error.reason)) : '');
    set(wrong, 'title', line.error?.message);
  }

  /** @param {Line} line @param {FieldName} name @param {boolean} canEdit */
  #makeField(line, name, canEdit) {
    const label = h('span', { class: 'above' }, h('span', { class: 'label' }), name === 'count' && h('span', { class: 'stock figures' }));
    if (!canEdit) return h('div', { class: `f f-${name}`, 'data-field': name }, label, h('div', { class: 'read' }, h('span', { class: 'value figures' }), h('span', { class: 'unsaved' })));
    const field = name === 'direction'
      ? h('select', { name }, Object.keys(DIRECTIONS).map((value) => h('option', { value })))
      : name === 'count' && line.mode === 'quantity'
        ? h('input', { name, type: 'number', min: 1, max: 1_000_000_000, step: 1, required: true, inputmode: 'numeric' })
        : h('input', { name, required: true, autocomplete: 'off', spellcheck: 'false', ...(name === 'product' && { maxlength: 64, pattern: '[A-Za-z0-9._\\-]+' }) });
    const current = () => this.#lines.find(({ id }) => id === line.id) ?? line;
    field.addEventListener('input', () => this.#type(current(), name, field.value));
    field.addEventListener('change', () => {
      // A field that is taken away says so too; what stands in it is half typed.
      const isGoing = !this.#isEditable || current().status === 'applied';
      if (!isGoing && field.reportValidity()) void this.#save(current(), name);
    });
    field.addEventListener('keydown', (event) => {
      if (/** @type {KeyboardEvent} */ (event).key !== 'Escape') return;
      this.#drafts.get(line.id)?.delete(name);
      this.draw(this.#lines, this.#isEditable);
    });
    const conflict = h('div', { class: 'conflict small-text', hidden: true, role: 'status' }, h('span'),
      h('button', { class: 'button', type: 'button', onclick: () => { void this.#keepMine(current(), name); } }),
      h('button', { class: 'button', type: 'button', onclick: () => this.#takeTheirs(current(), name) }));
    return h('div', { class: `f f-${name}`, 'data-field': name }, h('label', {}, label, field), conflict);
  }

  /** @param {HTMLElement} row @param {Line} line @param {FieldName} name @param {boolean} canEdit */
  #drawField(row, line, name, canEdit) {
    const box = /** @type {HTMLElement} */ (row.querySelector(`[data-field=${name}]`));
    const at = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (box.querySelector(selector));
    write(at('.label'), name === 'count' ? t(MODES[line.mode]) : t(LABELS[name]));
    const inStock = line.status === 'applied' ? undefined : this.#stock?.get(line.product);
    if (name === 'count') write(at('.stock'), inStock === undefined ? '' : t('line.stock', { n: formatNumber(inStock, language()) }));
    const value = valueOf(line, name);
    const draft = this.#drafts.get(line.id)?.get(name);
    if (!canEdit) {
      write(at('.value'), say(line, name, value));
      return write(at('.unsaved'), draft && draft.value !== value ? t('line.unsaved', { value: say(line, name, draft.value) }) : '');
    }
    const field = /** @type {HTMLInputElement | HTMLSelectElement} */ (box.querySelector('input, select'));
    if (field instanceof HTMLSelectElement) for (const option of field.options) write(option, say(line, name, option.value));
    const wanted = draft?.value ?? value;
    if (field.value !== wanted) field.value = wanted;
    set(field, 'aria-label', `${line.id}. ${at('.label').textContent}`);
    const isConflict = Boolean(draft && draft.base !== value && draft.value !== value);
    const conflict = at('.conflict');
    conflict.hidden = !isConflict;
    if (!isConflict) return undefined;
    const [text, keep, take] = /** @type {[HTMLElement, HTMLElement, HTMLElement]} */ ([...conflict.children]);
    write(text, t('line.conflict', { value: say(line, name, value) }));
    write(keep, t('line.conflict.mine'));
    return write(take, t('line.conflict.theirs'));
  }

  /** @param {Line} line @param {FieldName} name @param {string} value */
  #type(line, name, value) {
    const drafts = this.#drafts.get(line.id) ?? new Map();
    this.#drafts.set(line.id, drafts);
    const base = drafts.get(name)?.base ?? valueOf(line, name);
    // Not due: what is half typed is not saved by itself.
    drafts.set(name, { value, base });
  }

  /** @param {Line} line @param {FieldName} name */
  async #save(line, name) {
    const drafts = this.#drafts.get(line.id);
    const draft = drafts?.get(name);
    if (!drafts || !draft) return;
    draft.isDue = true;
    const there = valueOf(line, name);
    if (draft.value === there) {
      drafts.delete(name);
      return this.draw(this.#lines, this.#isEditable);
    }
    // Somebody else changed it meanwhile: that is for the person to decide.
    if (draft.base !== there) return this.draw(this.#lines, this.#isEditable);
    this.#saving.add(line.id);
    this.draw(this.#lines, this.#isEditable);
    const isSaved = await this.actions.save(line, changeOf(line, name, draft.value));
    this.#saving.delete(line.id);
    // Typed on while it was saved: that is the next change.
    if (isSaved && drafts.get(name)?.value === draft.value) drafts.delete(name);
    this.draw(this.#lines, this.#isEditable);
  }

  /** @param {Line} line @param {FieldName} name */
  async #keepMine(line, name) {
    const draft = this.#drafts.get(line.id)?.get(name);
    if (!draft) return;
    draft.base = valueOf(line, name);
    await this.#save(line, name);
  }

  /** @param {Line} line @param {FieldName} name */
  #takeTheirs(line, name) {
    this.#drafts.get(line.id)?.delete(name);
    this.draw(this.#lines, this.#isEditable);
  }

  /** What was typed and could not be saved, once it can be. */
  async saveDrafts() {
    for (const [id, drafts] of [...this.#drafts]) {
      for (const [name, draft] of [...drafts]) {
        if (!draft.isDue) continue;
        const line = this.#lines.find((one) => one.id === id);
        if (line && this.#isEditable) await this.#save(line, name);
      }
    }
  }
}
