// The queue: what waits, who runs what and how long that is still believed, what came of it. A job opens in a drawer
// with an address of its own.

import { t } from '../../i18n/index.js';
import { el, fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { LiveList } from '../lib/live-list.js';
import { ask, toast, trying } from '../lib/notice.js';
import { style } from '../lib/style.js';
import { drawAgo, keepAgo } from '../lib/times.js';
import { Drawer } from './drawer.js';
import { attemptsOf, canQueue, canRun, COLLECTION, isAbandoned, stateOf } from './model.js';

/**
 * @typedef {import('./model.js').Analysis} Analysis
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('../../i18n/index.js').Key} Key
 */

const PAGE = 100;
const INPUT_MAX = 20_000;

/** @type {Record<string, {text: Key, keeps: (job: Analysis) => boolean}>} */
const SHOWN = {
  all: { text: 'jobs.show.all', keeps: () => true },
  queued: { text: 'jobs.show.queued', keeps: ({ status }) => status === 'QUEUED' },
  running: { text: 'jobs.show.running', keeps: (job) => job.status === 'RUNNING' && !isAbandoned(job) },
  abandoned: { text: 'job.state.abandoned', keeps: isAbandoned },
  ready: { text: 'jobs.show.ready', keeps: ({ status }) => status === 'READY' },
  failed: { text: 'jobs.show.failed', keeps: ({ status }) => status === 'FAILED' },
};

/** @type {[string, Key][]} */
const COLUMNS = [
  ['job', 'jobs.column.job'], ['state', 'jobs.column.state'], ['worker', 'jobs.column.worker'],
  ['attempt', 'jobs.column.attempt'], ['left', 'jobs.column.left'], ['updated', 'jobs.column.updated'],
];

/** @param {Place} place */
export default async function jobsPage(place) {
  await Promise.all([style('/pages/tasks/tasks.css'), style('/pages/jobs/jobs.css')]);
  /** @type {LiveList<Analysis>} */
  const list = new LiveList(place, { path: '/analyses', name: 'analyses', size: PAGE, fresh });
  const jobs = list.rows;
  /** How often each was begun, and of which state that was asked. @type {Map<string, {of: string, n: number | undefined}>} */
  const attempts = new Map();
  let shown = SHOWN[place.query.get('show') ?? ''] ? place.query.get('show') ?? 'all' : 'all';
  let text = '';
  const mayQueue = canQueue(place.session.role);

  const heading = h('h1');
  const create = h('button', { class: 'button primary', type: 'button', hidden: !mayQueue, onclick: () => { void queue(); } });
  const chips = h('div', { class: 'chips', role: 'group' });
  const head = h('tr', { role: 'row' });
  const body = h('tbody', { role: 'rowgroup' });
  const table = h('table', { class: 'list jobs-list', role: 'table' }, h('thead', { role: 'rowgroup' }, head), body);
  const scroll = h('div', { class: 'scroll' }, table);
  const none = h('div', { class: 'empty stack', hidden: true });
  const more = h('button', { class: 'button', type: 'button', hidden: true, onclick: () => trying(more, load) });
  const drawer = new Drawer(place, { close: () => place.go(address()), run: canRun(place.session.role) ? run : undefined });
  const page = h('section', { class: 'stack jobs' }, h('div', { class: 'row apart' }, heading, create), chips, scroll, none, h('div', { class: 'row' }, more), drawer.element);

  const address = () => (shown === 'all' ? '/app/jobs' : `/app/jobs?show=${shown}`);
  /** @param {string} id */
  const addressOf = (id) => `/app/jobs/${encodeURIComponent(id)}${shown === 'all' ? '' : `?show=${shown}`}`;
  /** @param {string} id */
  const pathOf = (id) => `/analyses/${encodeURIComponent(id)}`;

  async function load() {
    await list.load();
    draw();
  }

  /** @param {Set<string> | undefined} ids */
  async function fresh(ids) {
    draw();
    const { id } = drawer;
    if (id && (!ids || ids.has(id))) await open(id);
  }

  /** The list does not say which attempt it is: the item's history does. */
  const count = freshly(place, async () => {
    for (const job of jobs.values()) {
      if (place.isLeft) return;
      const of = `${job.version} ${job.lock.locked_at}`;
      if (job.status === 'QUEUED' || attempts.get(job.id)?.of === of) continue;
      attempts.set(job.id, { of, n: attempts.get(job.id)?.n });
      const explained = await place.get(`/v1/collections/${COLLECTION}/items/${encodeURIComponent(job.id)}/explain`);
      attempts.set(job.id, { of, n: attemptsOf(explained) });
      draw();
    }
  });

  async function queue() {
    const input = h('textarea', { name: 'input', rows: 6, maxlength: INPUT_MAX, required: true });
    const id = h('input', { name: 'id', maxlength: 64, pattern: '[A-Za-z0-9._\\-]+', autocomplete: 'off', spellcheck: 'false', title: t('jobs.new.id.hint') });
    const answer = await ask({
      title: t('jobs.new'),
      body: [h('label', { class: 'field' }, t('jobs.new.input'), input), h('label', { class: 'field' }, t('jobs.new.id'), id)],
      answers: [{ label: t('jobs.new.queue'), value: 'yes', kind: 'primary' }],
    });
    if (!answer) return;
    const name = id.value.trim();
    const job = await trying(create, () => place.send('POST', '/analyses', { input: input.value, ...(name && { id: name }) }));
    if (!job) return;
    list.take([job]);
    toast(t('jobs.queued'), { kind: 'good' });
    place.go(addressOf(job.id));
  }

  /** Delivers it to the worker in the server. @param {Analysis} job @param {HTMLButtonElement} button */
  async function run(job, button) {
    const answer = await trying(button, () => place.send('POST', '/internal/tasks/analysis', { analysis_id: job.id }));
    if (!answer) return;
    /** @type {Record<string, Key>} */
    const texts = { completed: 'job.outcome.completed', failed: 'job.outcome.failed', skipped: 'job.outcome.skipped' };
    toast(t(texts[answer.outcome] ?? 'job.outcome.skipped'), { kind: answer.outcome === 'completed' ? 'good' : 'plain' });
    list.changed([job.id]);
  }

  /** @param {string} id */
  async function open(id) {
    const path = `/v1/collections/${COLLECTION}/items/${encodeURIComponent(id)}/explain`;
    const [job, explained] = await Promise.all([place.get(pathOf(id)), place.get(path)]);
    drawer.show(job, explained.history ?? [], attemptsOf(explained));
  }

  /** Which drawer the address names. @param {string} path */
  function follow(path) {
    const id = path.startsWith('/app/jobs/') ? decodeURIComponent(path.slice('/app/jobs/'.length)) : undefined;
    if (!id) {
      const was = drawer.id;
      drawer.hide();
      if (was) /** @type {HTMLElement | null} */ (body.querySelector(`[data-key="${CSS.escape(was)}"] .title`))?.focus();
    } else if (id !== drawer.id) {
      void trying(null, async () => {
        await open(id);
        drawer.focus();
      });
    }
    place.title(id ?? t('jobs.title'));
    draw();
  }

  /** @param {string} which */
  function show(which) {
    shown = which;
    history.replaceState(history.state, '', drawer.id ? addressOf(drawer.id) : address());
    draw();
  }

  function draw() {
    const all = [...jobs.values()].sort((a, b) => b.queued_at.localeCompare(a.queued_at) || b.id.localeCompare(a.id));
    const like = text.trim().toLowerCase();
    const found = all.filter(({ id, excerpt, lock }) => `${id} ${excerpt} ${lock.owner ?? ''}`.toLowerCase().includes(like));
    const rows = found.filter(/** @type {{keeps: (job: Analysis) => boolean}} */ (SHOWN[shown]).keeps);
    keyed(chips, Object.entries(SHOWN), ([name]) => name,
      ([name]) => h('button', { class: 'chip', type: 'button', onclick: () => show(name) }, h('span'), h('b', { class: 'figures' })),
      (chip, [name, { text: key, keeps }]) => {
        set(chip, 'aria-pressed', String(name === shown));
        const [label, many] = /** @type {[HTMLElement, HTMLElement]} */ ([...chip.children]);
        write(label, t(key));
        write(many, String(found.filter(keeps).length));
      });
    keyed(body, rows, ({ id }) => id, makeRow, drawRow);
    scroll.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    if (rows.length === 0) drawNone();
    more.hidden = list.next === null;
    count();
  }

  function drawNone() {
    fill(none, h('h2', {}, jobs.size === 0 ? t('jobs.none') : t('jobs.none.like')),
      jobs.size > 0 && h('button', { class: 'button', type: 'button', onclick: () => { text = ''; searchable(); show('all'); } }, t('jobs.none.all')),
      jobs.size === 0 && mayQueue && h('button', { class: 'button primary', type: 'button', onclick: () => { void queue(); } }, t('jobs.new')));
  }

  /** @param {Analysis} job */
  function makeRow({ id }) {
    const cell = (/** @type {string} */ name, /** @type {HTMLElement[]} */ ...inside) => h('td', { class: `c-${name}`, role: 'cell' }, ...inside);
    return h('tr', { role: 'row' },
      cell('job', h('a', { class: 'title' }, id), h('span', { class: 'excerpt soft' })),
      cell('state', h('span', { class: 'tag' })),
      cell('worker', h('span', { class: 'worker' })),
      cell('attempt', h('span', { class: 'figures' })),
      cell('left', el('tenure-countdown', { 'urgent-ms': 30_000 }), h('span', { class: 'soft' })),
      cell('updated', h('time', { class: 'soft figures' })));
  }

  /** @param {HTMLElement} row @param {Analysis} job */
  function drawRow(row, job) {
    const at = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (row.querySelector(selector));
    set(at('.title'), 'href', addressOf(job.id));
    set(at('.title'), 'aria-current', drawer.id === job.id && 'true');
    set(row, 'class', drawer.id === job.id && 'chosen');
    write(at('.excerpt'), job.excerpt);
    const [key, kind] = stateOf(job);
    write(at('.tag'), t(key));
    set(at('.tag'), 'class', `tag ${kind}`);
    write(at('.worker'), job.lock.owner ?? (job.lock.locked_by?.name ?? '—'));
    const n = job.status === 'QUEUED' ? 0 : attempts.get(job.id)?.n;
    write(at('.c-attempt .figures'), n === undefined ? '…' : n === 0 ? '—' : String(n));
    const countdown = at('tenure-countdown');
    const isHeld = job.lock.state === 'locked';
    countdown.hidden = !isHeld;
    set(countdown, 'expires-at', job.lock.expires_at);
    set(countdown, 'label', t('jobs.column.left'));
    write(at('.c-left .soft'), isHeld ? '' : '—');
    drawAgo(/** @type {HTMLTimeElement} */ (at('time')), job.updated_at);
    const labels = { worker: t('jobs.column.worker'), attempt: t('jobs.column.attempt'), left: t('jobs.column.left') };
    for (const [name, label] of Object.entries(labels)) set(at(`.c-${name}`), 'data-label', label);
    set(row, 'data-held', isHeld);
  }

  /** @type {() => void} */
  let unsearch = () => {};
  function searchable() {
    unsearch();
    unsearch = place.shell.search((words) => { text = words; draw(); });
  }
  searchable();
  place.onLeave(() => unsearch());
  place.stays = (path) => {
    if (path !== '/app/jobs' && !path.startsWith('/app/jobs/')) return false;
    follow(path);
    return true;
  };
  await load();
  const first = place.params.id;
  if (first) await open(first);
  list.follow(COLLECTION);
  keepAgo(place, page);
  place.onLanguage(() => {
    place.title(drawer.id ?? t('jobs.title'));
    write(heading, t('jobs.title'));
    write(create, t('jobs.new'));
    write(more, t('jobs.more'));
    set(chips, 'aria-label', t('jobs.show'));
    set(table, 'aria-label', t('jobs.title'));
    fill(head, COLUMNS.map(([name, key]) => h('th', { scope: 'col', role: 'columnheader', class: `c-${name}` }, t(key))));
    drawer.draw();
    draw();
  });
  return page;
}
