// Raffles: how far each is, what it has brought so far, and a form for a new one.

import { language, t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { CURRENCIES, money } from '../lib/money.js';
import { toast, trying } from '../lib/notice.js';
import { clockTime } from '../lib/times.js';
import { charts, SALES } from '../console/charts.js';
import { AmountField } from './amount.js';
import { drawProgress, progress } from './counts.js';
import { office } from './frame.js';
import { collectionOf, RAFFLE_STATUSES, rafflePath } from './model.js';
import { fieldOf, mind, sayField } from './refusals.js';

/**
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('../../i18n/index.js').Key} Key
 */

const LOOK_EVERY_MS = 15_000;
const STREAMS_MAX = 6;
const PAGE = 200;
/** How many are counted; a list has no counts. */
const COUNTED_MAX = 40;
/** What sells comes first. */
const ORDER = ['active', 'paused', 'draft', 'drawn'];

/** @type {Record<string, {label: Key, hint: Key}>} */
const FIELDS = {
  title: { label: 'admin.raffle.f.title', hint: 'admin.raffle.f.title.hint' },
  id: { label: 'admin.raffle.f.id', hint: 'admin.raffle.f.id.hint' },
  numbers: { label: 'admin.raffle.f.numbers', hint: 'admin.raffle.f.numbers.hint' },
  price_minor: { label: 'admin.raffle.f.price_minor', hint: 'admin.raffle.f.price_minor.hint' },
  draw_at: { label: 'admin.raffle.f.draw_at', hint: 'admin.raffle.f.draw_at.hint' },
};

/** @param {import('../lib/place.js').Place} place */
export default function rafflesPage(place) {
  return office(place, () => t('admin.raffles'), async (body) => {
    /** @type {Map<string, Raffle>} */
    const raffles = new Map();
    let text = '';

    const open = h('button', { class: 'button primary', type: 'button', 'aria-expanded': 'false', onclick: () => unfold(form.hidden) });
    const list = h('div', { class: 'raffles' });
    const none = h('div', { class: 'empty stack', hidden: true });
    const fields = {
      title: h('input', { name: 'title', required: true, maxlength: 200, autocomplete: 'off' }),
      numbers: h('input', { name: 'numbers', type: 'number', required: true, min: 1, max: 100_000, inputmode: 'numeric', '.value': '100' }),
      draw_at: h('input', { name: 'draw_at', type: 'datetime-local' }),
      id: h('input', { name: 'id', maxlength: 64, pattern: '[A-Za-z0-9._\\-]+', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' }),
    };
    const currency = h('select', { name: 'currency', onchange: () => draw() }, CURRENCIES.map((code) => h('option', { value: code }, code)));
    const price = new AmountField('price_minor', () => currency.value);
    const labels = { title: h('span'), numbers: h('span'), draw_at: h('span'), id: h('span') };
    const hints = { title: h('span', { class: 'hint' }), numbers: h('span', { class: 'hint' }), draw_at: h('span', { class: 'hint' }), id: h('span', { class: 'hint' }) };
    const currencyLabel = h('span');
    const legend = h('h2');
    const law = h('p', { class: 'soft small-text' });
    const error = h('p', { class: 'bad', role: 'alert' });
    const submit = h('button', { class: 'button primary', type: 'submit' });
    const cancel = h('button', { class: 'button', type: 'button', onclick: () => { unfold(false); open.focus(); } });
    const field = (/** @type {keyof typeof fields} */ name) => h('label', { class: 'field' }, labels[name], fields[name], hints[name]);
    const form = h('form', { class: 'card stack', hidden: true, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void trying(submit, make); } },
      legend, h('div', { class: 'key-form' }, field('title'), field('numbers'), price.element, h('label', { class: 'field' }, currencyLabel, currency), field('draw_at'), field('id')),
      law, error, h('div', { class: 'row' }, submit, cancel));

    /** @param {boolean} isOpen */
    function unfold(isOpen) {
      form.hidden = !isOpen;
      set(open, 'aria-expanded', String(isOpen));
      if (isOpen) fields.title.focus();
    }

    async function make() {
      mind(form, error, '');
      const minor = price.take();
      if (minor === undefined) return;
      const [id, at] = [fields.id.value.trim(), fields.draw_at.value];
      /** @type {Raffle} */
      let raffle;
      try {
        raffle = await place.send('POST', '/raffles', {
          title: fields.title.value.trim(), numbers: Number(fields.numbers.value), price_minor: minor, currency: currency.value,
          ...(id && { id }), ...(at && { draw_at: new Date(at).toISOString() }),
        });
      } catch (problem) {
        return mind(form, error, sayField(problem, (name) => FIELDS[name], id), fieldOf(problem));
      }
      toast(t('admin.raffle.made', { title: raffle.title }), { kind: 'good' });
      place.go(rafflePath(raffle.id));
    }

    /** @param {string} id */
    async function count(id) {
      raffles.set(id, await place.get(`/raffles/${encodeURIComponent(id)}`));
    }

    async function load() {
      /** @type {Raffle[]} */
      const found = (await place.get(`/raffles?limit=${PAGE}`)).raffles;
      for (const raffle of found) raffles.set(raffle.id, { ...raffle, counts: raffles.get(raffle.id)?.counts });
      await Promise.all(sorted().slice(0, COUNTED_MAX).map(({ id }) => count(id)));
    }

    const sorted = () => [...raffles.values()].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status) || a.title.localeCompare(b.title, language()));

    function draw() {
      for (const name of /** @type {(keyof typeof fields)[]} */ (Object.keys(fields))) {
        write(labels[name], t(/** @type {{label: Key}} */ (FIELDS[name]).label));
        write(hints[name], t(/** @type {{hint: Key}} */ (FIELDS[name]).hint));
      }
      price.draw(t('admin.raffle.f.price_minor'), t('admin.raffle.f.price_minor.hint'));
      write(currencyLabel, t('admin.raffle.f.currency'));
      write(open, t('admin.raffle.new'));
      write(legend, t('admin.raffle.new'));
      write(law, t('admin.raffle.new.law'));
      write(submit, t('admin.raffle.new.make'));
      write(cancel, t('dialog.cancel'));
      const like = text.trim().toLowerCase();
      const rows = sorted().filter(({ id, title }) => `${id} ${title}`.toLowerCase().includes(like));
      keyed(list, rows, ({ id }) => id, makeCard, drawCard);
      none.hidden = rows.length > 0;
      if (none.hidden) return;
      fill(none, h('h2', {}, raffles.size === 0 ? t('admin.raffle.none') : t('admin.raffle.none.like')),
        raffles.size === 0 && h('p', { class: 'soft' }, t('admin.raffle.none.next')),
        raffles.size === 0 && h('button', { class: 'button primary', type: 'button', onclick: () => unfold(true) }, t('admin.raffle.new')),
        raffles.size > 0 && h('button', { class: 'button', type: 'button', onclick: () => { text = ''; searchable(); draw(); } }, t('admin.pay.clear')));
    }

    /** @param {Raffle} raffle */
    function makeCard({ id }) {
      return h('a', { class: 'card raffle-card', href: rafflePath(id) },
        h('span', { class: 'row apart nowrap' }, h('b', { class: 'name' }), h('span', { class: 'tag' })), progress(),
        h('span', { class: 'row apart' }, h('span', { class: 'money' }, h('b', { class: 'figures' }), h('span', { class: 'soft small-text' })), h('span', { class: 'when soft small-text figures' })));
    }

    /** @param {HTMLElement} card @param {Raffle} raffle */
    function drawCard(card, raffle) {
      const at = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (card.querySelector(selector));
      const [key, look] = RAFFLE_STATUSES[raffle.status];
      write(at('.name'), raffle.title);
      write(at('.tag'), t(key));
      set(at('.tag'), 'class', `tag ${look}`);
      drawProgress(at('.progress'), raffle);
      write(at('.money b'), raffle.counts ? money(raffle.counts.sold * raffle.price_minor, raffle.currency) : '…');
      write(at('.money .soft'), t('admin.raffle.money'));
      write(at('.when'), raffle.winner !== null ? t('admin.raffle.won', { number: raffle.winner }) : raffle.draw_at ? `${t('admin.raffle.draw_at')}: ${clockTime(raffle.draw_at)}` : '');
    }

    /** @type {() => void} */
    let unsearch = () => {};
    function searchable() {
      unsearch();
      unsearch = place.shell.search((words) => { text = words; draw(); });
    }

    /** @type {Set<string>} */
    const followed = new Set();
    function follow() {
      for (const { id, status } of sorted()) {
        if (followed.size >= STREAMS_MAX || status === 'drawn') return;
        if (followed.has(id)) continue;
        followed.add(id);
        const again = freshly(place, async () => { await count(id); draw(); });
        place.watch(collectionOf(id), again);
      }
    }

    if (place.isLeft) return;
    searchable();
    place.onLeave(() => unsearch());
    await load();
    follow();
    place.every(LOOK_EVERY_MS, freshly(place, async () => { await load(); if (!place.isLeft) { follow(); draw(); } }));
    place.onLanguage(draw);
    fill(body, h('div', { class: 'row' }, open), form, charts(place, SALES), list, none);
  });
}
