// Raffles as the server tells them, and what their words are called here.

import { formatLeft } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { Refused, Unreachable } from '../../sdk/tenure.js';
import { part, unique } from '../../sdk/src/http.js';
import { say } from '../lib/say.js';

export { money } from '../lib/money.js';

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {import('../lib/place.js').Place} Place
 *
 * @typedef {{available: number, reserved: number, sold: number}} Counts
 *
 * @typedef {object} Raffle
 * @property {string} id
 * @property {string} title
 * @property {'draft' | 'active' | 'paused' | 'drawn'} status
 * @property {number} numbers It has the numbers 1 to this.
 * @property {number} price_minor
 * @property {string} currency
 * @property {string | null} draw_at
 * @property {string | null} seed_hash
 * @property {number | null} winner
 * @property {Counts | null} [counts]
 *
 * @typedef {object} Reservation
 * @property {string} id
 * @property {string} raffle_id
 * @property {string} user_id
 * @property {string} session_id
 * @property {number[]} numbers
 * @property {string} phase `selection`, `checkout`, `paying`, `verification`; then `completed` or `ended`.
 * @property {'pending' | 'confirmed' | 'cancelled' | 'expired'} status
 * @property {number} price_minor
 * @property {number} total_minor
 * @property {string} currency
 * @property {string} selection_started_at
 * @property {string | null} checkout_started_at
 * @property {string | null} expires_at
 * @property {string} server_time
 *
 * @typedef {object} Choice A way to pay.
 * @property {string} code
 * @property {string} name
 * @property {string} description
 * @property {'redirect' | 'manual'} mode
 *
 * @typedef {object} Payment
 * @property {string} id
 * @property {string} state
 * @property {string} reservation_id
 * @property {string} provider
 * @property {number} amount_minor
 * @property {string} currency
 * @property {string | null} [payment_url]
 * @property {{phone_number: string, account_holder: string, amount: string, order_code: string} | null} [instructions]
 * @property {string | null} expires_at
 * @property {string | null} reason
 * @property {string} started_at
 * @property {string} server_time
 */

/** Numbers of one reservation. Buyers cannot read the policy; the server has the last word. */
export const PICKS_MAX = 10;

/** What the server says of the providers that it comes with, in Spanish; an administrator may say something else. @type {Record<string, Key>} */
const DESCRIPTIONS = {
  'Tarjeta de crédito o débito, en la página segura del banco': 'buy.way.card',
  'Transferencia desde su teléfono; una persona la revisa': 'buy.way.phone',
};

/** A provider in the page's language, where we know what it says. @param {string} description */
export function describe(description) {
  const key = DESCRIPTIONS[description];
  return key ? t(key) : description;
}

/** What each status is called, and how its tag looks. Teal is what is mine, so none of them is. @type {Record<Raffle['status'], [Key, string]>} */
export const RAFFLE_STATUSES = {
  draft: ['buy.status.draft', ''],
  active: ['buy.status.active', 'good'],
  paused: ['buy.status.paused', 'warn'],
  drawn: ['buy.status.drawn', 'done'],
};

/** What has become of a reservation, and how its tag looks. @type {Record<string, [Key, string]>} */
const RESERVATION_STATUSES = {
  selection: ['buy.phase.selection', 'busy'],
  checkout: ['buy.phase.checkout', 'busy'],
  paying: ['buy.phase.paying', 'busy'],
  verification: ['buy.phase.verification', 'warn'],
  confirmed: ['buy.phase.confirmed', 'good'],
  cancelled: ['buy.phase.cancelled', 'done'],
  expired: ['buy.phase.expired', 'done'],
};

/** @param {Reservation} reservation @returns {[Key, string]} */
export const reservationStatus = ({ status, phase }) => RESERVATION_STATUSES[status === 'pending' ? phase : status] ?? ['buy.phase.expired', 'done'];

/** Who may buy. @param {string | null} role */
export const canBuy = (role) => role === 'editor' || role === 'admin';

/** How many digits a number has on the grid: of a hundred only the last one has three. @param {number} count */
export const widthOf = (count) => Math.max(1, String(count - 1).length);

/** A number as it stands on the grid. @param {number} number @param {number} count */
export const padded = (number, count) => String(number).padStart(widthOf(count), '0');

/** Several of them, in order. @param {Iterable<number>} numbers @param {number} count */
export function listed(numbers, count) {
  const words = [...numbers].sort((a, b) => a - b).map((number) => padded(number, count));
  return new Intl.ListFormat(language(), { style: 'short', type: 'unit' }).format(words);
}

/** The day and time of a draw. @param {string} iso */
export const dayOf = (iso) => new Intl.DateTimeFormat(language(), { dateStyle: 'long', timeStyle: 'short' }).format(new Date(iso));

/** @param {string} id */
export const rafflePage = (id) => `/app/raffles/${part(id)}`;
/** @param {string} id */
export const reservationPage = (id) => `/app/reservations/${part(id)}`;
/** @param {string} id */
export const paymentPage = (id) => `/app/pay/${part(id)}`;

/** How long the phase takes as a whole, for a bar that drains. @param {Reservation} reservation */
export function phaseMs({ phase, expires_at, selection_started_at, checkout_started_at }) {
  const since = phase === 'selection' ? selection_started_at : checkout_started_at;
  return expires_at && since ? Date.parse(expires_at) - Date.parse(since) : undefined;
}

// ---- what this browser remembers ------------------------------------------------------------------------------

const SESSION = 'tenure.raffle.session';
const PAYMENTS = 'tenure.raffle.payments';
const PAYMENTS_MAX = 50;

/** The browser's name: all its tabs share one reservation (R3). Another browser of the same person has its own. */
export function browserSession() {
  const known = localStorage.getItem(SESSION);
  if (known) return known;
  const made = unique();
  localStorage.setItem(SESSION, made);
  return made;
}

/** @returns {[string, string][]} */
function payments() {
  try {
    const kept = JSON.parse(localStorage.getItem(PAYMENTS) ?? '[]');
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}

/** A reservation does not say which payment is open for it; this browser does, if it began it. @param {string} reservation */
export const paymentOf = (reservation) => payments().find(([one]) => one === reservation)?.[1];

/** @param {string} reservation @param {string} payment */
export function rememberPayment(reservation, payment) {
  const others = payments().filter(([one]) => one !== reservation);
  localStorage.setItem(PAYMENTS, JSON.stringify([[reservation, payment], ...others].slice(0, PAYMENTS_MAX)));
}

// ---- asking, and what a refusal means -------------------------------------------------------------------------

/**
 * Asks for a change. Only what had no answer is tried again: a limit is said, not waited for.
 * @template [T=any]
 * @param {Place} place
 * @param {'POST' | 'DELETE'} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<{status: number, body: T}>}
 */
export async function change(place, method, path, body) {
  const call = { body, ...(method === 'POST' && { idempotencyKey: unique() }) };
  try {
    return await place.tenure.http.ask(method, path, call);
  } catch (error) {
    const mayRepeat = method === 'POST' && (error instanceof Unreachable || (error instanceof Refused && error.status >= 500));
    if (!mayRepeat) throw error;
    return place.tenure.http.ask(method, path, call);
  }
}

/** Numbers that could not be had. @param {unknown} error @returns {number[]} */
export function unavailable(error) {
  if (!(error instanceof Refused) || !['held', 'finished'].includes(error.code)) return [];
  const { unavailable: numbers } = error.problem;
  return Array.isArray(numbers) ? numbers : [];
}

/** @type {Record<string, Key>} */
const LIMITS = {
  numbers_per_buyer: 'buy.limit.numbers_per_buyer',
  open_reservations: 'buy.limit.open_reservations',
  attempts_per_reservation: 'buy.limit.attempts_per_reservation',
};

/** What went wrong, in a buyer's words. @param {unknown} error */
export function explain(error) {
  if (!(error instanceof Refused)) return say(error);
  const { problem, code } = error;
  if (code === 'limit') {
    const key = LIMITS[String(problem.limit)];
    return key ? t(key, { n: Number(problem.max) }) : t('buy.limit.picks', { n: PICKS_MAX });
  }
  if (code === 'rate_limited') {
    const time = formatLeft(error.retryAfterMs ?? 60_000);
    return problem.limit === 'abandoned_reservations' ? t('buy.limit.abandoned', { time }) : t('buy.limit.slow', { time });
  }
  if (code === 'forbidden') return problem.what === 'reservation' || problem.what === 'payment' ? t('buy.not_yours') : say(error);
  if (code === 'wrong_status' || code === 'wrong_phase' || code === 'lost') {
    if (problem.what === 'provider') return t('buy.provider.off');
    if (problem.what === 'raffle') return t('buy.raffle.closed');
    return t('buy.over');
  }
  return say(error);
}
