// Requests: who asks, how long to wait, what an answer means, and the server's time in it. It retries only
// what is safe to repeat, and knows nothing of claims.

import { Backoff } from './backoff.js';
import { Refused, Unreachable } from './errors.js';

/** @typedef {import('./clock.js').Timers} Timers */

/**
 * @typedef {object} Call
 * @property {unknown} [body]
 * @property {Record<string, string>} [headers]
 * @property {number} [timeoutMs]
 * @property {AbortSignal} [signal]
 * @property {boolean} [keepalive]
 * @property {string} [idempotencyKey]
 * @property {number} [tries] How often at most; more than once only where a repetition does no harm.
 */

/**
 * @template T
 * @typedef {{status: number, body: T, sentAt: number, receivedAt: number, headers: Headers}} Answer `sentAt` is
 *   before the first try: what a deadline is counted from.
 */

const TIMEOUT_MS = 15_000;
/** The server gave this answer before, and gives it again as it was, with the time that it was. */
const REPLAYED = 'idempotency-replayed';

/** A string that nobody else makes. */
export const unique = () => globalThis.crypto.randomUUID();

/** A part of a path. @param {string} text */
export const part = (text) => encodeURIComponent(text);

/** `kind/name` as a path. @param {string} collection */
export function collectionPath(collection) {
  const [kind, ...name] = collection.split('/');
  return `/v1/collections/${part(kind ?? '')}/${part(name.join('/'))}`;
}

/** A server, and as whom to speak to it. */
export class Http {
  /** A key that had to be waited for, as it last came. @type {string | undefined} */ #fetchedKey;

  /**
   * @param {object} options
   * @param {string} options.base
   * @param {import('./clock.js').OwnClock | {now: () => number}} options.own
   * @param {import('./clock.js').ServerClock} options.clock
   * @param {Timers} options.timers
   * @param {() => Promise<string | undefined> | string | undefined} [options.key] A key or a token; without one
   *   the session's cookie speaks.
   * @param {typeof fetch} [options.fetch]
   * @param {() => number} [options.random]
   */
  constructor({ base, own, clock, timers, key, fetch = globalThis.fetch, random = Math.random }) {
    this.base = base.replace(/\/$/, '');
    this.own = own;
    this.clock = clock;
    this.timers = timers;
    this.key = key;
    // Browsers refuse a fetch that is called as a method of something else.
    this.fetch = /** @type {typeof fetch} */ ((input, init) => fetch(input, init));
    this.random = random;
  }

  /** @param {Record<string, string>} [more] */
  async headers(more) {
    return this.#headers(await this.currentKey(), more);
  }

  /** The key to speak with now. */
  async currentKey() {
    const given = this.key?.();
    const key = await given;
    this.#fetchedKey = given instanceof Promise ? key : undefined;
    return key;
  }

  /**
   * @param {string | undefined} key
   * @param {Record<string, string>} [more]
   */
  #headers(key, more) {
    /** @type {Record<string, string>} */
    const headers = { accept: 'application/json', 'x-tenure-csrf': '1', ...more };
    if (key) headers.authorization = `Bearer ${key}`;
    return headers;
  }

  /**
   * Asks, and asks again where that is safe and may help.
   * @template [T=any]
   * @param {string} method
   * @param {string} path
   * @param {Call} [call]
   * @returns {Promise<Answer<T>>}
   */
  async ask(method, path, call = {}) {
    const backoff = new Backoff({ firstMs: 300, maxMs: 4_000, random: this.random });
    // Before the first try: that may be the one that was decided upon, and only its answer was lost.
    const sentAt = this.own.now();
    for (let left = call.tries ?? 1; ; left -= 1) {
      try {
        return { ...(await this.#once(method, path, call)), sentAt };
      } catch (error) {
        const passes = error instanceof Unreachable || (error instanceof Refused && error.isPassing);
        if (!passes || left <= 1 || call.signal?.aborted) throw error;
        const named = error instanceof Refused ? error.retryAfterMs : undefined;
        const pause = Math.max(backoff.next(), named ?? 0);
        await new Promise((resolve) => this.timers.set(() => resolve(undefined), pause));
      }
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Call} call
   * @returns {Promise<Omit<Answer<any>, 'sentAt'>>}
   */
  async #once(method, path, call) {
    const stop = new AbortController();
    const abort = () => stop.abort();
    if (call.signal?.aborted) abort();
    call.signal?.addEventListener('abort', abort);
    const timer = this.timers.set(abort, call.timeoutMs ?? TIMEOUT_MS);
    try {
      const headers = await this.headers(call.headers);
      if (call.body !== undefined) headers['content-type'] = 'application/json';
      if (call.idempotencyKey) headers['idempotency-key'] = call.idempotencyKey;
      const triedAt = this.own.now();
      const response = await this.fetch(this.base + path, {
        method,
        headers,
        body: call.body === undefined ? undefined : JSON.stringify(call.body),
        credentials: 'same-origin',
        cache: 'no-store',
        keepalive: call.keepalive ?? false,
        signal: stop.signal,
      });
      const text = await response.text();
      const receivedAt = this.own.now();
      const body = parse(text);
      if (response.headers.get(REPLAYED) !== 'true') this.clock.note(triedAt, receivedAt, body?.server_time);
      if (!response.ok) throw new Refused(response.status, { ...body });
      return { status: response.status, body, receivedAt, headers: response.headers };
    } catch (error) {
      throw error instanceof Refused ? error : new Unreachable(error);
    } finally {
      this.timers.clear(timer);
      call.signal?.removeEventListener('abort', abort);
    }
  }

  /**
   * Sends and forgets, while the page goes away: nothing may be awaited before it, so a key that has to be
   * fetched is the one that came last.
   * @param {string} method
   * @param {string} path
   */
  beacon(method, path) {
    const key = this.#fetchedKey ?? this.key?.();
    if (key instanceof Promise) return void key.catch(() => {});
    this.fetch(this.base + path, {
      method, headers: this.#headers(key), keepalive: true, credentials: 'same-origin',
    }).catch(() => {
      // The claim's own deadline is what counts then.
    });
  }
}

/** @param {string} text */
function parse(text) {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // A proxy's page, say. The status is all there is to know.
    return undefined;
  }
}
