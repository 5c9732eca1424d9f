// What happened, in words: the audit log's actions, and how claims end.

import { t } from '../../i18n/index.js';

/** @typedef {import('../../i18n/index.js').Key} Key */

/** @type {Record<string, Key>} */
export const ACTIONS = {
  claim_granted: 'event.claim_granted',
  claim_released: 'event.claim_released',
  claim_completed: 'event.claim_completed',
  claim_expired: 'event.claim_expired',
  claim_cancelled: 'event.claim_cancelled',
  claim_taken_over: 'event.claim_taken_over',
  claim_renewed: 'event.claim_renewed',
  claim_advanced: 'event.claim_advanced',
  LOCK_FORCE_RELEASE: 'event.force_release',
  LOCK_FORCE_CLAIM: 'event.force_claim',
  release_requested: 'event.release_requested',
  item_added: 'event.item_added',
  item_removed: 'event.item_removed',
  item_put: 'event.item_put',
  item_deleted: 'event.item_deleted',
  collection_created: 'event.collection_created',
  policy_set: 'event.policy_set',
  key_created: 'event.key_created',
  key_revoked: 'event.key_revoked',
  resumed: 'event.resumed',
  restored: 'event.restored',
};

/** @param {string} action */
export const actionWords = (action) => (ACTIONS[action] ? t(ACTIONS[action]) : action);

/** @type {Record<string, Key>} */
const ENDS = {
  released: 'end.released',
  completed: 'end.completed',
  expired: 'end.expired',
  idle: 'end.idle',
  max_hold: 'end.max_hold',
  cancelled: 'end.cancelled',
  force_released: 'end.force_released',
  taken_over: 'end.taken_over',
};

/** @param {string} reason */
export const endWords = (reason) => (ENDS[reason] ? t(ENDS[reason]) : reason);

/** How loud an action is. @param {string} action */
export const actionLook = (action) => (action.startsWith('LOCK_FORCE') ? 'warn' : action === 'claim_granted' ? 'busy' : action === 'key_revoked' || action === 'item_deleted' ? 'bad' : '');

/** The rest of it, short. @param {any} event */
export function detail(event) {
  const { type } = event;
  const isForced = type.startsWith('LOCK_FORCE');
  const words = event.note ?? event.message ?? (isForced ? event.reason : undefined);
  const parts = [
    type === 'item_put' && event.after && t('event.version', { n: event.after.version, status: event.after.status }),
    type === 'claim_advanced' && event.phase,
    type === 'claim_expired' && event.reason !== 'expired' && endWords(event.reason),
    // Whose it was, where that is not who did it.
    event.state && !isForced && event.holder?.id !== event.actor.id && t('event.of', { name: event.holder?.name }),
    event.previous_holder && event.previous_holder.id !== event.actor.id && t('event.previous', { name: event.previous_holder.name }),
    words && `“${words}”`,
    type.startsWith('key_') && event.name,
    type.startsWith('key_') && event.subject?.name,
    type === 'policy_set' && event.kind,
  ];
  return parts.filter(Boolean).join(' · ');
}
