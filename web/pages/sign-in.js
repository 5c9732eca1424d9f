// Who are you? A key, or in the demonstration one button per person.

import { t } from '../i18n/index.js';
import { fill, h, write } from './lib/dom.js';
import { say } from './lib/say.js';

/** @typedef {import('../i18n/index.js').Key} Key */

export const layout = 'plain';
export const isPublic = true;

/** @type {Record<string, Key>} */
const ROLES = { viewer: 'role.viewer', editor: 'role.editor', worker: 'role.worker', admin: 'role.admin' };

/** Only a page of this server. @param {string | null} path */
const own = (path) => (path?.startsWith('/app/') && !path.startsWith('/app/sign-in') ? path : '/app/');

/** @param {import('./lib/place.js').Place} place */
export default function signIn(place) {
  const next = own(place.query.get('next'));
  const error = h('p', { class: 'bad', role: 'alert' });
  const enter = async (/** @type {{key: string} | {demo: string}} */ who) => {
    write(error, '');
    try {
      await place.tenure.signIn(who);
      // From the start: nothing of whoever was here before is left.
      location.assign(next);
    } catch (problem) {
      write(error, 'key' in who && /** @type {any} */ (problem).status === 401 ? t('sign_in.wrong') : say(problem));
    }
  };
  const page = h('section', { class: 'narrow stack' });
  place.onLanguage(() => {
    place.title(t('sign_in.title'));
    const key = h('input', { type: 'password', name: 'key', autocomplete: 'current-password', required: true, spellcheck: 'false' });
    const people = place.session.demo.map(({ id, name, role }) => h('button', { class: 'button person-choice', type: 'button', onclick: () => enter({ demo: id }) },
      h('b', {}, name), h('span', { class: 'soft' }, t(ROLES[role] ?? 'role.viewer'))));
    fill(page, h('h1', {}, t('sign_in.title')),
      people.length > 0 && h('div', { class: 'stack' }, h('p', { class: 'soft' }, t('sign_in.demo')), h('div', { class: 'people' }, people)),
      h('form', { class: 'stack card', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void enter({ key: key.value }); } },
        h('label', { class: 'field' }, t('sign_in.key'), key),
        h('p', { class: 'soft small-text' }, t('sign_in.where')),
        h('button', { class: 'button primary', type: 'submit' }, t('sign_in.enter'))),
      error);
  });
  return page;
}
