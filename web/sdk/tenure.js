// The SDK's front door: a server, and what one does with it.
//
//   import { Tenure } from './tenure.js';
//   const tenure = new Tenure();
//   const claim = await tenure.claim('task/inbound', ['t-7'], { idleGuardMs: 120_000 });
//   claim.on('lost', ({ reason, holder }) => …);

import { Activity } from './src/activity.js';
import { Claim } from './src/claim.js';
import { OwnClock, ServerClock, systemTimers } from './src/clock.js';
import { collectionPath, Http, part, unique } from './src/http.js';
import { browserPage } from './src/page.js';
import { Stream } from './src/stream.js';
import { broadcast, Tabs, tabSession } from './src/tabs.js';
import { pollWay, socketWay, sseWay } from './src/transports.js';
import { Watch } from './src/watch.js';

export { NotHeld, Refused, Unreachable } from './src/errors.js';
export { Rows } from './src/rows.js';
// Not `from` their files: TypeScript would leave out of the declarations that they are also used here.
export { Claim, OwnClock, ServerClock, Watch };

/**
 * @typedef {import('./src/claim.js').ClaimOptions} ClaimOptions
 * @typedef {import('./src/claim.js').ClaimState} ClaimState
 * @typedef {import('./src/claim.js').Lost} Lost
 * @typedef {import('./src/claim.js').LostReason} LostReason
 * @typedef {import('./src/errors.js').Person} Person
 * @typedef {import('./src/rows.js').ClaimRow} ClaimRow
 * @typedef {import('./src/rows.js').ItemRow} ItemRow
 * @typedef {import('./src/rows.js').TenureEvent} TenureEvent
 * @typedef {import('./src/stream.js').Status} Status
 *
 * @typedef {object} TenureOptions
 * @property {string} [base] Where the server is; in a browser the page's own.
 * @property {string | (() => Promise<string> | string)} [key] An API key or a token. Without one the session's
 *   cookie speaks, which a page should prefer.
 * @property {string} [session] Who holds what this one claims. If not given, a browser's tab is one holder; elsewhere
 *   each claim is, so that a job which is delivered twice to one process runs once.
 * @property {number} [pollMs] How often to ask where no stream gets through.
 * @property {import('./src/stream.js').Way[]} [ways] Which ways to try, in this order.
 * @property {typeof fetch} [fetch]
 * @property {typeof WebSocket} [WebSocket]
 *
 * @typedef {object} Wish What to say about a claim beside where and what.
 * @property {number} [ttlMs]
 * @property {number} [waitMs] Wait so long for what another holds, first come first served.
 * @property {any} [data]
 * @property {AbortSignal} [signal]
 * @property {boolean} [follow] Hear of its loss at once, on the collection's stream; true if not said.
 */

const POLL_MS = 5_000;

/** A server, as one person or worker sees it. Make one per page. */
export class Tenure {
  /** @param {TenureOptions} [options] */
  constructor(options = {}) {
    const { base = '', key, pollMs = POLL_MS } = options;
    this.own = new OwnClock();
    /** The server's time: what is shown to people is counted on it. */
    this.clock = new ServerClock(this.own);
    this.timers = systemTimers;
    const getKey = typeof key === 'string' ? () => key : key;
    this.http = new Http({
      base, own: this.own, clock: this.clock, timers: this.timers, key: getKey, fetch: options.fetch,
    });
    this.page = browserPage();
    const isBrowser = typeof document !== 'undefined';
    const channel = broadcast('tenure');
    this.activity = isBrowser ? new Activity({ own: this.own, channel, target: window }) : undefined;
    this.tabs = new Tabs({ channel, tab: unique(), own: this.own });
    const tab = isBrowser ? tabSession({ storage: sessionStorage, page: this.page, make: unique }) : undefined;
    this.session = options.session ?? tab;
    this.pollMs = pollMs;
    this.ways = options.ways;
    this.Socket = options.WebSocket ?? globalThis.WebSocket;
    /** @type {Map<string, Watch>} */
    this.watches = new Map();
    this.#followPage();
  }

  /**
   * Takes items, all or none. A refusal says who has them.
   * @param {string} collection
   * @param {string | string[]} items
   * @param {Wish & ClaimOptions} [wish]
   */
  async claim(collection, items, wish = {}) {
    const { ttlMs, waitMs, data, signal, follow = true, ...options } = wish;
    // Followed before it is asked for: what happens right after the grant must not be missed.
    const watch = follow ? this.#watched(collection) : undefined;
    const stop = watch?.open();
    try {
      const { body, sentAt } = await this.http.ask('POST', '/v1/claims', {
        body: {
          collection, items: [items].flat(), session: this.session ?? unique(),
          ...(ttlMs !== undefined && { ttl_ms: ttlMs }),
          ...(waitMs !== undefined && { wait_ms: waitMs }),
          ...(data !== undefined && { data }),
        },
        idempotencyKey: unique(), tries: 3, signal, timeoutMs: 15_000 + (waitMs ?? 0),
      });
      // What is there now may not have been when the stream asked for it.
      if (watch?.status.state === 'waiting') watch.stream.nudge();
      const { http, own, clock, timers, page, tabs, activity } = this;
      const claim = new Claim(body, sentAt, { http, own, clock, timers, page, tabs, activity, watch }, options);
      // Lost and ended claims close themselves.
      claim.on('closed', () => stop?.());
      return claim;
    } catch (error) {
      stop?.();
      throw error;
    }
  }

  /**
   * A collection, live; shared with everyone else who watches it here. Close it when you look no more.
   * @param {string} collection
   */
  watch(collection) {
    const watch = this.#watched(collection);
    return { watch, close: watch.open() };
  }

  /** Who is signed in, if anyone, and the demonstration's people. Rejects with the reason where the key or token is not good. */
  async me() {
    return (await this.http.ask('GET', '/v1/session', { tries: 3 })).body;
  }

  /** @param {{key: string} | {demo: string}} who */
  async signIn(who) {
    return (await this.http.ask('POST', '/v1/session', { body: who })).body;
  }

  async signOut() {
    await this.http.ask('DELETE', '/v1/session');
  }

  /**
   * Asks a holder to let go. It changes no claim.
   * @param {string} claim
   * @param {string} [message]
   */
  async nudge(claim, message) {
    const body = message === undefined ? {} : { message };
    await this.http.ask('POST', `/v1/claims/${part(claim)}/nudge`, { body });
  }

  /**
   * An item, and who holds it.
   * @param {string} collection
   * @param {string} item
   */
  async item(collection, item) {
    return (await this.http.ask('GET', `${collectionPath(collection)}/items/${part(item)}`, { tries: 3 })).body;
  }

  /** Closes every stream. Claims are not let go. */
  close() {
    for (const watch of this.watches.values()) watch.stream.stop();
  }

  /** @param {string} collection */
  #watched(collection) {
    const known = this.watches.get(collection);
    if (known) return known;
    const stream = new Stream({ ways: this.#ways(collection), own: this.own, timers: this.timers });
    const watch = new Watch(collection, stream, this.own);
    this.watches.set(collection, watch);
    return watch;
  }

  /** @param {string} collection */
  #ways(collection) {
    const { http, page, Socket } = this;
    const all = {
      socket: Socket && socketWay(http, collection, Socket),
      sse: sseWay(http, collection),
      poll: pollWay(http, collection, { everyMs: this.pollMs, isVisible: () => page.isVisible }),
    };
    const wanted = this.ways ?? /** @type {import('./src/stream.js').Way[]} */ (['socket', 'sse', 'poll']);
    return Object.fromEntries(wanted.filter((way) => all[way]).map((way) => [way, all[way]]));
  }

  #followPage() {
    const each = (/** @type {(stream: Stream) => void} */ act) => {
      for (const watch of this.watches.values()) if (watch.watchers > 0) act(watch.stream);
    };
    // An open connection would keep the page out of the browser's cache.
    this.page.on('leave', () => each((stream) => stream.stop()));
    this.page.on('back', () => each((stream) => { stream.start(); stream.nudge(); }));
    this.own.onJump.add(() => each((stream) => stream.nudge()));
  }
}
