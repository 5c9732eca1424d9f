// One task: who has it, its lines, and process mode for whoever may. The lock comes before any edit, and the page is
// read-only the moment it cannot be counted on.

import { t } from '../../i18n/index.js';
import { el, fill, h, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { newer } from '../lib/live-list.js';
import { ask, askWords, complain, toast, trying } from '../lib/notice.js';
import { style } from '../lib/style.js';
import { clockTime, drawAgo, keepAgo } from '../lib/times.js';
import { Adding } from './adding.js';
import { hold, taskPath } from './hold.js';
import { Lines } from './lines.js';
import { appliedOf, canManage, COLLECTION, isClaimable, isOver, lockLook, statusOf, wanted } from './model.js';

/**
 * @typedef {import('./model.js').Task} Task
 * @typedef {import('./model.js').Line} Line
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('../../sdk/tenure.js').Claim} Claim
 * @typedef {import('../../sdk/tenure.js').Lost} Lost
 * @typedef {'mine' | 'uncertain' | 'lost' | 'elsewhere' | 'other' | 'free'} Mode
 */

/** Another's signs of life are no events. */
const LOOK_EVERY_MS = 10_000;
/** A help, not more: a very large stock is shown in part. */
const STOCK_PAGES_MAX = 5;
/** As in tasks.css. */
const PHONE = '(max-width: 45rem)';

/** @param {Place} place */
export default async function taskPage(place) {
  await style('/pages/tasks/tasks.css');
  const page = new TaskPage(place, place.params.id ?? '');
  await page.begin();
  return page.element;
}

/** How many of each product there are. @param {Place} place */
async function stock(place) {
  /** @type {Map<string, number>} */
  const quantities = new Map();
  let after = '';
  for (let page = 0; page < STOCK_PAGES_MAX; page += 1) {
    /** @type {{products: {product: string, quantity: number}[], next: string | null}} */
    const { products, next } = await place.get(`/inventory?limit=200${after && `&after=${encodeURIComponent(after)}`}`);
    for (const { product, quantity } of products) quantities.set(product, quantity);
    if (!next) break;
    after = next;
  }
  return quantities;
}

class TaskPage {
  /** @type {Task | undefined} */ #task;
  /** @type {Claim | undefined} */ #claim;
  /** @type {Lost | undefined} */ #lost;
  /** @type {{name: string, message: string | null} | undefined} */ #nudge;
  /** Whom we asked to let go: the claim's beginning. @type {string | null | undefined} */ #requested;
  /** We are ending it ourselves: that is no loss. */ #isEnding = false;
  /** How many of each product there are. @type {Map<string, number> | undefined} */ #stock;
  /** It was finalised here: how that went is said. */ #isFinalized = false;

  /** @param {Place} place @param {string} id */
  constructor(place, id) {
    this.place = place;
    this.id = id;
    this.path = taskPath(id);
    this.mayManage = canManage(place.session.role);
    this.isAdmin = place.session.role === 'admin';
    this.back = h('a', { class: 'back', href: '/app/tasks' });
    this.heading = h('h1');
    this.tag = h('span', { class: 'tag' });
    this.badge = el('tenure-lock');
    this.life = h('time', { class: 'soft small-text figures' });
    this.why = h('p', { class: 'soft' });
    this.banner = el('tenure-banner');
    this.forceRelease = this.#button('button', (button) => this.#forceRelease(button));
    this.forceClaim = this.#button('button danger', (button) => this.#forceClaim(button));
    this.outcome = h('div', { class: 'outcome', role: 'status' });
    this.lines = new Lines({ save: (line, change) => this.#saveLine(line, change), validate: (line, button) => this.#validate(line, button) });
    this.none = h('p', { class: 'soft none' });
    this.adding = new Adding((line, button) => this.#addLine(line, button));
    this.summary = h('span', { class: 'soft small-text figures summary' });
    this.process = this.#button('button primary', (button) => this.#process(button));
    this.ready = this.#button('button primary', (button) => this.#ready(button));
    this.finalize = this.#button('button primary', (button) => this.#finalize(button));
    this.leaveButton = this.#button('button', (button) => this.#leave(button));
    this.cancel = this.#button('button quiet', (button) => this.#cancel(button));
    this.foot = h('div', { class: 'foot', role: 'group' }, this.summary, h('span', { class: 'gap' }), this.cancel, this.leaveButton, this.finalize, this.ready, this.process);
    this.banner.append(this.forceRelease, this.forceClaim);
    this.phone = matchMedia(PHONE);
    this.element = h('section', { class: 'stack task' },
      h('header', { class: 'stack task-head' }, this.back, this.heading, h('div', { class: 'row' }, this.tag, this.badge, this.life), this.why),
      this.outcome, this.lines.element, this.none, this.adding.element, this.foot);
    this.#putBanner();
    this.#listen();
  }

  /** Above the lines; on a phone, where it takes more room the more there is to say, at the foot: the lines stay. */
  #putBanner() {
    if (this.phone.matches) this.foot.prepend(this.banner);
    else this.outcome.before(this.banner);
  }

  async begin() {
    const { place } = this;
    this.#task = await place.get(this.path);
    const line = `line-${this.id}-`;
    this.refreshStock = freshly(place, async () => {
      this.#stock = await stock(place);
      this.draw();
    });
    this.watch = place.watch(COLLECTION, ({ items }) => {
      if (!items || items.some((item) => item.startsWith('stock-'))) this.refreshStock();
      if (!items || items.some((item) => item === this.id || item.startsWith(line))) this.refresh();
    });
    this.refresh = freshly(place, async () => this.#take(await place.get(this.path)));
    this.refreshStock();
    place.every(LOOK_EVERY_MS, () => { if (this.#task?.lock.state === 'locked' && !this.#claim) this.refresh(); });
    keepAgo(place, this.element);
    place.onLanguage(() => this.draw());
    const turned = () => {
      this.#putBanner();
      this.draw();
    };
    this.phone.addEventListener('change', turned);
    place.onLeave(() => {
      this.phone.removeEventListener('change', turned);
      this.#goAway();
    });
    const isWanted = wanted.id === this.id;
    wanted.id = undefined;
    if (isWanted && this.mayManage && isClaimable(this.task)) void this.#process(this.process);
  }

  /** Something changed; replaced once the page has begun. */
  refresh = () => {};
  refreshStock = () => {};
  /** @type {import('../../sdk/tenure.js').Watch | undefined} */
  watch;

  /** @returns {Task} */
  get task() {
    return /** @type {Task} */ (this.#task);
  }

  /** @returns {Mode} */
  get mode() {
    if (this.#claim) return this.#claim.state === 'uncertain' ? 'uncertain' : 'mine';
    if (this.#lost && !isOver(this.task)) return 'lost';
    const { lock } = this.task;
    return lock.state === 'free' ? 'free' : lock.mine ? 'elsewhere' : 'other';
  }

  // ---- the lock ---------------------------------------------------------------------------------------------

  /** @param {HTMLButtonElement} button @param {{reason: string}} [force] */
  async #process(button, force) {
    const { watch } = this;
    if (!watch || this.#claim) return;
    await trying(button, async () => {
      try {
        const { task, claim } = await hold(this.place, this.id, watch, force);
        if (this.place.isLeft) return void claim.release().catch(() => {});
        this.#isFinalized = false;
        this.#take(task, false);
        this.#keep(claim);
      } catch (error) {
        // Whoever has it now is what the page shows; what was lost before is over.
        if (/** @type {any} */ (error).code === 'held') this.#lost = undefined;
        this.refresh();
        throw error;
      }
    });
  }

  /** @param {Claim} claim */
  #keep(claim) {
    this.#claim = claim;
    this.#lost = undefined;
    this.#nudge = undefined;
    this.#requested = undefined;
    const draw = () => this.draw();
    claim.on('change', draw);
    claim.on('renewed', draw);
    claim.on('held', () => { void this.lines.saveDrafts(); });
    claim.on('nudged', ({ from, message }) => {
      this.#nudge = { name: from.name, message };
      this.draw();
    });
    claim.on('lost', (lost) => this.#lose(claim, lost));
    claim.on('ended', () => this.#let(claim));
    this.draw();
  }

  /** @param {Claim} claim @param {Lost} lost */
  #lose(claim, lost) {
    if (this.#claim !== claim) return;
    if (!this.#isEnding) this.#lost = lost;
    this.#let(claim);
  }

  /** It is ours no more. @param {Claim} claim */
  #let(claim) {
    claim.close();
    if (this.#claim !== claim) return;
    this.#claim = undefined;
    this.#nudge = undefined;
    this.refresh();
    this.draw();
  }

  /** @param {HTMLButtonElement} [button] */
  async #leave(button) {
    await trying(button, async () => {
      // Whoever leaves a field by this button has changed it.
      await this.#settled;
      await this.#claim?.release();
    });
  }

  /** The person goes to another page. */
  #goAway() {
    const claim = this.#claim;
    if (!claim) return;
    if (this.place.tenure.tabs.isUsedElsewhere(claim.id)) claim.close();
    // If nobody hears it, the lock runs out by itself.
    else claim.release().catch(() => {});
  }

  /** @param {HTMLButtonElement} button */
  async #forceRelease(button) {
    const reason = await askWords({ title: t('task.force_release.title', this.#holder()), label: t('task.reason'), submit: t('task.force_release'), kind: 'danger' });
    if (reason === undefined) return;
    const task = await trying(button, () => this.place.send('POST', `${this.path}/force-release`, { reason }));
    if (task) this.#take(task);
  }

  /** @param {HTMLButtonElement} button */
  async #forceClaim(button) {
    const reason = await askWords({ title: t('task.force_claim.title', this.#holder()), label: t('task.reason'), submit: t('task.force_claim'), kind: 'danger' });
    if (reason !== undefined) await this.#process(button, { reason });
  }

  async #request() {
    const since = this.task.lock.locked_at;
    const message = await askWords({ title: t('task.request.title', this.#holder()), label: t('task.request.message'), submit: t('banner.request'), required: false });
    if (message === undefined) return;
    const task = await trying(null, () => this.place.send('POST', `${this.path}/request-release`, message ? { message } : {}));
    if (!task) return this.refresh();
    this.#requested = since;
    return this.#take(task);
  }

  /** Somebody is there; where an action is missed, taking it again is one. */
  async #stay() {
    await trying(null, async () => {
      await this.place.send('POST', `${this.path}/process`, {});
      await this.#claim?.check();
    });
  }

  // ---- the work ---------------------------------------------------------------------------------------------

  /** What is being saved. @type {Promise<unknown>} */
  #settled = Promise.resolve();

  /** @param {Line} line @param {object} change */
  #saveLine(line, change) {
    const saved = this.#onLine(() => this.place.send('PATCH', `${this.path}/lines/${encodeURIComponent(line.id)}`, change));
    this.#settled = saved;
    return saved;
  }

  /** @param {Line} line @param {HTMLButtonElement} button */
  async #validate(line, button) {
    await this.#settled;
    await trying(button, () => this.#onLine(() => this.place.send('POST', `${this.path}/lines/${encodeURIComponent(line.id)}/validate`, {})));
  }

  /** @param {object} line @param {HTMLButtonElement} button */
  async #addLine(line, button) {
    const isDone = await trying(button, () => this.#onLine(() => this.place.send('POST', `${this.path}/lines`, line)));
    return isDone === true;
  }

  /**
   * Under the lock, where there is one.
   * @param {() => Promise<Line>} act
   * @returns {Promise<boolean>}
   */
  async #onLine(act) {
    try {
      await this.#claim?.ensure();
      const line = await act();
      const lines = this.task.lines.filter(({ id }) => id !== line.id).concat(line).sort((a, b) => Number(a.id) - Number(b.id));
      this.#task = { ...this.task, lines };
      // A real action: what had run out of them goes on.
      if (this.#claim && this.#claim.state !== 'held') void this.#claim.check();
      return true;
    } catch (error) {
      complain(error);
      return false;
    } finally {
      this.refresh();
      this.draw();
    }
  }

  /** @param {HTMLButtonElement} button */
  async #finalize(button) {
    await this.#settled;
    const open = this.task.lines.filter(({ status }) => status !== 'applied');
    const unseen = open.filter(({ status }) => status !== 'validated').length;
    const answer = await ask({
      title: t('task.finalize.title'),
      body: [t('task.finalize.text', { n: open.length }), ...(unseen > 0 ? [h('p', { class: 'bad' }, t('task.finalize.unseen', { n: unseen }))] : [])],
      answers: [{ label: t('task.finalize'), value: 'yes', kind: 'primary' }],
    });
    if (!answer) return;
    await this.#end(button, 'finalize', () => { this.#isFinalized = true; });
    if (this.#isFinalized) this.outcome.scrollIntoView({ block: 'nearest' });
  }

  /** @param {HTMLButtonElement} button */
  async #cancel(button) {
    const answer = await ask({ title: t('task.cancel.title'), body: [t('task.cancel.text')], answers: [{ label: t('task.cancel'), value: 'yes', kind: 'danger' }] });
    if (answer) await this.#end(button, 'cancel', () => toast(t('task.cancelled')));
  }

  /** What ends the lock with it. @param {HTMLButtonElement} button @param {string} verb @param {(task: Task) => void} then */
  async #end(button, verb, then) {
    const claim = this.#claim;
    this.#isEnding = true;
    const task = await trying(button, async () => {
      await claim?.ensure();
      return this.place.send('POST', `${this.path}/${verb}`, {});
    });
    this.#isEnding = false;
    if (!task) {
      if (claim?.lost) this.#lost = claim.lost;
      this.refresh();
      return this.draw();
    }
    then(task);
    this.#take(task, false);
    if (claim) this.#let(claim);
    return this.draw();
  }

  /** @param {HTMLButtonElement} button */
  async #ready(button) {
    const task = await trying(button, () => this.place.send('POST', `${this.path}/ready`, {}));
    if (task) this.#take(task);
  }

  // ---- what is seen -----------------------------------------------------------------------------------------

  /** @param {Task} told @param {boolean} [isDrawn] */
  #take(told, isDrawn = true) {
    this.#task = newer(this.#task, told);
    if (isDrawn) this.draw();
  }

  #listen() {
    const { banner } = this;
    banner.addEventListener('tenure-retry', () => { void this.#process(this.process); });
    banner.addEventListener('tenure-request-release', () => { void this.#request(); });
    banner.addEventListener('tenure-stay', () => { void this.#stay(); });
    banner.addEventListener('tenure-release', () => { void this.#leave(); });
    banner.addEventListener('tenure-dismiss', () => { this.#nudge = undefined; this.draw(); });
  }

  #holder() {
    return { name: this.task.lock.locked_by?.name ?? '' };
  }

  draw() {
    if (this.place.isLeft) return;
    const { task, mode } = this;
    // Whoever worked on it a moment ago finds everything where it was.
    const isRoomKept = mode === 'lost' || mode === 'uncertain';
    if (!isRoomKept) this.element.style.minBlockSize = '';
    else if (!this.element.style.minBlockSize) this.element.style.minBlockSize = `${this.element.offsetHeight}px`;
    this.lines.element.classList.toggle('room-kept', isRoomKept);
    this.place.title(task.title);
    set(this.element, 'data-mode', mode);
    write(this.back, t('task.back'));
    write(this.heading, task.title);
    const [key, kind] = statusOf(task.status);
    write(this.tag, t(key));
    set(this.tag, 'class', `tag ${kind}`);
    this.#drawLock();
    this.#drawBanner();
    const isMine = mode === 'mine';
    this.lines.draw(task.lines, isMine, isOver(task) ? undefined : this.#stock);
    this.none.hidden = task.lines.length > 0;
    write(this.none, t('task.lines.none'));
    const isAdding = this.mayManage && (isMine || task.status === 'draft');
    this.adding.draw(isAdding, this.#stock);
    this.#drawWhy();
    this.#drawOutcome();
    this.#drawFoot();
  }

  #drawLock() {
    const { badge, task, mode } = this;
    const look = mode === 'mine'
      ? { state: 'mine', since: task.lock.locked_at, 'expires-at': this.#claim?.expiresAt, holder: undefined }
      : mode === 'lost' || mode === 'uncertain'
        ? { state: mode, since: undefined, 'expires-at': undefined, holder: undefined }
        : { ...lockLook(task), 'expires-at': undefined };
    for (const [name, value] of Object.entries(look)) set(badge, name, value);
    const { heartbeat_at: beat, expires_at: end } = task.lock;
    const isShown = mode === 'other' || mode === 'elsewhere';
    this.life.hidden = !isShown || !beat;
    drawAgo(this.life, beat, (seen) => t('task.life', { seen, end: end ? clockTime(end) : '' }));
  }

  #drawBanner() {
    const { banner, mode, task } = this;
    const lost = this.#lost;
    const claim = this.#claim;
    /** @type {Record<string, string | boolean | null | undefined>} */
    const says = { state: 'none', holder: undefined, since: undefined, reason: undefined, note: undefined, by: undefined, 'expires-at': undefined, message: undefined, requested: undefined };
    if (mode === 'lost' && lost) {
      const { locked_by: now, mine } = task.lock;
      Object.assign(says, { state: 'lost', reason: lost.reason, note: lost.note, by: lost.by?.name, holder: (now && !mine ? now : lost.holder)?.name });
    } else if (mode === 'uncertain') says.state = 'uncertain';
    else if (mode === 'mine' && claim?.state === 'idle') Object.assign(says, { state: 'idle', 'expires-at': claim.expiresAt });
    else if (mode === 'mine' && this.#nudge) Object.assign(says, { state: 'nudged', holder: this.#nudge.name, message: this.#nudge.message });
    else if (mode === 'mine') Object.assign(says, { state: 'mine', since: task.lock.locked_at, 'expires-at': claim?.expiresAt });
    else if (mode === 'other') {
      const isRequested = this.#requested === task.lock.locked_at;
      Object.assign(says, { state: 'readonly', holder: task.lock.locked_by?.name, since: task.lock.locked_at, requested: isRequested });
    }
    for (const [name, value] of Object.entries(says)) set(banner, name, value);
    // What the banner says need not stand above it too.
    this.badge.hidden = says.state === 'mine';
    banner.classList.toggle('no-action', mode === 'other' && !this.mayManage);
    const canForce = this.isAdmin && mode === 'other';
    this.forceRelease.hidden = !canForce;
    this.forceClaim.hidden = !canForce || !isClaimable(task);
    write(this.forceRelease, t('task.force_release'));
    write(this.forceClaim, t('task.force_claim'));
  }

  #drawWhy() {
    const { task } = this;
    const key = isOver(task) ? (task.status === 'completed' ? 'task.why.completed' : 'task.why.cancelled')
      : !this.mayManage ? 'task.why.viewer'
        : task.status === 'draft' ? 'task.why.draft'
          : this.mode === 'free' ? 'task.why.free'
            : this.mode === 'elsewhere' ? 'task.why.elsewhere' : undefined;
    this.why.hidden = !key;
    write(this.why, key ? t(/** @type {import('../../i18n/index.js').Key} */ (key)) : '');
  }

  #drawOutcome() {
    const { task } = this;
    const isShown = this.#isFinalized || (task.status === 'partially_completed' && this.mode !== 'mine');
    this.outcome.hidden = !isShown;
    if (!isShown) return;
    const [done, total] = [appliedOf(task), task.lines.length];
    const isAll = done === total;
    set(this.outcome, 'class', `outcome ${isAll ? 'good' : 'bad'}`);
    fill(this.outcome, h('b', {}, isAll ? t('task.outcome.completed') : t('task.outcome.partial', { n: total - done })), !isAll && this.mayManage && h('span', {}, t('task.outcome.next')));
  }

  #drawFoot() {
    const { task, mode } = this;
    const isDraft = task.status === 'draft';
    const canBegin = this.mayManage && isClaimable(task) && (mode === 'free' || mode === 'elsewhere');
    const isMine = mode === 'mine';
    this.process.hidden = !canBegin;
    this.ready.hidden = !this.mayManage || !isDraft;
    this.ready.disabled = task.lines.length === 0;
    this.finalize.hidden = !isMine;
    this.finalize.disabled = task.lines.length === 0;
    this.leaveButton.hidden = !isMine;
    this.cancel.hidden = !this.mayManage || isOver(task) || !(isDraft || isMine || canBegin);
    const isSaid = this.phone.matches && this.banner.getAttribute('state') !== 'none';
    this.foot.hidden = !isSaid && [this.process, this.ready, this.finalize, this.leaveButton, this.cancel].every(({ hidden }) => hidden);
    write(this.process, mode === 'elsewhere' ? t('task.continue') : t('task.process'));
    write(this.ready, t('task.ready'));
    write(this.finalize, t('task.finalize'));
    write(this.leaveButton, t('task.leave'));
    write(this.cancel, t('task.cancel'));
    set(this.foot, 'aria-label', t('task.actions'));
    write(this.summary, t('tasks.lines.label', { done: appliedOf(task), total: task.lines.length }));
  }

  /** @param {string} look @param {(button: HTMLButtonElement) => Promise<unknown>} act */
  #button(look, act) {
    const button = h('button', { class: look, type: 'button', onclick: () => { void act(button); } });
    return button;
  }
}
