// A claim that is kept: renewed while somebody is there, and aware of when it must not be counted on. Pure
// logic: clock, timers, requests, page and stream are handed in. What a claim means is the server's to say.
//
//                 beat answered                       nobody there, or the server
//      ┌────────────────────────────────┐             renews no more
//      │                                │        ┌───────────────────────▶ idle
//      ▼     safe deadline, page back   │        │                          │ somebody acts, or as for held
//    held ───────────────────────▶ checking ◀────┼──────────────────────────┘
//      │                                │  ▲     │
//      │                     no answer  │  │ again, with backoff
//      │                                ▼  │
//      │                            uncertain
//      │ the server or the stream says so: from every state
//      ├──▶ lost (by others or by time)         └──▶ ended (by ourselves)
//
// One may act in `held` and `idle`, before the safe deadline. `checking` lasts a second at most: what a person
// sees need not change for it.

import { Backoff } from './backoff.js';
import { safeDeadline } from './clock.js';
import { Emitter } from './emitter.js';
import { NotHeld, Refused } from './errors.js';
import { part } from './http.js';
import { Line } from './line.js';
import { isLoss, lostBecause, lostBy } from './losses.js';
import { ENDS } from './rows.js';
import { Alarms, beatMs, heartbeatOf, lookMs, tryMs } from './schedule.js';

/**
 * @typedef {import('./errors.js').Person} Person
 * @typedef {import('./rows.js').ClaimRow} ClaimRow
 * @typedef {import('./rows.js').TenureEvent} TenureEvent
 *
 * @typedef {'held' | 'idle' | 'checking' | 'uncertain' | 'lost' | 'ended'} ClaimState
 *
 * @typedef {import('./losses.js').Lost} Lost
 * @typedef {import('./losses.js').LostReason} LostReason
 *
 * @typedef {object} ClaimOptions
 * @property {number} [heartbeatMs] How often to renew; a third of the time that is granted if not said.
 * @property {number} [idleGuardMs] From here on nobody is taken to be there, and nothing is sent. If not said,
 *   the server is told how long nobody was, and judges.
 * @property {boolean} [releaseOnLeave] Let go when the page is left; true if not said.
 *
 * @typedef {object} Around What a claim needs of the world.
 * @property {import('./line.js').Talks} http
 * @property {{now: () => number, onJump?: Set<(ms: number) => void>}} own
 * @property {import('./clock.js').ServerClock} clock
 * @property {import('./clock.js').Timers} timers
 * @property {import('./page.js').Page} page
 * @property {import('./tabs.js').Tabs} tabs
 * @property {import('./activity.js').Activity} [activity] Without one somebody is always there: a worker.
 * @property {Emitter<{event: TenureEvent, snapshot: {}}> & {rows: {claims: Map<string, ClaimRow>}}} [watch]
 * @property {() => number} [random]
 */

/** A check that takes longer than this is shown. */
const CHECK_SHOWN_AFTER_MS = 1_000;

/**
 * @extends {Emitter<{
 *   held: {expiresAt: string}, renewed: {expiresAt: string, leftMs: number},
 *   idle: {why: 'inactive' | 'max_hold', expiresAt: string}, uncertain: {why: 'deadline' | 'check'},
 *   lost: Lost, ended: {reason: string}, nudged: {from: Person, message: string | null, at: string},
 *   advanced: {phase: string, expiresAt: string}, change: {state: ClaimState},
 *   closed: {},
 * }>}
 */
export class Claim extends Emitter {
  /** @type {ClaimState} */ #state = 'held';
  /** On the own clock. */ #safeAt = 0;
  #lastBeatAt = 0;
  /** The phase's deadline can be moved. */ #renews = true;
  /** The server said that it renews no more until somebody acts. */ #toldIdle = false;
  /** @type {'inactive' | 'max_hold' | undefined} */ #restsFor;
  /** The last try got no answer. */ #isFailing = false;
  /** We are ending it ourselves. */ #isEnding = false;
  /** Nobody here follows it any more: whatever is still answered changes nothing. */ #isClosed = false;
  /** How the stream said it ended meanwhile. @type {TenureEvent | undefined} */ #endedBy;
  /** @type {Promise<void> | undefined} */ #beating;
  /** How many advances are under way: to phases that may end sooner. */ #advances = 0;
  /** Grows when an answer that was asked for before cannot be counted on any more. */ #age = 0;
  /** @type {(() => void)[]} */ #stops = [];
  /** @type {Alarms} */ #alarms;
  /** @type {Line} */ #line;

  /**
   * @param {ClaimRow} row As the server granted it.
   * @param {number} sentAt When that was asked for, on the own clock.
   * @param {Around} around
   * @param {ClaimOptions} [options]
   */
  constructor(row, sentAt, around, options = {}) {
    super();
    this.row = row;
    this.around = around;
    this.options = options;
    /** @type {Lost | undefined} */
    this.lost = undefined;
    this.backoff = new Backoff({ firstMs: 500, maxMs: 5_000, random: around.random });
    this.heartbeatMs = options.heartbeatMs ?? heartbeatOf(row.expires_in_ms);
    this.#alarms = new Alarms(around.timers);
    this.#line = new Line(around.http, row.id);
    this.#lastBeatAt = sentAt;
    this.#grant(sentAt, row.expires_in_ms ?? 0);
    this.#listen();
    // Granted after a wait, its time may be over by our count before it began: ask again, quickly.
    if (!this.canAct) this.#verify();
    this.#plan();
    around.tabs.use(this.id, row.expires_in_ms ?? 0);
    // Later, so that whoever waited for the claim can listen first.
    this.#alarms.set('first', 0, () => { if (this.#state === 'held') this.emit('held', { expiresAt: this.expiresAt }); });
  }

  get id() { return this.row.id; }
  get token() { return this.row.token; }
  get items() { return this.row.items; }
  get phase() { return this.row.phase; }
  get state() { return this.#state; }
  get expiresAt() { return this.row.expires_at; }

  /** What a person sees: the time left on the server's clock. */
  get leftMs() {
    return this.isOver ? 0 : Math.max(0, Date.parse(this.row.expires_at) - this.around.clock.now());
  }

  get isOver() {
    return this.#state === 'lost' || this.#state === 'ended';
  }

  /** It can be counted on right now. */
  get canAct() {
    // First, for it may find that the machine slept, and that changes the state.
    const now = this.around.own.now();
    return (this.#state === 'held' || this.#state === 'idle') && now < this.#safeAt;
  }

  /** Before every step that must not be done without the claim: settles it with the server where that is needed. */
  async ensure() {
    if (!this.canAct && !this.isOver) await this.#beat();
    if (!this.canAct) throw new NotHeld(this.#state);
  }

  /** Asks the server now. Somebody acted under the claim, say, and it is renewed by that. */
  async check() {
    if (!this.isOver) await this.#beat();
  }

  /** Lets go. */
  async release() {
    await this.#finish('released', 'DELETE', '');
  }

  /** Writes status and document of the items and ends the claim, in one commit. @param {object} [body] */
  async complete(body = {}) {
    return this.#finish('completed', 'POST', '/complete', { token: this.token, ...body });
  }

  async cancel() {
    return this.#finish('cancelled', 'POST', '/cancel', {});
  }

  /** Goes to the next phase. That may end sooner than this one: nobody may act until it is known when. */
  async advance() {
    this.#advances += 1;
    if (!this.isOver && !this.#isClosed) this.#suspend();
    try {
      const row = await this.#amend('POST', '/advance', {});
      this.#advances -= 1;
      const isLast = this.#advances === 0 && !this.#isClosed;
      if (isLast) this.#answered({ renewed: false, expires_in_ms: row.expires_in_ms ?? 0 });
      this.#plan();
      this.emit('advanced', { phase: row.phase, expiresAt: row.expires_at });
      return row;
    } catch (error) {
      this.#advances -= 1;
      // Without an answer it may have happened all the same.
      if (!this.#isClosed) this.#verify();
      throw error;
    }
  }

  /** @param {string} item */
  addItem(item) {
    return this.#amend('POST', '/items', { item });
  }

  /** @param {string} item */
  removeItem(item) {
    return this.#amend('DELETE', `/items/${part(item)}`);
  }

  /** Stops following it, without letting go. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const stop of this.#stops.splice(0)) stop();
    this.#alarms.close();
    this.around.tabs.leave(this.id);
    this.emit('closed', {});
  }

  // ---- what the world tells -------------------------------------------------------------------------------

  #listen() {
    const { page, activity, watch, own } = this.around;
    const back = () => this.#verify();
    own.onJump?.add(back);
    this.#stops.push(
      () => own.onJump?.delete(back),
      page.on('back', back),
      page.on('hidden', () => this.#plan()),
      page.on('offline', () => { this.#isFailing = true; }),
      page.on('leave', () => this.#leave()),
    );
    if (activity) this.#stops.push(activity.on('active', () => this.#wake()));
    if (watch) {
      this.#stops.push(
        watch.on('event', (event) => this.#hear(event)),
        watch.on('snapshot', () => { if (!watch.rows.claims.has(this.id)) this.#verify(); }),
      );
    }
  }

  /** @param {TenureEvent} event */
  #hear(event) {
    if (this.isOver) return;
    if (event.type === 'resumed') return void this.#beat();
    if (event.claim !== this.id) return;
    if (ENDS.has(event.type)) {
      if (this.#isEnding) this.#endedBy = event;
      else this.#lose(lostBy(event));
    } else if (event.type === 'release_requested') {
      this.emit('nudged', { from: event.actor, message: event.message ?? null, at: event.at });
    } else if (event.type === 'item_added' || event.type === 'item_removed') this.#items(event);
    else if (event.type === 'claim_advanced') this.#advanced(event);
  }

  /** @param {TenureEvent} event */
  #advanced(event) {
    const isNews = this.row.phase !== event.phase;
    this.row = { ...this.row, phase: event.phase, expires_at: event.expires_at };
    this.#renews = true;
    if (isNews) this.emit('advanced', { phase: event.phase, expiresAt: event.expires_at });
    // How long we may count on it is said by answers to our own questions alone, and it may be less than before.
    if (isNews && this.#advances === 0) this.#verify();
    else this.#beat();
  }

  /** Another tab of ours chose, or put back. @param {TenureEvent} event */
  #items(event) {
    const given = event.items ?? [];
    const others = this.row.items.filter((item) => !given.includes(item));
    const isAdded = event.type === 'item_added';
    this.row = { ...this.row, items: isAdded ? [...others, ...given] : others, token: event.token ?? this.row.token };
    this.emit('change', { state: this.#state });
  }

  /** Somebody is there again. */
  #wake() {
    // Where actions are missed, input alone changes nothing; where nobody answers, the next try is due anyway.
    if (this.#state !== 'idle' || this.#restsFor !== 'inactive' || this.#isFailing) return;
    this.#toldIdle = false;
    this.#beat();
  }

  /** The page is going away. */
  #leave() {
    if (this.isOver || this.options.releaseOnLeave === false) return;
    const { tabs } = this.around;
    const isShared = tabs.isUsedElsewhere(this.id);
    tabs.leave(this.id);
    if (!isShared) this.#line.drop();
    // Should the page come back out of the browser's cache, it must ask first.
    this.#enter('checking');
    this.#alarms.unset('beat');
  }

  // ---- keeping it -----------------------------------------------------------------------------------------

  /** Nobody may act until the server has answered. */
  #verify() {
    if (this.isOver) return;
    this.#suspend();
    this.#beat();
  }

  /** Nothing that was asked before counts. */
  #suspend() {
    this.#age += 1;
    if (this.#state === 'uncertain') return;
    this.#enter('checking');
    this.#alarms.set('shown', CHECK_SHOWN_AFTER_MS, () => this.#doubt('check'));
  }

  /** One at a time: the answer that comes last must be the newest. */
  #beat() {
    this.#beating ??= this.#send().finally(() => {
      this.#beating = undefined;
      if (!this.isOver) this.#plan();
    });
    return this.#beating;
  }

  /** @returns {Promise<void>} */
  async #send() {
    const { own, activity, tabs } = this.around;
    const timeoutMs = tryMs(this.#safeAt - own.now());
    const idle = activity ? { idle_ms: activity.idleMs() } : {};
    this.#lastBeatAt = own.now();
    const age = this.#age;
    try {
      const { body, sentAt } = await this.#line.heartbeat({ token: this.token, ...idle }, timeoutMs);
      if (this.isOver || this.#isClosed) return;
      this.#isFailing = false;
      // The answer to the advance says more, whichever of the two the server gave first.
      if (this.#advances > 0) return;
      // The page was away meanwhile, or the phase changed: it may have been answered before that.
      if (age !== this.#age) return await this.#send();
      this.row = { ...this.row, expires_at: body.expires_at };
      this.#grant(sentAt, body.expires_in_ms);
      tabs.use(this.id, body.expires_in_ms);
      this.#answered(body);
    } catch (error) {
      if (!this.isOver && !this.#isClosed) this.#unanswered(error);
    }
  }

  /** @param {{renewed: boolean, reason?: string, expires_in_ms: number}} body */
  #answered({ renewed, reason, expires_in_ms: leftMs }) {
    const { own } = this.around;
    this.#renews = reason !== 'fixed_phase';
    this.#toldIdle = reason === 'idle';
    if (renewed) this.emit('renewed', { expiresAt: this.expiresAt, leftMs });
    if (own.now() >= this.#safeAt) {
      // It ends this very moment: how, the next answer tells.
      this.#enter('checking');
      return this.#alarms.set('again', Math.max(leftMs + 50, 300), () => this.#beat());
    }
    this.backoff.reset();
    this.#alarms.unset('again', 'shown');
    const why = reason === 'idle' ? 'inactive' : reason === 'max_hold' ? 'max_hold' : undefined;
    if (why) return this.#rest(why);
    if (this.#enter('held')) this.emit('held', { expiresAt: this.expiresAt });
  }

  /** @param {unknown} error */
  #unanswered(error) {
    if (this.#isEnding) return;
    if (isLoss(error)) return this.#lose(lostBecause(error));
    this.#isFailing = true;
    if (this.#state === 'checking') this.#doubt('check');
    const named = error instanceof Refused ? (error.retryAfterMs ?? 0) : 0;
    this.#alarms.set('again', Math.max(named, this.backoff.next()), () => { if (this.#maySend()) this.#beat(); });
  }

  /** @param {'inactive' | 'max_hold'} why */
  #rest(why) {
    this.#restsFor = why;
    if (this.#enter('idle')) this.emit('idle', { why, expiresAt: this.expiresAt });
  }

  /** @param {'deadline' | 'check'} why */
  #doubt(why) {
    if (this.#enter('uncertain')) this.emit('uncertain', { why });
  }

  /**
   * @param {number} sentAt
   * @param {number} leftMs
   */
  #grant(sentAt, leftMs) {
    this.#safeAt = safeDeadline(sentAt, leftMs);
  }

  /** Sets the timers for what comes next. */
  #plan() {
    if (this.#isClosed) return;
    const { own, page, activity, random = Math.random } = this.around;
    const now = own.now();
    this.#alarms.unset('beat', 'guard', 'deadline');
    // In doubt, the next try has a timer of its own.
    if (this.#state !== 'held' && this.#state !== 'idle') return;
    this.#alarms.set('deadline', this.#safeAt - now, () => this.#due());
    if (!this.#renews) {
      const inMs = lookMs(this.#safeAt - now);
      if (inMs !== undefined) this.#alarms.set('beat', inMs, () => { if (this.#maySend()) this.#beat(); });
      return;
    }
    if (!page.isVisible || this.#toldIdle) return;
    const guard = this.options.idleGuardMs;
    if (guard !== undefined && activity) {
      if (activity.idleMs() >= guard) return this.#rest('inactive');
      this.#alarms.set('guard', guard - activity.idleMs(), () => this.#plan());
    }
    this.#alarms.set('beat', beatMs(now - this.#lastBeatAt, this.heartbeatMs, random), () => this.#beat());
  }

  /** The safe deadline has come. */
  #due() {
    const { own } = this.around;
    if (this.isOver) return;
    // Timers may be early, and the deadline may have moved.
    if (own.now() < this.#safeAt) return this.#alarms.set('deadline', this.#safeAt - own.now(), () => this.#due());
    if (!this.#maySend()) return this.#doubt('deadline');
    if (!this.#isFailing) return this.#verify();
    this.#doubt('deadline');
    this.#beat();
  }

  /** A page that nobody sees is silent; it asks when it is seen again. */
  #maySend() {
    return this.around.page.isVisible;
  }

  // ---- the end --------------------------------------------------------------------------------------------

  /** @param {Lost} lost */
  #lose(lost) {
    if (this.isOver) return;
    this.lost = lost;
    this.#enter('lost');
    this.close();
    this.emit('lost', lost);
  }

  /**
   * @param {string} reason
   * @param {string} method
   * @param {string} verb
   * @param {object} [body]
   */
  async #finish(reason, method, verb, body) {
    if (this.isOver) return this.row;
    // The stream may be quicker than the answer; what ends by our own will is not lost.
    this.#isEnding = true;
    try {
      const answer = await this.#line.ask(method, verb, body);
      this.row = answer.body ?? this.row;
    } catch (error) {
      this.#isEnding = false;
      if (isLoss(error)) this.#lose(lostBecause(error));
      else if (this.#endedBy) this.#lose(lostBy(this.#endedBy));
      throw error;
    }
    this.#enter('ended');
    this.close();
    this.emit('ended', { reason });
    return this.row;
  }

  /**
   * @param {string} method
   * @param {string} verb
   * @param {object} [body]
   * @returns {Promise<ClaimRow>}
   */
  #amend(method, verb, body) {
    return this.#line.inTurn(async () => {
      try {
        const { body: row, sentAt } = await this.#line.ask(method, verb, body);
        this.#age += 1;
        this.row = row;
        this.#grant(sentAt, row.expires_in_ms);
        this.#plan();
        return row;
      } catch (error) {
        if (error instanceof Refused && error.code === 'lost') this.#lose(lostBecause(error));
        throw error;
      }
    });
  }

  /** @param {ClaimState} state */
  #enter(state) {
    if (this.#state === state) return false;
    this.#state = state;
    this.emit('change', { state });
    return true;
  }
}
