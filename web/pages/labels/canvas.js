// One image and what is outlined in it. Opening it takes it, leaving lets it go; while somebody else has it one
// can look. Every change is saved at once and can be taken back.

import { t } from '../../i18n/index.js';
import { Refused } from '../../sdk/tenure.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { ask, complain, toast, trying } from '../lib/notice.js';
import { style } from '../lib/style.js';
import { askWhich } from './conflict.js';
import { lockBar } from './lock-bar.js';
import { ImageLock } from './lock.js';
import { annotationsPanel, CLASSES } from './panel.js';
import { LOCK_REFUSALS, Saving } from './saving.js';
import { all, imageCard, STATUSES, statusLook, statusWords } from './shared.js';
import { Stage } from './stage.js';
import { toolbar, toolOf, zoomBar } from './toolbar.js';

/** The class that was drawn last, for the next. */
const CLASS = 'tenure.labels.class';

/** @param {import('../lib/place.js').Place} place */
export default async function canvasPage(place) {
  const { project: projectId = '', image: imageId = '' } = place.params;
  const base = `/api/v1/projects/${encodeURIComponent(projectId)}`;
  const path = `${base}/images/${encodeURIComponent(imageId)}`;
  const me = place.session.person?.id;
  const mayWork = place.session.role === 'editor' || place.session.role === 'admin';
  /** What is shown is fetched again. */
  let again = () => {};
  let isStripDue = false;
  const watch = place.watch(`image/${projectId}`, ({ items, event }) => {
    if (!items || items.some((id) => id.startsWith('image-')) || event?.claim) isStripDue = true;
    again();
  });
  const lock = new ImageLock(place, watch, { project: projectId, image: imageId });
  let image = await place.get(path);
  // Taken while the rest is fetched. What is archived is nobody's to change.
  const taken = mayWork && image.status !== 'archived' ? lock.acquire().catch((error) => error) : Promise.resolve();
  const [project, annotations, siblings] = await Promise.all([
    place.get(base), all(place, `${path}/annotations`, 'annotations'), all(place, `${base}/images`, 'images'), style('/pages/labels/labels.css'),
  ]);
  /** @type {import('./shared.js').LabelImage[]} */
  let images = siblings;
  let className = localStorage.getItem(CLASS) ?? annotations[0]?.class_id ?? 'object';
  const trouble = await taken;
  if (trouble) complain(trouble);

  const saving = new Saving({
    place, path, annotations, token: () => lock.token, me: place.session.person,
    ask: (mine, theirs, version) => askWhich({ mine, theirs, base: version, image: { width: image.width, height: image.height, url: image.file_url } }),
  });
  /** Its author and the project's owner, once it is saved. @param {any} one */
  const canEdit = (one) => lock.canWrite && one.version > 0 && (one.author.id === me || project.owner.id === me);
  const stage = new Stage({ width: image.width, height: image.height, url: image.file_url }, {
    onDraw: (geometry) => { void saving.add({ geometry, class_id: className }).then((id) => { if (saving.find(id)) choose(id); }); },
    onChange: (id, geometry, from) => saving.change(id, { geometry }, from),
    onDelete: remove, onSelect: () => draw(), canEdit, canDraw: () => lock.canWrite,
  });

  // ---- what it consists of --------------------------------------------------------------------------------

  const bar = lockBar({ place, lock, settled: () => saving.settled(), onChange: lockChanged });
  const tools = toolbar({ onTool: (tool) => { use(tool); stage.element.focus(); }, onClass: setClass, onUndo: () => travel('undo'), onRedo: () => travel('redo') });
  const zoom = zoomBar(stage);
  const panel = annotationsPanel({
    onChoose: (id) => { if (stage.tool !== 'select') use('select'); choose(stage.selected === id ? undefined : id); },
    onClass: classify, onDelete: remove, notMine: (one) => t('labels.not_yours', { name: one.author.name, owner: project.owner.name }),
  });
  const status = h('select', { class: 'small', onchange: () => trying(null, setStatus) });
  const statusTag = h('span', { class: 'tag' });
  const saved = h('p', { class: 'soft small-text', role: 'status' });
  const save = h('button', { class: 'button', type: 'button', hidden: true, onclick: () => trying(save, saveAgain) });
  const noFile = h('p', { class: 'soft small-text' });
  const classes = h('datalist', { id: CLASSES });
  const strip = h('nav', { class: 'strip' });
  const card = imageCard(projectId, true);
  set(stage.element, 'aria-describedby', 'stage-keys');
  const page = h('section', { class: 'stack labels canvas-page' },
    h('div', { class: 'row apart canvas-head' },
      h('div', { class: 'names' }, h('a', { href: `/app/labels/${encodeURIComponent(projectId)}`, class: 'back' }, project.name), h('h1', { title: image.name }, image.name)),
      h('div', { class: 'row who-has' }, bar.badge, h('span', { class: 'status' }, statusTag, status))),
    bar.notices,
    h('div', { class: 'canvas' }, strip, h('div', { class: 'middle' }, tools.element, stage.element, h('div', { class: 'row apart' }, zoom.element, noFile, h('div', { class: 'row saving' }, saved, save))), panel.element), classes);

  // ---- what one does --------------------------------------------------------------------------------------

  /** @param {string | undefined} id */
  function choose(id) {
    stage.select(id);
    draw();
  }

  /** @param {import('./stage.js').Tool} tool */
  function use(tool) {
    stage.use(tool);
    draw();
  }

  /** @param {string} name */
  function setClass(name) {
    className = name;
    localStorage.setItem(CLASS, name);
    draw();
  }

  /** @param {string} id @param {string} name */
  function classify(id, name) {
    const one = saving.find(id);
    if (!one || one.class_id === name) return;
    setClass(name);
    saving.change(id, { class_id: name }, { version: one.version, at: performance.now() });
  }

  /** @param {string} id */
  async function remove(id) {
    if (await saving.remove(id)) toast(t('labels.deleted'), { action: { label: t('labels.undo'), run: () => travel('undo') } });
  }

  /** @param {'undo' | 'redo'} way */
  function travel(way) {
    stage.flush();
    saving[way]();
  }

  async function setStatus() {
    try {
      image = await place.send('PATCH', path, { status: status.value });
    } finally {
      draw();
    }
  }

  /** The lock first: without it nothing is saved. */
  async function saveAgain() {
    if (lock.state === 'uncertain') await lock.check();
    saving.retry();
    await saving.settled();
  }

  function lockChanged() {
    // In doubt what is half drawn stays: it may well be ours in a moment.
    if (!lock.canWrite && lock.state !== 'uncertain' && stage.tool !== 'select') stage.use('select');
    // What happened while it was another's.
    if (lock.state === 'mine') again();
    // Also when it is lost: what was heard before is saved, and only that.
    if (lock.state === 'mine' || lock.state === 'lost') saving.retry();
    draw();
  }

  function drawSaved() {
    const { unsaved } = saving;
    write(saved, unsaved > 0 ? t('labels.unsaved', { n: unsaved }) : saving.pending > 0 ? t('labels.saving') : lock.canWrite ? t('labels.saved') : '');
    saved.classList.toggle('unsaved', unsaved > 0);
    save.hidden = unsaved === 0 || !lock.isKept;
    write(save, t('labels.unsaved.retry'));
  }

  // ---- what is seen ---------------------------------------------------------------------------------------

  /** Of this image the lock itself knows best. @param {import('./shared.js').Lock} listed */
  function shownLock(listed) {
    if (lock.state === 'mine') return { ...listed, mine: true, locked_by: place.session.person, locked_at: lock.since };
    if (lock.state === 'uncertain') return { ...listed, isUncertain: true };
    return lock.state === 'free' ? { ...listed, mine: false, locked_by: null, locked_at: null } : listed;
  }

  function drawStatus() {
    // Archiving is for good; it is not done in passing.
    const choices = STATUSES.filter((one) => one !== 'archived' || image.status === one);
    const options = choices.map((one) => `${one}=${statusWords(one)}`).join();
    if (status.dataset.options !== options) {
      status.dataset.options = options;
      fill(status, choices.map((one) => h('option', { value: one }, statusWords(one))));
    }
    set(status, 'aria-label', t('labels.status'));
    status.value = image.status;
    status.hidden = !lock.canWrite || image.status === 'archived';
    statusTag.hidden = !status.hidden;
    statusTag.className = `tag ${statusLook(image.status)}`;
    write(statusTag, statusWords(image.status));
  }

  /** What the whole project calls things. */
  function drawClasses() {
    const known = [...watch.rows.items.values()].map(({ data }) => data?.class_id).filter((name) => typeof name === 'string');
    const names = [...new Set([className, ...known])].sort();
    if (classes.dataset.names === names.join(' ')) return;
    classes.dataset.names = names.join(' ');
    fill(classes, names.map((name) => h('option', { value: name })));
  }

  function draw() {
    const { canWrite } = lock;
    place.title(image.name);
    set(stage.element, 'aria-label', t('labels.stage', { name: image.name }));
    set(strip, 'aria-label', t('labels.strip'));
    page.classList.toggle('read-only', !canWrite);
    set(page, 'data-mode', lock.state);
    bar.draw({ mayWork, isArchived: image.status === 'archived' });
    tools.element.hidden = !canWrite;
    tools.draw({ tool: stage.tool, name: className, canUndo: saving.canUndo, canRedo: saving.canRedo });
    zoom.draw();
    panel.draw(saving.annotations, { chosen: stage.selected, canWrite, canEdit });
    drawStatus();
    drawClasses();
    noFile.hidden = Boolean(image.file_url);
    write(noFile, t('labels.no_file'));
    drawSaved();
    keyed(strip, images, ({ id }) => id, card.make, (one, row) => card.draw(one, row.id === imageId ? { ...row, lock: shownLock(row.lock) } : row, row.id === imageId));
    stage.show(saving.annotations);
  }

  // ---- what happens ---------------------------------------------------------------------------------------

  saving.on('change', () => { if (!place.isLeft) draw(); });
  saving.on('settled', () => again());
  saving.on('failed', ({ error }) => {
    complain(error);
    if (error instanceof Refused && LOCK_REFUSALS.includes(error.code)) void lock.check();
  });
  saving.on('stalled', () => lock.doubt());
  again = freshly(place, async () => {
    const [fresh, many] = await Promise.all([place.get(path), isStripDue ? all(place, `${base}/images`, 'images') : images, saving.reload((id) => stage.isBusy(id))]);
    isStripDue = false;
    if (place.isLeft) return;
    image = fresh;
    images = many;
    draw();
  });

  /** @param {KeyboardEvent} event */
  function shortcuts(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest?.('input, textarea, select, dialog') || !lock.canWrite || event.altKey) return;
    const key = event.key.toLowerCase();
    const isCommand = event.ctrlKey || event.metaKey;
    const tool = toolOf(key);
    if (isCommand && key === 'z') travel(event.shiftKey ? 'redo' : 'undo');
    else if (isCommand && key === 'y') travel('redo');
    else if (!isCommand && tool) use(tool);
    else return;
    event.preventDefault();
  }

  /** Leaving throws away what is not saved. @param {BeforeUnloadEvent} event */
  function unloading(event) {
    if (saving.unsaved > 0) event.preventDefault();
  }

  place.losing = () => saving.unsaved === 0 || ask({
    title: t('labels.leave.title'), body: [t('labels.unsaved', { n: saving.unsaved }), t('labels.leave.text')], answers: [{ label: t('labels.leave'), value: 'yes', kind: 'danger' }],
  }).then(Boolean);
  addEventListener('keydown', shortcuts);
  addEventListener('beforeunload', unloading);
  place.onLeave(() => {
    removeEventListener('keydown', shortcuts);
    removeEventListener('beforeunload', unloading);
    stage.close();
  });
  place.onLanguage(draw);
  requestAnimationFrame(() => {
    const here = /** @type {HTMLElement | null} */ (strip.querySelector('[aria-current]'));
    // Only the strip: the page stays where it is.
    if (here) strip.scrollTo(here.offsetLeft - here.offsetWidth / 2, here.offsetTop - here.offsetHeight / 2);
  });
  return page;
}
