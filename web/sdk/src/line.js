// What is said to the server about one claim: where, how often it is tried, and what must wait for what. What an answer
// means is the claim's to say.

import { part, unique } from './http.js';

/** @typedef {Pick<import('./http.js').Http, 'ask' | 'beacon'>} Talks */

export class Line {
  /** The last amendment under way, or done. @type {Promise<unknown>} */ #last = Promise.resolve();

  /** @param {Talks} http @param {string} claim */
  constructor(http, claim) {
    this.http = http;
    this.path = `/v1/claims/${part(claim)}`;
  }

  /**
   * Once: the next beat is the next try.
   * @param {{token: number, idle_ms?: number}} body
   * @param {number} timeoutMs
   */
  heartbeat(body, timeoutMs) {
    return this.http.ask('POST', `${this.path}/heartbeat`, { body, timeoutMs });
  }

  /**
   * @param {string} method
   * @param {string} verb
   * @param {object} [body]
   */
  ask(method, verb, body) {
    // Repeating it is safe: by its key, or because letting go twice is letting go.
    const key = method === 'POST' ? { idempotencyKey: unique() } : {};
    return this.http.ask(method, this.path + verb, { body, tries: 3, ...key });
  }

  /** Lets go while the page is going away. */
  drop() {
    this.http.beacon('DELETE', this.path);
  }

  /**
   * One at a time: the answer that comes last must be the newest.
   * @template T
   * @param {() => Promise<T>} amend
   * @returns {Promise<T>}
   */
  inTurn(amend) {
    const amended = this.#last.then(amend);
    this.#last = amended.catch(() => {});
    return amended;
  }
}
