// Claims as a table: sortable by its heads, walked through with arrows, its times counting by themselves.

import { now, onTick } from '../../elements/clock.js';
import { formatLeft } from '../../i18n/format.js';
import { t } from '../../i18n/index.js';
import { h, keyed, set, write } from '../lib/dom.js';
import { itemPath } from './frame.js';
import { moment, span, time } from './spans.js';

/**
 * @typedef {import('../../sdk/tenure.js').ClaimRow} ClaimRow
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {'item' | 'holder' | 'since' | 'left' | 'beat'} Column
 */

/** So many of a claim's items are named. */
const NAMED = 3;
/** Less of its time left than this, and it is about to end. */
const ENDING = 0.15;

/** @type {{column: Column | null, key: Key, class: string}[]} */
const COLUMNS = [
  { column: 'item', key: 'console.item', class: '' },
  { column: 'holder', key: 'console.holder', class: '' },
  { column: null, key: 'console.phase', class: 'wide' },
  { column: 'since', key: 'console.age', class: 'number wide' },
  { column: 'left', key: 'console.left', class: 'number' },
  { column: 'beat', key: 'console.beat', class: 'number wide' },
];

/** @type {Record<Column, (a: ClaimRow, b: ClaimRow) => number>} */
export const ORDERS = {
  item: (a, b) => a.collection.localeCompare(b.collection) || String(a.items[0]).localeCompare(String(b.items[0])),
  holder: (a, b) => a.holder.name.localeCompare(b.holder.name),
  // By age: the youngest first.
  since: (a, b) => b.since.localeCompare(a.since),
  left: (a, b) => a.expires_at.localeCompare(b.expires_at),
  beat: (a, b) => b.heartbeat_at.localeCompare(a.heartbeat_at),
};

/** What a row shows. @type {WeakMap<Element, ClaimRow>} */
const shown = new WeakMap();

/** @param {ClaimRow} claim */
function make(claim) {
  return h('tr', {},
    h('td', { class: 'what' }, h('span', { class: 'links' }), h('span', { class: 'soft small-text more' }), h('div', { class: 'soft under' }, claim.collection)),
    h('td', {}, h('div', {}, claim.holder.name), h('div', { class: 'soft under', title: moment(claim.since) })),
    h('td', { class: 'wide' }, h('span', { class: 'tag' })),
    h('td', { class: 'number wide age', title: moment(claim.since) }),
    h('td', { class: 'number left' }, h('div'), h('div', { class: 'drain', 'aria-hidden': 'true' }, h('i'))),
    h('td', { class: 'number wide beat' }));
}

/** @param {HTMLElement} row @param {ClaimRow} claim */
function draw(row, claim) {
  const [what, who, phase] = row.children;
  const [links, extra] = what?.children ?? [];
  if (!who || !phase || !links || !extra) return;
  const others = claim.items.slice(NAMED);
  keyed(links, claim.items.slice(0, NAMED), (item) => item, (item) => h('a', { href: itemPath(claim.collection, item) }, item), () => {});
  write(extra, others.length > 0 ? t('console.more_items', { n: others.length }) : '');
  set(extra, 'title', others.length > 0 && others.join(', '));
  write(/** @type {Element} */ (who.lastElementChild), t('console.since', { time: time(claim.since) }));
  write(/** @type {Element} */ (phase.firstElementChild), claim.phase);
  shown.set(row, claim);
  tick(row, claim, now());
}

/** What changes by itself. @param {Element} row @param {ClaimRow} claim @param {number} at */
function tick(row, claim, at) {
  const [, , , age, left, beat] = row.children;
  if (!age || !left || !beat) return;
  const [began, beaten, ends] = [Date.parse(claim.since), Date.parse(claim.heartbeat_at), Date.parse(claim.expires_at)];
  const leftMs = Math.max(0, ends - at);
  const part = Math.min(1, leftMs / Math.max(1, ends - beaten));
  write(age, span(at - began));
  write(/** @type {Element} */ (left.firstElementChild), formatLeft(leftMs));
  left.classList.toggle('ending', part < ENDING);
  /** @type {HTMLElement} */ (left.querySelector('i')).style.transform = `scaleX(${part.toFixed(3)})`;
  set(left, 'title', moment(claim.expires_at));
  write(beat, span(at - beaten));
  set(beat, 'title', moment(claim.heartbeat_at));
}

/** @param {KeyboardEvent} event @param {Element} rows */
function walk(event, rows) {
  const row = /** @type {HTMLElement} */ (event.target).closest('tr');
  /** @type {Record<string, () => Element | null | undefined>} */
  const ways = {
    ArrowDown: () => row?.nextElementSibling, ArrowUp: () => row?.previousElementSibling,
    Home: () => rows.firstElementChild, End: () => rows.lastElementChild,
  };
  const next = ways[event.key]?.();
  if (!next) return;
  event.preventDefault();
  next.querySelector('a')?.focus();
}

/** @param {(column: Column) => void} onSort */
export function claimsTable(onSort) {
  const heads = h('tr');
  const rows = h('tbody', { onkeydown: (/** @type {KeyboardEvent} */ event) => walk(event, rows) });
  return {
    element: h('div', { class: 'scroll' }, h('table', { class: 'claims' }, h('thead', {}, heads), rows)),
    /** @param {ClaimRow[]} claims @param {{column: Column, isTurned: boolean}} order */
    draw(claims, order) {
      keyed(heads, COLUMNS, ({ key }) => key,
        ({ column, class: name }) => h('th', { class: name, scope: 'col' }, column && h('button', { class: 'sort', type: 'button', onclick: () => onSort(column) })),
        (head, { column, key }) => {
          set(head, 'aria-sort', column === order.column ? (order.isTurned ? 'descending' : 'ascending') : column && 'none');
          write(head.firstElementChild ?? head, t(key));
        });
      keyed(rows, claims, ({ id }) => id, make, draw);
    },
    start: () => onTick((at) => {
      if (document.hidden) return 1_000;
      for (const row of rows.children) {
        const claim = shown.get(row);
        if (claim) tick(row, claim, at);
      }
      return 1_000;
    }),
  };
}
