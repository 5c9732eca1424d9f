// Keys: who may come in, as whom, for what. A secret is shown once, when it is made.

import { t } from '../../i18n/index.js';
import { fill, h, keyed, set, write } from '../lib/dom.js';
import { ask, toast, trying } from '../lib/notice.js';
import { say } from '../lib/say.js';
import { Refused } from '../../sdk/tenure.js';
import { frame } from './frame.js';
import { moment, time } from './spans.js';

/** @typedef {import('../../i18n/index.js').Key} Key */

/** @type {[string, Key][]} */
const ROLES = [['viewer', 'role.viewer'], ['editor', 'role.editor'], ['worker', 'role.worker'], ['admin', 'role.admin']];

/** @param {string} role */
const roleWords = (role) => t(ROLES.find(([name]) => name === role)?.[1] ?? 'role.viewer');

/** @param {import('../lib/place.js').Place} place */
export default function keysPage(place) {
  return frame(place, () => t('keys.title'), async (body) => {
    /** @type {any[]} */
    let keys = [];
    /** @type {any} */
    let made;
    const load = async () => { keys = (await place.get('/v1/keys')).keys; };

    const what = h('p', { class: 'soft' });
    const secret = h('section', { class: 'card stack verdict', hidden: true, tabindex: -1 });
    const heads = h('tr');
    const rows = h('tbody');
    const fields = {
      name: h('input', { name: 'name', required: true, maxlength: 100, autocomplete: 'off' }),
      id: h('input', { name: 'subject.id', required: true, maxlength: 128, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' }),
      person: h('input', { name: 'subject.name', required: true, maxlength: 128, autocomplete: 'off' }),
      role: h('select', { name: 'role' }),
      kinds: h('input', { name: 'kinds', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' }),
    };
    const error = h('p', { class: 'bad', role: 'alert' });
    const submit = h('button', { class: 'button primary', type: 'submit' });
    const labels = { name: h('span'), id: h('span'), person: h('span'), role: h('span'), kinds: h('span') };
    const legend = h('h2');
    const open = h('button', { class: 'button primary', type: 'button', 'aria-expanded': 'false', onclick: () => unfold(form.hidden) });
    const form = h('form', { class: 'card stack', hidden: true, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void trying(submit, create); } },
      legend, h('div', { class: 'key-form' }, Object.entries(fields).map(([name, field]) => h('label', { class: 'field' }, labels[/** @type {keyof typeof labels} */ (name)], field)), submit), error);

    /** @param {boolean} isOpen */
    function unfold(isOpen) {
      form.hidden = !isOpen;
      set(open, 'aria-expanded', String(isOpen));
      if (isOpen) fields.name.focus();
    }

    async function create() {
      write(error, '');
      for (const field of Object.values(fields)) set(field, 'aria-invalid', null);
      const kinds = fields.kinds.value.split(/[\s,]+/).filter(Boolean);
      try {
        made = await place.send('POST', '/v1/keys', {
          name: fields.name.value.trim(), subject: { id: fields.id.value.trim(), name: fields.person.value.trim() }, role: fields.role.value, ...(kinds.length > 0 && { kinds }),
        });
      } catch (problem) {
        write(error, say(problem));
        const name = problem instanceof Refused ? String(problem.problem.field ?? '') : '';
        const wrong = Object.values(fields).find((field) => name && (field.name === name || name.startsWith(`${field.name}[`)));
        if (wrong) set(wrong, 'aria-invalid', 'true');
        wrong?.focus();
        return;
      }
      form.reset();
      unfold(false);
      await load();
      draw();
      secret.focus();
    }

    /** @param {any} key */
    async function revoke(key) {
      const answer = await ask({ title: t('keys.revoke.title', { name: key.name }), body: [t('keys.revoke.text', { name: key.subject.name })], answers: [{ label: t('keys.revoke'), value: 'yes', kind: 'danger' }] });
      if (answer !== 'yes') return;
      await trying(null, async () => {
        await place.send('DELETE', `/v1/keys/${encodeURIComponent(key.id)}`);
        toast(t('keys.revoked', { name: key.name }), { kind: 'good' });
        if (made?.id === key.id) made = undefined;
        await load();
        draw();
      });
    }

    function drawSecret() {
      secret.hidden = !made;
      if (!made) return fill(secret);
      const text = h('code', {}, made.key);
      const copy = h('button', { class: 'button primary', type: 'button', onclick: async () => {
        try {
          await navigator.clipboard.writeText(made.key);
          toast(t('keys.copied'), { kind: 'good' });
        } catch {
          // Not every browser lets a page do that: then it is at least selected.
          getSelection()?.selectAllChildren(text);
          toast(t('keys.copy_yourself'));
        }
      } }, t('keys.copy'));
      return fill(secret, h('h2', {}, t('keys.made', { name: made.subject.name })), h('p', {}, t('keys.once')), h('div', { class: 'secret' }, text, copy),
        h('div', { class: 'row' }, h('button', { class: 'button', type: 'button', onclick: () => { made = undefined; draw(); open.focus(); } }, t('keys.done'))));
    }

    function draw() {
      write(what, t('keys.what'));
      write(legend, t('keys.new'));
      write(open, t('keys.new'));
      write(submit, t('keys.create'));
      write(labels.name, t('keys.name'));
      write(labels.id, t('keys.subject_id'));
      write(labels.person, t('keys.subject_name'));
      write(labels.role, t('keys.role'));
      write(labels.kinds, t('keys.kinds'));
      set(fields.kinds, 'placeholder', t('keys.kinds.all'));
      const role = fields.role.value || 'editor';
      fill(fields.role, ROLES.map(([name, key]) => h('option', { value: name }, t(key))));
      fields.role.value = role;
      drawSecret();
      fill(heads, [t('keys.name'), t('keys.subject'), t('keys.role'), t('keys.kinds'), t('keys.made_at')].map((text, index) => h('th', { scope: 'col', class: index > 2 && 'wide' }, text)),
        h('th', {}, h('span', { class: 'unseen' }, t('keys.revoke'))));
      keyed(rows, keys, ({ id }) => id, () => h('tr'), (row, key) => fill(row,
        h('td', {}, key.name, h('div', { class: 'soft under' }, h('code', {}, key.id))), h('td', {}, key.subject.name, h('div', { class: 'soft under' }, key.subject.id)),
        h('td', {}, h('span', { class: 'tag' }, roleWords(key.role))), h('td', { class: 'wide' }, key.kinds?.join(', ') ?? t('keys.kinds.all')),
        h('td', { class: 'figures wide', title: moment(key.created_at) }, time(key.created_at)),
        h('td', { class: 'number' }, h('button', { class: 'button danger', type: 'button', 'aria-label': t('keys.revoke.name', { name: key.name }), onclick: () => revoke(key) }, t('keys.revoke')))));
    }

    await load();
    place.onLanguage(draw);
    fill(body, h('div', { class: 'row apart' }, what, open), secret, form, h('div', { class: 'scroll' }, h('table', { class: 'keys' }, h('thead', {}, heads), rows)));
  });
}
