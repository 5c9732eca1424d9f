// Events as a table: when, who, what, about what; the whole of each on demand.

import { t } from '../../i18n/index.js';
import { fill, h, keyed, write } from '../lib/dom.js';
import { itemPath } from './frame.js';
import { exactTime, moment } from './spans.js';
import { actionLook, actionWords, detail } from './words.js';

/** @param {any} event */
const keyOf = (event) => `${event.collection}#${event.seq}`;

/**
 * @param {{about: boolean, onChip?: (name: 'actor' | 'action' | 'collection' | 'item', value: string) => void}} options
 *   `about` shows of which item it is; `onChip` takes a value as a filter.
 */
export function eventsTable({ about, onChip }) {
  const heads = h('tr');
  const rows = h('tbody');
  const element = h('div', { class: 'scroll' }, h('table', { class: 'events' }, h('thead', {}, heads), rows));

  /** @param {any} event */
  function make(event) {
    const whole = h('details', {}, h('summary'));
    // Most are never opened.
    whole.addEventListener('toggle', () => {
      if (whole.open && !whole.querySelector('pre')) whole.append(h('pre', { tabindex: 0 }, JSON.stringify(event, null, 2)));
    });
    return h('tr', {}, h('td', { class: 'figures when' }), h('td', { class: 'who-cell' }), h('td'), about && h('td', { class: 'about' }), h('td', { class: 'rest' }, h('div', {}, h('span'), whole)));
  }

  /** @param {HTMLElement} row @param {any} event */
  function draw(row, event) {
    const cells = [...row.children];
    const [when, who, what] = cells;
    const rest = cells.at(-1);
    if (!when || !who || !what || !rest) return;
    write(when, exactTime(event.at));
    when.setAttribute('title', moment(event.at));
    fill(who, onChip ? h('button', { class: 'as-link', type: 'button', onclick: () => onChip('actor', event.actor.id) }, event.actor.name) : event.actor.name);
    const words = h('span', { class: `tag ${actionLook(event.type)}` }, actionWords(event.type));
    fill(what, onChip ? h('button', { class: 'as-tag', type: 'button', onclick: () => onChip('action', event.type) }, words) : words);
    if (about && cells[3]) {
      const items = event.items ?? [];
      fill(cells[3], items.slice(0, 1).map((/** @type {string} */ item) => h('a', { href: itemPath(event.collection, item) }, item)),
        items.length > 1 && h('span', { class: 'soft small-text' }, ` ${t('console.more_items', { n: items.length - 1 })}`),
        h('div', { class: 'soft under' }, event.collection));
    }
    write(/** @type {Element} */ (rest.querySelector('span')), detail(event));
    write(/** @type {Element} */ (rest.querySelector('summary')), t('event.whole'));
  }

  return {
    element,
    /** @param {any[]} events */
    draw(events) {
      fill(heads, h('th', { scope: 'col' }, t('event.when')), h('th', { scope: 'col' }, t('event.who')), h('th', { scope: 'col' }, t('event.what')),
        about && h('th', { scope: 'col' }, t('console.item')), h('th', { scope: 'col' }, t('event.detail')));
      keyed(rows, events, keyOf, make, draw);
      element.hidden = events.length === 0;
    },
  };
}
