// Where to go: the four applications, and the console for those who run it.

import { t } from '../i18n/index.js';
import { fill, h } from './lib/dom.js';
import { partsFor } from './lib/parts.js';

/** @param {import('./lib/place.js').Place} place */
export default function home(place) {
  const page = h('section', { class: 'stack' });
  place.onLanguage(() => {
    place.title(t('home.title'));
    const doors = partsFor(place.session.role);
    fill(page, h('h1', {}, t('home.hello', { name: place.session.person?.name ?? '' })), h('p', { class: 'soft' }, t('home.what')),
      h('div', { class: 'doors' }, doors.map(({ path, title, text }) => h('a', { class: 'card door', href: path }, h('h2', {}, t(title)), h('p', { class: 'soft' }, t(text))))),
      h('p', { class: 'soft small-text row developers' }, t('home.developers'), h('a', { href: '/elements/example.html' }, t('home.elements')), h('a', { href: '/docs' }, t('home.api'))));
  });
  return page;
}
