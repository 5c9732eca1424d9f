// One raffle: open and pause it, who has numbers under a timer, what it has brought, and the draw, once.

import { formatMoment } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { Refused } from '../../sdk/tenure.js';
import { el, fill, h, keyed, set, write } from '../lib/dom.js';
import { holds } from '../lib/draw.js';
import { freshly } from '../lib/fresh.js';
import { money } from '../lib/money.js';
import { ask, complain, toast, trying } from '../lib/notice.js';
import { clockTime, drawAgo, keepAgo } from '../lib/times.js';
import { copyable } from './copy.js';
import { drawProgress, figure, progress } from './counts.js';
import { isOffice, office } from './frame.js';
import { collectionOf, RAFFLE_STATUSES } from './model.js';

/**
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('../lib/draw.js').Draw} Draw
 * @typedef {import('../../sdk/tenure.js').ClaimRow} ClaimRow
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {import('../lib/place.js').Place} Place
 */

const LOOK_EVERY_MS = 10_000;
/** Open reservations that are shown. */
const OPEN_MAX = 200;

/** @type {Record<string, Key>} */
const PHASES = {
  selection: 'admin.hold.phase.selection', checkout: 'admin.hold.phase.checkout', paying: 'admin.hold.phase.paying', verification: 'admin.hold.phase.verification',
};

/** @param {Place} place */
export default async function rafflePage(place) {
  const id = place.params.id ?? '';
  const path = `/raffles/${encodeURIComponent(id)}`;
  /** @type {Raffle | undefined} */
  let raffle;
  /** @type {ClaimRow[]} */
  let open = [];
  /** @type {Draw | undefined} */
  let drawn;
  /** @type {boolean | undefined} */
  let isTrue;

  async function load() {
    const [now, { claims }] = await Promise.all([
      place.get(path), place.get(`/v1/claims?state=active&collection=${encodeURIComponent(collectionOf(id))}&limit=${OPEN_MAX}`),
    ]);
    raffle = now;
    open = claims;
    if (now.status === 'drawn' && !drawn) {
      drawn = await place.get(`${path}/draw`);
      isTrue = drawn && await holds(drawn, now.seed_hash);
    }
  }
  if (isOffice(place)) await load();

  return office(place, () => raffle?.title ?? id, async (body) => {
    const back = h('a', { class: 'back', href: '/app/admin/raffles' });
    const tag = h('span', { class: 'tag' });
    const buyers = h('a', { class: 'back', href: `/app/raffles/${encodeURIComponent(id)}` });
    const begin = h('button', { class: 'button primary', type: 'button', onclick: () => { void sell(); } });
    const pause = h('button', { class: 'button', type: 'button', onclick: () => { void patch(pause, 'paused', 'admin.raffle.paused'); } });
    const counts = h('dl', { class: 'counts' });
    const bar = progress();
    const cash = { sum: h('b', { class: 'sum figures' }), how: h('span', { class: 'soft small-text figures' }), more: h('span', { class: 'soft small-text figures' }), title: h('h2') };
    const facts = h('dl', { class: 'facts' });
    const hash = h('div', { class: 'stack tight' });
    const heldTitle = h('h2');
    const held = h('ul', { class: 'holds' });
    const nobody = h('p', { class: 'soft' });
    const holding = h('section', { class: 'card stack' }, heldTitle, nobody, held);
    const drawTitle = h('h2');
    const why = h('p', { id: 'draw-why' });
    const drawButton = h('button', { class: 'button primary', type: 'button', 'aria-describedby': 'draw-why', onclick: () => { void drawIt(); } });
    const result = h('section', { class: 'card stack result', hidden: true, tabindex: -1 });
    const drawing = h('section', { class: 'card stack' }, drawTitle, why, h('div', { class: 'row' }, drawButton));

    const now = () => /** @type {Raffle} */ (raffle);

    /**
     * @param {HTMLButtonElement} button
     * @param {string} status
     * @param {Key} said
     */
    async function patch(button, status, said) {
      await trying(button, async () => {
        try {
          raffle = { ...now(), ...await place.send('PATCH', path, { status }) };
          toast(t(said, { title: now().title }), { kind: 'good' });
        } finally {
          again();
        }
      });
      draw();
    }

    async function sell() {
      if (now().status === 'draft') {
        const yes = await ask({
          title: t('admin.raffle.open.title', { title: now().title }), body: [t('admin.raffle.open.text'), t('admin.raffle.new.law')],
          answers: [{ label: t('admin.raffle.open'), value: 'yes', kind: 'primary' }],
        });
        if (yes !== 'yes') return;
      }
      await patch(begin, 'active', 'admin.raffle.opened');
    }

    async function drawIt() {
      const not = hindrance();
      if (not) return toast(not);
      const yes = await ask({
        title: t('admin.raffle.draw.title', { title: now().title }), body: [t('admin.raffle.draw.text', { n: now().counts?.sold ?? 0 })],
        answers: [{ label: t('admin.raffle.draw.yes'), value: 'yes', kind: 'primary' }],
      });
      if (yes !== 'yes') return;
      await trying(drawButton, async () => {
        try {
          await place.send('POST', `${path}/draw`, {});
        } catch (error) {
          if (!(error instanceof Refused) || (error.code !== 'wrong_status' && error.code !== 'conflict')) throw error;
          await load();
          if (now().status === 'drawn') toast(t('admin.raffle.draw.twice', { number: now().winner ?? '' }), { kind: 'bad' });
          else if (hindrance()) toast(hindrance(), { kind: 'bad' });
          else complain(error);
          return draw();
        }
        await load();
        draw();
        result.focus();
      });
    }

    /** @param {ClaimRow} claim */
    async function cancel(claim) {
      const { name } = claim.holder;
      const yes = await ask({
        title: t('admin.hold.cancel.title', { name }), body: [t('admin.hold.cancel.text', { numbers: claim.items.join(', ') })],
        answers: [{ label: t('admin.hold.cancel.yes'), value: 'yes', kind: 'danger' }],
      });
      if (yes !== 'yes') return;
      await trying(null, async () => {
        try {
          await place.send('POST', `/reservations/${encodeURIComponent(reservationOf(claim))}/cancel`, {});
          toast(t('admin.hold.cancelled'), { kind: 'good' });
        } catch (error) {
          if (!(error instanceof Refused) || error.code !== 'wrong_status') throw error;
          toast(t('admin.hold.paying'), { kind: 'bad' });
        }
        await load();
        draw();
      });
    }

    /** @param {ClaimRow} claim */
    const reservationOf = (claim) => `${id}~${String(/** @type {any} */ (claim).data?.reservation ?? '').replace(/^reservation-/, '')}`;

    /** Why it cannot be drawn now. */
    function hindrance() {
      const { status, counts: many } = now();
      if (status === 'draft') return t('admin.raffle.draw.draft');
      if (status === 'active') return t('admin.raffle.draw.pause');
      if (many && many.reserved > 0) return t('admin.raffle.draw.wait', { n: many.reserved });
      if (many && many.sold === 0) return t('admin.raffle.draw.nothing');
      return '';
    }

    function draw() {
      const { status, counts: many, currency, price_minor: price, numbers } = now();
      const [key, look] = RAFFLE_STATUSES[status];
      write(back, `← ${t('admin.raffle.all')}`);
      write(tag, t(key));
      write(buyers, t('admin.raffle.buyers'));
      set(tag, 'class', `tag ${look}`);
      begin.hidden = status !== 'draft' && status !== 'paused';
      set(begin, 'class', `button ${status === 'draft' ? 'primary' : ''}`);
      write(begin, status === 'draft' ? t('admin.raffle.open') : t('admin.raffle.again'));
      pause.hidden = status !== 'active';
      write(pause, t('admin.raffle.pause'));
      drawProgress(bar, now());
      keyed(counts, /** @type {[string, Key, number | undefined][]} */ ([
        ['sold', 'admin.raffle.sold', many?.sold], ['reserved', 'admin.raffle.reserved', many?.reserved], ['available', 'admin.raffle.available', many?.available],
      ]), ([name]) => name, ([name]) => h('div', { class: `is-${name}` }, h('dt'), h('dd', { class: 'figures' })), (row, [, label, n]) => {
        write(/** @type {Element} */ (row.firstElementChild), t(label));
        write(/** @type {Element} */ (row.lastElementChild), n === undefined ? '…' : figure(n));
      });
      write(cash.title, t('admin.raffle.money'));
      write(cash.sum, money((many?.sold ?? 0) * price, currency));
      write(cash.how, t('admin.raffle.money.sum', { n: figure(many?.sold ?? 0), price: money(price, currency) }));
      write(cash.more, many?.reserved ? t('admin.raffle.money.more', { amount: money(many.reserved * price, currency) }) : '');
      drawFacts(numbers);
      // With the result everything is said again, next to what it proves.
      hash.hidden = Boolean(drawn);
      holding.hidden = Boolean(drawn);
      drawHolds();
      drawDraw();
    }

    /** Changed only where it differs: something may be selected. @param {HTMLElement} element @param {unknown} of @param {() => (Node | string)[]} make */
    function renew(element, of, make) {
      const said = JSON.stringify([of, language()]);
      if (element.dataset.said === said) return;
      element.dataset.said = said;
      fill(element, make());
    }

    /** @param {number} numbers */
    function drawFacts(numbers) {
      const { draw_at: at, currency, price_minor: price, seed_hash: bound } = now();
      renew(facts, [numbers, at, currency, price], () => [
        [t('admin.pay.numbers'), `1–${figure(numbers)}`],
        [t('admin.raffle.price'), money(price, currency)],
        [t('admin.raffle.draw_at'), at ? h('span', { title: formatMoment(at, language()) }, clockTime(at)) : t('admin.raffle.draw_at.open')],
      ].map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', { class: 'figures' }, value))));
      renew(hash, bound, () => [h('h3', {}, t('admin.raffle.hash')),
        ...(bound ? [copyable(bound, t('admin.raffle.hash')), h('p', { class: 'soft small-text' }, t('admin.raffle.hash.what'))] : [h('p', { class: 'soft small-text' }, t('admin.raffle.hash.none'))])]);
    }

    function drawHolds() {
      write(heldTitle, t('admin.hold.title'));
      nobody.hidden = open.length > 0;
      held.hidden = open.length === 0;
      write(nobody, t('admin.hold.none'));
      keyed(held, open, (claim) => claim.id, (claim) => h('li', {},
        h('span', { class: 'holder' }, h('b'), h('span', { class: 'soft small-text' })), h('span', { class: 'numbers figures' }), el('tenure-countdown'),
        h('button', { class: 'button', type: 'button', onclick: () => { void cancel(open.find(({ id: one }) => one === claim.id) ?? claim); } })), (row, claim) => {
        const at = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (row.querySelector(selector));
        const phase = PHASES[claim.phase];
        write(at('b'), claim.holder.name);
        write(at('.holder .soft'), `${phase ? t(phase) : claim.phase} · ${t('admin.hold.since', { time: clockTime(claim.since) })}`);
        write(at('.numbers'), claim.items.join(', '));
        set(at('tenure-countdown'), 'expires-at', claim.expires_at);
        set(at('tenure-countdown'), 'label', t('admin.hold.left'));
        write(at('.button'), t('admin.hold.cancel'));
        set(at('.button'), 'aria-label', t('admin.hold.cancel.name', { name: claim.holder.name }));
      });
    }

    function drawDraw() {
      drawing.hidden = Boolean(drawn);
      result.hidden = !drawn;
      if (!drawn) {
        const not = hindrance();
        write(drawTitle, t('admin.raffle.draw.heading'));
        write(why, not || t('admin.raffle.draw.ready', { n: now().counts?.sold ?? 0 }));
        set(why, 'class', not && 'soft');
        write(drawButton, t('admin.raffle.draw'));
        // Pressed all the same it says why not; so it can be reached and read.
        set(drawButton, 'aria-disabled', not !== '' && 'true');
        set(drawButton, 'class', `button ${not ? '' : 'primary'}`);
        return;
      }
      const done = drawn;
      renew(result, [done, isTrue], () => {
        const command = `tenure raffle verify ${location.origin}/raffles/${id}/draw --seed-hash ${now().seed_hash}`;
        const at = h('time');
        drawAgo(at, done.drawn_at);
        return [
          h('h2', {}, t('admin.draw.winner')),
          h('p', { class: 'winner figures' }, h('b', {}, done.winner), ' ', h('span', { class: 'soft' }, t('admin.draw.among', { n: done.sold.length }))),
          h('p', { class: `verdict-line ${isTrue === false ? 'bad' : 'good'}`, hidden: isTrue === undefined }, isTrue === false ? `✗ ${t('admin.draw.broken')}` : `✓ ${t('admin.draw.holds')}`),
          h('dl', { class: 'facts proof' }, /** @type {[string, Node][]} */ ([
            [t('admin.draw.at'), at],
            [t('admin.raffle.hash'), copyable(done.seed_hash, t('admin.raffle.hash'))],
            [t('admin.draw.seed'), copyable(done.seed, t('admin.draw.seed'))],
            [t('admin.draw.sold_hash'), copyable(done.sold_hash, t('admin.draw.sold_hash'))],
            [t('admin.draw.command'), copyable(command, t('admin.draw.command'), 'command')],
          ]).map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', { class: 'figures' }, value)))),
          h('p', { class: 'soft small-text' }, t('admin.draw.command.what', { name: 'TENURE_KEY' })),
        ];
      });
    }

    const again = freshly(place, async () => { await load(); if (!place.isLeft) draw(); });
    place.watch(collectionOf(id), again);
    place.every(LOOK_EVERY_MS, again);
    place.onLeave(place.tenure.page.on('back', again));
    keepAgo(place, body);
    place.onLanguage(draw);
    fill(body, h('div', { class: 'row apart' }, h('div', { class: 'row wider' }, back, tag, buyers), h('div', { class: 'row' }, pause, begin)),
      result,
      h('div', { class: 'raffle-sides' },
        h('section', { class: 'card stack' }, cash.title, h('div', { class: 'row baseline' }, cash.sum, cash.how, cash.more), bar, counts),
        h('section', { class: 'card stack' }, facts, hash)),
      holding, drawing);
  });
}
