// Payments: those that wait for a person first. Streams of the raffles that sell make what happens show at once;
// everything is also asked for every few seconds.

import { t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { trying } from '../lib/notice.js';
import { keepAgo } from '../lib/times.js';
import { isOffice, office } from './frame.js';
import { canApprove, canRefund, collectionOf, isPaymentItem, raffleOf } from './model.js';
import { PaymentCard } from './payment-card.js';

/**
 * @typedef {import('./model.js').Payment} Payment
 * @typedef {import('./model.js').Provider} Provider
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('../../i18n/index.js').Key} Key
 */

const PAGE = 100;
const LOOK_EVERY_MS = 10_000;
const STREAMS_MAX = 6;
/** Reservations whose numbers are asked for. */
const NUMBERS_MAX = 60;

/** @type {Record<string, {text: Key, none: Key, states: string[], isWork?: boolean}>} */
const GROUPS = {
  review: { text: 'admin.pay.show.review', none: 'admin.pay.none.review', states: ['pending_review', 'conflicted'], isWork: true },
  owed: { text: 'admin.pay.show.owed', none: 'admin.pay.none.owed', states: ['refund_failed', 'refund_pending', 'paid_unassigned'], isWork: true },
  open: { text: 'admin.pay.show.open', none: 'admin.pay.none.open', states: ['created', 'requires_action', 'processing', 'unknown'] },
  paid: { text: 'admin.pay.show.paid', none: 'admin.pay.none.paid', states: ['succeeded'] },
  over: { text: 'admin.pay.show.over', none: 'admin.pay.none.over', states: ['failed', 'expired', 'canceled', 'refunded'] },
};

/** @param {Place} place */
export default function paymentsPage(place) {
  return place.params.id ? onePayment(place, place.params.id) : allPayments(place);
}

/** What payments are about: raffles by id, ways to pay by code, numbers by reservation. @param {Place} place */
function about(place) {
  /** @type {Map<string, Raffle>} */
  let raffles = new Map();
  /** @type {Map<string, Provider>} */
  let providers = new Map();
  /** @type {Map<string, number[] | undefined>} */
  const numbers = new Map();
  return {
    async load() {
      const [listed, offered] = await Promise.all([place.get('/raffles?limit=200'), place.get('/admin/payment-providers')]);
      raffles = new Map(listed.raffles.map((/** @type {Raffle} */ raffle) => [raffle.id, raffle]));
      providers = new Map(offered.providers.map((/** @type {Provider} */ provider) => [provider.code, provider]));
    },
    /** The numbers of these, unless they are known. @param {Payment[]} payments */
    async loadNumbers(payments) {
      const wanted = payments.map(({ reservation_id: id }) => id).filter((id) => !numbers.has(id)).slice(0, NUMBERS_MAX);
      await Promise.all([...new Set(wanted)].map(async (id) => {
        numbers.set(id, undefined);
        numbers.set(id, (await place.get(`/reservations/${encodeURIComponent(id)}`)).numbers);
      }));
      return wanted.length > 0;
    },
    /** Those in which something can happen. */
    selling: () => [...raffles.values()].filter(({ status }) => status === 'active' || status === 'paused').map(({ id }) => id),
    /** @param {Payment} payment */
    of: (payment) => ({ raffle: raffles.get(raffleOf(payment.id))?.title, provider: providers.get(payment.provider), numbers: numbers.get(payment.reservation_id) }),
  };
}

/** @param {Place} place @param {string} id */
async function onePayment(place, id) {
  const known = about(place);
  /** @type {Payment | undefined} */
  let payment;
  const load = async () => { payment = await place.get(`/payments/${encodeURIComponent(id)}`); };
  // Its name is the page's; for others there is only the refusal.
  if (isOffice(place)) await Promise.all([known.load(), load()]);
  return office(place, () => t('admin.pay.one', { name: payment?.buyer?.name ?? '—' }), async (body) => {
    if (!payment) return;
    await known.loadNumbers([payment]).catch(() => {});
    const card = new PaymentCard(place, payment, (now) => { payment = now; draw(); });
    const back = h('a', { class: 'back', href: '/app/admin' });
    function draw() {
      write(back, `← ${t('admin.pay.all')}`);
      if (payment) card.draw(payment, known.of(payment));
    }
    const again = freshly(place, async () => { await load(); draw(); });
    place.watch(collectionOf(raffleOf(id)), ({ items }) => { if (!items || items.some(isPaymentItem)) again(); });
    place.every(LOOK_EVERY_MS, again);
    keepAgo(place, body);
    place.onLanguage(draw);
    fill(body, back, card.element);
  });
}

/** @param {Place} place */
function allPayments(place) {
  return office(place, () => t('admin.payments'), async (body) => {
    const known = about(place);
    /** By state: what was fetched, from how many pages, and where the next begins. @type {Map<string, {rows: Payment[], pages: number, next: string | null}>} */
    const fetched = new Map();
    /** @type {Map<string, PaymentCard>} */
    const cards = new Map();
    let shown = GROUPS[place.query.get('show') ?? ''] ? place.query.get('show') ?? 'review' : 'review';
    let text = '';

    const chips = h('div', { class: 'chips', role: 'group' });
    const waiting = h('p', { class: 'soft', role: 'status', tabindex: -1 });
    const list = h('div', { class: 'payments stack' });
    const none = h('div', { class: 'empty stack', hidden: true });
    const more = h('button', { class: 'button', type: 'button', hidden: true, onclick: () => trying(more, loadMore) });

    const group = () => /** @type {(typeof GROUPS)[string]} */ (GROUPS[shown]);

    /** @param {string} state @param {number} pages */
    async function loadState(state, pages) {
      /** @type {Payment[]} */
      const rows = [];
      /** @type {string | null} */
      let next = null;
      for (let page = 0; page < pages; page += 1) {
        /** @type {{payments: Payment[], next: string | null}} */
        const answer = await place.get(`/admin/payments?state=${state}&limit=${PAGE}${next ? `&after=${encodeURIComponent(next)}` : ''}`);
        rows.push(...answer.payments);
        next = answer.next;
        if (!next) break;
      }
      fetched.set(state, { rows, pages, next });
    }

    async function load() {
      const states = new Set([...Object.values(GROUPS).filter(({ isWork }) => isWork), group()].flatMap((one) => one.states));
      await Promise.all([...states].map((state) => loadState(state, fetched.get(state)?.pages ?? 1)));
    }

    async function loadMore() {
      await Promise.all(group().states.map(async (state) => {
        const so = fetched.get(state);
        if (so?.next) await loadState(state, so.pages + 1);
      }));
      draw();
    }

    /** @param {string[]} states */
    const rowsOf = (states) => {
      // Each state is asked for by itself: one that changed in between is in two answers.
      const all = states.flatMap((state) => fetched.get(state)?.rows ?? []);
      return [...new Map(all.map((payment) => [payment.id, payment])).values()];
    };

    /** What the server just said of one, before it is asked again. @param {Payment} payment */
    function changed(payment) {
      for (const so of fetched.values()) so.rows = so.rows.filter(({ id }) => id !== payment.id);
      const so = fetched.get(payment.state);
      if (so) so.rows.push(payment);
      const had = list.contains(document.activeElement);
      draw();
      // What was decided went elsewhere, and took the focus along.
      if (had && !list.contains(document.activeElement)) waiting.focus();
      refresh();
    }

    const numbersOf = freshly(place, async () => {
      const isNew = await known.loadNumbers(rowsOf(group().states).filter((payment) => canApprove(payment) || canRefund(payment)));
      if (isNew) draw();
    });

    /** @param {string} name */
    function show(name) {
      shown = name;
      history.replaceState(history.state, '', name === 'review' ? '/app/admin' : `/app/admin?show=${name}`);
      draw();
      void trying(null, async () => { await load(); draw(); });
    }

    function draw() {
      const like = text.trim().toLowerCase();
      const fits = (/** @type {Payment} */ payment) => !like || [payment.buyer?.name, payment.id, payment.txn_id, payment.transfer?.reference, payment.transfer?.payer_phone,
        payment.transfer?.payer_name, known.of(payment).raffle].some((part) => part?.toLowerCase().includes(like));
      // Whoever waits longest comes first; of what is over, what was last.
      const sign = group().isWork ? 1 : -1;
      const since = (/** @type {Payment} */ { transfer, started_at: started }) => transfer?.submitted_at ?? started;
      const rows = rowsOf(group().states).filter(fits).sort((a, b) => sign * since(a).localeCompare(since(b)) || a.id.localeCompare(b.id));
      keyed(chips, Object.entries(GROUPS), ([name]) => name, ([name]) => h('button', { class: 'chip', type: 'button', onclick: () => show(name) }, h('span'), h('b', { class: 'figures' })), (chip, [name, one]) => {
        set(chip, 'aria-pressed', String(name === shown));
        const [label, count] = /** @type {[HTMLElement, HTMLElement]} */ ([...chip.children]);
        write(label, t(one.text));
        const isKnown = one.states.every((state) => fetched.has(state));
        const isMore = one.states.some((state) => fetched.get(state)?.next);
        write(count, isKnown ? `${rowsOf(one.states).length}${isMore ? '+' : ''}` : '');
        set(chip, 'data-work', one.isWork && rowsOf(one.states).length > 0);
      });
      const n = rowsOf(/** @type {{states: string[]}} */ (GROUPS.review).states).length;
      write(waiting, n > 0 ? t('admin.pay.waiting', { n }) : t('admin.pay.none.review'));
      // The empty list says it, in larger letters.
      waiting.classList.toggle('unseen', n === 0 && shown === 'review');
      keyed(list, rows, ({ id }) => id, (payment) => {
        const card = new PaymentCard(place, payment, changed);
        cards.set(payment.id, card);
        return card.element;
      }, (_, payment) => cards.get(payment.id)?.draw(payment, known.of(payment)));
      const here = new Set(rows.map(({ id }) => id));
      for (const id of cards.keys()) if (!here.has(id)) cards.delete(id);
      const isLoading = group().states.some((state) => !fetched.has(state));
      set(list, 'aria-busy', isLoading && 'true');
      if (isLoading && rows.length === 0) fill(list, h('div', { class: 'stack' }, h('div', { class: 'bone' }), h('div', { class: 'bone' })));
      none.hidden = isLoading || rows.length > 0;
      if (!none.hidden) drawNone(like !== '');
      more.hidden = !group().states.some((state) => fetched.get(state)?.next);
      numbersOf();
    }

    /** @param {boolean} isSearch */
    function drawNone(isSearch) {
      const said = `${isSearch} ${shown} ${t(group().none)}`;
      if (none.dataset.said === said) return;
      none.dataset.said = said;
      fill(none, h('h2', {}, isSearch ? t('admin.pay.none.like') : t(group().none)),
        !isSearch && shown === 'review' && h('p', { class: 'soft' }, t('admin.pay.none.review.next')),
        isSearch && h('button', { class: 'button', type: 'button', onclick: () => { text = ''; searchable(); draw(); } }, t('admin.pay.clear')));
    }

    /** @type {() => void} */
    let unsearch = () => {};
    function searchable() {
      unsearch();
      unsearch = place.shell.search((words) => { text = words; draw(); });
    }

    /** @type {Set<string>} */
    const followed = new Set();
    function follow() {
      for (const id of known.selling()) {
        if (followed.size >= STREAMS_MAX) return;
        if (followed.has(id)) continue;
        followed.add(id);
        place.watch(collectionOf(id), ({ items }) => { if (!items || items.some(isPaymentItem)) refresh(); });
      }
    }

    const refresh = freshly(place, async () => {
      await Promise.all([load(), known.load()]);
      if (place.isLeft) return;
      follow();
      draw();
    });

    if (place.isLeft) return;
    searchable();
    place.onLeave(() => unsearch());
    await Promise.all([known.load(), load()]);
    follow();
    place.every(LOOK_EVERY_MS, refresh);
    place.onLeave(place.tenure.page.on('back', refresh));
    keepAgo(place, list);
    place.onLanguage(() => {
      set(chips, 'aria-label', t('admin.pay.show'));
      write(more, t('admin.pay.more'));
      draw();
    });
    fill(body, chips, waiting, list, none, h('div', { class: 'row' }, more));
  });
}
