// Tasks as the server tells them, and what their words are called here.

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {{id: string, name: string}} Person
 *
 * @typedef {object} Lock
 * @property {'free' | 'locked'} state
 * @property {Person | null} locked_by
 * @property {string | null} locked_at
 * @property {string | null} heartbeat_at
 * @property {string | null} expires_at
 * @property {number | null} expires_in_ms
 * @property {boolean} mine
 *
 * @typedef {'serialized' | 'quantity'} Mode
 * @typedef {'in' | 'out'} Direction
 *
 * @typedef {object} Line
 * @property {string} id
 * @property {string} product
 * @property {Mode} mode
 * @property {string[]} [serials]
 * @property {number} [quantity]
 * @property {Direction} direction
 * @property {'pending' | 'validated' | 'applied' | 'error'} status
 * @property {{reason: string, message: string}} [error]
 *
 * @typedef {object} Task
 * @property {string} id
 * @property {string} title
 * @property {string} status
 * @property {Line[]} lines
 * @property {Lock} lock
 * @property {number} version
 * @property {string} updated_at
 * @property {string} server_time
 */

export const COLLECTION = 'task/inventory';

/** What each status is called, and how its tag looks. Teal is what is mine, so none of them is. @type {Record<string, [Key, string]>} */
const STATUSES = {
  draft: ['task.status.draft', ''],
  ready: ['task.status.ready', ''],
  processing: ['task.status.processing', ''],
  partially_completed: ['task.status.partially_completed', 'bad'],
  completed: ['task.status.completed', 'done'],
  cancelled: ['task.status.cancelled', 'done'],
};

/** @type {Record<string, [Key, string]>} */
const LINE_STATUSES = {
  pending: ['line.status.pending', ''],
  validated: ['line.status.validated', ''],
  applied: ['line.status.applied', 'good'],
  error: ['line.status.error', 'bad'],
};

/** Why a line could not be applied. @type {Record<string, Key>} */
const FAILURES = {
  unknown_product: 'line.error.unknown_product',
  wrong_mode: 'line.error.wrong_mode',
  serial_already_in: 'line.error.serial_already_in',
  serial_not_in_stock: 'line.error.serial_not_in_stock',
  not_enough_stock: 'line.error.not_enough_stock',
};

/** @param {string} status */
export const statusOf = (status) => STATUSES[status] ?? STATUSES.draft ?? ['task.status.draft', ''];

/** @param {string} status */
export const lineStatusOf = (status) => LINE_STATUSES[status] ?? ['line.status.pending', ''];

/** @param {string} reason @returns {Key} */
export const failureOf = (reason) => FAILURES[reason] ?? 'line.error.other';

/** It can be claimed, if nobody has it. @param {Task} task */
export const isClaimable = ({ status }) => ['ready', 'processing', 'partially_completed'].includes(status);

/** Nothing happens to it any more. @param {Task} task */
export const isOver = ({ status }) => status === 'completed' || status === 'cancelled';

/** @param {Task} task */
export const appliedOf = ({ lines }) => lines.filter(({ status }) => status === 'applied').length;

/** Who may work here. @param {string | null} role */
export const canManage = (role) => role === 'editor' || role === 'admin';

/**
 * What `<tenure-lock>` shows for a task, to somebody who is not at work on it here.
 * @param {Task} task
 */
export function lockLook(task) {
  const { lock } = task;
  const state = lock.state === 'free' ? (task.status === 'completed' ? 'done' : 'free') : lock.mine ? 'elsewhere' : 'other';
  return { state, holder: lock.locked_by?.name, since: lock.locked_at };
}

/** Serial numbers as people type them: by comma, space or line. @param {string} text */
export const serialsOf = (text) => text.split(/[\s,;]+/).filter(Boolean);

/** A task whose processing shall begin as soon as its page is there. @type {{id: string | undefined}} */
export const wanted = { id: undefined };
