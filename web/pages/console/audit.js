// The audit log: what happened, by whom, where, when; and whether anybody tampered with it.

import { formatNumber } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { fill, h, set, write } from '../lib/dom.js';
import { trying } from '../lib/notice.js';
import { say } from '../lib/say.js';
import { eventsTable } from './events.js';
import { frame } from './frame.js';
import { ACTIONS, actionWords } from './words.js';

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {'actor' | 'action' | 'collection' | 'item' | 'from' | 'to'} Field
 */

const PAGE = 50;

/** @type {[Field, Key, string][]} */
const FIELDS = [
  ['actor', 'audit.actor', 'text'],
  ['action', 'audit.action', 'select'],
  ['collection', 'audit.collection', 'text'],
  ['item', 'audit.item', 'text'],
  ['from', 'audit.from', 'datetime-local'],
  ['to', 'audit.to', 'datetime-local'],
];

/** What the field for a moment shows of it. @param {string} iso */
function localMoment(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return '';
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** @param {import('../lib/place.js').Place} place */
export default function auditPage(place) {
  return frame(place, () => t('audit.title'), async (body) => {
    /** @type {Partial<Record<Field, string>>} */
    const wish = {};
    for (const [name] of FIELDS) {
      const value = place.query.get(name);
      if (value) wish[name] = value;
    }
    /** @type {any[]} */
    let rows = [];
    /** @type {string | null} */
    let next = null;
    let turn = 0;

    const labels = FIELDS.map(([name, key, type]) => {
      const field = type === 'select' ? h('select', { name }) : h('input', { name, type, autocomplete: 'off', spellcheck: 'false' });
      return { name, key, field, words: h('span') };
    });
    const submit = h('button', { class: 'button primary', type: 'submit' });
    const error = h('p', { class: 'bad', role: 'alert' });
    const form = h('form', { class: 'filter-form card', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); take(); } },
      labels.map(({ field, words }) => h('label', { class: 'field' }, words, field)), submit);
    // On a phone the fields would push the log off the screen.
    const fold = h('details', { class: 'filters-fold', open: !matchMedia('(max-width: 45rem)').matches }, h('summary'), form);
    const chips = h('div', { class: 'chips' });
    const table = eventsTable({ about: true, onChip: (name, value) => { wish[name] = value; changed(); } });
    const nothing = h('div', { class: 'empty stack' });
    const older = h('button', { class: 'button', type: 'button', onclick: () => trying(older, async () => { await load(true); draw(); }) });
    const verify = h('button', { class: 'button', type: 'button', onclick: () => trying(verify, check) });
    const verdict = h('div', { class: 'card verdict', role: 'status', hidden: true });
    /** @type {any} */
    let verified;

    /** @param {boolean} [isMore] */
    async function load(isMore = false) {
      turn += 1;
      const mine = turn;
      const query = new URLSearchParams({ ...wish, limit: String(PAGE), ...(isMore && next && { cursor: next }) });
      const page = await place.get(`/v1/audit?${query}`);
      if (mine !== turn) return;
      rows = isMore ? [...rows, ...page.rows] : page.rows;
      next = page.next;
    }

    async function search() {
      write(error, '');
      for (const { field } of labels) set(field, 'aria-invalid', null);
      try {
        await load();
      } catch (problem) {
        write(error, say(problem));
        const wrong = labels.find(({ name }) => name === /** @type {any} */ (problem).problem?.field);
        if (wrong) set(wrong.field, 'aria-invalid', 'true');
        wrong?.field.focus();
      }
      draw();
    }

    function take() {
      for (const { name, field } of labels) {
        const value = field.value.trim();
        if (!value) delete wish[name];
        else wish[name] = name === 'from' || name === 'to' ? new Date(value).toISOString() : value;
      }
      changed();
    }

    function changed() {
      const query = new URLSearchParams(wish);
      history.replaceState(history.state, '', `${place.path}${query.size ? `?${query}` : ''}`);
      void search();
    }

    async function check() {
      verified = await place.get('/v1/audit/verify');
      draw();
    }

    function drawVerdict() {
      verdict.hidden = !verified;
      if (!verified) return;
      const { events, collections, breaks = [], shortened } = verified;
      verdict.classList.toggle('broken', !verified.verified);
      const n = (/** @type {number} */ figure) => formatNumber(figure, language());
      fill(verdict, h('p', {}, h('b', {}, verified.verified ? t('audit.whole') : t('audit.broken', { n: breaks.length }))),
        h('p', { class: 'soft' }, t('audit.checked', { events: n(events), collections: n(collections) }), shortened > 0 && ` ${t('audit.shortened', { n: shortened })}`),
        breaks.length > 0 && h('ul', {}, breaks.map((/** @type {any} */ one) => h('li', {}, h('code', {}, JSON.stringify(one))))));
    }

    function draw() {
      write(/** @type {Element} */ (fold.querySelector('summary')), t('audit.filters'));
      write(submit, t('audit.search'));
      for (const { name, key, field, words } of labels) {
        write(words, t(key));
        if (field instanceof HTMLSelectElement) {
          const known = Object.keys(ACTIONS);
          const all = wish.action && !known.includes(wish.action) ? [...known, wish.action] : known;
          fill(field, h('option', { value: '' }, t('audit.any')), all.map((action) => h('option', { value: action }, actionWords(action))));
        }
        const value = wish[name] ?? '';
        field.value = name === 'from' || name === 'to' ? localMoment(value) : value;
      }
      const applied = FIELDS.filter(([name]) => wish[name]);
      fill(chips, applied.map(([name, key]) => {
        const value = wish[name] ?? '';
        const text = name === 'action' ? actionWords(value) : name === 'from' || name === 'to' ? localMoment(value).replace('T', ' ') : value;
        return h('button', { class: 'chip applied', type: 'button', 'aria-label': t('audit.drop', { name: `${t(key)}: ${text}` }), onclick: () => { delete wish[name]; changed(); } },
          `${t(key)}: ${text}`, h('span', { 'aria-hidden': 'true' }, '×'));
      }), applied.length > 1 && h('button', { class: 'button quiet', type: 'button', onclick: () => { for (const [name] of FIELDS) delete wish[name]; changed(); } }, t('console.clear')));
      chips.hidden = applied.length === 0;
      table.draw(rows);
      nothing.hidden = rows.length > 0;
      fill(nothing, h('h2', {}, t('audit.none')), h('p', { class: 'soft' }, t('audit.none.next')));
      older.hidden = !next;
      write(older, t('console.older'));
      write(verify, t('audit.verify'));
      drawVerdict();
    }

    await load();
    place.onLanguage(draw);
    fill(body, h('div', { class: 'row apart' }, h('p', { class: 'soft' }), verify), verdict, fold, error, chips, table.element, nothing, h('div', { class: 'row' }, older));
    const what = /** @type {HTMLElement} */ (body.querySelector('p.soft'));
    place.onLanguage(() => write(what, t('audit.what')));
  });
}
