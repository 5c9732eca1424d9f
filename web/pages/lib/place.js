// What a page is given: where it is, who looks at it, and what it may ask for. When the person goes elsewhere
// everything that it began ends.

import { languageEvents } from '../../i18n/index.js';
import { unique } from '../../sdk/src/http.js';

/**
 * @typedef {import('../../sdk/tenure.js').Tenure} Tenure
 * @typedef {{id: string, name: string}} Person
 * @typedef {{person: Person | null, role: string | null, demo: {id: string, name: string, role: string}[]}} Session
 */

export class Place {
  /** @type {(() => void)[]} */
  #ends = [];
  isLeft = false;
  /**
   * Another address: does this page show it by itself, without being left?
   * @type {((path: string, query: URLSearchParams) => boolean) | undefined}
   */
  stays;
  /**
   * Something would be lost: does the person leave all the same?
   * @type {(() => boolean | Promise<boolean>) | undefined}
   */
  losing;

  /**
   * @param {object} given
   * @param {string} given.path
   * @param {Record<string, string>} given.params
   * @param {URLSearchParams} given.query
   * @param {Session} given.session
   * @param {Tenure} given.tenure
   * @param {import('./shell.js').Shell} given.shell
   * @param {(path: string, options?: {replace?: boolean}) => void} given.go
   */
  constructor({ path, params, query, session, tenure, shell, go }) {
    this.path = path;
    this.params = params;
    this.query = query;
    this.session = session;
    this.tenure = tenure;
    this.shell = shell;
    this.go = go;
  }

  /** The page's name, in the window and on the bar. @param {string} text */
  title(text) {
    if (!this.isLeft) this.shell.title(text);
  }

  /** When the person goes elsewhere. @param {() => void} end */
  onLeave(end) {
    if (this.isLeft) end();
    else this.#ends.push(end);
  }

  /** Now, and whenever another language is chosen. @param {() => void} draw */
  onLanguage(draw) {
    draw();
    languageEvents.addEventListener('change', draw);
    this.onLeave(() => languageEvents.removeEventListener('change', draw));
  }

  /** Every so often, while the page is visible. @param {number} ms @param {() => void} act */
  every(ms, act) {
    const timer = setInterval(() => { if (!document.hidden) act(); }, ms);
    this.onLeave(() => clearInterval(timer));
  }

  /**
   * A collection, live; its connection is the one that the bar shows.
   * @param {string} collection
   * @param {(change: import('../../sdk/src/watch.js').Change) => void} onChange
   */
  watch(collection, onChange) {
    const { watch, close } = this.tenure.watch(collection);
    const stops = [watch.on('change', onChange), this.shell.follow(watch), close];
    this.onLeave(() => stops.forEach((stop) => stop()));
    return watch;
  }

  leave() {
    this.isLeft = true;
    for (const end of this.#ends.splice(0).reverse()) end();
  }

  /** @template [T=any] @param {string} path @returns {Promise<T>} */
  async get(path) {
    return (await this.tenure.http.ask('GET', path, { tries: 2 })).body;
  }

  /**
   * Asks for a change. Its key is new each time: tried again by itself it happens once. Whoever asks again with the same
   * key and body has the first answer.
   * @template [T=any]
   * @param {'POST' | 'PUT' | 'PATCH' | 'DELETE'} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {string} [key]
   * @returns {Promise<T>}
   */
  async send(method, path, body, key = unique()) {
    const isPost = method === 'POST';
    return (await this.tenure.http.ask(method, path, {
      body, ...(isPost && { idempotencyKey: key, tries: 3 }),
    })).body;
  }
}
