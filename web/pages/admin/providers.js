// Ways to pay: which are on, in which order, and what each needs. Secrets are written and never read.

import { t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { toast, trying } from '../lib/notice.js';
import { keepAgo } from '../lib/times.js';
import { office } from './frame.js';
import { fieldOf, mind, sayField } from './refusals.js';
import { FIELDS, fieldFor, ProviderCard } from './provider-card.js';

/** @typedef {import('./model.js').Provider} Provider */

const LOOK_EVERY_MS = 5_000;
/** Of an account for transfers. */
const NEW_FIELDS = ['name', 'code', 'phone_number', 'account_holder', 'description', 'priority'];

/** @param {import('../lib/place.js').Place} place */
export default function providersPage(place) {
  return office(place, () => t('admin.providers'), async (body) => {
    /** @type {Provider[]} */
    let providers = [];
    /** @type {Map<string, ProviderCard>} */
    const cards = new Map();
    const load = async () => {
      const known = new Map(providers.map((one) => [one.code, one]));
      const { providers: told } = await place.get('/admin/payment-providers');
      // What was changed here meanwhile is newer than a list that was asked for before.
      providers = told.map((/** @type {Provider} */ one) => {
        const own = known.get(one.code);
        return own && own.version > one.version ? own : one;
      });
    };

    const what = h('p', { class: 'soft' });
    const open = h('button', { class: 'button', type: 'button', 'aria-expanded': 'false', onclick: () => unfold(form.hidden) });
    const list = h('div', { class: 'providers' });
    const legend = h('h2');
    const intro = h('p', { class: 'soft' });
    const fields = new Map(NEW_FIELDS.map((name) => [name, fieldFor(name)]));
    const error = h('p', { class: 'bad', role: 'alert' });
    const submit = h('button', { class: 'button primary', type: 'submit' });
    const cancel = h('button', { class: 'button', type: 'button', onclick: () => { unfold(false); open.focus(); } });
    const form = h('form', { class: 'card stack', hidden: true, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void trying(submit, add); } },
      legend, intro, h('div', { class: 'key-form' }, [...fields.values()].map(({ element }) => element)), error, h('div', { class: 'row' }, submit, cancel));
    for (const name of ['name', 'code', 'phone_number', 'account_holder', 'priority']) set(input(name), 'required', true);

    /** @param {string} name */
    function input(name) {
      return /** @type {NonNullable<ReturnType<typeof fields.get>>} */ (fields.get(name)).input;
    }

    /** @param {boolean} isOpen */
    function unfold(isOpen) {
      form.hidden = !isOpen;
      set(open, 'aria-expanded', String(isOpen));
      if (!isOpen) return;
      if (input('priority').value === '') input('priority').value = String(Math.max(0, ...providers.map(({ priority }) => priority)) + 1);
      input('name').focus();
    }

    async function add() {
      const text = (/** @type {string} */ name) => input(name).value.trim();
      mind(form, error, '');
      try {
        await place.send('POST', '/admin/payment-providers', {
          code: text('code'), name: text('name'), description: text('description'), is_automatic: false, is_enabled: false, priority: Number(text('priority')),
          config: { phone_number: text('phone_number'), account_holder: text('account_holder') },
        });
      } catch (problem) {
        return mind(form, error, sayField(problem, (name) => FIELDS[name], text('code')), fieldOf(problem));
      }
      toast(t('admin.way.added', { name: text('name') }), { kind: 'good' });
      form.reset();
      unfold(false);
      await load();
      draw();
      open.focus();
    }

    /** @param {Provider} provider */
    function changed(provider) {
      providers = providers.map((one) => (one.code === provider.code ? provider : one)).sort((a, b) => a.priority - b.priority || a.code.localeCompare(b.code));
      draw();
    }

    function draw() {
      write(what, t('admin.way.what'));
      write(open, t('admin.way.new'));
      write(legend, t('admin.way.new'));
      write(intro, t('admin.way.new.what'));
      write(submit, t('admin.way.add'));
      write(cancel, t('dialog.cancel'));
      for (const { draw: drawField } of fields.values()) drawField();
      keyed(list, providers, ({ code }) => code, (provider) => {
        const card = new ProviderCard(place, provider, changed);
        cards.set(provider.code, card);
        return card.element;
      }, (_, provider) => cards.get(provider.code)?.draw(provider));
    }

    await load();
    // Another administrator may be at the switches.
    place.every(LOOK_EVERY_MS, freshly(place, async () => { await load(); draw(); }));
    keepAgo(place, list);
    place.onLanguage(draw);
    fill(body, h('div', { class: 'row apart' }, what, open), form, list);
  });
}
