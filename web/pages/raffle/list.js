// Every raffle: what a number costs, how many are left, when it is drawn.

import { formatNumber } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { style } from '../lib/style.js';
import { ways } from './frame.js';
import { RaffleLive } from './live.js';
import { dayOf, money, padded, RAFFLE_STATUSES, rafflePage } from './model.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Raffle} Raffle
 */

const PAGE = 200;
/** Raffles whose numbers are followed here; of the others no count is shown. */
const FOLLOWED_MAX = 8;
const LOOK_EVERY_MS = 15_000;
const ORDER = ['active', 'paused', 'drawn', 'draft'];

export const layout = 'buyer';

/** All raffles. @param {Place} place @returns {Promise<Raffle[]>} */
export async function all(place) {
  /** @type {Raffle[]} */
  const raffles = [];
  let after = '';
  do {
    /** @type {{raffles: Raffle[], next: string | null}} */
    const page = await place.get(`/raffles?limit=${PAGE}${after && `&after=${encodeURIComponent(after)}`}`);
    raffles.push(...page.raffles);
    after = page.next ?? '';
  } while (after);
  return raffles.sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status) || a.title.localeCompare(b.title, language()));
}

/** @param {Place} place */
export default async function rafflesPage(place) {
  /** @type {Raffle[]} */
  let raffles = [];
  /** @type {Map<string, RaffleLive>} */
  const lives = new Map();
  const load = async () => {
    const seen = await all(place);
    // What is being prepared is no buyer's business.
    raffles = place.session.role === 'admin' ? seen : seen.filter(({ status }) => status !== 'draft');
  };
  await Promise.all([style('/pages/raffle/raffle.css'), load()]);
  const heading = h('h1');
  const text = h('p', { class: 'soft' });
  const cards = h('div', { class: 'raffles' });
  const none = h('div', { class: 'empty stack' });
  const page = h('section', { class: 'stack raffle-list' }, ways(place), heading, text, cards, none);
  const refresh = freshly(place, async () => { await load(); follow(); draw(); });

  function follow() {
    for (const { id, status } of raffles) {
      if (status !== 'active' || lives.has(id) || lives.size >= FOLLOWED_MAX) continue;
      const live = new RaffleLive(place, id);
      lives.set(id, live);
      live.on('change', () => draw());
      live.on('raffle', ({ status: now }) => { if (now !== raffles.find((one) => one.id === id)?.status) refresh(); });
      live.start({ isShown: lives.size === 1 });
    }
  }

  /** @param {Raffle} raffle */
  const make = ({ id }) => h('a', { class: 'card door raffle-card', href: rafflePage(id) },
    h('span', { class: 'row apart' }, h('h2'), h('span', { class: 'tag' })),
    h('span', { class: 'price figures' }),
    h('span', { class: 'left' }, h('span', { class: 'bar-of', 'aria-hidden': 'true' }, h('i')), h('span', { class: 'small-text figures' })),
    h('span', { class: 'soft small-text when' }));

  /** @param {HTMLElement} card @param {Raffle} raffle */
  function paint(card, raffle) {
    const at = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (card.querySelector(selector));
    const [key, kind] = RAFFLE_STATUSES[raffle.status];
    write(at('h2'), raffle.title);
    write(at('.tag'), t(key));
    set(at('.tag'), 'class', `tag ${kind}`);
    write(at('.price'), t('buy.each', { price: money(raffle.price_minor, raffle.currency) }));
    const chars = lives.get(raffle.id)?.chars ?? [];
    const free = chars.reduce((sum, char) => sum + (char === '-' ? 1 : 0), 0);
    const isKnown = chars.length > 0 && raffle.status === 'active';
    at('.left .bar-of').hidden = !isKnown;
    at('.left i').style.inlineSize = `${isKnown ? (100 * free) / chars.length : 0}%`;
    const count = formatNumber(raffle.numbers, language());
    write(at('.left .figures'), isKnown ? t('buy.left', { free: formatNumber(free, language()), all: count }) : t('buy.all', { n: raffle.numbers, all: count }));
    write(at('.when'), raffle.winner !== null ? t('buy.won', { n: padded(raffle.winner, raffle.numbers) })
      : raffle.draw_at ? t('buy.draw_at', { day: dayOf(raffle.draw_at) }) : t('buy.draw_open'));
  }

  function draw() {
    if (place.isLeft) return;
    place.title(t('buy.title'));
    write(heading, t('buy.title'));
    write(text, t('buy.text'));
    keyed(cards, raffles, ({ id }) => id, make, paint);
    cards.hidden = raffles.length === 0;
    none.hidden = raffles.length > 0;
    fill(none, h('h2', {}, t('buy.none')), h('p', { class: 'soft' }, t('buy.none.next')));
  }

  follow();
  place.every(LOOK_EVERY_MS, refresh);
  place.onLanguage(draw);
  return page;
}
