// What is outlined in an image, and every change of it: shown at once, saved one after the other, each over the version
// that it was based on; taken back and done again. Where somebody was faster, the person is asked. What got no answer
// is kept, and asked for again as it was: by its key or its version it happens once.
//
//    change ──▶ the line ──▶ sent ──▶ saved, or refused and told
//                  ▲           │ no answer
//                  │           ▼
//                  └─ retry ─ stalled: nothing behind it is sent

import { Emitter } from '../../sdk/src/emitter.js';
import { unique } from '../../sdk/src/http.js';
import { Refused, Unreachable } from '../../sdk/tenure.js';
import { isSame } from './geometry.js';
import { all } from './shared.js';

/**
 * @typedef {import('./geometry.js').Geometry} Geometry
 * @typedef {{id: string, name: string}} Person
 * @typedef {{id: string, geometry: Geometry, class_id: string, version: number, author: Person, updated_by: Person, updated_at: string, isUnsaved?: boolean}} Annotation
 *   Version 0 is one that the server does not know yet.
 * @typedef {{geometry: Geometry, class_id: string}} Content
 * @typedef {{id: string}} Ref An annotation that may be deleted and made again, with another id.
 * @typedef {{ref: Ref, before: Content | null, after: Content | null}} Step
 * @typedef {{version: number, at: number}} Base A version, and when it was looked at.
 * @typedef {(mine: Content, theirs: Annotation, base: number) => Promise<'mine' | 'theirs'>} Ask
 * @typedef {{method: 'POST' | 'PUT' | 'DELETE', path: string, body?: object, key: string, version: number, token: number | undefined}} Sent
 *
 * @typedef {object} Job
 * @property {Ref} [ref] None for a step back or forth whose turn has not come.
 * @property {Content | null} [wanted]
 * @property {Base} [base] What it was made from; none for one that is to be made.
 * @property {() => Partial<Job> | undefined} [begin] Which step it is, once its turn comes.
 * @property {() => void} [done] It is saved.
 * @property {() => void} over It is saved or refused.
 * @property {Sent} [sent] The request that got no answer.
 * @property {boolean} [isKept] It has waited for the connection, or for the lock.
 */

/** Refusals that are about the lock, not about what is asked for. */
export const LOCK_REFUSALS = ['held', 'not_held', 'not_holder', 'lost', 'stale_token'];

/** @param {Annotation} one @returns {Content} */
const contentOf = ({ geometry, class_id }) => ({ geometry, class_id });

/** @extends {Emitter<{change: {}, failed: {error: unknown}, stalled: {error: unknown}, settled: {}}>} */
export class Saving extends Emitter {
  /** @type {Step[]} */ #undos = [];
  /** @type {Step[]} */ #redos = [];
  /** @type {Map<string, Ref>} */ #refs = new Map();
  /** What we wrote ourselves, and when: a gesture that began before goes on from it. @type {Map<string, Base>} */ #own = new Map();
  /** As the server has them. @type {Annotation[]} */ #rows;
  /** What is not saved yet, in order. @type {Job[]} */ #jobs = [];
  #line = Promise.resolve();
  #isRunning = false;
  /** Why nothing is sent. */ #trouble = /** @type {unknown} */ (undefined);
  /** How many are over. */
  #done = 0;

  /**
   * @param {object} given
   * @param {import('../lib/place.js').Place} given.place
   * @param {string} given.path The image's.
   * @param {() => number | undefined} given.token The lock's.
   * @param {Ask} given.ask
   * @param {Annotation[]} given.annotations
   * @param {Person | null} given.me
   */
  constructor({ place, path, token, ask, annotations, me }) {
    super();
    this.place = place;
    this.path = path;
    this.token = token;
    this.ask = ask;
    this.me = me ?? { id: '', name: '' };
    this.#rows = annotations;
  }

  get canUndo() { return this.#undos.length > 0; }
  get canRedo() { return this.#redos.length > 0; }
  get pending() { return this.#jobs.length; }
  /** Something got no answer: it waits for `retry`, and so does what came after it. */
  get isStalled() { return this.#trouble !== undefined; }

  /** How many outlines wait so. */
  get unsaved() {
    return this.isStalled ? new Set(this.#jobs.map(({ ref }) => ref)).size : 0;
  }

  /** What is outlined, as the person left it. @returns {Annotation[]} */
  get annotations() {
    return this.#jobs.reduce((shown, { ref, wanted }) => {
      if (!ref) return shown;
      if (shown.some(({ id }) => id === ref.id)) return shown.map((one) => (one.id === ref.id ? { ...one, ...wanted, isUnsaved: true } : one));
      return wanted ? [...shown, { id: ref.id, ...wanted, version: 0, author: this.me, updated_by: this.me, updated_at: new Date().toISOString(), isUnsaved: true }] : shown;
    }, this.#rows);
  }

  /** @param {string} id */
  find(id) {
    return this.annotations.find((one) => one.id === id);
  }

  /** When everything so far is saved; rejects where that has to wait. */
  async settled() {
    await this.#line;
    if (this.isStalled) throw this.#trouble;
  }

  /** What others did meanwhile. @param {(id: string) => boolean} isBusy Somebody is in the middle of something with it. */
  async reload(isBusy) {
    const done = this.#done;
    const fresh = await this.#fetch();
    // What is being saved, or was meanwhile, or is under the pointer, is newer than the answer; it is asked for again
    // once everything is saved.
    if ((this.pending === 0 || this.isStalled) && this.#done === done) this.#rows = fresh.map((one) => (isBusy(one.id) ? this.#row(one.id) ?? one : one));
  }

  /** The connection or the lock is back: goes on where it stopped. */
  retry() {
    if (!this.isStalled) return;
    this.#trouble = undefined;
    this.#go();
  }

  /** @param {Content} content @returns {Promise<string>} Its id, once it is saved. */
  async add(content) {
    /** @type {Ref} */
    const ref = { id: `new-${unique()}` };
    await this.#take({ ref, before: null, after: content });
    return ref.id;
  }

  /** @param {string} id @param {Partial<Content>} wanted @param {Base} base */
  change(id, wanted, base) {
    const one = this.find(id);
    if (!one) return;
    const before = contentOf(one);
    void this.#take({ ref: this.#refOf(id), before, after: { ...before, ...wanted } }, base);
  }

  /** @param {string} id @returns {Promise<boolean>} Whether it is gone. */
  async remove(id) {
    const one = this.find(id);
    if (!one) return true;
    await this.#take({ ref: this.#refOf(id), before: contentOf(one), after: null }, { version: one.version, at: performance.now() });
    return !this.find(id);
  }

  undo() {
    this.#travel(this.#undos, this.#redos, 'before');
  }

  redo() {
    this.#travel(this.#redos, this.#undos, 'after');
  }

  /** @param {string} id */
  #row(id) {
    return this.#rows.find((one) => one.id === id);
  }

  /** @param {string} id */
  #refOf(id) {
    const ref = this.#refs.get(id) ?? { id };
    this.#refs.set(id, ref);
    return ref;
  }

  /** @param {Step} step @param {Base} [base] */
  #take(step, base) {
    return this.#queue({ ref: step.ref, wanted: step.after, base, done: () => {
      this.#undos.push(step);
      this.#redos.length = 0;
    } });
  }

  /** @param {Step[]} from @param {Step[]} to @param {'before' | 'after'} which */
  #travel(from, to, which) {
    void this.#queue({ begin: () => {
      const step = from.pop();
      if (!step) return undefined;
      const there = this.#row(step.ref.id);
      return { ref: step.ref, wanted: step[which], base: there && { version: there.version, at: performance.now() }, done: () => { to.push(step); } };
    } });
  }

  // ---- one after the other: each builds on the version that the one before made -----------------------------------

  /** @param {Omit<Job, 'over'>} job @returns {Promise<void>} When it is over. */
  #queue(job) {
    const over = new Promise((/** @type {(value: void) => void} */ resolve) => {
      this.#jobs.push({ ...job, over: resolve, isKept: this.isStalled });
    });
    this.emit('change', {});
    if (!this.isStalled) this.#go();
    return over;
  }

  #go() {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#line = this.#run();
  }

  async #run() {
    for (let [job] = this.#jobs; job; [job] = this.#jobs) {
      try {
        if (await this.#store(job)) job.done?.();
      } catch (error) {
        const next = this.#judge(job, error);
        if (next === 'again') continue;
        if (next === 'wait') {
          this.#stall(error);
          break;
        }
        this.emit('failed', { error });
      }
      this.#jobs.shift();
      this.#done += 1;
      job.over();
      this.emit('change', {});
    }
    this.#isRunning = false;
    this.emit('change', {});
    if (this.pending === 0) this.emit('settled', {});
    else if (this.isStalled) this.emit('stalled', { error: this.#trouble });
  }

  /** @param {Job} job @param {unknown} error @returns {'again' | 'wait' | 'tell'} */
  #judge(job, error) {
    if (error instanceof Unreachable || (error instanceof Refused && error.isPassing)) return 'wait';
    if (!(job.isKept && error instanceof Refused && LOCK_REFUSALS.includes(error.code))) return 'tell';
    // It did not happen, and may with the lock that there is now, or with the next.
    const isOld = job.sent?.token !== this.token();
    job.sent = undefined;
    return isOld ? 'again' : 'wait';
  }

  /** @param {unknown} error */
  #stall(error) {
    this.#trouble = error;
    // A step back that nobody has seen is taken again by whoever still wants it.
    for (const job of this.#jobs) if (!job.ref) job.over();
    this.#jobs = this.#jobs.filter(({ ref }) => ref);
    for (const job of this.#jobs) job.isKept = true;
  }

  // ---- one of them ------------------------------------------------------------------------------------------------

  /** Makes it so: changed, made or gone. @param {Job} job @returns {Promise<boolean>} Whether it is. */
  async #store(job) {
    if (!job.ref) {
      const step = job.begin?.();
      if (!step) return false;
      Object.assign(job, step);
    }
    const { ref, wanted } = /** @type {Job & {ref: Ref, wanted: Content | null}} */ (job);
    const isAgain = job.sent !== undefined;
    const sent = job.sent ?? this.#request(ref, wanted, job.base);
    // It is gone already.
    if (!sent) return true;
    job.sent = sent;
    try {
      const answer = await this.place.send(sent.method, sent.path, sent.body, sent.key);
      if (sent.method === 'POST') ref.id = answer.id;
      if (wanted) this.#keep(answer, ref);
    } catch (error) {
      const code = error instanceof Refused ? error.code : '';
      if (wanted && sent.method === 'PUT' && code === 'conflict') return this.#settle(job, wanted, isAgain);
      // The try that got no answer was heard.
      if (wanted || !isAgain || code !== 'not_found') throw error;
    }
    if (!wanted) this.#rows = this.#rows.filter(({ id }) => id !== ref.id);
    return true;
  }

  /** @param {Ref} ref @param {Content | null} wanted @param {Base | undefined} base @returns {Sent | undefined} */
  #request(ref, wanted, base) {
    const there = this.#row(ref.id);
    const token = this.token();
    const own = this.#own.get(ref.id);
    const version = (base && !(own && own.at > base.at) ? base.version : there?.version) ?? base?.version ?? 0;
    const [key, path] = [unique(), `/api/v1/annotations/${encodeURIComponent(ref.id)}`];
    if (!wanted) return there && { method: 'DELETE', path: `${path}?version=${version}${token === undefined ? '' : `&token=${token}`}`, key, version, token };
    const body = { ...wanted, ...(token !== undefined && { token }) };
    if (!there && !base) return { method: 'POST', path: `${this.path}/annotations`, body, key, version, token };
    return { method: 'PUT', path, body: { ...body, version }, key, version, token };
  }

  /** Somebody was faster. @param {Job} job @param {Content} mine @param {boolean} isAgain @returns {Promise<boolean>} */
  async #settle(job, mine, isAgain) {
    const { ref, sent } = /** @type {Job & {ref: Ref, sent: Sent}} */ (job);
    this.#rows = await this.#fetch();
    this.emit('change', {});
    const theirs = this.#row(ref.id);
    if (!theirs) throw new Refused(404, { code: 'not_found' });
    // It was ourselves: the try that got no answer was heard.
    if (isAgain && theirs.class_id === mine.class_id && isSame(theirs.geometry, mine.geometry)) {
      this.#keep(theirs, ref);
      return true;
    }
    if (await this.ask(mine, theirs, sent.version) !== 'mine') return false;
    job.sent = undefined;
    job.base = { version: theirs.version, at: performance.now() };
    return this.#store(job);
  }

  /** @param {Annotation} one @param {Ref} ref */
  #keep(one, ref) {
    this.#refs.set(one.id, ref);
    this.#own.set(one.id, { version: one.version, at: performance.now() });
    this.#rows = this.#row(one.id) ? this.#rows.map((old) => (old.id === one.id ? one : old)) : [...this.#rows, one];
  }

  /** @returns {Promise<Annotation[]>} */
  #fetch() {
    return all(this.place, `${this.path}/annotations`, 'annotations');
  }
}
