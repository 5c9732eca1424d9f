// Payments, raffles and ways to pay as the server tells them, and what their words are called here.

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {{id: string, name: string}} Person
 *
 * @typedef {object} Transfer
 * @property {string} reference
 * @property {string} payer_phone
 * @property {string | null} payer_name
 * @property {string | null} payer_bank
 * @property {number} amount_minor
 * @property {string | null} transferred_at
 * @property {string} submitted_at
 *
 * @typedef {object} Payment
 * @property {string} id
 * @property {string} state
 * @property {string} reservation_id
 * @property {string} provider
 * @property {number} amount_minor
 * @property {string} currency
 * @property {string | null} expires_at
 * @property {string | null} reason
 * @property {string} started_at
 * @property {Person} [buyer]
 * @property {{minor: number, currency: string}} [paid]
 * @property {string} [txn_id]
 * @property {Transfer} [transfer]
 * @property {Person} [decided_by]
 *
 * @typedef {object} Provider
 * @property {string} code
 * @property {string} name
 * @property {string} description
 * @property {boolean} is_enabled
 * @property {boolean} is_automatic
 * @property {number} priority
 * @property {Record<string, string | boolean>} config
 * @property {string[]} missing
 * @property {number} version
 * @property {string | null} updated_at
 *
 * @typedef {object} Raffle
 * @property {string} id
 * @property {string} title
 * @property {'draft' | 'active' | 'paused' | 'drawn'} status
 * @property {number} numbers
 * @property {number} price_minor
 * @property {string} currency
 * @property {string | null} draw_at
 * @property {string | null} seed_hash
 * @property {number | null} winner
 * @property {{available: number, reserved: number, sold: number}} [counts]
 * @property {number} version
 */

/** What each state of a payment is called, and how its tag looks. @type {Record<string, [Key, string]>} */
const STATES = {
  created: ['admin.pay.state.created', ''],
  requires_action: ['admin.pay.state.requires_action', ''],
  processing: ['admin.pay.state.processing', ''],
  unknown: ['admin.pay.state.unknown', 'warn'],
  pending_review: ['admin.pay.state.pending_review', 'warn'],
  succeeded: ['admin.pay.state.succeeded', 'good'],
  failed: ['admin.pay.state.failed', 'done'],
  expired: ['admin.pay.state.expired', 'done'],
  canceled: ['admin.pay.state.canceled', 'done'],
  conflicted: ['admin.pay.state.conflicted', 'bad'],
  paid_unassigned: ['admin.pay.state.paid_unassigned', 'bad'],
  refund_pending: ['admin.pay.state.refund_pending', 'bad'],
  refunded: ['admin.pay.state.refunded', 'done'],
  refund_failed: ['admin.pay.state.refund_failed', 'bad'],
};

/** @param {string} state @returns {[Key, string]} */
export const stateOf = (state) => STATES[state] ?? ['admin.pay.state.unknown', 'warn'];

/** @type {Record<Raffle['status'], [Key, string]>} */
export const RAFFLE_STATUSES = {
  draft: ['admin.raffle.status.draft', ''],
  active: ['admin.raffle.status.active', 'good'],
  paused: ['admin.raffle.status.paused', 'warn'],
  drawn: ['admin.raffle.status.drawn', 'done'],
};

/** The bank may still have it, though nobody decided in time. @param {Payment} payment */
export const isLate = ({ state, transfer }) => state === 'expired' && Boolean(transfer);

/** @param {Payment} payment */
export const canApprove = (payment) => payment.state === 'pending_review' || payment.state === 'conflicted' || isLate(payment);

/** @param {Payment} payment */
export const canReject = ({ state }) => state === 'pending_review';

/** @param {Payment} payment */
export const canRefund = ({ state }) => ['conflicted', 'paid_unassigned', 'refund_pending', 'refund_failed'].includes(state);

/** A payment's id begins with its raffle's. @param {string} id */
export const raffleOf = (id) => id.slice(0, Math.max(0, id.lastIndexOf('~')));

/** The items of a raffle's collection that are payments. @param {string} item */
export const isPaymentItem = (item) => item.startsWith('attempt-');

/** @param {string} id */
export const collectionOf = (id) => `raffle/${id}`;

/** @param {string} id */
export const rafflePath = (id) => `/app/admin/raffles/${encodeURIComponent(id)}`;

/** @param {string} id */
export const paymentPath = (id) => `/app/admin/payments/${encodeURIComponent(id)}`;
