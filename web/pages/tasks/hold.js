// Process mode: the lock of a task, kept as the SDK keeps a claim, by the application's own routes.

import { Claim, NotHeld, Refused } from '../../sdk/tenure.js';
import { part, unique } from '../../sdk/src/http.js';
import { COLLECTION } from './model.js';

/**
 * @typedef {import('./model.js').Task} Task
 * @typedef {import('../lib/place.js').Place} Place
 */

const HEARTBEAT_MS = 10_000;

/** @param {string} id */
export const taskPath = (id) => `/tasks/${part(id)}`;

/**
 * Takes the task, or takes it up again, and keeps it from then on.
 * @param {Place} place
 * @param {string} id
 * @param {import('../../sdk/tenure.js').Watch} watch
 * @param {{reason: string}} [force] An administrator takes it, whoever has it.
 * @returns {Promise<{task: Task, claim: Claim}>}
 */
export async function hold(place, id, watch, force) {
  const { http, own, clock, timers, page, tabs, activity } = place.tenure;
  const verb = force ? 'force-claim' : 'process';
  const { body: task, sentAt } = await http.ask('POST', `${taskPath(id)}/${verb}`, {
    body: force ?? {}, idempotencyKey: unique(), tries: 3,
  });
  // The application does not name the claim, by which the stream speaks of it.
  const { claim: row } = await place.tenure.item(COLLECTION, id);
  if (!row || row.holder.id !== place.session.person?.id) throw new NotHeld('lost');
  const leftMs = task.lock.expires_in_ms ?? 0;
  const claim = new Claim({ ...row, expires_in_ms: leftMs }, sentAt, {
    http: routesOf(place, id), own, clock, timers, page, tabs, activity, watch,
  }, { heartbeatMs: Math.min(HEARTBEAT_MS, Math.max(500, leftMs / 3)) });
  return { task, claim };
}

/**
 * A claim's requests, as the application has them.
 * @param {Place} place
 * @param {string} id
 * @returns {Pick<import('../../sdk/src/http.js').Http, 'ask' | 'beacon'>}
 */
function routesOf(place, id) {
  const { http } = place.tenure;
  return {
    async ask(method, path, call = {}) {
      if (!path.endsWith('/heartbeat')) {
        return http.ask('POST', `${taskPath(id)}/leave`, { ...call, body: {}, idempotencyKey: unique() });
      }
      const { idle_ms } = /** @type {{idle_ms?: number}} */ (call.body ?? {});
      try {
        const answer = await http.ask('POST', `${taskPath(id)}/heartbeat`, { ...call, body: { idle_ms } });
        const { renewed, reason, lock } = answer.body;
        /** @type {any} */
        const body = { renewed, reason, expires_at: lock.expires_at, expires_in_ms: lock.expires_in_ms };
        return { ...answer, body };
      } catch (error) {
        // Another's came after ours and is over too: ours is over all the same.
        if (error instanceof Refused && error.code === 'not_held') throw new Refused(error.status, { ...error.problem, code: 'not_holder' });
        throw error;
      }
    },
    beacon: () => http.beacon('POST', `${taskPath(id)}/leave`),
  };
}
