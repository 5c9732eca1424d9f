// Who held it when: one lane per holder, one band per claim, on the server's time. The same is in the table below
// it, which is what a screen reader reads.

import { now, onTick } from '../../elements/clock.js';
import { t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { moment, span, time } from './spans.js';
import { endWords } from './words.js';

/**
 * @typedef {{claim: string, holder: {id: string, name: string}, since: string, ended_at: string | null, reason: string | null}} Held
 * @typedef {import('../../i18n/index.js').Key} Key
 */

const LEAST_MS = 60_000;
const TICKS = 4;

/** @type {[string, number, Key][]} */
const RANGES = [['hour', 3_600_000, 'bands.hour'], ['day', 86_400_000, 'bands.day'], ['all', Infinity, 'bands.all']];

/** A holder's colour is theirs on every page. @param {string} id */
export function hue(id) {
  let sum = 7;
  for (const letter of id) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 360;
  return sum;
}

export function bands() {
  /** @type {Held[]} */
  let history = [];
  /** @type {string | undefined} */
  let until;
  let range = '';
  const choices = h('div', { class: 'chips', role: 'group' });
  const lanes = h('div', { class: 'lanes' });
  const axis = h('div', { class: 'axis figures soft', 'aria-hidden': 'true' });
  const chart = h('div', { class: 'bands', 'aria-hidden': 'true' }, lanes, axis);
  const heads = h('tr');
  const rows = h('tbody');
  const list = h('details', { class: 'as-table' }, h('summary'), h('div', { class: 'scroll' }, h('table', {}, h('thead', {}, heads), rows)));
  const none = h('p', { class: 'soft' });
  const heading = h('h2');
  const element = h('section', { class: 'card stack' }, h('div', { class: 'row apart' }, heading, choices), none, chart, list);

  /** @param {number} at */
  function limits(at) {
    const first = Math.min(at - LEAST_MS, ...history.map(({ since }) => Date.parse(since)));
    const [, most = Infinity] = RANGES.find(([name]) => name === range) ?? [];
    const from = Math.max(first, at - most);
    // What is still to come of the running claim, as long as it does not push the past away.
    const ends = until ? Math.min(Date.parse(until), at + (at - from) * 0.5) : at;
    return { from, to: Math.max(at, ends) };
  }

  /** @param {number} at */
  function lay(at) {
    const { from, to } = limits(at);
    const x = (/** @type {number} */ ms) => Math.max(0, Math.min(100, ((ms - from) / (to - from)) * 100));
    for (const lane of lanes.children) {
      for (const band of /** @type {NodeListOf<HTMLElement>} */ (lane.querySelectorAll('.band'))) {
        const [begins, ends] = [Number(band.dataset.from), band.dataset.to ? Number(band.dataset.to) : at];
        band.hidden = ends < from;
        band.style.insetInlineStart = `${x(begins)}%`;
        band.style.inlineSize = `${Math.max(0, x(ends) - x(begins))}%`;
      }
      const rest = /** @type {HTMLElement | null} */ (lane.querySelector('.ahead'));
      if (rest) {
        rest.style.insetInlineStart = `${x(at)}%`;
        rest.style.inlineSize = `${x(to) - x(at)}%`;
      }
    }
    const marks = Array.from({ length: TICKS + 1 }, (_, index) => from + ((to - from) * index) / TICKS);
    keyed(axis, marks.map((ms, index) => ({ ms, index })), ({ index }) => String(index), () => h('span'), (mark, { ms }) => write(mark, time(new Date(ms).toISOString())));
  }

  function draw() {
    write(heading, t('bands.title'));
    write(none, t('bands.none'));
    const isEmpty = history.length === 0;
    none.hidden = !isEmpty;
    chart.hidden = isEmpty;
    list.hidden = isEmpty;
    choices.hidden = isEmpty;
    set(choices, 'aria-label', t('bands.range'));
    keyed(choices, RANGES, ([name]) => name, ([name]) => h('button', { class: 'chip', type: 'button', onclick: () => { range = name; draw(); } }), (chip, [name, , key]) => {
      set(chip, 'aria-pressed', String(name === range));
      write(chip, t(key));
    });
    /** @type {Map<string, {name: string, held: Held[]}>} */
    const people = new Map();
    for (const held of history) {
      const person = people.get(held.holder.id) ?? { name: held.holder.name, held: [] };
      person.held.push(held);
      people.set(held.holder.id, person);
    }
    keyed(lanes, [...people], ([id]) => id, ([id, { name }]) => {
      const track = h('div', { class: 'track' });
      track.style.setProperty('--hue', String(hue(id)));
      return h('div', { class: 'lane' }, h('span', { class: 'lane-name' }, name), track);
    }, (lane, [, { held }]) => {
      const track = /** @type {Element} */ (lane.lastElementChild);
      fill(track, held.map((one) => h('div', {
        class: `band${one.ended_at ? '' : ' running'}`, 'data-from': Date.parse(one.since), 'data-to': one.ended_at ? Date.parse(one.ended_at) : '',
        title: `${time(one.since)} – ${one.ended_at ? time(one.ended_at) : t('bands.now')}`,
      })), held.some(({ ended_at: end }) => !end) && h('div', { class: 'ahead' }));
    });
    fill(heads, h('th', { scope: 'col' }, t('console.holder')), h('th', { scope: 'col' }, t('bands.from')), h('th', { scope: 'col' }, t('bands.to')),
      h('th', { scope: 'col', class: 'number' }, t('bands.length')), h('th', { scope: 'col' }, t('bands.end')));
    write(/** @type {Element} */ (list.querySelector('summary')), t('bands.list', { n: history.length }));
    fill(rows, [...history].sort((a, b) => b.since.localeCompare(a.since)).map(({ holder, since, ended_at: end, reason }) => h('tr', {}, h('td', {}, holder.name),
      h('td', { class: 'figures', title: moment(since) }, time(since)), h('td', { class: 'figures', title: end && moment(end) }, end ? time(end) : t('bands.now')),
      h('td', { class: 'number' }, span((end ? Date.parse(end) : now()) - Date.parse(since))), h('td', {}, reason ? endWords(reason) : ''))));
    lay(now());
  }

  return {
    element,
    draw,
    /** @param {Held[]} held @param {string | undefined} endsAt */
    show(held, endsAt) {
      history = held;
      until = endsAt;
      if (!range) {
        // The shortest that shows all of it.
        const first = Math.min(now(), ...held.map(({ since }) => Date.parse(since)));
        range = RANGES.find(([, ms]) => now() - first <= ms)?.[0] ?? 'all';
      }
      draw();
    },
    start: () => onTick((at) => {
      if (!document.hidden) lay(at);
      return 1_000;
    }),
  };
}
