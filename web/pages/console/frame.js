// What stands around every page of the console, or of another part that is for administrators: its name, and the ways
// to the others.

import { t } from '../../i18n/index.js';
import { fill, h, set } from '../lib/dom.js';
import { style } from '../lib/style.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('../../i18n/index.js').Key} Key
 */

/**
 * @typedef {object} Around
 * @property {Key} title
 * @property {Key} refusal For everybody else.
 * @property {[string, Key][]} tabs
 */

/** @type {Around} */
const CONSOLE = {
  title: 'console.title',
  refusal: 'console.admins',
  tabs: [
    ['/app/console', 'console.claims'],
    ['/app/console/audit', 'console.audit'],
    ['/app/console/policies', 'console.policies'],
    ['/app/console/keys', 'console.keys'],
    ['/app/console/health', 'console.health'],
  ],
};

/**
 * @param {Place} place
 * @param {() => string} title
 * @param {(body: HTMLElement) => Promise<void>} build
 * @param {Around} [around]
 */
export async function frame(place, title, build, around = CONSOLE) {
  await style('/pages/console/console.css');
  const heading = h('h1');
  const tabs = h('nav', { class: 'tabs' });
  const body = h('div', { class: 'stack' });
  const isAllowed = place.session.role === 'admin';
  place.onLanguage(() => {
    place.title(title());
    fill(heading, title());
    set(tabs, 'aria-label', t(around.title));
    fill(tabs, around.tabs.map(([path, key], index) => {
      const isHere = path === place.path || (index > 0 && place.path.startsWith(`${path}/`));
      return h('a', { href: path, 'aria-current': isHere && 'page' }, t(key));
    }));
  });
  if (!isAllowed) {
    const refusal = h('section', { class: 'empty stack' });
    place.onLanguage(() => fill(refusal, h('h1', {}, t(around.refusal)), h('p', { class: 'soft' }, t('error.forbidden')),
      h('p', {}, h('a', { class: 'button primary', href: '/app/' }, t('page.home')))));
    return refusal;
  }
  await build(body);
  requestAnimationFrame(() => {
    const here = /** @type {HTMLElement | null} */ (tabs.querySelector('[aria-current]'));
    if (here) tabs.scrollLeft = here.offsetLeft - tabs.offsetLeft - tabs.clientWidth / 2;
  });
  return h('section', { class: 'stack console' }, h('div', { class: 'row apart' }, heading, tabs), body);
}

/** Where an item's page is. @param {string} collection @param {string} item */
export function itemPath(collection, item) {
  const [kind = '', ...name] = collection.split('/');
  return `/app/console/item/${[kind, name.join('/'), item].map(encodeURIComponent).join('/')}`;
}
