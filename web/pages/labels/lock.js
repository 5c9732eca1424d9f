// The lock of one image, kept while somebody works on it. One person has it, in however many tabs. The stream
// says when it is lost; the own deadline says when it must not be counted on.

import { safeDeadline } from '../../sdk/src/clock.js';
import { Emitter } from '../../sdk/src/emitter.js';
import { ENDS } from '../../sdk/src/rows.js';
import { Refused } from '../../sdk/tenure.js';

/**
 * @typedef {'asking' | 'mine' | 'other' | 'free' | 'lost' | 'uncertain'} LockState
 * @typedef {{reason: string, by: string, note: string}} Loss
 */

/** So long without a sign of life, and the lock is left to run out. */
const IDLE_MS = 240_000;
const RETRY_MS = 2_000;
const LEAST_MS = 250;

/** Releases that are on their way: whoever comes back at once waits for them. @type {Map<string, Promise<unknown>>} */
const releasing = new Map();

/** @extends {Emitter<{change: {}, lost: Loss, nudged: {name: string, message: string}}>} */
export class ImageLock extends Emitter {
  /** @type {LockState} */ state = 'asking';
  /** Who has it, if not me. */ holder = '';
  since = '';
  expiresAt = '';
  /** @type {number | undefined} */ token = undefined;
  /** @type {Loss | undefined} */ loss = undefined;
  #safeAt = 0;
  #heartbeatMs = 60_000;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer = undefined;
  #isClosed = false;
  #isEnding = false;
  #isAsking = false;
  /** The page went away, and the lock with it. */ #isLeft = false;

  /**
   * @param {import('../lib/place.js').Place} place
   * @param {import('../../sdk/tenure.js').Watch} watch
   * @param {{project: string, image: string}} which
   */
  constructor(place, watch, { project, image }) {
    super();
    this.place = place;
    this.watch = watch;
    this.image = image;
    this.body = { project_id: project, image_id: image };
    this.name = `image/${project}/${image}`;
    const { page, tabs } = place.tenure;
    const stops = [
      watch.on('event', (event) => this.#hear(event)),
      watch.on('snapshot', () => this.#look()),
      page.on('back', () => this.#back()),
      page.on('leave', () => this.#leave(true)),
    ];
    place.onLeave(() => {
      stops.forEach((stop) => stop());
      this.#leave(false);
      tabs.leave(this.name);
    });
  }

  get canWrite() {
    return this.state === 'mine' && this.place.tenure.own.now() < this.#safeAt;
  }

  /** We count on it, or did a moment ago. */
  get isKept() {
    return this.state === 'mine' || this.state === 'uncertain';
  }

  /** The claim behind the lock, as the stream has it. */
  get claim() {
    return this.watch.rows.held.get(this.image);
  }

  async acquire() {
    const { own } = this.place.tenure;
    this.#isAsking = true;
    try {
      await releasing.get(this.name);
      const sentAt = own.now();
      const answer = await this.place.send('POST', '/api/v1/locks/acquire', this.body);
      if (this.#isClosed) return;
      if (answer.success) this.#grant(answer, sentAt);
      else this.#enter('other', { holder: answer.locked_by_name, since: answer.locked_at });
    } finally {
      this.#isAsking = false;
    }
  }

  /** Asks the server whether it is still ours. */
  async check() {
    const { own } = this.place.tenure;
    const sentAt = own.now();
    try {
      this.#grant((await this.place.tenure.http.ask('POST', '/api/v1/locks/heartbeat', { body: this.body, timeoutMs: 10_000 })).body, sentAt);
    } catch (error) {
      if (this.#isClosed || !this.isKept) return;
      if (error instanceof Refused && !error.isPassing) {
        const problem = /** @type {any} */ (error.problem);
        this.#lose({ reason: problem.reason ?? 'other', by: '', note: '' }, problem.holder?.name);
      } else this.doubt();
    }
  }

  /** A request got no answer: whether it is ours, nobody here knows before one does. */
  doubt() {
    if (this.#isClosed || !this.isKept) return;
    if (this.state !== 'uncertain') this.#enter('uncertain', { since: this.since });
    this.#plan(RETRY_MS);
  }

  async release() {
    this.#isEnding = true;
    try {
      await this.place.send('POST', '/api/v1/locks/release', this.body);
      this.#enter('free');
    } finally {
      this.#isEnding = false;
    }
  }

  /** @param {any} answer @param {number} sentAt */
  #grant(answer, sentAt) {
    if (this.#isClosed) return;
    const { tabs } = this.place.tenure;
    this.token = answer.token;
    this.expiresAt = answer.expires_at;
    this.#heartbeatMs = answer.heartbeat_ms ?? this.#heartbeatMs;
    this.#safeAt = safeDeadline(sentAt, answer.expires_in_ms ?? 0);
    tabs.use(this.name, answer.expires_in_ms ?? 0);
    this.#enter('mine', { since: answer.locked_at });
    this.#plan();
  }

  /** @param {number} [inMs] */
  #plan(inMs) {
    clearTimeout(this.#timer);
    const left = this.#safeAt - this.place.tenure.own.now();
    const next = inMs ?? Math.min(this.#heartbeatMs, left / 2);
    this.#timer = setTimeout(() => this.#due(), Math.max(LEAST_MS, left > 0 ? Math.min(next, left) : next));
  }

  #due() {
    if (this.#isClosed || !this.isKept) return;
    const { own, page, activity } = this.place.tenure;
    if (own.now() >= this.#safeAt) {
      // Ours or not, nobody here knows.
      if (this.state !== 'uncertain') this.#enter('uncertain');
      if (page.isVisible) void this.check();
      else this.#plan(RETRY_MS);
      return;
    }
    // Who is not there need not keep it from the others.
    if (!page.isVisible || (this.state === 'mine' && (activity?.idleMs() ?? 0) > IDLE_MS)) return this.#plan();
    void this.check();
  }

  /** @param {import('../../sdk/tenure.js').TenureEvent} event */
  #hear(event) {
    if (event.type === 'release_requested' && this.claim?.id === event.claim && this.isKept) {
      return this.emit('nudged', { name: event.actor.name, message: event.message ?? '' });
    }
    if (!event.items?.includes(this.image)) return undefined;
    const me = this.place.session.person?.id;
    if (ENDS.has(event.type) && this.isKept && event.holder?.id === me) {
      if (this.#isEnding) return undefined;
      const isForced = event.type === 'LOCK_FORCE_RELEASE';
      const reason = isForced ? 'force_released' : event.reason ?? 'other';
      return this.#lose({ reason, by: event.actor.id === 'system' ? '' : event.actor.name, note: event.note ?? (isForced ? event.reason : '') ?? '' });
    }
    return this.#look();
  }

  /** What the stream says of it, while it is not ours. */
  #look() {
    const { claim } = this;
    const me = this.place.session.person?.id;
    if (this.isKept) {
      // In doubt, hearing from the server at all is the moment to ask.
      if (this.state === 'uncertain' || !claim || claim.holder.id !== me) void this.check();
      return;
    }
    if (this.#isAsking || this.state === 'asking') return;
    if (claim && claim.holder.id !== me) {
      if (this.state === 'lost') {
        this.holder = claim.holder.name;
        this.emit('change', {});
      } else this.#enter('other', { holder: claim.holder.name, since: claim.since });
    } else if (claim) void this.acquire().catch(() => {});
    else if (this.state === 'other') this.#enter('free');
    else if (this.state === 'lost') {
      this.holder = '';
      this.emit('change', {});
    }
  }

  /** @param {Loss} loss @param {string} [holder] */
  #lose(loss, holder = '') {
    clearTimeout(this.#timer);
    this.loss = loss;
    const now = this.claim;
    const other = now && now.holder.id !== this.place.session.person?.id ? now.holder.name : '';
    this.#enter('lost', { holder: holder || other || (loss.reason === 'taken_over' ? loss.by : '') });
    this.emit('lost', loss);
  }

  /** @param {LockState} state @param {{holder?: string, since?: string}} [more] */
  #enter(state, { holder = '', since = '' } = {}) {
    if (this.#isClosed) return;
    this.state = state;
    this.holder = holder;
    this.since = since || (state === 'mine' ? this.since : '');
    if (state !== 'lost') this.loss = undefined;
    this.emit('change', {});
  }

  /** The page is seen again. */
  #back() {
    if (this.#isLeft) {
      this.#isLeft = false;
      this.acquire().catch(() => this.#plan(RETRY_MS));
    } else if (this.isKept) void this.check();
  }

  /** @param {boolean} isPageGoing */
  #leave(isPageGoing) {
    clearTimeout(this.#timer);
    if (isPageGoing) this.#isLeft = this.isKept;
    else this.#isClosed = true;
    if (!this.isKept || this.place.tenure.tabs.isUsedElsewhere(this.name)) return;
    // The page may be gone before an answer comes.
    const sent = fetch('/api/v1/locks/release', {
      method: 'POST', keepalive: true, credentials: 'same-origin', headers: { 'content-type': 'application/json', 'x-tenure-csrf': '1' }, body: JSON.stringify(this.body),
    }).catch(() => {
      // Its own deadline ends it then.
    }).finally(() => { if (releasing.get(this.name) === sent) releasing.delete(this.name); });
    releasing.set(this.name, sent);
  }
}
