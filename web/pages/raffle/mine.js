// My reservations: what is open and until when, what was bought, what has ended.

import { t } from '../../i18n/index.js';
import { el, fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { style } from '../lib/style.js';
import { drawAgo, keepAgo } from '../lib/times.js';
import { chips, ways } from './frame.js';
import { all } from './list.js';
import { RaffleLive } from './live.js';
import { dayOf, money, rafflePage, reservationPage, reservationStatus } from './model.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('./model.js').Reservation} Reservation
 */

const LOOK_EVERY_MS = 5_000;
/** Raffles that are followed: one has few reservations open at once. */
const FOLLOWED_MAX = 4;
/** At the deadline our clock may be a little ahead of the server's. */
const AGAIN_MS = 300;

export const layout = 'buyer';

/** @param {Place} place */
export default async function minePage(place) {
  /** @type {Map<string, Raffle>} */
  const raffles = new Map();
  /** @type {Reservation[]} */
  let reservations = [];
  /** @type {Set<string>} */
  const followed = new Set();

  async function load() {
    reservations = (await place.get('/reservations?mine=true')).reservations;
    if (reservations.some(({ raffle_id }) => !raffles.has(raffle_id))) for (const raffle of await all(place)) raffles.set(raffle.id, raffle);
  }
  await Promise.all([style('/pages/raffle/raffle.css'), load()]);
  const heading = h('h1');
  const open = h('div', { class: 'stack' });
  const rest = h('div', { class: 'stack' });
  const openHeading = h('h2');
  const restHeading = h('h2');
  const none = h('div', { class: 'empty stack' });
  const page = h('section', { class: 'stack mine' }, ways(place), heading, openHeading, open, restHeading, rest, none);
  const refresh = freshly(place, async () => { await load(); follow(); draw(); });

  function follow() {
    for (const { status, raffle_id } of reservations) {
      if (status !== 'pending' || followed.has(raffle_id) || followed.size >= FOLLOWED_MAX) continue;
      const live = new RaffleLive(place, raffle_id);
      const isFirst = followed.size === 0;
      followed.add(raffle_id);
      live.on('change', ({ numbers }) => {
        const own = reservations.filter((one) => one.raffle_id === raffle_id && one.status === 'pending').flatMap((one) => one.numbers);
        if (numbers.some((number) => own.includes(number) || live.chars[number - 1] === 'm')) refresh();
      });
      live.start({ isShown: isFirst });
    }
  }

  /** @param {Reservation} reservation */
  function make({ id }) {
    const timer = el('tenure-countdown');
    timer.addEventListener('tenure-expired', () => { refresh(); setTimeout(refresh, AGAIN_MS); });
    return h('article', { class: 'card reservation' },
      h('div', { class: 'row apart' }, h('h3', {}, h('a', { href: reservationPage(id) })), h('span', { class: 'tag' })),
      h('div', { class: 'holds' }),
      h('div', { class: 'row apart below' }, h('span', { class: 'soft small-text' }, h('time'), ' ', timer), h('b', { class: 'figures' })),
      h('a', { class: 'button act', href: reservationPage(id) }));
  }

  /** @param {HTMLElement} card @param {Reservation} reservation */
  function paint(card, reservation) {
    const at = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (card.querySelector(selector));
    const raffle = raffles.get(reservation.raffle_id);
    const isPending = reservation.status === 'pending';
    set(card, 'data-status', reservation.status);
    write(at('h3 a'), raffle?.title ?? reservation.raffle_id);
    const [key, kind] = reservationStatus(reservation);
    write(at('.tag'), t(key));
    set(at('.tag'), 'class', `tag ${kind}`);
    const word = reservation.numbers.join();
    if (at('.holds').dataset.says !== word) fill(at('.holds'), chips(reservation.numbers, raffle?.numbers ?? 1));
    at('.holds').dataset.says = word;
    const timer = at('tenure-countdown');
    const isLong = reservation.phase === 'verification';
    timer.hidden = !isPending || isLong;
    set(timer, 'label', t('buy.time_left'));
    set(timer, 'expires-at', isPending && !isLong ? reservation.expires_at : undefined);
    const until = dayOf(reservation.expires_at ?? reservation.server_time);
    drawAgo(/** @type {HTMLTimeElement} */ (at('time')), reservation.selection_started_at, (ago) => (
      !isPending ? t('mine.since', { ago }) : isLong ? t('mine.until', { day: until }) : t('mine.since.left', { ago })));
    write(at('.below b'), money(reservation.total_minor, reservation.currency));
    const act = at('.act');
    act.hidden = !isPending;
    set(act, 'class', `button act ${isPending && !isLong ? 'primary' : ''}`);
    set(act, 'href', reservation.phase === 'selection' ? rafflePage(reservation.raffle_id) : reservationPage(reservation.id));
    write(act, reservation.phase === 'selection' ? t('mine.go_on') : isLong ? t('buy.see') : t('raffle.pay'));
    set(act, 'aria-label', `${act.textContent}: ${raffle?.title ?? reservation.raffle_id}`);
  }

  function draw() {
    place.title(t('buy.mine'));
    write(heading, t('buy.mine'));
    const now = reservations.filter(({ status }) => status === 'pending');
    const past = reservations.filter(({ status }) => status !== 'pending');
    openHeading.hidden = now.length === 0;
    restHeading.hidden = past.length === 0;
    write(openHeading, t('mine.open'));
    write(restHeading, t('mine.past'));
    keyed(open, now, ({ id }) => id, make, paint);
    keyed(rest, past, ({ id }) => id, make, paint);
    open.hidden = now.length === 0;
    rest.hidden = past.length === 0;
    none.hidden = reservations.length > 0;
    fill(none, h('h2', {}, t('mine.none')), h('p', {}, h('a', { class: 'button primary', href: '/app/raffles' }, t('mine.none.next'))));
  }

  follow();
  keepAgo(place, page);
  place.every(LOOK_EVERY_MS, () => { if (reservations.some(({ status }) => status === 'pending')) refresh(); });
  place.onLeave(place.tenure.page.on('back', refresh));
  place.onLanguage(draw);
  return page;
}
