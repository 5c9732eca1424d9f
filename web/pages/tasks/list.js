// Every task: who has it since when, how far it is, and whether one may begin.

import { t } from '../../i18n/index.js';
import { el, fill, h, keyed, set, write } from '../lib/dom.js';
import { LiveList } from '../lib/live-list.js';
import { ask, trying } from '../lib/notice.js';
import { style } from '../lib/style.js';
import { clockTime, drawAgo, keepAgo } from '../lib/times.js';
import { taskPath } from './hold.js';
import { appliedOf, canManage, COLLECTION, isClaimable, isOver, lockLook, statusOf, wanted } from './model.js';

/**
 * @typedef {import('./model.js').Task} Task
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('../../i18n/index.js').Key} Key
 */

const PAGE = 200;

/** What is shown. @type {Record<string, {text: Key, keeps: (task: Task) => boolean}>} */
const SHOWN = {
  open: { text: 'tasks.show.open', keeps: (task) => !isOver(task) },
  locked: { text: 'tasks.show.locked', keeps: ({ lock }) => lock.state === 'locked' },
  over: { text: 'tasks.show.over', keeps: isOver },
  all: { text: 'tasks.show.all', keeps: () => true },
};

/** @type {Key[]} */
const COLUMNS = ['tasks.column.title', 'tasks.column.lock', 'tasks.column.status', 'tasks.column.lines', 'tasks.column.updated', 'tasks.column.action'];

/** @param {Place} place */
export default async function tasksPage(place) {
  await style('/pages/tasks/tasks.css');
  /** @type {LiveList<Task>} */
  const list = new LiveList(place, { path: '/tasks', name: 'tasks', size: PAGE, fresh: () => draw() });
  const tasks = list.rows;
  let shown = place.query.get('show') ?? 'open';
  if (!SHOWN[shown]) shown = 'open';
  let text = '';
  const mayManage = canManage(place.session.role);

  const heading = h('h1');
  const create = h('button', { class: 'button primary', type: 'button', hidden: !mayManage, onclick: () => { void make(); } });
  const chips = h('div', { class: 'chips', role: 'group' });
  const head = h('tr', { role: 'row' });
  const body = h('tbody', { role: 'rowgroup' });
  const table = h('table', { class: 'list tasks-list', role: 'table' }, h('thead', { role: 'rowgroup' }, head), body);
  const scroll = h('div', { class: 'scroll' }, table);
  const none = h('div', { class: 'empty stack', hidden: true });
  const more = h('button', { class: 'button', type: 'button', hidden: true, onclick: () => trying(more, load) });
  const page = h('section', { class: 'stack tasks' }, h('div', { class: 'row apart' }, heading, create), chips, scroll, none, h('div', { class: 'row' }, more));

  async function load() {
    await list.load();
    draw();
  }

  async function make() {
    const title = h('input', { name: 'title', required: true, maxlength: 200, autocomplete: 'off' });
    const answer = await ask({
      title: t('tasks.new'),
      body: [h('label', { class: 'field' }, t('tasks.new.title'), title), h('p', { class: 'soft small-text' }, t('tasks.new.hint'))],
      answers: [{ label: t('tasks.new.make'), value: 'yes', kind: 'primary' }],
    });
    if (!answer) return;
    const task = await trying(create, () => place.send('POST', '/tasks', { title: title.value.trim() }));
    if (task) place.go(`/app/tasks/${encodeURIComponent(task.id)}`);
  }

  /** @param {string} which */
  function show(which) {
    shown = which;
    history.replaceState(history.state, '', which === 'open' ? '/app/tasks' : `/app/tasks?show=${which}`);
    draw();
  }

  function draw() {
    const all = [...tasks.values()].sort((a, b) => b.id.localeCompare(a.id));
    const like = text.trim().toLowerCase();
    const found = all.filter(({ title, lock }) => `${title} ${lock.locked_by?.name ?? ''}`.toLowerCase().includes(like));
    const rows = found.filter(/** @type {{keeps: (task: Task) => boolean}} */ (SHOWN[shown]).keeps);
    keyed(chips, Object.entries(SHOWN), ([name]) => name,
      ([name]) => h('button', { class: 'chip', type: 'button', onclick: () => show(name) }, h('span'), h('b', { class: 'figures' })),
      (chip, [name, { text: key, keeps }]) => {
        set(chip, 'aria-pressed', String(name === shown));
        const [label, count] = /** @type {[HTMLElement, HTMLElement]} */ ([...chip.children]);
        write(label, t(key));
        write(count, String(found.filter(keeps).length));
      });
    keyed(body, rows, ({ id }) => id, makeRow, drawRow);
    scroll.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    if (rows.length === 0) drawNone(like !== '');
    more.hidden = list.next === null;
  }

  /** @param {boolean} isSearch */
  function drawNone(isSearch) {
    const isElsewhere = tasks.size > 0 && (isSearch || shown !== 'all');
    fill(none, h('h2', {}, tasks.size === 0 ? t('tasks.none') : t('tasks.none.like')),
      isElsewhere && h('button', { class: 'button', type: 'button', onclick: () => { text = ''; searchable(); show('all'); } }, t('tasks.none.all')),
      tasks.size === 0 && mayManage && h('button', { class: 'button primary', type: 'button', onclick: () => { void make(); } }, t('tasks.new')));
  }

  /** @param {Task} task */
  function makeRow({ id }) {
    const href = `/app/tasks/${encodeURIComponent(id)}`;
    const process = h('a', { class: 'button act', href, onclick: (/** @type {MouseEvent} */ event) => {
      // In another tab it is only looked at.
      if (process.dataset.begins && !event.ctrlKey && !event.metaKey && !event.shiftKey) wanted.id = id;
    } });
    const cell = (/** @type {string} */ name, /** @type {HTMLElement[]} */ ...inside) => h('td', { class: `c-${name}`, role: 'cell' }, ...inside);
    return h('tr', { role: 'row' },
      cell('title', h('a', { class: 'title', href })),
      cell('lock', el('tenure-lock'), h('time', { class: 'life soft figures' })),
      cell('status', h('span', { class: 'tag' })),
      cell('lines', h('span', { class: 'progress' }, h('span', { class: 'figures' }), h('span', { class: 'bar-of', 'aria-hidden': 'true' }, h('i')))),
      cell('updated', h('time', { class: 'soft figures' })),
      cell('action', process));
  }

  /** @param {HTMLElement} row @param {Task} task */
  function drawRow(row, task) {
    const at = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (row.querySelector(selector));
    write(at('.title'), task.title);
    const look = lockLook(task);
    const badge = at('tenure-lock');
    for (const [name, value] of Object.entries(look)) set(badge, name, value);
    const life = /** @type {HTMLTimeElement} */ (at('.life'));
    const { heartbeat_at: beat, expires_at: end } = task.lock;
    life.hidden = !beat;
    drawAgo(life, beat, (seen) => t('task.life', { seen, end: end ? clockTime(end) : '' }));
    const [key, kind] = statusOf(task.status);
    write(at('.tag'), t(key));
    set(at('.tag'), 'class', `tag ${kind}`);
    const [done, total] = [appliedOf(task), task.lines.length];
    write(at('.progress .figures'), t('tasks.lines', { done, total }));
    at('.bar-of i').style.inlineSize = `${total > 0 ? (100 * done) / total : 0}%`;
    drawAgo(/** @type {HTMLTimeElement} */ (at('.c-updated time')), task.updated_at);
    const begins = mayManage && isClaimable(task) && (task.lock.state === 'free' || task.lock.mine);
    const act = at('.act');
    set(act, 'data-begins', begins && 'yes');
    write(act, begins ? (task.lock.mine ? t('task.continue') : t('task.process')) : t('tasks.open'));
    set(act, 'aria-label', `${act.textContent}: ${task.title}`);
  }

  /** @type {() => void} */
  let unsearch = () => {};
  function searchable() {
    unsearch();
    unsearch = place.shell.search((words) => { text = words; draw(); });
  }
  searchable();
  place.onLeave(() => unsearch());
  await load();
  list.follow(COLLECTION, (id) => id.startsWith('task-'));
  keepAgo(place, page);
  place.onLanguage(() => {
    place.title(t('tasks.title'));
    write(heading, t('tasks.title'));
    write(create, t('tasks.new'));
    write(more, t('tasks.more'));
    set(chips, 'aria-label', t('tasks.show'));
    set(table, 'aria-label', t('tasks.title'));
    fill(head, COLUMNS.map((key, index) => h('th', { scope: 'col', role: 'columnheader' }, index === COLUMNS.length - 1 ? h('span', { class: 'unseen' }, t(key)) : t(key))));
    draw();
  });
  return page;
}
