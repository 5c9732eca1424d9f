// What the pages of labels have in common: images as cards, their status and lock in words, and uploads.

import { now } from '../../elements/clock.js';
import { formatTime } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { unique } from '../../sdk/src/http.js';
import { Refused, Unreachable } from '../../sdk/tenure.js';
import { el, h, set, write } from '../lib/dom.js';

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {{state: string, locked_by: {id: string, name: string} | null, locked_at: string | null, expires_at: string | null, mine: boolean, isUncertain?: boolean}} Lock
 * @typedef {{id: string, project_id: string, name: string, status: string, width: number, height: number, annotations: number, file_url: string | null, thumbnail_url: string | null, lock: Lock, version: number, updated_at: string}} LabelImage
 */

/** @type {Record<string, Key>} */
const STATUS = { new: 'labels.status.new', in_progress: 'labels.status.in_progress', done: 'labels.status.done', archived: 'labels.status.archived' };
export const STATUSES = Object.keys(STATUS);

/** @param {string} status */
export const statusWords = (status) => (STATUS[status] ? t(STATUS[status]) : status);

/** @type {Record<string, string>} */
const LOOKS = { new: '', in_progress: 'busy', done: 'good', archived: 'done' };
/** @param {string} status */
export const statusLook = (status) => LOOKS[status] ?? '';

/** Whose it is, in a sentence. @param {HTMLElement} badge @param {Lock} lock @param {boolean} isShort */
export function drawLock(badge, lock, isShort) {
  const name = lock.locked_by?.name ?? '';
  const isOther = Boolean(lock.locked_by) && !lock.mine;
  set(badge, 'state', lock.isUncertain ? 'uncertain' : lock.mine ? 'mine' : isOther ? 'other' : 'free');
  set(badge, 'holder', name);
  set(badge, 'since', lock.locked_at);
  set(badge, 'label', lock.isUncertain ? null : isOther ? (isShort ? name : t('lock.other', { name, time: lock.locked_at ? formatTime(lock.locked_at, now(), language()) : '' })) : lock.mine && isShort ? t('lock.mine.plain') : null);
}

/** @param {string} project @param {string} image */
export const imagePath = (project, image) => `/app/labels/${encodeURIComponent(project)}/${encodeURIComponent(image)}`;

/** @param {LabelImage} image */
export function thumbnail(image) {
  return image.thumbnail_url
    ? h('img', { src: image.thumbnail_url, alt: '', loading: 'lazy', decoding: 'async', class: 'thumbnail' })
    : h('span', { class: 'thumbnail none', 'aria-hidden': 'true' });
}

/** One of the strip or of the project's images. @param {string} project @param {boolean} isShort */
export function imageCard(project, isShort) {
  return {
    make: (/** @type {LabelImage} */ image) => h('a', { class: 'image-card', href: imagePath(project, image.id) }, thumbnail(image),
      h('span', { class: 'image-name' }), h('span', { class: 'row facts-row' }, h('span', { class: 'tag' }), h('span', { class: 'soft small-text figures' })), el('tenure-lock')),
    draw: (/** @type {HTMLElement} */ card, /** @type {LabelImage} */ image, /** @type {boolean} */ isHere = false) => {
      card.classList.toggle('taken', Boolean(image.lock.locked_by) && !image.lock.mine);
      set(card, 'aria-current', isHere && 'page');
      write(/** @type {Element} */ (card.querySelector('.image-name')), image.name);
      const tag = /** @type {HTMLElement} */ (card.querySelector('.tag'));
      tag.className = `tag ${statusLook(image.status)}`;
      write(tag, statusWords(image.status));
      const size = `${image.width} × ${image.height}`;
      write(/** @type {Element} */ (tag.nextElementSibling), isShort ? '' : [size, t('labels.count', { n: image.annotations })].join(' · '));
      const badge = /** @type {HTMLElement} */ (card.querySelector('tenure-lock'));
      // Nobody can have what is archived.
      badge.hidden = image.status === 'archived';
      drawLock(badge, image.lock, isShort);
    },
  };
}

/** Sends a file. @param {string} project @param {File} file */
export async function upload(project, file) {
  const form = new FormData();
  form.append('name', file.name);
  form.append('file', file);
  /** @type {Response} */
  let response;
  try {
    response = await fetch(`/api/v1/projects/${encodeURIComponent(project)}/images`, {
      method: 'POST', body: form, credentials: 'same-origin', headers: { accept: 'application/json', 'x-tenure-csrf': '1', 'idempotency-key': unique() },
    });
  } catch (error) {
    throw new Unreachable(error);
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}

/** Everything that a list has, page by page. @param {import('../lib/place.js').Place} place @param {string} path @param {string} name */
export async function all(place, path, name) {
  /** @type {any[]} */
  const found = [];
  let after = '';
  do {
    const page = await place.get(`${path}?limit=200${after && `&after=${encodeURIComponent(after)}`}`);
    found.push(...page[name]);
    after = page.next ?? '';
  } while (after && found.length < 2_000);
  return found;
}
