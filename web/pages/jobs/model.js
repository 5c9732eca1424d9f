// Analyses as the server tells them, and what their words are called here.

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 *
 * @typedef {object} Analysis
 * @property {string} id
 * @property {string} status
 * @property {string} excerpt
 * @property {string} [input]
 * @property {any} [result]
 * @property {{reason: string, message: string}} [error]
 * @property {import('../tasks/model.js').Lock & {owner: string | null}} lock
 * @property {string} queued_by
 * @property {string} queued_at
 * @property {number} version
 * @property {string} updated_at
 * @property {string} server_time
 *
 * @typedef {{claim: string, holder: {id: string, name: string}, since: string, ended_at?: string | null, reason?: string | null}} Run
 */

export const COLLECTION = 'analysis/queue';

/** @type {Record<string, [Key, string]>} */
const STATES = {
  QUEUED: ['job.state.queued', ''],
  RUNNING: ['job.state.running', 'warn'],
  READY: ['job.state.ready', 'good'],
  FAILED: ['job.state.failed', 'bad'],
};

/** Its worker is gone: the next one takes it up. @param {Analysis} job */
export const isAbandoned = ({ status, lock }) => status === 'RUNNING' && lock.state === 'free';

/** @param {Analysis} job @returns {[Key, string]} */
export const stateOf = (job) => (isAbandoned(job) ? ['job.state.abandoned', 'warn'] : STATES[job.status] ?? ['job.state.queued', '']);

/** It can be run now. @param {Analysis} job */
export const isOpen = (job) => job.status === 'QUEUED' || isAbandoned(job);

/** @param {string | null} role */
export const canQueue = (role) => role === 'editor' || role === 'admin';

/** @param {string | null} role */
export const canRun = (role) => role === 'worker' || role === 'admin';

/** How often somebody began it. @param {{history?: Run[], claim?: unknown}} explained */
export function attemptsOf({ history = [], claim }) {
  const ids = new Set(history.map((run) => run.claim));
  const running = /** @type {{id?: string} | null | undefined} */ (claim)?.id;
  if (running) ids.add(running);
  return ids.size;
}
