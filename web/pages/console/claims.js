// The console's first screen: every active claim, live. Heartbeats are not events, so the list is also asked for
// every few seconds; streams make what happens show at once.

import { t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { charts } from './charts.js';
import { claimsTable, ORDERS } from './claims-table.js';
import { frame } from './frame.js';

/**
 * @typedef {import('../../sdk/tenure.js').ClaimRow} ClaimRow
 * @typedef {import('./claims-table.js').Column} Column
 */

const REFRESH_MS = 4_000;
const PAGE = 1_000;
const PAGES_MAX = 5;
const SHOWN = 200;
const STREAMS_MAX = 8;
/** A collection with fewer events than this is small. */
const CALM_SEQ = 5_000;

/** @param {ClaimRow} claim */
const kindOf = (claim) => claim.collection.split('/')[0] ?? '';

/** @param {import('../lib/place.js').Place} place */
export default function claimsPage(place) {
  return frame(place, () => t('console.title'), async (body) => {
    /** @type {ClaimRow[]} */
    let claims = [];
    let isMore = false;
    let shown = SHOWN;
    const { query } = place;
    const wish = {
      kind: query.get('kind') ?? '',
      holder: query.get('holder') ?? '',
      text: query.get('q') ?? '',
      column: /** @type {Column} */ (Object.hasOwn(ORDERS, query.get('sort') ?? '') ? query.get('sort') : 'since'),
      isTurned: query.has('turned'),
    };

    const kinds = h('div', { class: 'chips', role: 'group' });
    const holders = h('select', { onchange: () => { wish.holder = holders.value; changed(); } });
    const holderField = h('label', { class: 'inline-field' }, h('span'), holders);
    const count = h('p', { class: 'soft small-text figures', role: 'status' });
    const table = claimsTable((column) => {
      wish.isTurned = wish.column === column ? !wish.isTurned : false;
      wish.column = column;
      changed();
    });
    const nothing = h('div', { class: 'empty stack', hidden: true });
    const more = h('button', { class: 'button', type: 'button', hidden: true, onclick: () => { shown += SHOWN; draw(); } });

    async function load() {
      /** @type {ClaimRow[]} */
      const found = [];
      let after = '';
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const { claims: some, next } = await place.get(`/v1/claims?state=active&limit=${PAGE}${after && `&after=${encodeURIComponent(after)}`}`);
        found.push(...some);
        after = next ?? '';
        if (!after) break;
      }
      claims = found;
      isMore = after !== '';
    }

    const refresh = freshly(place, async () => {
      await load();
      if (!place.isLeft) draw();
    });

    /** Streams of the collections in view, and of those where something may soon be. @type {Set<string>} */
    const followed = new Set();
    /** @type {string[]} */
    let calm = [];
    function follow() {
      for (const collection of [...claims.map((claim) => claim.collection), ...calm]) {
        if (followed.size >= STREAMS_MAX) return;
        if (followed.has(collection)) continue;
        followed.add(collection);
        place.watch(collection, ({ event }) => { if (event?.type !== 'item_put') refresh(); });
      }
    }

    /** The address says what is looked at. */
    function changed() {
      shown = SHOWN;
      const next = new URLSearchParams();
      if (wish.kind) next.set('kind', wish.kind);
      if (wish.holder) next.set('holder', wish.holder);
      if (wish.text) next.set('q', wish.text);
      if (wish.column !== 'since') next.set('sort', wish.column);
      if (wish.isTurned) next.set('turned', '');
      history.replaceState(history.state, '', `${place.path}${next.size ? `?${next}` : ''}`);
      draw();
    }

    function chosen() {
      const text = wish.text.trim().toLowerCase();
      const sign = wish.isTurned ? -1 : 1;
      return claims.filter((claim) => (!wish.kind || kindOf(claim) === wish.kind) && (!wish.holder || claim.holder.id === wish.holder)
        && (!text || [claim.collection, claim.holder.name, claim.holder.id, claim.id, claim.phase, ...claim.items].some((part) => part.toLowerCase().includes(text))))
        .sort((a, b) => sign * ORDERS[wish.column](a, b) || a.id.localeCompare(b.id));
    }

    function drawFilters() {
      /** @type {Map<string, number>} */
      const byKind = new Map(wish.kind ? [[wish.kind, 0]] : []);
      /** @type {Map<string, string>} */
      const people = new Map(wish.holder ? [[wish.holder, wish.holder]] : []);
      for (const claim of claims) {
        byKind.set(kindOf(claim), (byKind.get(kindOf(claim)) ?? 0) + 1);
        people.set(claim.holder.id, claim.holder.name);
      }
      set(kinds, 'aria-label', t('console.kind'));
      const chips = /** @type {[string, string, number][]} */ ([['', t('console.all'), claims.length],
        ...[...byKind].sort(([a], [b]) => a.localeCompare(b)).map(([kind, n]) => [kind, kind, n])]);
      keyed(kinds, chips, ([kind]) => `kind ${kind}`, ([kind]) => h('button', { class: 'chip', type: 'button', onclick: () => { wish.kind = kind; changed(); } }), (chip, [kind, name, n]) => {
        set(chip, 'aria-pressed', String(kind === wish.kind));
        fill(chip, name, h('span', { class: 'figures soft' }, n));
      });
      write(/** @type {Element} */ (holderField.firstElementChild), t('console.holder'));
      const options = [['', t('console.everyone')], ...[...people].sort(([, a], [, b]) => a.localeCompare(b))];
      if (JSON.stringify(options) !== holders.dataset.options) {
        holders.dataset.options = JSON.stringify(options);
        fill(holders, options.map(([id, name]) => h('option', { value: id }, name)));
      }
      holders.value = wish.holder;
    }

    function draw() {
      follow();
      drawFilters();
      const fits = chosen();
      table.draw(fits.slice(0, shown), wish);
      write(count, [
        fits.length === claims.length ? t('console.count', { n: claims.length }) : t('console.count.some', { n: fits.length, all: claims.length }),
        isMore && t('console.count.capped', { n: claims.length }),
      ].filter(Boolean).join(' '));
      table.element.hidden = fits.length === 0;
      nothing.hidden = fits.length > 0;
      const why = claims.length === 0 ? 'none' : 'filter';
      if (!nothing.hidden && (nothing.dataset.why !== why || nothing.dataset.said !== t('console.none'))) {
        nothing.dataset.why = why;
        nothing.dataset.said = t('console.none');
        fill(nothing, h('h2', {}, why === 'none' ? t('console.none') : t('console.none.fits')),
          why === 'none' ? h('p', { class: 'soft' }, t('console.none.next'))
            : h('button', { class: 'button', type: 'button', onclick: clear }, t('console.clear')));
      }
      more.hidden = fits.length <= shown;
      write(more, t('console.show_more'));
    }

    function clear() {
      wish.kind = '';
      wish.holder = '';
      wish.text = '';
      stopSearch();
      stopSearch = search();
      changed();
    }

    const search = () => place.shell.search((text) => { wish.text = text; changed(); }, wish.text);
    let stopSearch = search();
    place.onLeave(() => stopSearch());
    const [known] = await Promise.all([place.get(`/v1/collections?limit=${STREAMS_MAX}`), load()]);
    // A stream begins with all that is there: not for the sake of a claim that may never be.
    calm = known.collections.filter((/** @type {any} */ one) => one.seq < CALM_SEQ).map((/** @type {any} */ one) => one.collection);
    place.onLanguage(draw);
    place.every(REFRESH_MS, refresh);
    place.onLeave(table.start());
    place.onLeave(place.tenure.page.on('back', refresh));
    fill(body, charts(place), h('div', { class: 'row apart filters' }, kinds, holderField), count, table.element, nothing, h('div', { class: 'row' }, more));
  });
}
