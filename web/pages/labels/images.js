// A project's images: what they show, how far they are, and who has which, live.

import { t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { freshly } from '../lib/fresh.js';
import { toast } from '../lib/notice.js';
import { say } from '../lib/say.js';
import { style } from '../lib/style.js';
import { all, imageCard, STATUSES, statusWords, upload } from './shared.js';

/** @typedef {import('./shared.js').LabelImage} LabelImage */

/** @param {import('../lib/place.js').Place} place */
export default async function imagesPage(place) {
  const { project: id = '' } = place.params;
  const path = `/api/v1/projects/${encodeURIComponent(id)}`;
  /** @type {[any, LabelImage[], void]} */
  const loaded = /** @type {any} */ (await Promise.all([place.get(path), all(place, `${path}/images`, 'images'), style('/pages/labels/labels.css')]));
  const [project] = loaded;
  let images = loaded[1];
  let status = place.query.get('status') ?? '';
  let text = '';
  const canAdd = place.session.role === 'editor' || place.session.role === 'admin';

  const back = h('a', { href: '/app/labels', class: 'back' });
  const about = h('p', { class: 'soft' });
  const chips = h('div', { class: 'chips', role: 'group' });
  const grid = h('div', { class: 'image-grid' });
  const nothing = h('div', { class: 'empty stack' });
  const file = h('input', { type: 'file', multiple: true, accept: 'image/png,image/jpeg,image/webp', hidden: true, onchange: () => { void add([...(file.files ?? [])]); file.value = ''; } });
  const button = h('button', { class: 'button primary', type: 'button', onclick: () => file.click() });
  const progress = h('p', { class: 'soft small-text', role: 'status' });
  const hint = h('p', { class: 'soft small-text' });
  const page = h('section', { class: 'stack labels' }, back, h('div', { class: 'row apart' }, h('h1', {}, project.name), canAdd && h('div', { class: 'row' }, progress, button, file)), about, chips, grid, nothing, canAdd && hint);
  const card = imageCard(id, false);

  /** @param {File[]} files */
  async function add(files) {
    let done = 0;
    for (const one of files) {
      write(progress, t('labels.uploading', { n: done + 1, all: files.length }));
      try {
        await upload(id, one);
        done += 1;
      } catch (error) {
        toast(t('labels.upload.failed', { name: one.name, why: say(error) }), { kind: 'bad' });
      }
    }
    write(progress, '');
    if (done > 0) toast(t('labels.uploaded', { n: done }), { kind: 'good' });
    again();
  }

  if (canAdd) {
    page.addEventListener('dragover', (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      page.classList.add('dropping');
    });
    page.addEventListener('dragleave', (event) => { if (!page.contains(/** @type {Node | null} */ (event.relatedTarget))) page.classList.remove('dropping'); });
    page.addEventListener('drop', (event) => {
      event.preventDefault();
      page.classList.remove('dropping');
      void add([...(event.dataTransfer?.files ?? [])].filter(({ type }) => type.startsWith('image/')));
    });
  }

  function draw() {
    place.title(project.name);
    write(back, t('labels.back'));
    write(button, t('labels.upload'));
    write(hint, t('labels.upload.hint'));
    const free = images.filter(({ lock }) => !lock.locked_by).length;
    write(about, `${t('labels.owner', { name: project.owner.name })} · ${t('labels.images', { n: images.length })} · ${t('labels.free', { n: free })}`);
    set(chips, 'aria-label', t('labels.status'));
    const kinds = ['', ...STATUSES.filter((one) => one === status || images.some((image) => image.status === one))];
    chips.hidden = images.length === 0;
    keyed(chips, kinds, (one) => `status ${one}`, (one) => h('button', { class: 'chip', type: 'button', onclick: () => {
      status = one;
      history.replaceState(history.state, '', `${place.path}${one && `?status=${one}`}`);
      draw();
    } }), (chip, one) => {
      set(chip, 'aria-pressed', String(one === status));
      fill(chip, one ? statusWords(one) : t('labels.all'), h('span', { class: 'soft figures' }, one ? images.filter((image) => image.status === one).length : images.length));
    });
    const wanted = text.trim().toLowerCase();
    const shown = images.filter((image) => (!status || image.status === status) && (!wanted || image.name.toLowerCase().includes(wanted)));
    keyed(grid, shown, (image) => image.id, card.make, (one, image) => card.draw(one, image));
    nothing.hidden = shown.length > 0;
    if (!nothing.hidden) {
      fill(nothing, h('h2', {}, images.length === 0 ? t('labels.none') : t('labels.none.fits')),
        h('p', { class: 'soft' }, images.length > 0 ? t('labels.none.fits.next') : canAdd ? t('labels.none.add') : t('labels.projects.none.wait')));
    }
  }

  const again = freshly(place, async () => {
    images = await all(place, `${path}/images`, 'images');
    if (!place.isLeft) draw();
  });
  place.watch(`image/${id}`, again);
  place.onLeave(place.shell.search((wish) => {
    text = wish;
    draw();
  }));
  place.onLanguage(draw);
  return page;
}
