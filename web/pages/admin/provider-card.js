// One way to pay: its switch, what it is set to, and a form to change that.

import { t } from '../../i18n/index.js';
import { fill, h, set, write } from '../lib/dom.js';
import { toast, trying } from '../lib/notice.js';
import { drawAgo } from '../lib/times.js';
import { fieldOf, mind, sayField } from './refusals.js';

/**
 * @typedef {import('./model.js').Provider} Provider
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {import('../lib/place.js').Place} Place
 *
 * @typedef {object} FieldKind
 * @property {Key} label
 * @property {Key} hint
 * @property {boolean} [isSecret]
 * @property {boolean} [isSwitch]
 * @property {[string, Key][]} [choices]
 * @property {Record<string, any>} [input]
 */

/** Every field that a form here can have. @type {Record<string, FieldKind>} */
export const FIELDS = {
  name: { label: 'admin.way.f.name', hint: 'admin.way.f.name.hint', input: { maxlength: 100 } },
  description: { label: 'admin.way.f.description', hint: 'admin.way.f.description.hint', input: { maxlength: 500 } },
  priority: { label: 'admin.way.f.priority', hint: 'admin.way.f.priority.hint', input: { type: 'number', min: 0, max: 1000, inputmode: 'numeric' } },
  code: { label: 'admin.way.f.code', hint: 'admin.way.f.code.hint', input: { maxlength: 64, pattern: '[A-Za-z0-9._\\-]+', spellcheck: 'false', autocapitalize: 'off' } },
  merchant_id: { label: 'admin.way.f.merchant_id', hint: 'admin.way.f.merchant_id.hint', input: { maxlength: 100, spellcheck: 'false' } },
  api_key: { label: 'admin.way.f.api_key', hint: 'admin.way.f.api_key.hint', isSecret: true, input: { type: 'password', maxlength: 1000, autocomplete: 'new-password' } },
  environment: {
    label: 'admin.way.f.environment', hint: 'admin.way.f.environment.hint',
    choices: [['sandbox', 'admin.way.f.environment.sandbox'], ['production', 'admin.way.f.environment.production']],
  },
  page_set: { label: 'admin.way.f.page_set', hint: 'admin.way.f.page.hint', input: { maxlength: 100, spellcheck: 'false' } },
  page_name: { label: 'admin.way.f.page_name', hint: 'admin.way.f.page.hint', input: { maxlength: 100, spellcheck: 'false' } },
  accept_3ds_u: { label: 'admin.way.f.accept_3ds_u', hint: 'admin.way.f.accept_3ds_u.hint', isSwitch: true },
  phone_number: { label: 'admin.way.f.phone_number', hint: 'admin.way.f.phone_number.hint', input: { type: 'tel', maxlength: 30 } },
  account_holder: { label: 'admin.way.f.account_holder', hint: 'admin.way.f.account_holder.hint', input: { maxlength: 100 } },
};

/** What each sort is configured by. */
const AUTOMATIC = ['merchant_id', 'api_key', 'environment', 'page_set', 'page_name', 'accept_3ds_u'];
const MANUAL = ['phone_number', 'account_holder'];

/** A field with its name and what is expected. @param {string} name */
export function fieldFor(name) {
  const kind = /** @type {FieldKind} */ (FIELDS[name]);
  const [label, hint] = [h('span'), h('span', { class: 'hint' })];
  const input = /** @type {HTMLInputElement} */ (kind.choices ? /** @type {unknown} */ (h('select', { name }, kind.choices.map(([value]) => h('option', { value }))))
    : kind.isSwitch ? h('input', { type: 'checkbox', name }) : h('input', { name, autocomplete: 'off', ...kind.input }));
  const element = kind.isSwitch ? h('label', { class: 'check' }, input, h('span', {}, label, hint)) : h('label', { class: 'field' }, label, input, hint);
  return {
    element, input,
    /** @param {Key} [otherHint] */
    draw(otherHint) {
      write(label, t(kind.label));
      write(hint, t(otherHint ?? kind.hint));
      if (kind.choices) kind.choices.forEach(([, key], index) => write(/** @type {Element} */ (input.children[index]), t(key)));
    },
  };
}

export class ProviderCard {
  #name = h('h2');
  #sort = h('p', { class: 'soft small-text' });
  #state = h('span', { class: 'state' });
  #switch = h('button', { class: 'switch', type: 'button', role: 'switch', onclick: () => { void this.#toggle(); } }, h('span', { class: 'knob', 'aria-hidden': 'true' }));
  #missing = h('p', { class: 'note', hidden: true });
  #facts = h('dl', { class: 'facts' });
  #when = h('time', { class: 'soft small-text' });
  #edit = h('button', { class: 'button', type: 'button', onclick: () => this.#unfold(true) });
  #error = h('p', { class: 'bad', role: 'alert' });
  #save = h('button', { class: 'button primary', type: 'submit' });
  #cancel = h('button', { class: 'button', type: 'button', onclick: () => { this.#unfold(false); this.#edit.focus(); } });
  /** As it was when the form was opened. @type {Provider} */
  #opened;
  /** @type {Map<string, ReturnType<typeof fieldFor>>} */
  #fields = new Map();
  #form = h('form', { class: 'stack', hidden: true, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void trying(this.#save, () => this.#send()); } });
  #foot = h('div', { class: 'row apart' }, this.#when, this.#edit);
  element = h('section', { class: 'card stack provider' },
    h('div', { class: 'row apart nowrap' }, h('div', {}, this.#name, this.#sort), h('span', { class: 'row nowrap' }, this.#state, this.#switch)),
    this.#missing, this.#facts, this.#form, this.#foot);

  /** @param {Place} place @param {Provider} provider @param {(provider: Provider) => void} changed */
  constructor(place, provider, changed) {
    this.place = place;
    this.provider = provider;
    this.#opened = provider;
    this.changed = changed;
    for (const name of ['name', 'description', 'priority', ...this.#config]) this.#fields.set(name, fieldFor(name));
    for (const name of ['name', 'priority']) set(this.#input(name), 'required', true);
    this.#form.append(h('div', { class: 'key-form' }, ...[...this.#fields.values()].map(({ element }) => element)), this.#error, h('div', { class: 'row' }, this.#save, this.#cancel));
  }

  get #config() {
    return this.provider.is_automatic ? AUTOMATIC : MANUAL;
  }

  /** @param {string} name */
  #input(name) {
    return /** @type {ReturnType<typeof fieldFor>} */ (this.#fields.get(name)).input;
  }

  /** @param {Provider} provider */
  draw(provider) {
    this.provider = provider;
    const { name, is_enabled: isOn, missing } = provider;
    write(this.#name, name);
    write(this.#sort, provider.is_automatic ? t('admin.way.automatic') : t('admin.way.manual'));
    write(this.#state, isOn ? t('admin.way.on') : t('admin.way.off'));
    set(this.#switch, 'aria-checked', String(isOn));
    set(this.#switch, 'aria-label', t('admin.way.switch', { name }));
    set(this.element, 'data-on', isOn && missing.length === 0);
    this.#missing.hidden = missing.length === 0;
    write(this.#missing, t('admin.way.missing', { fields: missing.map((field) => label(field)).join(', ') }));
    const facts = [
      [t('admin.way.f.description'), provider.description || '—'],
      [t('admin.way.f.priority'), String(provider.priority)],
      [t('admin.way.f.code'), provider.code],
      ...this.#config.map((field) => [label(field), this.#value(field)]),
    ];
    const said = JSON.stringify(facts);
    if (this.#facts.dataset.said !== said) {
      this.#facts.dataset.said = said;
      fill(this.#facts, facts.map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', {}, value))));
    }
    this.#when.hidden = !provider.updated_at;
    drawAgo(this.#when, provider.updated_at, (ago) => t('admin.way.changed', { ago }));
    write(this.#edit, t('admin.way.edit'));
    set(this.#edit, 'aria-label', t('admin.way.edit.name', { name }));
    write(this.#save, t('admin.save'));
    write(this.#cancel, t('dialog.cancel'));
    for (const [field, { draw }] of this.#fields) draw(FIELDS[field]?.isSecret && provider.config[field] ? 'admin.way.secret.keep' : undefined);
  }

  /** @param {string} field */
  #value(field) {
    const value = this.provider.config[field];
    const kind = FIELDS[field];
    if (kind?.isSwitch) return value === true ? t('admin.way.yes') : t('admin.way.no');
    if (value === undefined) return t('admin.way.none');
    if (kind?.isSecret) return t('admin.way.secret.set');
    const choice = kind?.choices?.find(([name]) => name === value);
    return choice ? t(choice[1]) : String(value);
  }

  /** @param {boolean} isOpen */
  #unfold(isOpen) {
    this.#form.hidden = !isOpen;
    this.#facts.hidden = isOpen;
    this.#foot.hidden = isOpen;
    if (!isOpen) return;
    mind(this.#form, this.#error, '');
    const { name, description, priority, config } = this.#opened = this.provider;
    for (const [field, value] of Object.entries({ name, description, priority: String(priority) })) this.#input(field).value = value;
    for (const field of this.#config) {
      const kind = FIELDS[field];
      if (kind?.isSwitch) this.#input(field).checked = config[field] === true;
      else this.#input(field).value = kind?.isSecret ? '' : String(config[field] ?? kind?.choices?.[0]?.[0] ?? '');
    }
    this.#input('name').focus();
  }

  async #toggle() {
    const isOn = !this.provider.is_enabled;
    const { name } = this.provider;
    await trying(this.#switch, async () => {
      try {
        this.changed(await this.#patch({ is_enabled: isOn }));
      } catch (problem) {
        if (fieldOf(problem) === '') throw problem;
        // It cannot be on like that: here is what it needs.
        this.#unfold(true);
        return mind(this.#form, this.#error, sayField(problem, (field) => FIELDS[field]), fieldOf(problem));
      }
      toast(isOn ? t('admin.way.now_on', { name }) : t('admin.way.now_off', { name }), { kind: 'good' });
    });
  }

  async #send() {
    mind(this.#form, this.#error, '');
    const text = (/** @type {string} */ field) => this.#input(field).value.trim();
    /** @type {Record<string, string | boolean | null>} */
    const config = {};
    for (const field of this.#config) {
      const kind = FIELDS[field];
      // Against what was shown when it was opened: what another changed meanwhile is not undone by this.
      const was = this.#opened.config[field];
      if (kind?.isSwitch) {
        if (this.#input(field).checked !== (was === true)) config[field] = this.#input(field).checked;
      } else if (text(field) !== (kind?.isSecret ? '' : String(was ?? ''))) {
        // Empty takes it away; a secret that is left empty stays.
        config[field] = text(field) === '' ? null : text(field);
      }
    }
    try {
      /** @type {Record<string, unknown>} */
      const wish = Object.keys(config).length > 0 ? { config } : {};
      const { name, description, priority } = this.#opened;
      if (text('name') !== name) wish.name = text('name');
      if (text('description') !== description) wish.description = text('description');
      if (Number(text('priority')) !== priority) wish.priority = Number(text('priority'));
      this.changed(await this.#patch(wish));
    } catch (problem) {
      return mind(this.#form, this.#error, sayField(problem, (field) => FIELDS[field]), fieldOf(problem));
    }
    toast(t('admin.way.saved', { name: this.provider.name }), { kind: 'good' });
    this.#unfold(false);
    this.#edit.focus();
  }

  /** @param {object} change @returns {Promise<Provider>} */
  #patch(change) {
    return this.place.send('PATCH', `/admin/payment-providers/${encodeURIComponent(this.provider.code)}`, change);
  }
}

/** @param {string} field */
const label = (field) => (FIELDS[field] ? t(FIELDS[field].label) : field);
