// Is it well? What the server says of itself, and its figures.

import { formatNumber } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { fill, h, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { say } from '../lib/say.js';
import { charts } from './charts.js';
import { frame } from './frame.js';
import { parse, readText } from './metrics.js';

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {import('./metrics.js').Figures} Figures
 */

/** @param {number} n */
const plain = (n) => formatNumber(n, language());
/** @param {number} bytes */
const mega = (bytes) => t('health.mib', { n: formatNumber(Math.round(bytes / 104_857.6) / 10, language()) });
/** @param {number} seconds */
const ms = (seconds) => t('console.ms', { n: formatNumber(Math.round(seconds * 10_000) / 10, language()) });
/** @param {Figures} figures @param {string} name */
const mean = (figures, name) => (figures.get(`${name}_sum`) ?? 0) / Math.max(1, figures.get(`${name}_count`) ?? 0);

/** @type {[Key, (figures: Figures) => string][]} */
const FIGURES = [
  ['health.collections', (all) => plain(all.get('tenure_collections') ?? 0)],
  ['health.items', (all) => plain(all.get('tenure_items') ?? 0)],
  ['health.decisions', (all) => plain(all.get('tenure_decisions_total') ?? 0)],
  ['health.refusals', (all) => plain(all.get('tenure_refusals_total') ?? 0)],
  ['health.expiries', (all) => plain(all.get('tenure_expiries_total') ?? 0)],
  ['health.commit', (all) => ms(mean(all, 'tenure_commit_seconds'))],
  ['health.expiry_lag', (all) => ms(mean(all, 'tenure_expiry_lag_seconds'))],
  ['health.answer', (all) => ms(mean(all, 'tenure_http_request_seconds'))],
  ['health.queue', (all) => plain(all.get('tenure_queue_length') ?? 0)],
  ['health.fold', (all) => plain(all.get('tenure_fold_lag_batches') ?? 0)],
  ['health.journal', (all) => mega(all.get('tenure_journal_bytes') ?? 0)],
  ['health.connections', (all) => plain(all.get('tenure_connections') ?? 0)],
  ['health.failures', (all) => plain(all.get('tenure_store_failures_total') ?? 0)],
];

/** @param {import('../lib/place.js').Place} place */
export default function healthPage(place) {
  return frame(place, () => t('health.title'), async (body) => {
    /** @type {unknown} */
    let trouble;
    /** @type {Figures} */
    let figures = new Map();
    const version = (await place.get('/openapi.json')).info?.version ?? '';
    const state = h('section', { class: 'card verdict stack', role: 'status' });
    const list = h('div', { class: 'figures-list' });
    const cells = FIGURES.map(([key, words]) => {
      const [name, value] = [h('span', { class: 'soft small-text' }), h('strong', { class: 'figures' })];
      list.append(h('div', { class: 'card' }, name, value));
      return { key, words, name, value };
    });

    async function load() {
      try {
        await readText('/readyz');
        figures = parse(await readText('/metrics'));
        trouble = undefined;
      } catch (error) {
        trouble = error;
      }
    }

    let said = '';
    function draw() {
      const words = trouble ? say(trouble) : t('health.ready');
      const now = `${words} ${t('health.version', { version })}`;
      if (said !== now) {
        said = now;
        state.classList.toggle('broken', Boolean(trouble));
        fill(state, h('p', {}, h('b', {}, words)), h('p', { class: 'soft' }, t('health.version', { version })));
      }
      for (const { key, words: figureWords, name, value } of cells) {
        write(name, t(key));
        write(value, figureWords(figures));
      }
    }

    await load();
    place.onLanguage(draw);
    const again = freshly(place, async () => {
      await load();
      if (!place.isLeft) draw();
    });
    place.every(5_000, again);
    fill(body, state, charts(place), list);
  });
}
