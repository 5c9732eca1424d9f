// Projects: what there is to outline.

import { t } from '../../i18n/index.js';
import { fill, h, write } from '../lib/dom.js';
import { trying } from '../lib/notice.js';
import { style } from '../lib/style.js';
import { drawAgo, keepAgo } from '../lib/times.js';
import { all } from './shared.js';

/** @param {import('../lib/place.js').Place} place */
export default async function projectsPage(place) {
  const [, projects] = await Promise.all([style('/pages/labels/labels.css'), all(place, '/api/v1/projects', 'projects')]);
  const canMake = place.session.role === 'editor' || place.session.role === 'admin';
  const page = h('section', { class: 'stack labels' });
  const name = h('input', { required: true, maxlength: 200, autocomplete: 'off' });
  const make = h('button', { class: 'button primary', type: 'submit' });
  const label = h('span');
  const form = h('form', { class: 'card new-project', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    void trying(make, async () => {
      const made = await place.send('POST', '/api/v1/projects', { name: name.value.trim() });
      place.go(`/app/labels/${encodeURIComponent(made.id)}`);
    });
  } }, h('label', { class: 'field' }, label, name), make);
  place.onLanguage(() => {
    place.title(t('labels.title'));
    write(label, t('labels.project.name'));
    write(make, t('labels.project.make'));
    fill(page, h('h1', {}, t('labels.title')), h('p', { class: 'soft' }, t('labels.text')),
      projects.length === 0 && h('div', { class: 'empty stack' }, h('h2', {}, t('labels.projects.none')), h('p', { class: 'soft' }, canMake ? t('labels.projects.none.make') : t('labels.projects.none.wait'))),
      h('div', { class: 'doors' }, projects.map((project) => {
        const when = h('time');
        drawAgo(when, project.updated_at);
        return h('a', { class: 'card door', href: `/app/labels/${encodeURIComponent(project.id)}` }, h('h2', {}, project.name), h('p', { class: 'soft small-text' }, t('labels.owner', { name: project.owner.name }), ' · ', when));
      })), canMake && form);
  });
  keepAgo(place, page);
  return page;
}
