// The rows of an application's list, page by page, and what changed of them fetched again.

import { freshly } from './fresh.js';

/** More than this many changed rows are fetched as a whole. */
const SINGLY_MAX = 4;
/** Signs of life are no events: what somebody holds is looked at this often. */
const LOOK_EVERY_MS = 10_000;

/** @typedef {{id: string, version: number, server_time: string, lock: {state: string}}} Row */

/**
 * The newer of two answers about one row.
 * @template {{version: number, server_time: string}} R
 * @param {R | undefined} known
 * @param {R} told
 * @returns {R}
 */
export function newer(known, told) {
  if (!known || told.version > known.version) return told;
  if (told.version < known.version) return known;
  // Locks come and go without a new version.
  return told.server_time >= known.server_time ? told : known;
}

/** @template {Row} R */
export class LiveList {
  /** @type {Map<string, R>} */
  rows = new Map();
  /** Where the next page begins. @type {string | null} */
  next = null;
  /** What changed since it was fetched; all of it, where that is not known. @type {Set<string> | undefined} */
  #changed = new Set();

  /**
   * @param {import('./place.js').Place} place
   * @param {object} list
   * @param {string} list.path Of the list; a row's own is below it.
   * @param {string} list.name What the list calls its rows.
   * @param {number} list.size Of a page.
   * @param {(ids: Set<string> | undefined) => Promise<void> | void} list.fresh These were fetched again, or all.
   */
  constructor(place, { path, name, size, fresh }) {
    this.place = place;
    this.path = path;
    this.name = name;
    this.size = size;
    this.refresh = freshly(place, async () => {
      const ids = this.#changed;
      this.#changed = new Set();
      if (!ids || ids.size > SINGLY_MAX) await this.#loadAll();
      else this.take(await Promise.all([...ids].map((id) => place.get(`${path}/${encodeURIComponent(id)}`))));
      await fresh(ids);
    });
  }

  /** The next page. */
  async load() {
    this.next = await this.#page(this.next);
  }

  /** @param {R[]} told */
  take(told) {
    for (const row of told) this.rows.set(row.id, newer(this.rows.get(row.id), row));
  }

  /**
   * Follows the collection, and looks at what is held.
   * @param {string} collection
   * @param {(id: string) => boolean} [isRow] Whether a change of this item is one of a row.
   */
  follow(collection, isRow = () => true) {
    this.place.watch(collection, ({ items }) => {
      if (!items) this.#changed = undefined;
      else this.#note(items.filter(isRow));
      if (!this.#changed || this.#changed.size > 0) this.refresh();
    });
    this.place.every(LOOK_EVERY_MS, () => {
      const held = [...this.rows.values()].filter(({ lock }) => lock.state === 'locked');
      if (held.length > 0) this.changed(held.map(({ id }) => id));
    });
  }

  /** These are worth another look. @param {string[]} ids */
  changed(ids) {
    this.#note(ids);
    this.refresh();
  }

  /** @param {string[]} ids */
  #note(ids) {
    for (const id of ids) this.#changed?.add(id);
  }

  /** All that is shown, once more. */
  async #loadAll() {
    const many = Math.max(1, Math.ceil(this.rows.size / this.size));
    /** @type {string | null} */
    let after = null;
    for (let index = 0; index < many; index += 1) {
      after = await this.#page(after);
      if (!after) break;
    }
    this.next = after;
  }

  /** @param {string | null} after @returns {Promise<string | null>} Where the next begins. */
  async #page(after) {
    const from = after ? `&after=${encodeURIComponent(after)}` : '';
    const answer = await this.place.get(`${this.path}?limit=${this.size}${from}`);
    this.take(answer[this.name]);
    return answer.next;
  }
}
