// How a claim was lost, whether an event says so or a refusal. Nothing here acts on it.

import { Refused } from './errors.js';

/**
 * @typedef {import('./errors.js').Person} Person
 *
 * @typedef {'released' | 'completed' | 'expired' | 'idle' | 'max_hold' | 'cancelled' | 'force_released'
 *   | 'taken_over' | 'not_holder' | 'stale_token' | 'not_found' | 'forbidden'} LostReason
 *
 * @typedef {object} Lost
 * @property {LostReason} reason
 * @property {Person | null} holder Who has it now, as far as is known.
 * @property {Person | null} by Who ended it.
 * @property {string | null} note Their words.
 * @property {string | null} endedAt
 */

/** Refusals of a heartbeat after which it is not ours. Any other is not about the claim. */
const LOSSES = new Set(['lost', 'not_holder', 'stale_token', 'not_found', 'forbidden']);

/** @param {unknown} error @returns {error is Refused} */
export const isLoss = (error) => error instanceof Refused && LOSSES.has(error.code);

/** @param {import('./rows.js').TenureEvent} event @returns {Lost} */
export function lostBy(event) {
  const isForced = event.type === 'LOCK_FORCE_RELEASE';
  const reason = isForced ? 'force_released' : event.reason;
  return {
    reason, by: event.actor, endedAt: event.ended_at ?? event.at,
    // Only a takeover has its successor in the same breath: the one who took over.
    holder: reason === 'taken_over' ? event.actor : null,
    note: (isForced ? event.reason : event.note) ?? null,
  };
}

/** @param {Refused} refused @returns {Lost} */
export function lostBecause({ code, problem }) {
  const reason = /** @type {LostReason} */ (code === 'lost' ? problem.reason : code);
  const holder = /** @type {Person | null} */ (problem.holder ?? null);
  return { reason, holder, by: null, note: null, endedAt: /** @type {string | null} */ (problem.ended_at ?? null) };
}
