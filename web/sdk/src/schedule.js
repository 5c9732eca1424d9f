// When a claim has to do something: arithmetic, and timers that go by name. It knows neither states nor the server.

import { jittered } from './backoff.js';

/** A fixed deadline is looked at this long before it, so that nothing flickers at the turn of a phase. */
const LOOK_AHEAD_MS = 1_500;
/** The time for one try; a shorter one where the deadline is near. */
const BEAT_MAX_MS = 10_000;
const BEAT_MIN_MS = 1_000;

/** How often to renew, where nobody said. @param {number | null | undefined} grantedMs */
export const heartbeatOf = (grantedMs) => Math.max(1_000, (grantedMs ?? 30_000) / 3);

/** How long one try may take. @param {number} leftMs Until the safe deadline. */
export function tryMs(leftMs) {
  return leftMs > 0 ? Math.min(BEAT_MAX_MS, Math.max(BEAT_MIN_MS, leftMs / 2)) : BEAT_MAX_MS;
}

/** When to look at a deadline that does not move; not at all where it is too near. @param {number} leftMs */
export function lookMs(leftMs) {
  const early = leftMs - LOOK_AHEAD_MS;
  return early > 0 ? early : undefined;
}

/**
 * When the next heartbeat is due.
 * @param {number} sinceLastMs
 * @param {number} everyMs
 * @param {() => number} random
 */
export const beatMs = (sinceLastMs, everyMs, random) => Math.max(0, jittered(everyMs, random) - sinceLastMs);

/** Timers by name: one that is set again replaces itself. */
export class Alarms {
  /** @type {Record<string, unknown>} */ #running = {};
  #isClosed = false;

  /** @param {import('./clock.js').Timers} timers */
  constructor(timers) {
    this.timers = timers;
  }

  /**
   * @param {string} name
   * @param {number} ms
   * @param {() => void} run
   */
  set(name, ms, run) {
    if (this.#isClosed) return;
    this.unset(name);
    this.#running[name] = this.timers.set(run, Math.max(0, ms));
  }

  /** @param {...string} names */
  unset(...names) {
    for (const name of names) {
      this.timers.clear(this.#running[name]);
      delete this.#running[name];
    }
  }

  /** None rings any more, nor can be set. */
  close() {
    this.#isClosed = true;
    this.unset(...Object.keys(this.#running));
  }
}
