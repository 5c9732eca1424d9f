// What went wrong, in words that say what to do next. The server's own sentence is the last resort.

import { t } from '../../i18n/index.js';
import { Refused, Unreachable } from '../../sdk/tenure.js';

/** @typedef {import('../../i18n/index.js').Key} Key */

/** @type {Record<string, Key>} */
const TEXTS = {
  forbidden: 'error.forbidden',
  not_found: 'error.not_found',
  conflict: 'error.conflict',
  wrong_status: 'error.wrong_status',
  not_claimable: 'error.wrong_status',
  finished: 'error.wrong_status',
  not_held: 'error.not_held',
  not_holder: 'error.not_held',
  lost: 'error.lost',
  limit: 'error.limit',
  rate_limited: 'error.slow_down',
  unauthenticated: 'error.signed_out',
};

/** @param {unknown} error */
export function say(error) {
  if (error instanceof Unreachable) return t('error.unreachable');
  if (!(error instanceof Refused)) return t('error.broken');
  const holder = holderOf(error);
  if (error.code === 'held') return holder ? t('error.held', { name: holder }) : t('error.held.unknown');
  const key = TEXTS[error.code];
  if (key) return t(key);
  return error.status >= 500 ? t('error.server') : t('error.other', { detail: error.message });
}

/** Who holds what was asked for. @param {Refused} error @returns {string | undefined} */
export function holderOf(error) {
  const problem = /** @type {any} */ (error.problem);
  return problem.holder?.name ?? problem.items?.[0]?.holder?.name;
}
