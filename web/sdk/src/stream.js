// A collection's events, in order and without a gap, over whatever connection there is. This file decides when
// to connect, how, and from where to go on; `transports.js` does the talking. It never looks at an event beyond
// its number.
//
//            first message                    closed, silent, gap
//   opening ───────────────▶ live / polling ──────────────────────▶ waiting ──▶ opening …
//      └──────────────── failed ────────────────────────────────────▲
//   refused (who we are is not enough) and stopped are ends; `start` begins anew.

import { Backoff } from './backoff.js';
import { Emitter } from './emitter.js';

/**
 * @typedef {import('./rows.js').Snapshot} Snapshot
 * @typedef {import('./rows.js').TenureEvent} TenureEvent
 *
 * @typedef {{epoch: number, seq: number}} Cursor
 * @typedef {'socket' | 'sse' | 'poll'} Way
 *
 * @typedef {object} Ears What a connection tells.
 * @property {(snapshot: Snapshot) => void} snapshot
 * @property {(event: TenureEvent, epoch: number) => void} event
 * @property {() => void} resync Our number means nothing any more; a snapshot follows.
 * @property {() => void} alive It works, and has told everything there was.
 * @property {(why: Why) => void} closed
 *
 * @typedef {object} Why Why it is closed.
 * @property {import('./errors.js').Refused} [refused] Who we are is not enough: an end.
 * @property {import('./errors.js').Refused} [because] What the server said instead, and may say otherwise later.
 * @property {boolean} [unsupported] This way does not get through.
 * @property {boolean} [soon]
 *
 * @typedef {{close: () => void, probe?: () => void}} Connection
 * @typedef {(cursor: Cursor | undefined, ears: Ears) => Connection} Opener
 *
 * @typedef {'opening' | 'live' | 'polling' | 'waiting' | 'refused' | 'stopped'} StreamState
 * @typedef {{state: StreamState, way: Way, retryInMs?: number, code?: string, reason?: string}} Status `code` and
 *   `reason` say why it is refused, or waits: the one for programs, the other in words.
 */

/** Failures in a row, without a word from the server, after which another way is tried. */
const FAILURES_MAX = 2;
/** How long the lesser way is kept before the better one is tried again. */
const BETTER_AFTER_MS = 60_000;
/** An opening that says nothing for so long has failed: proxies may hold a stream back for ever. */
const OPENING_MAX_MS = 10_000;

/** @extends {Emitter<{snapshot: Snapshot, event: TenureEvent, status: Status}>} */
export class Stream extends Emitter {
  /**
   * @param {object} options
   * @param {Partial<Record<Way, Opener>>} options.ways The ways there are, the best first.
   * @param {import('./clock.js').OwnClock | {now: () => number}} options.own
   * @param {import('./clock.js').Timers} options.timers
   * @param {() => number} [options.random]
   */
  constructor({ ways, own, timers, random = Math.random }) {
    super();
    this.ways = ways;
    this.order = /** @type {Way[]} */ (Object.keys(ways));
    this.own = own;
    this.timers = timers;
    this.backoff = new Backoff({ random });
    /** @type {Cursor | undefined} */
    this.cursor = undefined;
    /** @type {Status} */
    this.status = { state: 'stopped', way: this.order[0] ?? 'poll' };
    /** Why it was refused last. @type {import('./errors.js').Refused | undefined} */
    this.refusal = undefined;
    /** When the server last said anything, on the own clock. @type {number | undefined} */
    this.heardAt = undefined;
    this.failures = 0;
    this.betterAt = 0;
    this.gapAt = -1;
    /** @type {Connection | undefined} */
    this.connection = undefined;
    /** @type {unknown} */
    this.timer = undefined;
    // Words of a connection that was given up must not be heard.
    this.turn = 0;
  }

  start() {
    const { state } = this.status;
    if (state === 'stopped' || state === 'refused') this.#open(this.order[0] ?? 'poll');
  }

  /** Closes the connection and keeps the place. */
  stop() {
    this.#drop();
    this.#say({ state: 'stopped', way: this.status.way });
  }

  /** Something suggests that the network has changed: be sure of the connection, or come back at once. */
  nudge() {
    if (this.status.state === 'waiting') this.#open(this.#way());
    else this.connection?.probe?.();
  }

  /** @param {Way} way */
  #open(way) {
    this.#drop();
    const turn = this.turn;
    const opener = this.ways[way];
    if (!opener) return;
    this.#say({ state: 'opening', way });
    let spoke = false;
    const mine = (/** @type {() => void} */ act) => () => { if (turn === this.turn) act(); };
    const heard = (isAll = true) => {
      this.heardAt = this.own.now();
      this.failures = 0;
      this.backoff.reset();
      // Between two answers what is shown grows old: whoever says how old hears of each.
      if (spoke && isAll && way === 'poll') this.#say(this.status);
      if (spoke) return;
      spoke = true;
      this.timers.clear(this.timer);
      if (way !== this.order[0]) this.#tryBetterLater();
      this.#say({ state: way === 'poll' ? 'polling' : 'live', way });
    };
    this.timer = this.timers.set(mine(() => this.#failed(way, spoke, {})), OPENING_MAX_MS);
    this.connection = opener(this.cursor, {
      alive: () => mine(heard)(),
      resync: () => mine(() => { this.cursor = undefined; })(),
      snapshot: (snapshot) => mine(() => {
        this.cursor = { epoch: snapshot.epoch, seq: snapshot.seq };
        this.emit('snapshot', snapshot);
        heard();
      })(),
      event: (event, epoch) => mine(() => { if (this.#take(event, epoch)) heard(false); })(),
      closed: (why) => mine(() => this.#failed(way, spoke, why))(),
    });
  }

  /**
   * @param {TenureEvent} event
   * @param {number} epoch
   */
  #take(event, epoch) {
    const seq = this.cursor?.seq ?? 0;
    if (this.cursor && this.cursor.epoch === epoch && event.seq <= seq) return true;
    if (this.cursor && (this.cursor.epoch !== epoch || event.seq !== seq + 1)) {
      // A hole. Asking again from our number fills it; where it did not, the number is worth nothing.
      if (this.gapAt === seq) this.cursor = undefined;
      this.gapAt = seq;
      this.#wait(this.status.way, 0);
      return false;
    }
    this.cursor = { epoch, seq: event.seq };
    this.emit('event', event);
    return true;
  }

  /**
   * @param {Way} way
   * @param {boolean} spoke
   * @param {Why} why
   */
  #failed(way, spoke, why) {
    if (why.refused) {
      this.#drop();
      this.refusal = why.refused;
      return this.#say({ state: 'refused', way, code: why.refused.code, reason: why.refused.message });
    }
    // That there is nothing yet was said by the server itself: the way works.
    const isWorking = spoke || why.because?.code === 'not_found';
    this.failures = why.unsupported ? FAILURES_MAX : this.failures + (isWorking ? 0 : 1);
    const next = this.order[this.order.indexOf(way) + 1];
    if (this.failures >= FAILURES_MAX && next) {
      this.failures = 0;
      return this.#wait(next, 0, why.because);
    }
    // Where even the last way fails the network is to blame, and the best one may be the first to return.
    const again = this.failures >= FAILURES_MAX ? (this.order[0] ?? way) : way;
    this.#wait(again, why.soon ? this.backoff.random() * 1_000 : this.backoff.next(), why.because);
  }

  /**
   * @param {Way} way
   * @param {number} ms
   * @param {import('./errors.js').Refused} [because]
   */
  #wait(way, ms, because) {
    this.#drop();
    this.#say({ state: 'waiting', way, retryInMs: ms, ...(because && { code: because.code, reason: because.message }) });
    this.timer = this.timers.set(() => this.#open(way), ms);
  }

  #tryBetterLater() {
    this.betterAt = this.own.now() + BETTER_AFTER_MS;
    this.timer = this.timers.set(() => this.#open(this.order[0] ?? 'poll'), BETTER_AFTER_MS);
  }

  /** The way to come back on. */
  #way() {
    return this.own.now() >= this.betterAt ? (this.order[0] ?? 'poll') : this.status.way;
  }

  #drop() {
    this.turn += 1;
    this.timers.clear(this.timer);
    const connection = this.connection;
    this.connection = undefined;
    connection?.close();
  }

  /** @param {Status} status */
  #say(status) {
    this.status = status;
    this.emit('status', status);
  }
}
