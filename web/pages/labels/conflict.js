// Two people changed one thing: both versions, side by side.

import { t } from '../../i18n/index.js';
import { h } from '../lib/dom.js';
import { ask } from '../lib/notice.js';
import { clockTime } from '../lib/times.js';
import { paint } from './colours.js';
import { boxOf, outline } from './geometry.js';

/**
 * @typedef {import('./geometry.js').Geometry} Geometry
 * @typedef {{geometry: Geometry, class_id: string}} Content
 */

const SVG = 'http://www.w3.org/2000/svg';

/** @param {string} tag @param {Record<string, string | number>} attributes */
function shape(tag, attributes) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** The part of the image that both are in. @param {Content} one @param {string} view @param {{width: number, height: number, url: string | null}} image */
function picture(one, view, { width, height, url }) {
  const svg = shape('svg', { viewBox: view, 'aria-hidden': 'true', class: 'picture' });
  svg.append(shape('rect', { class: 'ground', width, height }));
  if (url) svg.append(shape('image', { href: url, width, height }));
  const group = shape('g', { class: 'shape selected' });
  paint(group, one.class_id);
  const points = outline(one.geometry);
  group.append(shape('polygon', { class: 'casing', points }), shape('polygon', { class: 'line', points }));
  svg.append(group);
  return svg;
}

/**
 * @param {object} given
 * @param {Content} given.mine
 * @param {any} given.theirs As the server has it.
 * @param {number} given.base The version that mine was made from.
 * @param {{width: number, height: number, url: string | null}} given.image
 * @returns {Promise<'mine' | 'theirs'>}
 */
export async function askWhich({ mine, theirs, base, image }) {
  const boxes = [boxOf(mine.geometry), boxOf(theirs.geometry)];
  const [left, top] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))];
  const [right, bottom] = [Math.max(...boxes.map((box) => box.right)), Math.max(...boxes.map((box) => box.bottom))];
  const room = Math.max(20, (right - left) * 0.25, (bottom - top) * 0.25);
  const view = [left - room, top - room, right - left + 2 * room, bottom - top + 2 * room].join(' ');
  const card = (/** @type {string} */ title, /** @type {Content} */ one, /** @type {string} */ what) => h('section', { class: 'version' },
    h('h3', {}, title), picture(one, view, image), h('p', {}, h('b', {}, one.class_id)), h('p', { class: 'soft small-text figures' }, what));
  const answer = await ask({
    title: t('labels.conflict.title'),
    body: [t('labels.conflict.text', { name: theirs.updated_by.name }), h('div', { class: 'versions' },
      card(t('labels.conflict.mine'), mine, t('labels.conflict.base', { n: base })),
      card(t('labels.conflict.theirs'), theirs, t('labels.conflict.by', { n: theirs.version, name: theirs.updated_by.name, time: clockTime(theirs.updated_at) })))],
    answers: [{ label: t('labels.conflict.keep'), value: 'mine' }, { label: t('labels.conflict.refresh'), value: 'theirs', kind: 'primary' }],
    // Putting it away would be throwing one of them away.
    isFirm: true,
  });
  return answer === 'mine' ? 'mine' : 'theirs';
}
