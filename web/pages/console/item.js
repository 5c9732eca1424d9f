// One item: who has it, since when, until when, what would come of claiming it, who had it before, and what
// happened to it. Overrides ask for a reason, which everybody can read in the audit log.

import { t } from '../../i18n/index.js';
import { el, fill, h, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { askWords, toast, trying } from '../lib/notice.js';
import { bands } from './bands.js';
import { eventsTable } from './events.js';
import { frame } from './frame.js';
import { moment, time } from './spans.js';

/** @typedef {import('../../i18n/index.js').Key} Key */

const EVENTS = 50;

/** @type {Record<string, Key>} */
const REFUSALS = {
  held: 'explain.no.held', finished: 'explain.no.finished', not_claimable: 'explain.no.status', delayed: 'explain.no.delayed',
};

/** @param {import('../lib/place.js').Place} place */
export default function itemPage(place) {
  const { kind = '', name = '', item = '' } = place.params;
  const collection = `${kind}/${name}`;
  const path = `/v1/collections/${encodeURIComponent(kind)}/${encodeURIComponent(name)}/items/${encodeURIComponent(item)}`;

  // A number alone says little: 5 of what?
  return frame(place, () => `${collection} / ${item}`, async (body) => {
    /** @type {any} */
    let explained;
    /** @type {any} */
    let stored;
    /** @type {any[]} */
    let events = [];
    /** @type {string | null} */
    let next = null;

    const badge = el('tenure-lock');
    const facts = h('dl', { class: 'facts' });
    const data = h('pre', { tabindex: 0 });
    const documentBox = h('details', {}, h('summary'), data);
    const release = h('button', { class: 'button danger', type: 'button', onclick: () => override('force-release') });
    const take = h('button', { class: 'button', type: 'button', onclick: () => override('force-claim') });
    const heading = h('h2');
    const box = h('aside', { class: 'card stack explain' }, heading, h('div', {}, badge), facts, h('div', { class: 'row' }, release, take), documentBox);
    const chart = bands();
    const eventsHeading = h('h2');
    const table = eventsTable({ about: false });
    const noEvents = h('p', { class: 'soft' });
    const older = h('button', { class: 'button', type: 'button', onclick: () => trying(older, more) });
    const logged = h('a', { href: `/app/console/audit?${new URLSearchParams({ collection, item })}`, class: 'small-text' });

    /** @param {string} [cursor] */
    const ask = (cursor) => place.get(`/v1/audit?collection=${encodeURIComponent(collection)}&item=${encodeURIComponent(item)}&limit=${EVENTS}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`);

    async function load() {
      const [one, two, three] = await Promise.all([place.get(`${path}/explain`), place.get(path).catch(() => undefined), ask()]);
      explained = one;
      stored = two;
      // What was already paged to stays.
      const known = new Set(three.rows.map((/** @type {any} */ row) => row.seq));
      const rest = events.filter(({ seq }) => !known.has(seq));
      if (rest.length === 0) next = three.next;
      events = [...three.rows, ...rest];
    }

    async function more() {
      const page = await ask(next ?? undefined);
      events = [...events, ...page.rows];
      next = page.next;
      draw();
    }

    /** @param {'force-release' | 'force-claim'} how */
    async function override(how) {
      const isRelease = how === 'force-release';
      const holder = explained.holder?.name ?? '';
      const reason = await askWords({
        title: isRelease ? t('explain.release.title', { name: holder }) : holder ? t('explain.take.title', { name: holder }) : t('explain.take.free'),
        label: t('explain.reason'), submit: isRelease ? t('explain.release') : holder ? t('explain.take') : t('explain.take.it'), kind: isRelease ? 'danger' : 'primary',
      });
      if (!reason) return;
      await trying(isRelease ? release : take, async () => {
        await place.send('POST', `${path}/${how}`, { reason });
        toast(isRelease ? t('explain.released') : t('explain.taken'), { kind: 'good' });
        await load();
        draw();
      });
    }

    /** @returns {string} */
    function claimable() {
      if (explained.claimable) return t('explain.yes');
      const refusal = explained.refusal ?? {};
      const why = refusal.items?.[0]?.why ?? refusal.code;
      const key = REFUSALS[why];
      return key ? t(key, { status: explained.status ?? '' }) : t('explain.no.other', { detail: refusal.detail ?? '' });
    }

    function draw() {
      const { claim, holder } = explained;
      const isMine = holder && holder.id === place.session.person?.id;
      write(logged, t('explain.logged'));
      write(heading, t('explain.title'));
      set(badge, 'state', holder ? (isMine ? 'mine' : 'other') : explained.refusal?.code === 'finished' ? 'done' : 'free');
      set(badge, 'label', explained.refusal?.code === 'finished' && !holder ? explained.status : null);
      set(badge, 'holder', holder?.name);
      set(badge, 'since', claim?.since);
      set(badge, 'expires-at', claim?.expires_at);
      const rows = /** @type {[string, (Node | string)][]} */ ([
        [t('explain.status'), explained.status ?? t('explain.unknown')],
        holder && [t('console.holder'), holder.name],
        claim && [t('explain.since'), h('span', { title: moment(claim.since) }, time(claim.since))],
        claim && [t('explain.until'), h('span', { class: 'row' }, h('span', { title: moment(claim.expires_at) }, time(claim.expires_at)), el('tenure-countdown', { 'expires-at': claim.expires_at, label: t('explain.until') }))],
        claim && [t('console.phase'), claim.phase],
        claim?.session && [t('explain.session'), h('code', {}, claim.session)],
        claim && [t('explain.token'), String(claim.token)],
        [t('explain.waiting'), String(explained.queue?.waiting ?? 0)],
        [t('explain.claimable'), claimable()],
        explained.frees_at && !claim && [t('explain.frees'), time(explained.frees_at)],
        stored && [t('explain.version'), String(stored.version)],
      ].filter(Boolean));
      fill(facts, rows.map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', { class: 'figures' }, value))));
      release.hidden = !holder;
      // Whoever has it already takes nothing by force; what is final stays so.
      take.hidden = Boolean(isMine) || ['finished', 'not_claimable'].includes(explained.refusal?.code);
      write(release, t('explain.release'));
      write(take, holder ? t('explain.take') : t('explain.take.it'));
      documentBox.hidden = !stored || stored.data === null || stored.data === undefined;
      write(/** @type {Element} */ (documentBox.querySelector('summary')), t('explain.document'));
      write(data, stored ? JSON.stringify(stored.data, null, 2) : '');
      chart.show(explained.history ?? [], claim?.expires_at);
      write(eventsHeading, t('explain.events'));
      write(noEvents, t('explain.no_events'));
      noEvents.hidden = events.length > 0;
      table.draw(events);
      older.hidden = !next;
      write(older, t('console.older'));
    }

    const again = freshly(place, async () => {
      await load();
      if (!place.isLeft) draw();
    });
    await load();
    place.watch(collection, ({ items, event }) => {
      if (!items || items.includes(item) || (event && event.claim && event.claim === explained.claim?.id)) again();
    });
    place.onLanguage(draw);
    place.onLeave(chart.start());
    // Heartbeats are not events; the time left would be as old as the last one.
    place.every(5_000, again);
    fill(body, h('p', { class: 'row' }, logged), h('div', { class: 'item-page' }, box, h('div', { class: 'stack' }, chart.element,
      h('section', { class: 'stack' }, eventsHeading, noEvents, table.element, h('div', { class: 'row' }, older)))));
  });
}
