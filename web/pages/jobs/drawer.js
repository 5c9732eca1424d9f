// One job: what went in, who ran it how often, and what came of it.

import { language, t } from '../../i18n/index.js';
import { formatNumber } from '../../i18n/format.js';
import { el, fill, h, set, write } from '../lib/dom.js';
import { clockTime, drawAgo } from '../lib/times.js';
import { isOpen, stateOf } from './model.js';

/**
 * @typedef {import('./model.js').Analysis} Analysis
 * @typedef {import('./model.js').Run} Run
 * @typedef {import('../../i18n/index.js').Key} Key
 */

/** How hard a text is to read. @type {Record<string, Key>} */
const LEVELS = {
  very_easy: 'job.level.very_easy', easy: 'job.level.easy', medium: 'job.level.medium', hard: 'job.level.hard', very_hard: 'job.level.very_hard',
};
/** How a run ended. @type {Record<string, Key>} */
const ENDS = {
  completed: 'job.run.completed', released: 'job.run.released', expired: 'job.run.expired', taken_over: 'job.run.taken_over', force_released: 'job.run.force_released',
};

export class Drawer {
  /** @type {Analysis | undefined} */ #job;
  /** @type {Run[]} */ #runs = [];
  #attempts = 0;
  #title = h('h2', { id: 'job-title', tabindex: -1 });
  #tag = h('span', { class: 'tag' });
  #close = h('button', { class: 'button quiet close', type: 'button' }, '×');
  #run = h('button', { class: 'button primary', type: 'button', hidden: true });
  #body = h('div', { class: 'stack' });
  element = h('aside', { class: 'drawer', 'aria-labelledby': 'job-title', hidden: true },
    h('header', { class: 'drawer-head' }, this.#title, this.#close), h('div', { class: 'row apart' }, this.#tag, this.#run), this.#body);

  /**
   * @param {import('../lib/place.js').Place} place
   * @param {{close: () => void, run?: (job: Analysis, button: HTMLButtonElement) => Promise<void>}} actions
   */
  constructor(place, { close, run }) {
    this.run = run;
    this.#close.addEventListener('click', close);
    this.#run.addEventListener('click', () => { if (this.#job && run) void run(this.#job, this.#run); });
    const key = (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape' && this.id && !document.querySelector('dialog[open]')) close(); };
    addEventListener('keydown', key);
    place.onLeave(() => removeEventListener('keydown', key));
  }

  /** Which job is open. */
  get id() {
    return this.#job?.id;
  }

  /** @param {Analysis} job @param {Run[]} runs @param {number} attempts */
  show(job, runs, attempts) {
    this.#job = job;
    this.#runs = runs;
    this.#attempts = attempts;
    this.element.hidden = false;
    this.draw();
  }

  hide() {
    this.#job = undefined;
    this.element.hidden = true;
  }

  focus() {
    this.#title.focus();
  }

  draw() {
    const job = this.#job;
    if (!job) return;
    write(this.#title, job.id);
    const [key, kind] = stateOf(job);
    write(this.#tag, t(key));
    set(this.#tag, 'class', `tag ${kind}`);
    set(this.#close, 'aria-label', t('job.close'));
    this.#run.hidden = !this.run || !isOpen(job);
    write(this.#run, t('job.run'));
    const { lock } = job;
    const queued = h('time');
    drawAgo(queued, job.queued_at);
    const seen = h('time');
    drawAgo(seen, lock.heartbeat_at);
    fill(this.#body,
      facts([
        [t('job.queued'), [job.queued_by, ' · ', queued]],
        lock.state === 'locked' && [t('jobs.column.worker'), [`${lock.owner ?? ''} (${lock.locked_by?.name ?? ''})`]],
        lock.state === 'locked' && [t('job.seen'), [seen]],
        lock.state === 'locked' && [t('jobs.column.left'), [el('tenure-countdown', { 'expires-at': lock.expires_at, label: t('jobs.column.left'), 'urgent-ms': 30_000 })]],
        [t('jobs.column.attempt'), [this.#attempts === 0 ? '—' : String(this.#attempts)]],
      ]),
      job.error && h('section', { class: 'stack tight' }, h('h3', {}, t('job.error')), h('p', { class: 'failure' }, job.error.message, ' ', h('code', {}, job.error.reason))),
      job.result !== undefined && h('section', { class: 'stack tight' }, h('h3', {}, t('job.result')), resultOf(job.result)),
      job.result === undefined && !job.error && h('p', { class: 'soft' }, lock.state === 'locked' ? t('job.wait.running') : t('job.wait.queued')),
      this.#runs.length > 0 && h('section', { class: 'stack tight' }, h('h3', {}, t('job.runs')), h('ul', { class: 'runs' }, this.#runs.map(runOf))),
      h('section', { class: 'stack tight' }, h('h3', {}, t('job.input')), h('p', { class: 'input', tabindex: 0 }, job.input ?? job.excerpt)));
  }
}

/** @param {([string, (Node | string)[]] | false)[]} rows */
function facts(rows) {
  return h('dl', { class: 'facts' }, rows.filter((row) => row !== false).flatMap(([name, value]) => [h('dt', {}, name), h('dd', { class: 'figures' }, value)]));
}

/** @param {Run} run */
function runOf(run) {
  const end = run.ended_at ? t(ENDS[run.reason ?? ''] ?? 'job.run.over') : t('job.run.now');
  return h('li', { class: 'figures' }, `${clockTime(run.since)} · ${run.holder.name} · ${end}`);
}

/** The built-in analysis in words; anything else as it is. @param {any} result */
function resultOf(result) {
  if (typeof result?.words !== 'number' || !Array.isArray(result.terms)) {
    return h('pre', { class: 'json', tabindex: 0 }, JSON.stringify(result, null, 2));
  }
  const number = (/** @type {number} */ n) => formatNumber(n, language());
  const { code, confidence } = result.language ?? {};
  const most = Math.max(1, ...result.terms.map((/** @type {{count: number}} */ { count }) => count));
  return h('div', { class: 'stack tight' },
    facts([
      [t('job.language'), [`${languageName(code)}${typeof confidence === 'number' ? ` (${confidence} %)` : ''}`]],
      [t('job.characters'), [number(result.characters)]],
      [t('job.words'), [number(result.words)]],
      [t('job.sentences'), [number(result.sentences)]],
      result.readability && [t('job.readability'), [`${t(LEVELS[result.readability.level] ?? 'job.level.medium')} (${number(result.readability.score)})`]],
    ]),
    result.terms.length > 0 && h('h4', {}, t('job.terms')),
    h('ol', { class: 'terms' }, result.terms.map((/** @type {{term: string, count: number}} */ { term, count }) => {
      const bar = h('i');
      bar.style.inlineSize = `${(100 * count) / most}%`;
      return h('li', {}, h('span', { class: 'term' }, term), h('span', { class: 'figures' }, number(count)), h('span', { class: 'bar-of', 'aria-hidden': 'true' }, bar));
    })));
}

/** @param {string | null | undefined} code */
function languageName(code) {
  if (!code || code === 'und') return t('job.language.unknown');
  try {
    return new Intl.DisplayNames([language()], { type: 'language' }).of(code) ?? code;
  } catch {
    return code;
  }
}
