// What is outlined in an image, and every change of it: saved at once, one after the other, each over the version
// that it was based on; taken back and done again. Where somebody was faster, the person is asked.

import { Emitter } from '../../sdk/src/emitter.js';
import { Refused } from '../../sdk/tenure.js';
import { all } from './shared.js';

/**
 * @typedef {import('./geometry.js').Geometry} Geometry
 * @typedef {{id: string, geometry: Geometry, class_id: string, version: number, author: {id: string, name: string}, updated_by: {id: string, name: string}, updated_at: string}} Annotation
 * @typedef {{geometry: Geometry, class_id: string}} Content
 * @typedef {{id: string}} Ref An annotation that may be deleted and made again, with another id.
 * @typedef {{ref: Ref, before: Content | null, after: Content | null}} Step
 * @typedef {{version: number, at: number}} Base A version, and when it was looked at.
 * @typedef {(mine: Content, theirs: Annotation, base: number) => Promise<'mine' | 'theirs'>} Ask
 */

/** @param {Annotation} one @returns {Content} */
const contentOf = ({ geometry, class_id }) => ({ geometry, class_id });

/** @extends {Emitter<{change: {}, failed: {error: unknown}, settled: {}}>} */
export class Saving extends Emitter {
  /** @type {Step[]} */ #undos = [];
  /** @type {Step[]} */ #redos = [];
  /** @type {Map<string, Ref>} */ #refs = new Map();
  /** What we wrote ourselves, and when: a gesture that began before goes on from it. @type {Map<string, Base>} */ #own = new Map();
  #line = Promise.resolve();
  pending = 0;
  /** How many are over. */
  #done = 0;

  /**
   * @param {object} given
   * @param {import('../lib/place.js').Place} given.place
   * @param {string} given.path The image's.
   * @param {() => number | undefined} given.token The lock's.
   * @param {Ask} given.ask
   * @param {Annotation[]} given.annotations
   */
  constructor({ place, path, token, ask, annotations }) {
    super();
    this.place = place;
    this.path = path;
    this.token = token;
    this.ask = ask;
    this.annotations = annotations;
  }

  get canUndo() { return this.#undos.length > 0; }
  get canRedo() { return this.#redos.length > 0; }

  /** @param {string} id */
  find(id) {
    return this.annotations.find((one) => one.id === id);
  }

  /** When everything so far is saved. */
  settled() {
    return this.#line;
  }

  /** What others did meanwhile. @param {(id: string) => boolean} isBusy Somebody is in the middle of something with it. */
  async reload(isBusy) {
    const done = this.#done;
    const fresh = await this.#fetch();
    // What is being saved, or was meanwhile, or is under the pointer, is newer than the answer; it is asked for again
    // once everything is saved.
    if (this.pending === 0 && this.#done === done) this.annotations = fresh.map((one) => (isBusy(one.id) ? this.find(one.id) ?? one : one));
  }

  /** @param {Content} content @returns {Promise<string>} Its id. */
  async add(content) {
    /** @type {Ref} */
    const ref = { id: `new-${crypto.randomUUID()}` };
    await this.#take({ ref, before: null, after: content });
    return ref.id;
  }

  /** @param {string} id @param {Partial<Content>} wanted @param {Base} base */
  change(id, wanted, base) {
    const one = this.find(id);
    if (!one) return;
    const before = contentOf(one);
    // It is shown where it was put; the server's answer follows.
    this.annotations = this.annotations.map((old) => (old.id === id ? { ...old, ...wanted } : old));
    void this.#take({ ref: this.#refOf(id), before, after: { ...before, ...wanted } }, base);
  }

  /** @param {string} id @returns {Promise<boolean>} Whether it is gone. */
  async remove(id) {
    const one = this.find(id);
    if (!one) return true;
    await this.#take({ ref: this.#refOf(id), before: contentOf(one), after: null });
    return !this.find(id);
  }

  undo() {
    this.#travel(this.#undos, this.#redos, 'before');
  }

  redo() {
    this.#travel(this.#redos, this.#undos, 'after');
  }

  /** @param {string} id */
  #refOf(id) {
    const ref = this.#refs.get(id) ?? { id };
    this.#refs.set(id, ref);
    return ref;
  }

  /** One after the other: each builds on the version that the one before made. @param {() => Promise<void>} act */
  #queue(act) {
    this.pending += 1;
    this.emit('change', {});
    this.#line = this.#line.then(act).catch((error) => this.emit('failed', { error })).finally(() => {
      this.pending -= 1;
      this.#done += 1;
      this.emit('change', {});
      if (this.pending === 0) this.emit('settled', {});
    });
    return this.#line;
  }

  /** @param {Step} step @param {Base} [base] */
  #take(step, base) {
    return this.#queue(async () => {
      if (!await this.#store(step.ref, step.after, base)) return;
      this.#undos.push(step);
      this.#redos.length = 0;
    });
  }

  /** @param {Step[]} from @param {Step[]} to @param {'before' | 'after'} which */
  #travel(from, to, which) {
    void this.#queue(async () => {
      const step = from.pop();
      if (step && await this.#store(step.ref, step[which])) to.push(step);
    });
  }

  /**
   * Makes it so: changed, made or gone.
   * @param {Ref} ref
   * @param {Content | null} wanted
   * @param {Base} [base]
   * @returns {Promise<boolean>} Whether it is.
   */
  async #store(ref, wanted, base) {
    const there = this.find(ref.id);
    const token = this.token();
    if (!wanted) {
      if (!there) return true;
      await this.place.send('DELETE', `/api/v1/annotations/${encodeURIComponent(ref.id)}?version=${there.version}${token === undefined ? '' : `&token=${token}`}`);
      this.annotations = this.annotations.filter(({ id }) => id !== ref.id);
      return true;
    }
    const body = { ...wanted, ...(token !== undefined && { token }) };
    if (!there) {
      const made = await this.place.send('POST', `${this.path}/annotations`, body);
      ref.id = made.id;
      this.#refs.set(made.id, ref);
      this.#keep(made);
      return true;
    }
    const own = this.#own.get(ref.id);
    const version = base && !(own && own.at > base.at) ? base.version : there.version;
    try {
      this.#keep(await this.place.send('PUT', `/api/v1/annotations/${encodeURIComponent(ref.id)}`, { ...body, version }));
      return true;
    } catch (error) {
      if (!(error instanceof Refused && error.code === 'conflict')) throw error;
      return this.#settle(ref, wanted, version);
    }
  }

  /** Somebody was faster. @param {Ref} ref @param {Content} mine @param {number} version */
  async #settle(ref, mine, version) {
    this.annotations = await this.#fetch();
    this.emit('change', {});
    const theirs = this.find(ref.id);
    if (!theirs) throw new Refused(404, { code: 'not_found' });
    return await this.ask(mine, theirs, version) === 'mine' && this.#store(ref, mine);
  }

  /** @param {Annotation} one */
  #keep(one) {
    this.#own.set(one.id, { version: one.version, at: performance.now() });
    this.annotations = this.find(one.id) ? this.annotations.map((old) => (old.id === one.id ? one : old)) : [...this.annotations, one];
  }

  /** @returns {Promise<Annotation[]>} */
  #fetch() {
    return all(this.place, `${this.path}/annotations`, 'annotations');
  }
}
